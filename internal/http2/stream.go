package http2

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
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
	c    *conn
	id   uint32
	next *stream // in its bucket
	self part    // what it is a part of

	listed   bool
	closed   bool // by its owner
	lingers  bool // it is closed, and the peer may yet end it in order
	thrown   int  // bytes of content that came since
	released bool // to the pool
	parked   int  // tasks that wait in it

	// What comes.
	queue    queue
	window   int64 // bytes that the peer may still send
	owed     int64 // read since the peer was told last
	declared int64 // content-length; -1: none
	received int64 // bytes of content
	ended    bool  // END_STREAM has come
	headless bool  // no content may come yet: the answer's head has not
	heads    int   // that have come and were not asked for

	// What goes.
	sendWindow    int64
	priority      priority
	pending       []byte // of a Write under way
	inLine        bool
	ahead, behind *stream
	lastFrame     int    // where its last DATA frame stands in the buffer; -1: nowhere
	lastBatch     uint32 // of this number
	done          bool   // END_STREAM has been gathered

	unwanted bool // the server has answered: what else is written goes nowhere

	fault   error // why nothing more comes or goes: reset, or the connection's end
	failure error // given by Abort

	reader, writer  reactor.Signal
	readBy, writeBy int64 // deadlines, executor time; 0: none
	stall           time.Duration
	stallBy         int64 // end of the wait for the peer to take anything

	idle, watch, hangup, slow reactor.Job
	slowAfter                 time.Duration
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
	self, reader, writer := s.self, s.reader, s.writer
	if reader == nil {
		reader, writer = c.exec.NewSignal(), c.exec.NewSignal()
	}
	*s = stream{
		c: c, id: id, self: self, reader: reader, writer: writer, window: int64(c.cfg.Window), declared: -1,
		sendWindow: c.peer.window, priority: usual, lastFrame: -1,
	}
}

// errWait means that there is nothing to read yet.
const errWait = syscall.EAGAIN

// errHead means that a head has come, which stands before all content.
var errHead = errors.New("an answer's head must be asked for before its content")

// meets is what a Read would meet; nil: content.
func (s *stream) meets() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.failure != nil:
		return s.failure
	case s.heads > 0:
		return errHead
	case s.queue.n > 0:
		return nil
	case s.fault != nil:
		return s.fault
	case s.ended:
		return io.EOF
	}
	return errWait
}

// Read implements reactor.Stream. Content that is not as long as was declared, or
// that ends with a reset, ends with an error: *Fault or ResetError.
func (s *stream) Read(p []byte) (int, error) {
	if err := s.Await(); err != nil {
		return 0, err
	}
	if err := s.meets(); err != nil {
		return 0, err
	}
	n := s.queue.take(s.c.pool, p)
	s.credit(n)
	return n, nil
}

// Await implements reactor.Stream.
func (s *stream) Await() error {
	slowBy := int64(0)
	for {
		switch err := s.meets(); {
		case s.closed || s.failure != nil:
			return err
		case err != errWait:
			return nil
		case passed(s.readBy, s.c.exec.Now()):
			return os.ErrDeadlineExceeded
		}
		s.wait(s.reader, s.readBy, &slowBy)
	}
}

// wait parks until sig is set, or it is time at (0: never). slowBy is when a wait
// that goes on for so long is slow; 0: it begins now.
func (s *stream) wait(sig reactor.Signal, at int64, slowBy *int64) {
	c := s.c
	now := c.exec.Now()
	if s.slow != nil && *slowBy == 0 {
		*slowBy = now + int64(s.slowAfter)
	}
	if s.slow != nil {
		at = earlier(at, *slowBy)
	}
	d := time.Duration(0)
	if at != 0 {
		d = max(1, time.Duration(at-now))
	}
	s.parked++
	set := sig.Wait(d)
	s.parked--
	now = c.exec.Now()
	if !set && (at == 0 || now < at) && s.failure == nil {
		s.failure = net.ErrClosed // the loop ends
	}
	if job := s.slow; job != nil && now >= *slowBy {
		s.slow = nil
		job.Run()
	}
	s.release()
}

// Ready implements reactor.Stream.
func (s *stream) Ready() bool { return s.meets() != errWait }

// Idle implements reactor.Stream.
func (s *stream) Idle(job reactor.Job) bool {
	if job != nil && (s.Ready() || passed(s.readBy, s.c.exec.Now())) {
		s.c.exec.Go(job)
		return true
	}
	if s.idle = job; job != nil {
		s.c.remind(s.readBy)
	}
	return true
}

// Watch implements reactor.Stream. That the peer has ended its content is no
// reason to run job: it awaits the answer.
func (s *stream) Watch(job reactor.Job) bool {
	if job != nil && (s.over() || passed(s.readBy, s.c.exec.Now())) {
		s.c.exec.Go(job)
		return true
	}
	if s.watch = job; job != nil {
		s.c.remind(s.readBy)
	}
	return true
}

// over reports whether nothing more can come of the stream.
func (s *stream) over() bool { return s.closed || s.failure != nil || s.fault != nil }

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
			s.wait(s.writer, earlier(s.writeBy, s.stallBy), &slowBy)
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
		s.wait(s.writer, s.writeBy, &slowBy)
	}
}

