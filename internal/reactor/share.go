package reactor

import (
	"net"
	"os"
	"syscall"
	"time"
)

// ErrNothing is what Host.Meets says while there is nothing to read yet.
const ErrNothing = syscall.EAGAIN

// Host is the protocol whose connection many streams share.
type Host interface {
	// Meets is what a Read would meet: nil for content, ErrNothing, or an error.
	Meets() error
	// Remind has Lapse called at time by, since no task waits for it; 0 takes the wish
	// back. Earlier and more often is no harm.
	Remind(by int64)
	// Unparked says that a task which waited goes on.
	Unparked()
}

// Share is what the streams of a connection that carries many have in common with a
// socket: who waits, until when, and who is told of what. A protocol embeds it and adds
// what is read and written; together they are a Stream. Loop only.
type Share struct {
	exec Executor
	host Host

	closed  bool
	fault   error
	failure error // given by Abort

	reader, writer  Signal
	parked          int   // tasks that wait
	readBy, writeBy int64 // deadlines, executor time; 0: none

	idle, watch, hangup, slow Job
	slowAfter                 time.Duration
}

// Begin makes it ready for its next life.
func (s *Share) Begin(exec Executor, host Host) {
	reader, writer := s.reader, s.writer
	if reader == nil {
		reader, writer = exec.NewSignal(), exec.NewSignal()
	}
	*s = Share{exec: exec, host: host, reader: reader, writer: writer}
}

// Closed reports whether the owner has closed the stream.
func (s *Share) Closed() bool { return s.closed }

// Fault is why nothing more comes or goes: the peer has reset the stream, or the
// connection has ended. Nil: neither.
func (s *Share) Fault() error { return s.fault }

// GivenUp is why the owner can do nothing with the stream: it has closed it, or aborted it.
func (s *Share) GivenUp() error {
	if s.closed {
		return net.ErrClosed
	}
	return s.failure
}

// Unusable is GivenUp or Fault.
func (s *Share) Unusable() error {
	if err := s.GivenUp(); err != nil {
		return err
	}
	return s.fault
}

// Parked reports whether a task waits in it.
func (s *Share) Parked() bool { return s.parked > 0 }

// Shut closes it for the owner: whoever waits sees so, and nobody is told of anything.
func (s *Share) Shut() {
	s.closed = true
	s.hangup, s.watch, s.idle, s.slow = nil, nil, nil, nil
	s.reader.Set()
	s.writer.Set()
}

// Break notes the fault that ends it, and tells who wants to know.
func (s *Share) Break(why error) {
	s.fault = why
	if job := s.hangup; job != nil {
		s.hangup = nil
		job.Run()
	}
	s.Rouse(true)
	s.writer.Set()
}

// Rouse wakes who waits for something to read. over: also who only waits for the end.
func (s *Share) Rouse(over bool) {
	if job := s.watch; job != nil && over {
		s.watch = nil
		s.exec.Go(job)
	}
	if job := s.idle; job != nil {
		s.idle = nil
		s.exec.Go(job)
		return
	}
	s.reader.Set()
}

// Resume wakes who waits to write.
func (s *Share) Resume() { s.writer.Set() }

// Await implements Stream.
func (s *Share) Await() error {
	slowBy := int64(0)
	for {
		err := s.host.Meets()
		switch {
		case s.closed || s.failure != nil:
			return err
		case err != ErrNothing:
			return nil
		case passed(s.readBy, s.exec.Now()):
			return os.ErrDeadlineExceeded
		}
		s.wait(s.reader, s.readBy, &slowBy)
	}
}

// AwaitRoom waits until Resume, the write deadline, or time by (0: never). slowBy keeps
// when the wait, which may take several calls, is slow; it begins as 0.
func (s *Share) AwaitRoom(by int64, slowBy *int64) { s.wait(s.writer, earlier(s.writeBy, by), slowBy) }

