package http2

import "time"

// Class is a way in which a peer abuses a connection (RFC 9113 10.5).
type Class uint8

const (
	RapidReset     Class = iota // streams opened and reset (CVE-2023-44487)
	MadeYouReset                // streams that the peer's own faults make us reset (CVE-2025-8671)
	Continuations               // heads in more frames, or longer, than can be meant (CVE-2024-27316)
	SettingsFlood               // SETTINGS without end
	PingFlood                   // PING without end
	UpdateFlood                 // WINDOW_UPDATE without content to send
	PriorityFlood               // PRIORITY and PRIORITY_UPDATE without end
	EmptyFrames                 // DATA and HEADERS that hold nothing
	UnknownFrames               // frames of unknown types without end
	UnreadReplies               // answers that are asked for and not read
	HeadBombs                   // field sections above the limit once unpacked
	Stalls                      // streams whose window stays closed too long
	RefusedStreams              // streams above the limit that was announced
	Malformed                   // requests that break the rules of RFC 9113 8
	ClassCount
)

var classNames = [ClassCount]string{
	"rapid reset", "made-you-reset", "continuation flood", "settings flood", "ping flood", "window update flood",
	"priority flood", "empty frames", "unknown frames", "unread replies", "head bomb", "stalled stream",
	"refused stream", "malformed request",
}

func (c Class) String() string { return classNames[c] }

// A budget of what leads to nothing. What it is spent on comes back with time, and
// for some of it with what does lead to something.
const (
	// A peer may reset so many streams at once that it has asked for, and one more
	// each resetPause. It is what nghttp2 allows; a browser that leaves a page
	// resets some hundred, once.
	mostResets = 1000
	resetPause = 30 * time.Millisecond

	// And may make us reset so many by its faults, and one more each faultPause.
	mostFaults = 100
	faultPause = 100 * time.Millisecond

	// And may send so many frames that lead to nothing, and one more each
	// idlePause: some clients open the window for every frame that they have read.
	mostIdle  = 2000
	idlePause = 5 * time.Millisecond

	// Each settingsCost counts as so many: a change of the window goes to all
	// streams. A PING wants an answer.
	settingsCost = 20
	pingCost     = 2

	// And gets back one for so many bytes of content that went either way.
	bytesPerIdle = 256

	// And so many for each stream that came to its end.
	idlePerStream = 8

	// mostContinued is how many CONTINUATION frames a head may have. All heads
	// within limits of up to 512 KiB fit so many of the least size.
	mostContinued = 32

	// mostReplies bytes of answers to the peer's frames may wait to be taken by it:
	// some thousand.
	mostReplies = 16 << 10
)

// budget is how often something may happen: so many times at once, and once more
// each pause.
type budget struct {
	spent int64
	since int64 // when spent was brought up to date, executor time
}

// spend takes n of most; false: they are not left.
func (b *budget) spend(n, most, now int64, pause time.Duration) bool {
	if back := (now - b.since) / int64(pause); back > 0 {
		b.earn(back)
		b.since += back * int64(pause)
	}
	b.spent += n
	return b.spent <= most
}

func (b *budget) earn(n int64) { b.spent = max(0, b.spent-n) }

// calm is what a connection's peer has spent. Loop only.
type calm struct {
	resets, faults, idle budget
	moved                int64 // bytes of content that nothing was earned for yet
}

// begin sets the clocks.
func (c *calm) begin(now int64) {
	c.resets.since, c.faults.since, c.idle.since = now, now, now
}

// move notes n bytes of content that came or went.
func (c *calm) move(n int) {
	c.moved += int64(n)
	c.idle.earn(c.moved / bytesPerIdle)
	c.moved %= bytesPerIdle
}

// waste counts a frame that leads to nothing; it is a fault if there were too many.
func (c *conn) waste(class Class, n int64) *Fault {
	if c.calm.idle.spend(n, mostIdle, c.exec.Now(), idlePause) {
		return nil
	}
	c.cfg.Count(class)
	return errCalm
}
