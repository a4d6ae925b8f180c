package http2

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"sluice/internal/http2/hpack"
	"sluice/internal/reactor"
)

// Config is what connections may do and for how long. Bytes, unless it says else.
type Config struct {
	Streams int // at once, of one connection

	Head   int // of a field section, as RFC 9113 6.5.2 counts them
	Line   int // of method, target and what HTTP/1.1 would put around them
	Fields int // field lines of a section

	Window     int // of content that a stream may send ahead of its reader, at first
	Widest     int // the same once it has grown, since its reader keeps up; at least Window
	Spare      int // by which the windows of a connection's streams may have grown together
	ConnWindow int // that all streams of a connection may send; 0: so much that none stands in another's way

	Settled time.Duration // for the peer to acknowledge SETTINGS
	Partial time.Duration // for a frame, or a head, once begun, to be whole
	Idle    time.Duration // without a stream
	Stall   time.Duration // without the peer taking anything that is sent
	Rate    int           // least bytes per second that it takes of what is sent, besides Stall; 0: no limit
	Parting time.Duration // for a peer to learn that it may not open more streams, and for the last bytes

	ExtendedConnect bool // RFC 8441: clients may ask for WebSocket

	Count func(Class) // told of each abuse that was stopped
}

// whole is cfg with what must not be left out.
func (cfg Config) whole() Config {
	if cfg.Count == nil {
		cfg.Count = func(Class) {}
	}
	cfg.Widest = max(cfg.Widest, cfg.Window)
	if cfg.ConnWindow == 0 { // twice what they hold, as half of it may have been read without a word of that
		cfg.ConnWindow = 2 * (cfg.Streams*cfg.Window + cfg.Spare)
	}
	cfg.ConnWindow = min(max(cfg.ConnWindow, firstWindow), mostWindow)
	return cfg
}

// beyond is how many times the limit of a head is read to its end, so that it can
// be answered with 431; what is longer ends the connection.
const beyond = 4

// sections are the limits of field sections.
func (cfg Config) sections() hpack.Limits {
	return hpack.Limits{Table: hpack.InitialTable, List: cfg.Head, Fields: cfg.Fields, Beyond: beyond * cfg.Head}
}

// Owner is who has a connection served.
type Owner interface {
	// Accept takes a request. It runs in the task that reads frames and must not
	// park.
	Accept(*Stream)
	// Ended says that the connection is gone. Its streams are failed; they still
	// want to be closed.
	Ended()
}

// side is what a connection does as a server, or as a client.
type side interface {
	// section takes a whole field section.
	section(h frameHead, block []byte) *Fault
	// prefaced takes what a connection begins with.
	prefaced(b []byte) (used int, f *Fault)
	// settingOf takes a setting that means something to one side only.
	settingOf(s setting) *Fault
	// leaving is told of the peer's GOAWAY.
	leaving(last uint32)
	// left is told that a stream has gone.
	left()
	// isReset takes the peer's RST_STREAM.
	isReset(s *stream, code Code) *Fault
	ended()
}

// conn is a connection as both sides have it. Loop only.
type conn struct {
	exec reactor.Executor
	wire reactor.Stream
	pool *pool
	cfg  *Config
	side side

	streams
	decoder hpack.Decoder
	calm    Calm
	flow    receiving
	out     sending
	peer    peerSettings

	begun     bool      // the peer's preface has come
	settled   bool      // SETTINGS of the peer have come
	partial   []byte    // a frame of which not all has come
	in        []byte    // what is to be read in the next turn is at its start; nil: nothing is
	unread    int       // bytes of it
	effort    int       // spent in this turn
	content   content   // the DATA frame that is coming
	head      []byte    // a head whose CONTINUATION is awaited
	headOf    frameHead // its first frame; no stream: none is awaited
	continued int       // CONTINUATION frames of it
	onSelf    bool      // it was given a priority that depends on itself

	settleBy  int64 // deadlines, executor time; 0: none, or SETTINGS are acknowledged
	partialBy int64
	idleBy    int64
	partBy    int64 // the peer has had time to learn that we go away
	streamsBy int64 // a stream without a task has a deadline then, or had one

	asks    bool // it is a client's: streams are begun here
	parting partState
	parted  bool  // GOAWAY has said so
	over    bool  // no frame is read any more
	gone    bool  // the wire is closed
	why     error // what streams are told
}