// unwritable is why nothing can be sent; nil: it can.
func (s *stream) unwritable() error {
	now := s.c.exec.Now()
	switch {
	case s.closed:
		return net.ErrClosed
	case s.failure != nil:
		return s.failure
	case s.fault != nil:
		return s.fault
	case s.done:
		return net.ErrClosed
	case passed(s.writeBy, now), s.stalled(now):
		if s.shut() {
			s.c.cfg.Count(Stalls)
		}
		return os.ErrDeadlineExceeded
	}
	return nil
}

// stalled reports whether the peer keeps a window shut for too long. Who waits for
// its turn, or for the wire, waits on: the wire has a limit of its own.
func (s *stream) stalled(now int64) bool {
	if len(s.pending) == 0 || !passed(s.stallBy, now) {
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
	if s.closed {
		s.discard(len(b))
		return
	}
	s.queue.put(s.c.pool, b)
	s.rouse(false)
}

// rouse wakes who waits for something to read. over: also who only waits for the
// end.
func (s *stream) rouse(over bool) {
	if job := s.watch; job != nil && over {
		s.watch = nil
		s.c.exec.Go(job)
	}
	if job := s.idle; job != nil {
		s.idle = nil
		s.c.exec.Go(job)
		return
	}
	s.reader.Set()
}

// credit gives n bytes of both windows back, once it is worth a frame.
func (s *stream) credit(n int) {
	c := s.c
	c.credit(n)
	if s.owed += int64(n); s.owed < int64(c.cfg.Window)/2 || s.ended || !s.listed || c.over {
		return
	}
	c.out.b = appendWindowUpdate(c.out.make(), s.id, uint32(s.owed))
	s.window += s.owed
	s.owed = 0
	c.out.soon()
}

// end takes END_STREAM.
func (s *stream) end() *Fault {
	if s.declared >= 0 && s.received != s.declared {
		return errContent
	}
	s.ended = true
	s.rouse(false)
	s.settle()
	return nil
}

// settle takes the stream off the list once both sides have ended it.
func (s *stream) settle() {
	if s.listed && s.ended && s.done {
		s.c.calm.idle.earn(idlePerStream)
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
	c.side.left()
	s.release()
}

// fail notes that the stream is gone: the peer has reset it, or the connection is
// lost. What has come and was not read is lost as well.
func (s *stream) fail(why error) {
	if s.leave(); s.fault != nil {
		return
	}
	s.fault = why
	s.self.lost()
	s.c.credit(s.queue.clear(s.c.pool))
	if job := s.hangup; job != nil {
		s.hangup = nil
		job.Run()
	}
	s.rouse(true)
	s.writer.Set()
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
	if s.done && !s.closed {
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
	if s.closed {
		return net.ErrClosed
	}
	s.hangup, s.watch, s.idle, s.slow = nil, nil, nil, nil
	s.closed = true
	if code != NoError || !s.linger() {
		s.cut(code, net.ErrClosed)
	}
	s.self.lost()
	s.c.credit(s.queue.clear(s.c.pool))
	s.reader.Set()
	s.writer.Set()
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
	s.readBy = s.in(s.c.cfg.Parting)
	s.c.remind(s.readBy)
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
	if s.closed && s.parked == 0 && !s.listed && !s.released {
		s.released = true
		s.self.giveBack()
	}
}

// OnHangup implements reactor.Stream.
func (s *stream) OnHangup(job reactor.Job) {
	if job != nil && s.fault != nil {
		job.Run()
		return
	}
	s.hangup = job
}

// OnSlow implements reactor.Stream.
func (s *stream) OnSlow(d time.Duration, job reactor.Job) { s.slow, s.slowAfter = job, d }

// Abort implements reactor.Stream.
func (s *stream) Abort(err error) {
	if s.failure == nil {
		s.failure = err
	}
	s.rouse(true)
	s.writer.Set()
}

// SetReadTimeout implements reactor.Stream.
func (s *stream) SetReadTimeout(d time.Duration) { s.setRead(s.in(d)) }

// SetWriteTimeout implements reactor.Stream.
func (s *stream) SetWriteTimeout(d time.Duration) { s.setWrite(s.in(d)) }

// SetStall implements reactor.Stream.
func (s *stream) SetStall(d time.Duration) { s.stall = d }

// in is the time d from now; 0 for none.
func (s *stream) in(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return s.c.exec.Now() + int64(d)
}

// setRead sets the read deadline; who waits looks at it again.
func (s *stream) setRead(by int64) {
	if s.readBy = by; s.idle != nil || s.watch != nil {
		s.c.remind(by)
	}
	if s.parked > 0 {
		s.reader.Set()
	}
}

func (s *stream) setWrite(by int64) {
	if s.writeBy = by; s.parked > 0 {
		s.writer.Set()
	}
}

// SetReadDeadline implements net.Conn.
func (s *stream) SetReadDeadline(t time.Time) error {
	s.setRead(s.until(t))
	if passed(s.readBy, s.c.exec.Now()) {
		s.rouse(true)
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (s *stream) SetWriteDeadline(t time.Time) error {
	s.setWrite(s.until(t))
	return nil
}

// until turns a time into the executor's; what has passed is now.
func (s *stream) until(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return s.c.exec.Now() + int64(max(0, time.Until(t)))
}

// SetDeadline implements net.Conn.
func (s *stream) SetDeadline(t time.Time) error {
	s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// LocalAddr implements net.Conn.
func (s *stream) LocalAddr() net.Addr { return s.c.wire.LocalAddr() }

// RemoteAddr implements net.Conn.
func (s *stream) RemoteAddr() net.Addr { return s.c.wire.RemoteAddr() }
