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
	Stalls                      // streams whose window opens too little, and connections of which too little is taken
	RefusedStreams              // streams above the limit that was announced
	Malformed                   // requests that break the rules of RFC 9113 8
	SlowFrames                  // frames, and heads with their CONTINUATION, that are not whole in time
	ClassCount
)

var classNames = [ClassCount]string{
	"rapid reset", "made-you-reset", "continuation flood", "settings flood", "ping flood", "window update flood",
	"priority flood", "empty frames", "unknown frames", "unread replies", "head bomb", "stalled stream",
	"refused stream", "malformed request", "slow frames",
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

	// SETTINGS count as so many, and as one more for each setting beyond the first,
	// which one frame can have thousands of (CVE-2020-11080): a change of the window
	// goes to all streams. A PING wants an answer.
	settingsCost = 20
	pingCost     = 2

	// And gets back one for so many bytes of content that went either way.
	bytesPerIdle = 256

	// And so many for each stream that came to its end.
	idlePerStream = 8

	// mostContinued is how many CONTINUATION frames a head may have. All heads
	// within limits of up to 512 KiB fit so many of the least size.
	mostContinued = 32

	// mostHeads is how many heads of the largest size those of all requests that are
	// open are as long as together: a reference of one byte makes thousands of them, and
	// a window that stays closed has them held (CVE-2026-49975). A hundred requests may
	// have 10 KiB each where limits.head is 64 KiB.
	mostHeads = 16

	// mostReplies bytes of answers to the peer's frames may wait to be taken by it:
	// some thousand.
	mostReplies = 16 << 10
)

// Budget is how often something may happen: so many times at once, and once more
// each pause. Times are ns of any clock that never goes back.
type Budget struct {
	most  int64
	pause time.Duration
	spent int64
	since int64 // when spent was brought up to date
}

// Spend takes n; false: they are not left.
func (b *Budget) Spend(n, now int64) bool {
	if back := (now - b.since) / int64(b.pause); back > 0 {
		b.Earn(back)
		b.since += back * int64(b.pause)
	}
	b.spent += n
	return b.spent <= b.most
}

// Earn gives n back.
func (b *Budget) Earn(n int64) { b.spent = max(0, b.spent-n) }

// Calm is what the peer of a connection may do that leads to nothing (RFC 9113 10.5, RFC
// 9114 10.5): reset what it has asked for, make us reset or refuse, and send frames that
// mean nothing.
type Calm struct {
	Resets, Faults, Idle Budget
	moved                int64 // bytes of content that nothing was earned for yet
}

// NewCalm is that of a connection which begins now.
func NewCalm(now int64) Calm {
	return Calm{
		Resets: Budget{most: mostResets, pause: resetPause, since: now},
		Faults: Budget{most: mostFaults, pause: faultPause, since: now},
		Idle:   Budget{most: mostIdle, pause: idlePause, since: now},
	}
}

// Ended notes a stream that has come to its end.
func (c *Calm) Ended() { c.Idle.Earn(idlePerStream) }

// move notes n bytes of content that came or went.
func (c *Calm) move(n int) {
	c.moved += int64(n)
	c.Idle.Earn(c.moved / bytesPerIdle)
	c.moved %= bytesPerIdle
}

// waste counts a frame that leads to nothing; it is a fault if there were too many.
func (c *conn) waste(class Class, n int64) *Fault {
	if c.calm.Idle.Spend(n, c.exec.Now()) {
		return nil
	}
	c.cfg.Count(class)
	return errCalm
}