// partState is how far we have gone away.
type partState uint8

const (
	staying partState = iota
	warned            // GOAWAY with the highest number, and a PING
	leaving           // GOAWAY with the last stream
)

// start begins to serve; came is what was read from the wire already.
func (c *conn) start(came []byte) {
	now := c.exec.Now()
	c.calm = NewCalm(now)
	c.flow.begin(c.cfg)
	c.out.begin(c)
	c.peer.begin()
	c.settleBy = now + int64(c.cfg.Settled)
	c.partial = came
	c.wire.SetStall(c.cfg.Stall)
	c.exec.Go(c)
}

// What is done for a connection in a turn of its loop before others have theirs. Tasks
// yield by bytes that they move, but by small frames a peer gets much more done for its
// bytes: 256 KiB hold 7,000 requests that are reset at once, for which a loop needs 0.1 s.
const (
	turnEffort    = 64 // frames
	sectionEffort = 8  // frames that a field section counts for,
	effortBytes   = 64 // and one more for so many bytes of it
)

// sectionCost is what n bytes of one cost.
func sectionCost(n int) int { return sectionEffort + n/effortBytes }

// Run reads frames while there are any and it is our turn, then lets go of its task.
func (c *conn) Run() {
	in, n := c.resume()
	for used := c.read(in[:n]); !c.over; used = c.read(in[:n]) {
		n = copy(in, in[used:n])
		if used > 0 && c.headOf.stream == 0 {
			c.partialBy = 0
		}
		if c.lapse(); c.over {
			break
		}
		if c.effort >= turnEffort {
			c.in, c.unread = in, n
			c.exec.Go(c)
			return
		}
		if !c.wire.Ready() {
			if c.suspend(in[:n]) {
				c.pool.putIn(in)
				return
			}
		}
		m, err := c.wire.Read(in[n:])
		n += m
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			c.lose(err)
		}
	}
	c.pool.putIn(in)
}

// resume begins a turn: with a buffer, and the bytes in it that are to be read.
func (c *conn) resume() (in []byte, n int) {
	c.effort = 0
	if in, n = c.in, c.unread; in != nil {
		c.in = nil
		return in, n
	}
	in = c.pool.getIn()
	n = copy(in, c.partial)
	c.partial = nil
	return in, n
}

// read takes the frames at the start of b, as many as belong to a turn, and ends the
// connection if they are faulty.
func (c *conn) read(b []byte) (used int) {
	for !c.over && (c.effort < turnEffort || isReset(b[used:])) {
		n, f := c.next(b[used:])
		if f != nil {
			c.fail(f)
		}
		if used += n; n == 0 {
			break
		}
		c.effort++
	}
	return used
}

// isReset reports whether a reset comes next, for which there is always time: its request
// may have begun in this turn, and is to be known for what it is before it is served.
func isReset(b []byte) bool { return len(b) >= headBytes && parseHead(b).kind == frameReset }

// suspend lets go of the task until more comes or a deadline has passed.
func (c *conn) suspend(rest []byte) bool {
	if len(rest) > 0 {
		c.partial = append([]byte(nil), rest...)
	}
	now := c.exec.Now()
	if c.partialBy == 0 && (len(rest) > 0 || c.headOf.stream != 0) {
		c.partialBy = now + int64(c.cfg.Partial)
	}
	if c.open == 0 && c.idleBy == 0 {
		c.idleBy = now + int64(c.cfg.Idle)
	}
	c.alarm()
	return c.wire.Idle(c)
}

// rest has the connection idle from now on, if its last stream has gone: the peer, who has
// all that it asked for, may never say anything again.
func (c *conn) rest() {
	if c.open == 0 && !c.over {
		c.idleBy = c.exec.Now() + int64(c.cfg.Idle)
		c.alarm()
	}
}

