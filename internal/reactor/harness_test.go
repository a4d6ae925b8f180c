package reactor

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a test waits for what must come. It only ends tests that
// would otherwise hang; none takes so long.
const patience = 10 * time.Second

// jobFunc makes a Job of a function.
type jobFunc func()

func (f jobFunc) Run() { f() }

// startLoop runs a loop until the test ends.
func startLoop(t *testing.T, opts Options) *Loop {
	t.Helper()
	l, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	go l.Run()
	t.Cleanup(l.Close)
	return l
}

// byHand is a loop without a thread: the test is its clock and its turns.
type byHand struct{ *Loop }

func newByHand(t *testing.T) byHand {
	t.Helper()
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.closing = true; l.end() })
	return byHand{l}
}

// start runs job in a new task up to where it parks.
func (h byHand) start(job func()) {
	h.Go(jobFunc(job))
	h.runReady()
}

// meet takes what events there are, and runs what they have made ready. Time
// stands still.
func (h byHand) meet() {
	n := poll(h.epoll, h.batch)
	h.dispatch(h.batch[:n])
	h.runReady()
}

// adopt makes fd a Conn of the loop.
func (h byHand) adopt(t *testing.T, fd int) *Conn {
	t.Helper()
	c, err := h.Adopt(fd, netip.AddrPort{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pass lets d go by, then runs what that has made ready.
func (h byHand) pass(d time.Duration) {
	h.now += int64(d)
	h.wheel.advance(h.now)
	h.runReady()
}

// await returns when done is closed, and fails the test if that takes too long.
func await[T any](t *testing.T, what string, done <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-done:
	case <-time.After(patience):
		t.Fatalf("%s: still waiting after %v", what, patience)
	}
	return got
}

// on runs f on the loop, outside any task, and returns when it has run.
func on(t *testing.T, l *Loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	l.Submit(func() { defer close(done); f() })
	await(t, "the loop runs what was submitted", done)
}

// spawn runs f in a task of l; the channel is closed when f has returned.
func spawn(l *Loop, f func()) <-chan struct{} {
	done := make(chan struct{})
	l.Submit(func() { l.Go(jobFunc(func() { defer close(done); f() })) })
	return done
}

// inTask runs f in a task of l and returns when f has.
func inTask(t *testing.T, l *Loop, f func()) {
	t.Helper()
	await(t, "the task ends", spawn(l, f))
}

// eventually waits until cond, which is evaluated on the loop, holds.
func eventually(t *testing.T, l *Loop, what string, cond func() bool) {
	t.Helper()
	if !settle(func() (held bool) { on(t, l, func() { held = cond() }); return held }) {
		t.Fatalf("%s: not so after some seconds", what)
	}
}

// adopt makes fd a Conn of l.
func adopt(t *testing.T, l *Loop, fd int) (c *Conn) {
	t.Helper()
	var err error
	on(t, l, func() { c, err = l.Adopt(fd, netip.AddrPort{}) })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// tcpPair is a loopback connection: a descriptor for a loop, and its peer for
// the test.
func tcpPair(t *testing.T) (near int, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	return dupFD(t, accepted.(*net.TCPConn)), peer.(*net.TCPConn)
}

// dupFD is a descriptor of its own for the socket of c.
func dupFD(t *testing.T, c syscall.Conn) (fd int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// tcpConn is a Conn of l and its peer.
func tcpConn(t *testing.T, l *Loop) (*Conn, *net.TCPConn) {
	t.Helper()
	near, far := tcpPair(t)
	return adopt(t, l, near), far
}

// socketPair is two connected Unix sockets, both for loops.
func socketPair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fds[0], fds[1]
}

// connPair is two Conns of l that are connected to each other.
func connPair(t *testing.T, l *Loop) (a, b *Conn) {
	t.Helper()
	x, y := socketPair(t)
	return adopt(t, l, x), adopt(t, l, y)
}

// listen opens a TCP listener, whose descriptor the caller closes.
func listen(t *testing.T, addr string) (fd int, to netip.AddrPort) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return dupFD(t, ln.(*net.TCPListener)), ln.Addr().(*net.TCPAddr).AddrPort()
}

// serveOn has l take connections from a new loopback listener until the test
// ends.
func serveOn(t *testing.T, l *Loop, take func(*Conn)) (ln *Listener, to string) {
	t.Helper()
	fd, addr := listen(t, "127.0.0.1:0")
	var err error
	on(t, l, func() { ln, err = l.Listen(fd, take) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { on(t, l, ln.Close) })
	return ln, addr.String()
}

// dial connects the test to addr.
func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

// say sends text and expects the same back.
func say(t *testing.T, c io.ReadWriter, text string) {
	t.Helper()
	got := make([]byte, len(text))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatalf("sending %q: %v", text, err)
	}
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("sent %q, got %q, %v", text, got, err)
	}
}

// echo is the smallest session: it holds no task while its client is silent.
type echo struct {
	Stream
	buf [512]byte
}

func (e *echo) Run() {
	for {
		n, err := e.Read(e.buf[:])
		if err != nil {
			e.Close()
			return
		}
		if _, err := e.Write(e.buf[:n]); err != nil {
			e.Close()
			return
		}
		if !e.Ready() && e.Idle(e) {
			return
		}
	}
}

// mustFail fails the test unless err is one of want.
func mustFail(t *testing.T, what string, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	t.Errorf("%s: error %v, want %v", what, err, want)
}
