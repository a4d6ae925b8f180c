package reactor

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Goroutines is an Executor whose tasks are plain goroutines: protocol code
// written for a Loop runs on it unchanged over net.Pipe, under testing/synctest
// in virtual time.
type Goroutines struct {
	began time.Time
	tasks sync.WaitGroup
}

// NewGoroutines makes one; its clock starts now.
func NewGoroutines() *Goroutines { return &Goroutines{began: time.Now()} }

// Go implements Executor.
func (g *Goroutines) Go(job Job) { g.tasks.Go(job.Run) }

// Now implements Executor.
func (g *Goroutines) Now() int64 { return int64(time.Since(g.began)) + 1 }

// Submit implements Executor.
func (g *Goroutines) Submit(f func()) { g.tasks.Go(f) }

// Wait returns when every task has ended.
func (g *Goroutines) Wait() { g.tasks.Wait() }

// NewSignal implements Executor.
func (g *Goroutines) NewSignal() Signal { return make(chanSignal, 1) }

type chanSignal chan struct{}

func (s chanSignal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func (s chanSignal) Wait(d time.Duration) bool {
	if d <= 0 {
		<-s
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s:
		return true
	case <-t.C:
		return false
	}
}

// blocking is a Stream over any net.Conn.
type blocking struct {
	net.Conn
	failure atomic.Pointer[error]
	peeked  [1]byte // read by Await, not yet by Read
	held    bool
	err     error // met by Await, not yet returned by Read
}

// Blocking makes a Stream of c for use with Goroutines. It cannot tell a hang-up
// from silence, so OnHangup does nothing.
func Blocking(c net.Conn) Stream { return &blocking{Conn: c} }

func (b *blocking) Await() error {
	if f := b.failure.Load(); f != nil {
		return *f
	}
	if b.held || b.err != nil {
		return nil
	}
	n, err := b.Conn.Read(b.peeked[:])
	b.held = n == 1
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		return b.failed(err)
	}
	b.err = err
	return nil
}

func (b *blocking) Read(p []byte) (int, error) {
	if b.held && len(p) > 0 {
		b.held = false
		p[0] = b.peeked[0]
		return 1, nil
	}
	if b.err != nil {
		return 0, b.failed(b.err)
	}
	n, err := b.Conn.Read(p)
	return n, b.failed(err)
}

func (b *blocking) Write(p []byte) (int, error) {
	n, err := b.Conn.Write(p)
	return n, b.failed(err)
}

// failed puts Abort's error in the place of the one that Abort brought about.
func (b *blocking) failed(err error) error {
	if f := b.failure.Load(); f != nil && err != nil {
		return *f
	}
	return err
}

func (b *blocking) Abort(err error) {
	b.failure.CompareAndSwap(nil, &err)
	b.Conn.SetDeadline(time.Now().Add(-time.Second))
}

func (b *blocking) Ready() bool    { return true }
func (b *blocking) Idle(Job) bool  { return false }
func (b *blocking) Watch(Job) bool { return false }
func (b *blocking) OnHangup(Job)   {}

// OnSlow does nothing: nobody looks at the time while a goroutine waits.
func (b *blocking) OnSlow(time.Duration, Job) {}

func (b *blocking) Linger(time.Duration) { b.Conn.Close() }

func (b *blocking) SetReadTimeout(d time.Duration) { b.Conn.SetReadDeadline(deadlineIn(d)) }

// SetStall bounds nothing: how much of a Write has been taken is not known here.
func (b *blocking) SetStall(time.Duration) {}

func (b *blocking) SetWriteTimeout(d time.Duration) { b.Conn.SetWriteDeadline(deadlineIn(d)) }

func deadlineIn(d time.Duration) time.Time {
	if d <= 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}