// alarm sets the wire's deadline to the first of ours.
func (c *conn) alarm() {
	first := int64(0)
	for _, by := range [...]int64{c.settleBy, c.partialBy, c.idleBy, c.partBy, c.streamsBy} {
		first = earlier(first, by)
	}
	if first == 0 {
		c.wire.SetReadTimeout(0)
		return
	}
	c.wire.SetReadTimeout(max(1, time.Duration(first-c.exec.Now())))
}

// earlier is the earlier of two times of which 0 is never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// passed reports whether a deadline is over.
func passed(by, now int64) bool { return by != 0 && now >= by }

// lapse sees which deadlines have passed.
func (c *conn) lapse() {
	now := c.exec.Now()
	if passed(c.streamsBy, now) {
		c.lapseStreams(now)
	}
	if c.open > 0 {
		c.idleBy = 0
	}
	switch {
	case passed(c.settleBy, now):
		c.fail(errUnacked)
	case passed(c.partialBy, now):
		c.cfg.Count(SlowFrames)
		c.fail(errUnfinished)
	case passed(c.partBy, now):
		c.part()
	case passed(c.idleBy, now):
		c.leave()
	}
}

// lapseStreams starts the jobs of streams that have waited long enough without a
// task.
func (c *conn) lapseStreams(now int64) {
	c.streamsBy = 0
	for s := range c.all {
		by := s.WakeBy()
		if s.lingers {
			by = s.lingerBy
		}
		switch {
		case !passed(by, now):
			c.streamsBy = earlier(c.streamsBy, by)
		case s.lingers:
			s.cut(NoError, net.ErrClosed)
		default:
			s.Rouse(true)
		}
	}
}

// remind has lapse look at a stream at a time that may be before all others.
func (c *conn) remind(by int64) {
	if by != 0 && (c.streamsBy == 0 || by < c.streamsBy) {
		c.streamsBy = by
		c.alarm()
	}
}

// fail ends the connection for a fault of the peer's, and tells it.
func (c *conn) fail(f *Fault) {
	if c.over {
		return
	}
	c.goAway(f.Code, f.Rule)
	c.wire.SetWriteTimeout(c.cfg.Parting)
	c.finish(f)
}

// leave ends the connection in order: no stream is open, and none may follow.
func (c *conn) leave() {
	if c.over {
		return
	}
	if !c.parted {
		c.goAway(NoError, "")
	}
	c.finish(net.ErrClosed)
}

// goAway tells the peer that none of its streams is looked at beyond the last.
func (c *conn) goAway(code Code, why string) {
	last := c.last
	if c.asks {
		last = 0 // those are ours
	}
	c.parted = true
	c.out.b = appendGoAway(c.out.make(), last, code, why)
	c.out.soon()
}

// finish has what is gathered sent, then the wire closed.
func (c *conn) finish(why error) {
	c.over, c.why = true, why
	c.endAll(why)
	c.out.soon()
}

// lose notes that the wire is of no use any more.
func (c *conn) lose(err error) {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if !c.over {
		c.over, c.why = true, err
	}
	c.shut(false)
}

// Abandon ends the connection when a task of it has panicked.
func (c *conn) Abandon() { c.lose(net.ErrClosed) }

// shut closes the wire. With linger what the peer still sends is read for a
// moment, so that our last words are not lost.
func (c *conn) shut(linger bool) {
	if c.gone {
		return
	}
	c.gone = true
	c.partial, c.head = nil, nil
	c.endAll(c.why)
	if linger {
		c.wire.Linger(c.cfg.Parting)
	} else {
		c.wire.Close()
	}
	c.out.clear()
	c.side.ended()
}

// endAll fails the streams.
func (c *conn) endAll(why error) {
	for c.open > 0 {
		for s := range c.all {
			s.fail(why)
			break // whoever was told of it may have closed others
		}
	}
}

// part is the last step of going away: no stream is accepted beyond the last.
func (c *conn) part() {
	c.partBy = 0
	if c.parting == leaving || c.over {
		return
	}
	c.parting = leaving
	c.goAway(NoError, "")
	c.emptied()
}

// emptied ends a connection that is to end with its last stream.
func (c *conn) emptied() {
	if c.open == 0 && c.parting == leaving && !c.over {
		c.leave()
	}
}
