package reactor

import (
	"net"
	"time"
)

// Job is work for a task. A pointer type that implements it starts without an
// allocation.
type Job interface{ Run() }

// Executor starts tasks and tells the time: a *Loop, or Goroutines in tests.
type Executor interface {
	// Go makes a task that runs job. It returns at once; the task runs later.
	Go(job Job)
	// Now is the monotonic time in nanoseconds, at most one turn old.
	Now() int64
	// NewSignal makes a Signal for tasks of this executor.
	NewSignal() Signal
	// Submit runs f on the executor soon. Any goroutine may call it.
	Submit(f func())
}

// Signal lets one task wait for another of the same loop. A Set before the Wait
// is remembered; several count as one.
type Signal interface {
	Set()
	// Wait returns true once set, false when d has passed or the loop ends;
	// d <= 0 waits for ever.
	Wait(d time.Duration) bool
}

// Stream is a connection as protocol code sees it. One task may read while
// another writes.
type Stream interface {
	net.Conn
	// Await returns when a Read would not wait: data, end of stream or an error
	// is there. So a buffer is needed only once there is something to put in it.
	// It returns os.ErrDeadlineExceeded after the read deadline.
	Await() error
	// Ready reports whether a Read might not wait. False is certain.
	Ready() bool
	// Idle lets go of the calling task: when there is something to read, or the
	// read deadline has passed, job runs in a new task. A nil job takes the last
	// one back. It returns false where that cannot be (over plain goroutines);
	// the caller then just reads.
	Idle(job Job) bool
	// Watch is Idle for a task that wants nothing of what the peer may send: job
	// runs when the peer has ended or reset the connection, or the read deadline
	// has passed. Bytes stay where they are.
	Watch(job Job) bool
	// SetReadTimeout and SetWriteTimeout set the deadline to d from now; zero
	// means none.
	SetReadTimeout(d time.Duration)
	SetWriteTimeout(d time.Duration)
	// SetStall makes every Write fail in which the peer takes nothing for d, or
	// at most twice that; zero means no limit.
	SetStall(d time.Duration)
	// Linger ends sending, throws away what still arrives for up to d, then
	// closes: a plain close would send RST over the response if the peer is
	// still sending (RFC 9112 9.6).
	Linger(d time.Duration)
	// OnHangup has job run when the peer has reset the connection, at most once;
	// nil takes the wish back. job runs on the loop outside any task and must
	// not park.
	OnHangup(job Job)
	// OnSlow has job run when one Read or Write has waited for the peer for d, at
	// most once; nil takes the wish back. Of job holds what OnHangup says.
	OnSlow(d time.Duration, job Job)
	// Abort makes the current and every later Read and Write fail with err.
	Abort(err error)
}
