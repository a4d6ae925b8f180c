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
	reactor.Share
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
	stalled  atomic.Bool  // it is counted as such
	users    atomic.Int32 // the owner and goroutines that have not let go of it
	heard    func()       // tells the loop of what has come

	done  bool          // the answer's end was gathered
	stall time.Duration // for the client to take anything
	alarm *time.Timer   // for a deadline while no task waits; nil: none was needed yet
}

// begin makes the stream the loop's.
func (s *Stream) begin() { s.Begin(s.c.server.exec, s) }

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
	s.c.quit(s.q)
}

// Meets implements reactor.Host.
func (s *Stream) Meets() error {
	if err := s.Unusable(); err != nil {
		return err
	}
	switch content, end := s.in.look(); {
	case content:
		return nil
	case end != nil:
		return end
	}
	return reactor.ErrNothing
}

// Unparked implements reactor.Host.
func (s *Stream) Unparked() {}

// Read implements reactor.Stream. Content that is not as long as was declared, or
// that ends with a reset, ends with an error: *Fault or ResetError.
func (s *Stream) Read(p []byte) (int, error) {
	if err := s.Await(); err != nil {
		return 0, err
	}
	if err := s.Meets(); err != nil {
		return 0, err
	}
	return s.in.take(p), nil
}

// Remind implements reactor.Host. The loop's clock is up to a turn behind, so Lapse may
// come too early, and wants another.
func (s *Stream) Remind(by int64) {
	if s.alarm != nil {
		s.alarm.Stop()
	}
	if by != 0 {
		s.alarm = time.AfterFunc(time.Duration(max(0, by-s.now())), func() { s.submit(s.Lapse) })
	}
}

// come follows from content, or its end: a reset is the end of the whole stream.
func (s *Stream) come() {
	if end := s.in.ended(); end != nil && end != io.EOF {
		s.fail(end)
	} else {
		s.Rouse(false)
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
		s.AwaitRoom(0, &slowBy)
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
	if s.out.soon = false; !s.Closed() && !s.done && s.Fault() == nil {
		s.flush()
	}
}

// unwritable is why nothing can be sent; nil: it can.
func (s *Stream) unwritable() error {
	switch err := s.Unusable(); {
	case err != nil:
		return err
	case s.done:
		return net.ErrClosed
	case s.Late():
		s.noteStall()
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
		s.AwaitRoom(0, &slowBy)
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
	if s.done && !s.Closed() {
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
	if s.Closed() || s.Fault() != nil {
		return
	}
	s.out.cancel()
	s.Break(why)
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
	if s.Closed() {
		return net.ErrClosed
	}
	s.Shut()
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
	s.leave()
	return nil
}

// SetStall implements reactor.Stream: it is of effect before the answer begins.
func (s *Stream) SetStall(d time.Duration) { s.stall = d }

// LocalAddr implements net.Conn.
func (s *Stream) LocalAddr() net.Addr { return s.c.quic.LocalAddr() }

// RemoteAddr implements net.Conn.
func (s *Stream) RemoteAddr() net.Addr { return s.c.quic.RemoteAddr() }
