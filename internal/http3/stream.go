package http3

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/internal/message"
	"sluice/internal/reactor"
)

// Stream is one request and its answer, as its owner on the loop sees it: a
// reactor.Stream whose peer is the other end of the stream. Loop only, save where it
// says else.
type Stream struct {
	c *Conn
	q *quic.Stream

	in  inbox
	out outbox

	// Of the goroutine that reads the request. The loop sees head and request once it
	// has been given the stream, the trailers once the inbox has come to its end.
	request  message.Request
	head     section
	tail     section
	joined   []byte       // a cookie that came in parts
	declared int64        // content-length; -1: none
	unwatch  func() bool  // ends the watch for the stream's end
	users    atomic.Int32 // the owner and goroutines that have not let go of it
	heard    func()       // tells the loop of what has come

	closed  bool  // by its owner
	done    bool  // the answer's end was gathered
	fault   error // why nothing more comes or goes: reset, or the connection's end
	failure error // given by Abort

	reader, writer  reactor.Signal
	parked          int           // tasks that wait
	readBy, writeBy int64         // deadlines, executor time; 0: none
	stall           time.Duration // for the client to take anything

	idle, watch, hangup, slow reactor.Job
	slowAfter                 time.Duration
	alarm                     *time.Timer // for a deadline while no task waits; nil: none was needed yet
}

// begin makes the stream the loop's.
func (s *Stream) begin() {
	s.reader, s.writer = s.c.server.exec.NewSignal(), s.c.server.exec.NewSignal()
}

func (s *Stream) now() int64 { return s.c.server.exec.Now() }

// submit runs f on the loop. Any goroutine may call it.
func (s *Stream) submit(f func()) { s.c.server.exec.Submit(f) }

// leave is the end of one user of the stream; with the last, what it has had goes
// back, and the client may open another. Any goroutine.
func (s *Stream) leave() {
	if s.users.Add(-1) > 0 {
		return
	}
	s.in.recycle()
	s.out.recycle()
	s.q.ReleaseStreamCredit()
	s.c.quit()
}

// errWait means that there is nothing to read yet.
const errWait = syscall.EAGAIN

// meets is what a Read would meet; nil: content.
func (s *Stream) meets() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.failure != nil:
		return s.failure
	case s.fault != nil:
		return s.fault
	}
	switch content, end := s.in.look(); {
	case content:
		return nil
	case end != nil:
		return end
	}
	return errWait
}

// Read implements reactor.Stream. Content that is not as long as was declared, or
// that ends with a reset, ends with an error: *Fault or ResetError.
func (s *Stream) Read(p []byte) (int, error) {
	if err := s.Await(); err != nil {
		return 0, err
	}
	if err := s.meets(); err != nil {
		return 0, err
	}
	return s.in.take(p), nil
}

// Await implements reactor.Stream.
func (s *Stream) Await() error {
	slowBy := int64(0)
	for {
		switch err := s.meets(); {
		case s.closed || s.failure != nil:
			return err
		case err != errWait:
			return nil
		case passed(s.readBy, s.now()):
			return os.ErrDeadlineExceeded
		}
		s.wait(s.reader, s.readBy, &slowBy)
	}
}

// wait parks until sig is set, or it is time at (0: never). slowBy is when a wait
// that goes on for so long is slow; 0: it begins now.
func (s *Stream) wait(sig reactor.Signal, at int64, slowBy *int64) {
	now := s.now()
	if s.slow != nil {
		if *slowBy == 0 {
			*slowBy = now + int64(s.slowAfter)
		}
		at = earlier(at, *slowBy)
	}
	d := time.Duration(0)
	if at != 0 {
		d = max(1, time.Duration(at-now))
	}
	s.parked++
	set := sig.Wait(d)
	s.parked--
	now = s.now()
	if !set && (at == 0 || now < at) && s.failure == nil {
		s.failure = net.ErrClosed // the loop ends
	}
	if job := s.slow; job != nil && now >= *slowBy {
		s.slow = nil
		job.Run()
	}
}

func passed(by, now int64) bool { return by != 0 && now >= by }

// earlier is the first of two times of which 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Ready implements reactor.Stream.
func (s *Stream) Ready() bool { return s.meets() != errWait }

// Idle implements reactor.Stream.
func (s *Stream) Idle(job reactor.Job) bool {
	if job != nil && (s.Ready() || passed(s.readBy, s.now())) {
		s.c.server.exec.Go(job)
		return true
	}
	s.idle = job
	s.remind()
	return true
}

