package proxy

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"sluice/internal/reactor"
)

// sim is a loop in virtual time, for use within synctest: its tasks are
// goroutines that take turns, as the tasks of a Loop do, and its streams keep a
// Loop's promises. It is to a Loop what a map of the land is to the land: slow
// and exact.
type sim struct {
	mu      sync.Mutex // held by the task that runs
	changed *sync.Cond // told by whoever changes what others may wait for; they look for themselves
	began   time.Time
	tasks   sync.WaitGroup
}

func newSim() *sim {
	m := &sim{began: time.Now()}
	m.changed = sync.NewCond(&m.mu)
	return m
}

func (m *sim) Go(job reactor.Job) { m.Submit(job.Run) }
func (m *sim) Now() int64         { return int64(time.Since(m.began)) + 1 }

func (m *sim) Submit(f func()) {
	m.tasks.Go(func() { m.do(f) })
}

// do runs f as a task of its own.
func (m *sim) do(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	m.changed.Broadcast()
}

// wait lets others run until something has changed or it is time at; 0 is never.
// It reports whether that time has come.
func (m *sim) wait(at int64) (late bool) {
	if at != 0 && m.Now() >= at {
		return true
	}
	if at != 0 {
		defer time.AfterFunc(time.Duration(at-m.Now()), func() { m.do(func() {}) }).Stop()
	}
	m.changed.Wait()
	return at != 0 && m.Now() >= at
}

func (m *sim) after(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return m.Now() + int64(d)
}

func (m *sim) NewSignal() reactor.Signal { return &simSignal{m: m} }

type simSignal struct {
	m   *sim
	set bool
}

func (s *simSignal) Set() {
	s.set = true
	s.m.changed.Broadcast()
}

func (s *simSignal) Wait(d time.Duration) bool {
	at := s.m.after(d)
	for !s.set && !s.m.wait(at) {
	}
	was := s.set
	s.set = false
	return was
}

// cable is one direction of a connection: what has been sent and not read.
type cable struct {
	sent   []byte
	window int  // bytes that it holds
	ended  bool // nothing more will be sent
	dead   bool // reset: what was under way is lost
}

// simConn is one end of a connection. Its methods are called by tasks.
type simConn struct {
	m       *sim
	in, out *cable
	closed  bool
	failure error
	readBy  int64
	writeBy int64
	stall   time.Duration
	idle    reactor.Job
	watcher reactor.Job
	hangup  reactor.Job
	slow    reactor.Job
	far     *simConn

	slowAfter time.Duration
}

// socketBytes is what a direction of a connection holds.
const socketBytes = 256 << 10

// connect makes both ends of a connection.
func (m *sim) connect() (near, far *simConn) {
	x, y := &cable{window: socketBytes}, &cable{window: socketBytes}
	near, far = &simConn{m: m, in: x, out: y}, &simConn{m: m, in: y, out: x}
	near.far, far.far = far, near
	return near, far
}

// state is what a Read would meet: nil for bytes, errWait if it would wait.
func (c *simConn) state() error {
	switch {
	case c.closed:
		return net.ErrClosed
	case c.failure != nil:
		return c.failure
	case c.in.dead:
		return syscall.ECONNRESET
	case len(c.in.sent) > 0:
		return nil
	case c.in.ended:
		return io.EOF
	}
	return errWait
}

var errWait = syscall.EAGAIN

func (c *simConn) Await() error {
	slowBy := int64(0)
	for {
		switch {
		case c.slow == nil:
			slowBy = 0
		case slowBy == 0:
			slowBy = c.m.after(c.slowAfter)
		}
		switch err := c.state(); err {
		case errWait:
			if c.readBy != 0 && c.m.Now() >= c.readBy {
				return os.ErrDeadlineExceeded
			}
			if c.m.wait(earlier(c.readBy, slowBy)) && c.slow != nil && c.m.Now() >= slowBy {
				slow := c.slow
				c.slow, slowBy = nil, 0
				slow.Run()
			}
		case io.EOF, syscall.ECONNRESET:
			return nil
		default:
			return err
		}
	}
}

func (c *simConn) Read(p []byte) (int, error) {
	if err := c.Await(); err != nil {
		return 0, err
	}
	if err := c.state(); err != nil {
		return 0, err
	}
	n := copy(p, c.in.sent)
	c.in.sent = c.in.sent[n:]
	c.m.changed.Broadcast()
	return n, nil
}