// Late reports whether the write deadline has passed.
func (s *Share) Late() bool { return passed(s.writeBy, s.exec.Now()) }

// wait parks until sig is set, or it is time at (0: never).
func (s *Share) wait(sig Signal, at int64, slowBy *int64) {
	now := s.exec.Now()
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
	now = s.exec.Now()
	if !set && (at == 0 || now < at) && s.failure == nil {
		s.failure = net.ErrClosed // the loop ends
	}
	if job := s.slow; job != nil && now >= *slowBy {
		s.slow = nil
		job.Run()
	}
	s.host.Unparked()
}

// passed reports whether a deadline, 0 for none, is over.
func passed(by, now int64) bool { return by != 0 && now >= by }

// earlier is the first of two times of which 0 is never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Ready implements Stream.
func (s *Share) Ready() bool { return s.host.Meets() != ErrNothing }

// Idle implements Stream.
func (s *Share) Idle(job Job) bool {
	if job != nil && (s.Ready() || passed(s.readBy, s.exec.Now())) {
		s.exec.Go(job)
		return true
	}
	s.idle = job
	s.remind()
	return true
}

// Watch implements Stream. That the peer has ended its content is no reason to run job:
// it may await an answer.
func (s *Share) Watch(job Job) bool {
	if job != nil && (s.Unusable() != nil || passed(s.readBy, s.exec.Now())) {
		s.exec.Go(job)
		return true
	}
	s.watch = job
	s.remind()
	return true
}

// WakeBy is when a job that waits without a task is to run at the latest; 0: none waits,
// or for ever.
func (s *Share) WakeBy() int64 {
	if s.idle == nil && s.watch == nil {
		return 0
	}
	return s.readBy
}

func (s *Share) remind() { s.host.Remind(s.WakeBy()) }

// Lapse runs who waits without a task, if it is time.
func (s *Share) Lapse() {
	switch by := s.WakeBy(); {
	case by == 0:
	case passed(by, s.exec.Now()):
		s.Rouse(true)
	default:
		s.host.Remind(by)
	}
}

// OnHangup implements Stream.
func (s *Share) OnHangup(job Job) {
	if job != nil && s.fault != nil {
		job.Run()
		return
	}
	s.hangup = job
}

// OnSlow implements Stream.
func (s *Share) OnSlow(d time.Duration, job Job) { s.slow, s.slowAfter = job, d }

// Abort implements Stream.
func (s *Share) Abort(err error) {
	if s.failure == nil {
		s.failure = err
	}
	s.Rouse(true)
	s.writer.Set()
}

// SetReadTimeout implements Stream.
func (s *Share) SetReadTimeout(d time.Duration) { s.setRead(s.in(d)) }

// SetWriteTimeout implements Stream.
func (s *Share) SetWriteTimeout(d time.Duration) { s.setWrite(s.in(d)) }

// in is the time d from now; 0 for none.
func (s *Share) in(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return s.exec.Now() + int64(d)
}

// setRead sets the read deadline; who waits looks at it again.
func (s *Share) setRead(by int64) {
	s.readBy = by
	s.remind()
	if s.parked > 0 {
		s.reader.Set()
	}
}

func (s *Share) setWrite(by int64) {
	if s.writeBy = by; s.parked > 0 {
		s.writer.Set()
	}
}

// SetReadDeadline implements net.Conn.
func (s *Share) SetReadDeadline(t time.Time) error {
	s.setRead(s.until(t))
	if passed(s.readBy, s.exec.Now()) {
		s.Rouse(true)
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (s *Share) SetWriteDeadline(t time.Time) error {
	s.setWrite(s.until(t))
	return nil
}

// SetDeadline implements net.Conn.
func (s *Share) SetDeadline(t time.Time) error {
	s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// until turns a time into the executor's; what has passed is now.
func (s *Share) until(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return s.exec.Now() + int64(max(0, time.Until(t)))
}