// Watch implements reactor.Stream. That the client has ended its content is no reason
// to run job: it awaits the answer.
func (s *Stream) Watch(job reactor.Job) bool {
	if job != nil && (s.over() || passed(s.readBy, s.now())) {
		s.c.server.exec.Go(job)
		return true
	}
	s.watch = job
	s.remind()
	return true
}

// over reports whether nothing more can come of the stream.
func (s *Stream) over() bool { return s.closed || s.failure != nil || s.fault != nil }

// remind has somebody look at the read deadline when no task does.
func (s *Stream) remind() {
	if s.alarm != nil {
		s.alarm.Stop()
	}
	if s.readBy == 0 || s.idle == nil && s.watch == nil {
		return
	}
	s.alarm = time.AfterFunc(time.Duration(max(0, s.readBy-s.now())), func() { s.submit(s.lapse) })
}

// lapse runs who waits without a task, if it is time.
func (s *Stream) lapse() {
	switch {
	case s.closed || s.readBy == 0:
	case passed(s.readBy, s.now()):
		s.rouse(true)
	default:
		s.remind() // the loop's clock is a turn behind
	}
}

// rouse wakes who waits for something to read. over: also who only waits for the end.
func (s *Stream) rouse(over bool) {
	if job := s.watch; job != nil && over {
		s.watch = nil
		s.c.server.exec.Go(job)
	}
	if job := s.idle; job != nil {
		s.idle = nil
		s.c.server.exec.Go(job)
		return
	}
	s.reader.Set()
}

// come follows from content, or its end: a reset is the end of the whole stream.
func (s *Stream) come() {
	if end := s.in.ended(); end != nil && end != io.EOF {
		s.fail(end)
	} else {
		s.rouse(false)
	}
}

// Write implements reactor.Stream. It returns when all of p was gathered to be sent.
func (s *Stream) Write(p []byte) (n int, err error) {
	slowBy := int64(0)
	for n < len(p) {
		if err := s.unwritable(); err != nil {
			return n, err
		}
		m := s.out.put(p[n:])
		if n += m; m > 0 {
			continue
		}
		s.flush()
		s.wait(s.writer, s.writeBy, &slowBy)
	}
	if s.out.size() >= atOnce {
		s.flush()
	} else {
		s.flushSoon()
	}
	return n, nil
}

// flushSoon flushes when the tasks that are ready have run: what they gather goes
// with it.
func (s *Stream) flushSoon() {
	if !s.out.soon {
		s.out.soon = true
		s.c.server.exec.Go((*flusher)(s))
	}
}

type flusher Stream

// Run flushes.
func (f *flusher) Run() {
	s := (*Stream)(f)
	if s.out.soon = false; !s.closed && !s.done && s.fault == nil {
		s.flush()
	}
}

// unwritable is why nothing can be sent; nil: it can.
func (s *Stream) unwritable() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.failure != nil:
		return s.failure
	case s.fault != nil:
		return s.fault
	case s.done:
		return net.ErrClosed
	case passed(s.writeBy, s.now()):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Respond sends a head; an interim one if its status is below 200. last says that no
// content follows. Content-length is written if r.ContentLength is not negative.
func (s *Stream) Respond(r *message.Response, last bool) error {
	slowBy := int64(0)
	for {
		if err := s.unwritable(); err != nil {
			return err
		}
		if !s.out.full() {
			break
		}
		s.wait(s.writer, s.writeBy, &slowBy)
	}
	s.out.append(func(b []byte) []byte { return appendHead(b, r) })
	if s.done = last; last {
		s.flush()
	} else {
		s.flushSoon()
	}
	return nil
}

// End ends the content, with trailers if there are any.
func (s *Stream) End(trailers message.Fields) error {
	if s.done && !s.closed {
		return nil
	}
	if err := s.unwritable(); err != nil {
		return err
	}
	if len(trailers) > 0 {
		s.out.append(func(b []byte) []byte { return appendTrailers(b, trailers) })
	}
	s.done = true
	s.flush()
	return nil
}

// CloseWrite ends what is sent; the client may still send.
func (s *Stream) CloseWrite() error { return s.End(nil) }

// Request fills in the request's head, as often as it is asked.
func (s *Stream) Request(r *message.Request) {
	fields := append(r.Fields[:0], s.request.Fields...)
	*r = s.request
	r.Fields = fields
}

// Trailers are those of the request, once Read has returned io.EOF.
func (s *Stream) Trailers() message.Fields { return s.tail.fields }