func (c *simConn) Write(p []byte) (done int, err error) {
	stallBy := c.m.after(c.stall)
	for done < len(p) {
		switch {
		case c.closed:
			return done, net.ErrClosed
		case c.failure != nil:
			return done, c.failure
		case c.out.dead:
			return done, syscall.EPIPE
		}
		n := min(len(p)-done, c.out.window-len(c.out.sent))
		c.out.sent = append(c.out.sent, p[done:done+n]...)
		if done += n; n > 0 {
			c.m.changed.Broadcast()
			stallBy = c.m.after(c.stall)
		} else if c.m.wait(earlier(c.writeBy, stallBy)) {
			return done, os.ErrDeadlineExceeded
		}
	}
	return done, nil
}

// earlier is the earlier of two times of which 0 is never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (c *simConn) Ready() bool { return c.state() != errWait }

func (c *simConn) Idle(job reactor.Job) bool {
	c.idle = job
	if job != nil {
		c.m.Submit(c.watch)
	}
	return true
}

// watch starts the idle job when its time has come.
func (c *simConn) watch() {
	job := c.idle
	for job != nil && c.idle == job && !c.Ready() && (c.readBy == 0 || c.m.Now() < c.readBy) {
		c.m.wait(c.readBy)
	}
	if job != nil && c.idle == job {
		c.idle = nil
		c.m.Go(job)
	}
}

// Watch is Idle, but for what may be read.
func (c *simConn) Watch(job reactor.Job) bool {
	c.watcher = job
	if job != nil {
		c.m.Submit(func() {
			for c.watcher == job && !c.over() && (c.readBy == 0 || c.m.Now() < c.readBy) {
				c.m.wait(c.readBy)
			}
			if c.watcher == job {
				c.watcher = nil
				c.m.Go(job)
			}
		})
	}
	return true
}

// OnSlow is simulated for reads only.
func (c *simConn) OnSlow(d time.Duration, job reactor.Job) { c.slow, c.slowAfter = job, d }

// over reports whether nothing more will come.
func (c *simConn) over() bool {
	return c.closed || c.failure != nil || c.in.dead || c.in.ended
}

func (c *simConn) OnHangup(job reactor.Job) {
	c.hangup = job
	if job != nil && c.in.dead {
		c.hangup = nil
		job.Run()
	}
}

// Close ends the connection. As with a socket, what the peer has sent and nobody
// has read, or sends later, is answered with a reset, which overtakes what it has
// not read yet.
func (c *simConn) Close() error {
	if c.closed {
		return net.ErrClosed
	}
	c.closed, c.idle = true, nil
	c.out.ended = true
	if len(c.in.sent) > 0 {
		c.reset()
	}
	c.m.changed.Broadcast()
	return nil
}

// Reset is what a Conn can do, and a Stream need not.
func (c *simConn) Reset() { c.reset() }

// reset tells the other end that all is lost.
func (c *simConn) reset() {
	c.closed = true
	c.in.dead, c.out.dead, c.out.sent = true, true, nil
	c.m.changed.Broadcast()
	if job := c.far.hangup; job != nil {
		c.far.hangup = nil
		job.Run()
	}
}

func (c *simConn) Linger(d time.Duration) {
	if c.closed || c.in.dead || d <= 0 {
		c.Close()
		return
	}
	c.out.ended = true
	c.m.changed.Broadcast()
	at := c.m.after(d)
	c.m.Submit(func() {
		for !c.in.ended && !c.in.dead && !c.m.wait(at) {
			c.in.sent = nil
		}
		c.in.sent = nil
		c.Close()
	})
}

func (c *simConn) Abort(err error) {
	if c.failure == nil {
		c.failure = err
	}
	c.m.changed.Broadcast()
}

func (c *simConn) SetReadTimeout(d time.Duration)  { c.limit(&c.readBy, c.m.after(d)) }
func (c *simConn) SetWriteTimeout(d time.Duration) { c.limit(&c.writeBy, c.m.after(d)) }
func (c *simConn) SetStall(d time.Duration)        { c.stall = d }

func (c *simConn) SetReadDeadline(t time.Time) error {
	c.limit(&c.readBy, c.deadline(t))
	return nil
}

func (c *simConn) SetWriteDeadline(t time.Time) error {
	c.limit(&c.writeBy, c.deadline(t))
	return nil
}

func (c *simConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// limit sets a deadline; who waits with another one looks again.
func (c *simConn) limit(what *int64, at int64) {
	*what = at
	c.m.changed.Broadcast()
}

// deadline turns a time into the loop's; one that has passed is the past.
func (c *simConn) deadline(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(1, c.m.Now()+int64(time.Until(t)))
}

func (c *simConn) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (c *simConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// CloseWrite ends sending.
func (c *simConn) CloseWrite() error {
	c.out.ended = true
	c.m.changed.Broadcast()
	return nil
}
