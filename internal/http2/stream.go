package http2

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"sluice/internal/message"
	"sluice/internal/reactor"
)

// stream is one stream as its owner sees it: a reactor.Stream whose peer is the
// other end of the stream. Loop only.
//
// It is listed from its beginning until both sides have ended it or one has reset
// it; it is lent until the owner has closed it and nobody waits in it.
type stream struct {
	reactor.Share
	c    *conn
	id   uint32
	next *stream // in its bucket
	self part    // what it is a part of

	listed   bool
	lingers  bool  // it is closed, and the peer may yet end it in order
	lingerBy int64 // the end of that, executor time
	thrown   int   // bytes of content that came since
	released bool  // to the pool

	// What comes.
	queue    queue
	window   int64 // bytes that the peer may still send
	size     int64 // that it may send ahead
	owed     int64 // read since the peer was told last
	since    int64 // when that was, or the first content came; executor time
	housed   bool  // it has room for content on the connection
	declared int64 // content-length; -1: none
	received int64 // bytes of content
	ended    bool  // END_STREAM has come
	headless bool  // no content may come yet: the answer's head has not
	heads    int   // that have come and were not asked for

	// What goes.
	sendWindow    int64
	priority      Priority
	pending       []byte // of a Write under way
	inLine        bool
	ahead, behind *stream
	lastFrame     int    // where its last DATA frame stands in the buffer; -1: nowhere
	lastBatch     uint32 // of this number
	done          bool   // END_STREAM has been gathered

	unwanted bool // the server has answered: what else is written goes nowhere

	stall   time.Duration
	stallBy int64 // end of the wait for the peer to take anything
}

// part is what a stream is a part of.
type part interface {
	// giveBack returns it to the pool.
	giveBack()
	// lost lets go of what has come and was not asked for.
	lost()
}

// reset makes a stream ready for its next life.
func (s *stream) reset(c *conn, id uint32) {
	*s = stream{
		c: c, id: id, self: s.self, Share: s.Share, window: int64(c.cfg.Window), size: int64(c.cfg.Window), declared: -1,
		sendWindow: c.peer.window, priority: usual, lastFrame: -1,
	}
	s.Begin(c.exec, s)
}

// errHead means that a head has come, which stands before all content.
var errHead = errors.New("an answer's head must be asked for before its content")

// Meets implements reactor.Host. What has come is read before what went wrong.
func (s *stream) Meets() error {
	switch err := s.GivenUp(); {
	case err != nil:
		return err
	case s.heads > 0:
		return errHead
	case s.queue.n > 0:
		return nil
	case s.Fault() != nil:
		return s.Fault()
	case s.ended:
		return io.EOF
	}
	return reactor.ErrNothing
}

// Remind implements reactor.Host.
func (s *stream) Remind(by int64) { s.c.remind(by) }

// Unparked implements reactor.Host.
func (s *stream) Unparked() { s.release() }

// Read implements reactor.Stream. Content that is not as long as was declared, or
// that ends with a reset, ends with an error: *Fault or ResetError.
func (s *stream) Read(p []byte) (int, error) {
	if err := s.Await(); err != nil {
		return 0, err
	}
	if err := s.Meets(); err != nil {
		return 0, err
	}
	n := s.queue.take(s.c.pool, p)
	s.credit(n)
	if s.vacate() {
		s.c.side.left()
	}
	return n, nil
}

// Write implements reactor.Stream. It returns when all of p was gathered to be
// sent, which the peer's windows may hold up.
func (s *stream) Write(p []byte) (n int, err error) {
	switch err := s.unwritable(); {
	case err != nil:
		return 0, err
	case s.unwanted:
		return len(p), nil
	}
	o := &s.c.out
	s.pending = p
	s.moved()
	o.resume(s)
	o.fill()
	slowBy := int64(0)
	for len(s.pending) > 0 && err == nil && !s.unwanted {
		if err = s.unwritable(); err == nil {
			s.AwaitRoom(s.stallBy, &slowBy)
		}
	}
	if n = len(p) - len(s.pending); s.unwanted && err == nil {
		n = len(p)
	}
	s.pending = nil
	o.remove(s)
	return n, err
}

// awaitRoom waits until a head may be gathered.
func (s *stream) awaitRoom() error {
	o := &s.c.out
	slowBy := int64(0)
	for {
		err := s.unwritable()
		if err != nil || o.room() > 0 {
			return err
		}
		o.crowd = append(o.crowd, s)
		s.AwaitRoom(0, &slowBy)
	}
}

// unwritable is why nothing can be sent; nil: it can.
func (s *stream) unwritable() error {
	switch err := s.Unusable(); {
	case err != nil:
		return err
	case s.done:
		return net.ErrClosed
	case s.Late(), s.stalled():
		if s.shut() {
			s.c.cfg.Count(Stalls)
		}
		return os.ErrDeadlineExceeded
	}
	return nil
}