// Conn is the connection that it belongs to.
func (s *Stream) Conn() *Conn { return s.c }

// fail notes that the stream is gone: the client has reset it, or the connection is
// lost. What has come and was not read is lost as well.
func (s *Stream) fail(why error) {
	if s.closed || s.fault != nil {
		return
	}
	s.fault = why
	s.out.cancel()
	if job := s.hangup; job != nil {
		s.hangup = nil
		job.Run()
	}
	s.rouse(true)
	s.writer.Set()
}

// gone follows from the end of the stream's sending half that we have not brought
// about. Any goroutine.
func (s *Stream) gone(why error) {
	s.c.noteReset(why)
	s.submit(func() {
		if !s.done {
			s.fail(reason(why))
		}
	})
}

// reason makes an error of the stream of one of quic-go's.
func reason(err error) error {
	var reset *quic.StreamError
	switch {
	case errors.As(err, &reset) && reset.Remote:
		return ResetError(reset.ErrorCode)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return os.ErrDeadlineExceeded
	}
	return &net.OpError{Op: "http3", Net: "udp", Err: syscall.ECONNRESET}
}

// Close implements net.Conn: it gives up what is not at its end.
func (s *Stream) Close() error {
	if s.done {
		return s.quit(NoError)
	}
	return s.quit(RequestCancelled)
}

// Linger does what Close does: there is nothing that a reset could overtake.
func (s *Stream) Linger(time.Duration) { s.Close() }

// Reset ends the stream so that nobody takes what came for the whole.
func (s *Stream) Reset() { s.quit(InternalError) }

func (s *Stream) quit(code Code) error {
	if s.closed {
		return net.ErrClosed
	}
	s.closed = true
	s.hangup, s.watch, s.idle, s.slow = nil, nil, nil, nil
	if s.alarm != nil {
		s.alarm.Stop()
	}
	if !s.done {
		s.unwatch()
		s.out.cancel()
		s.q.CancelWrite(quic.StreamErrorCode(code))
	}
	if s.in.ended() != io.EOF {
		s.q.CancelRead(quic.StreamErrorCode(code))
	}
	s.in.close()
	s.reader.Set()
	s.writer.Set()
	s.leave()
	return nil
}

// OnHangup implements reactor.Stream.
func (s *Stream) OnHangup(job reactor.Job) {
	if job != nil && s.fault != nil {
		job.Run()
		return
	}
	s.hangup = job
}

// OnSlow implements reactor.Stream.
func (s *Stream) OnSlow(d time.Duration, job reactor.Job) { s.slow, s.slowAfter = job, d }

// Abort implements reactor.Stream.
func (s *Stream) Abort(err error) {
	if s.failure == nil {
		s.failure = err
	}
	s.rouse(true)
	s.writer.Set()
}

// SetReadTimeout implements reactor.Stream.
func (s *Stream) SetReadTimeout(d time.Duration) { s.setRead(s.from(d)) }

// SetWriteTimeout implements reactor.Stream.
func (s *Stream) SetWriteTimeout(d time.Duration) { s.setWrite(s.from(d)) }

// SetStall implements reactor.Stream: it is of effect before the answer begins.
func (s *Stream) SetStall(d time.Duration) { s.stall = d }

// from is the time d from now; 0 for none.
func (s *Stream) from(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return s.now() + int64(d)
}

// setRead sets the read deadline; who waits looks at it again.
func (s *Stream) setRead(by int64) {
	s.readBy = by
	s.remind()
	if s.parked > 0 {
		s.reader.Set()
	}
}

func (s *Stream) setWrite(by int64) {
	if s.writeBy = by; s.parked > 0 {
		s.writer.Set()
	}
}

// SetReadDeadline implements net.Conn.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.setRead(s.until(t))
	if passed(s.readBy, s.now()) {
		s.rouse(true)
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.setWrite(s.until(t))
	return nil
}

// until turns a time into the executor's; what has passed is now.
func (s *Stream) until(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return s.now() + int64(max(0, time.Until(t)))
}

// SetDeadline implements net.Conn.
func (s *Stream) SetDeadline(t time.Time) error {
	s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// LocalAddr implements net.Conn.
func (s *Stream) LocalAddr() net.Addr { return s.c.quic.LocalAddr() }

// RemoteAddr implements net.Conn.
func (s *Stream) RemoteAddr() net.Addr { return s.c.quic.RemoteAddr() }