// stalled reports whether the peer keeps a window shut for too long. Who waits for
// its turn, or for the wire, waits on: the wire has a limit of its own.
func (s *stream) stalled() bool {
	if len(s.pending) == 0 || !passed(s.stallBy, s.c.exec.Now()) {
		return false
	}
	if !s.shut() {
		s.moved()
		return false
	}
	return true
}

// shut reports whether a window lets no content through.
func (s *stream) shut() bool { return s.sendWindow <= 0 || s.c.out.window <= 0 }

// moved notes that the peer has taken something, or may begin to.
func (s *stream) moved() {
	if s.stallBy = 0; s.stall > 0 {
		s.stallBy = s.c.exec.Now() + int64(s.stall)
	}
}

// arrive takes content.
func (s *stream) arrive(b []byte) {
	if s.Closed() {
		s.discard(len(b))
		return
	}
	s.queue.put(s.c.pool, b)
	s.Rouse(false)
}

// end takes END_STREAM.
func (s *stream) end() *Fault {
	if s.declared >= 0 && s.received != s.declared {
		return errContent
	}
	s.ended = true
	s.Rouse(false)
	s.settle()
	return nil
}

// settle takes the stream off the list once both sides have ended it.
func (s *stream) settle() {
	if s.listed && s.ended && s.done {
		s.c.calm.Ended()
		s.leave()
	}
}

// leave takes it off the list.
func (s *stream) leave() {
	c := s.c
	if !s.listed {
		return
	}
	c.remove(s)
	c.out.remove(s)
	if c.content.s == s {
		c.content.s = nil
	}
	s.vacate()
	c.side.left()
	c.rest()
	s.release()
}

// fail notes that the stream is gone: the peer has reset it, or the connection is
// lost. What has come and was not read is lost as well.
func (s *stream) fail(why error) {
	if s.leave(); s.Fault() != nil {
		return
	}
	s.self.lost()
	s.forget()
	s.Break(why)
}

// cut resets the stream.
func (s *stream) cut(code Code, why error) {
	c := s.c
	if s.listed && !c.over {
		c.out.b = appendReset(c.out.make(), s.id, code)
		c.noteCut(s.id)
		c.out.soon()
	}
	s.fail(why)
}

// End ends the content, with trailers if there are any.
func (s *stream) End(trailers message.Fields) error {
	if s.done && !s.Closed() {
		return nil
	}
	if err := s.unwritable(); err != nil {
		return err
	}
	if o := &s.c.out; s.unwanted {
	} else if len(trailers) == 0 {
		o.end(s)
	} else {
		from := o.open()
		o.b = appendFields(o.b, trailers)
		o.close(s, from, endStream)
	}
	s.done = true
	s.settle()
	return nil
}

// close gives the stream up: with code if it has not come to its end.
func (s *stream) close(code Code) error {
	if s.Closed() {
		return net.ErrClosed
	}
	s.Shut()
	if code != NoError || !s.linger() {
		s.cut(code, net.ErrClosed)
	}
	s.self.lost()
	s.forget()
	s.release()
	return nil
}

// mostThrown is the most content that is let through after the answer: enough for
// an upload that was refused in its first moments.
const mostThrown = 8 << 20

// linger leaves a stream that has been answered before its content had come to the
// peer, which may be sending: for some clients a reset spoils the answer, also one
// that says NO_ERROR (RFC 9113 8.1), and some do not take it before they have sent
// all. What comes is thrown away; after a moment without any the stream is reset.
func (s *stream) linger() bool {
	if !s.listed || s.c.over {
		return false
	}
	s.lingers = true
	s.lingerOn()
	return true
}

func (s *stream) lingerOn() {
	s.lingerBy = s.c.exec.Now() + int64(s.c.cfg.Parting)
	s.c.remind(s.lingerBy)
}

// discard takes n bytes of content of a stream that lingers.
func (s *stream) discard(n int) {
	if s.thrown += n; s.thrown > mostThrown {
		s.c.credit(n)
		return
	}
	s.credit(n)
	s.lingerOn()
}

// release gives the stream back once nobody has it any more.
func (s *stream) release() {
	if s.Closed() && !s.Parked() && !s.listed && !s.released {
		s.released = true
		s.self.giveBack()
	}
}

// SetStall implements reactor.Stream.
func (s *stream) SetStall(d time.Duration) { s.stall = d }

// LocalAddr implements net.Conn.
func (s *stream) LocalAddr() net.Addr { return s.c.wire.LocalAddr() }

// RemoteAddr implements net.Conn.
func (s *stream) RemoteAddr() net.Addr { return s.c.wire.RemoteAddr() }
