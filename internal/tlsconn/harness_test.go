package tlsconn

import (
	"crypto/tls"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/reactor"
	"sluice/internal/testkit"
)

// patience is how long a test waits for what must come. It only ends tests that
// would otherwise hang.
const patience = 30 * time.Second

type jobFunc func()

func (f jobFunc) Run() { f() }

// startLoop runs a loop until the test ends.
func startLoop(t *testing.T) *reactor.Loop {
	t.Helper()
	l, err := reactor.New(reactor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go l.Run()
	t.Cleanup(l.Close)
	return l
}

// await returns when done has something, and fails the test if that takes too long.
func await[T any](t *testing.T, what string, done <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-done:
	case <-time.After(patience):
		t.Fatalf("%s: still waiting after %v", what, patience)
	}
	return got
}

// on runs f on the loop, outside any task.
func on(t *testing.T, l *reactor.Loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	l.Submit(func() { defer close(done); f() })
	await(t, "the loop runs what was submitted", done)
}

// spawn runs f in a task; the channel is closed when f has returned.
func spawn(l *reactor.Loop, f func()) <-chan struct{} {
	done := make(chan struct{})
	l.Submit(func() { l.Go(jobFunc(func() { defer close(done); f() })) })
	return done
}

// inTask runs f in a task and returns when f has.
func inTask(t *testing.T, l *reactor.Loop, f func()) {
	t.Helper()
	await(t, "the task ends", spawn(l, f))
}

// eventually waits until cond, which is evaluated on the loop, holds.
func eventually(t *testing.T, l *reactor.Loop, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 10_000 {
		held := false
		if on(t, l, func() { held = cond() }); held {
			return
		}
		<-tick.C
	}
	t.Fatalf("%s: not so after some seconds", what)
}

// tcpPair is a loopback connection: a descriptor for a loop, and its peer.
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

// socketPair is two connected Unix sockets that hold little.
func socketPair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4096)
	}
	return fds[0], fds[1]
}

// adopt makes fd a connection of l.
func adopt(t *testing.T, l *reactor.Loop, fd int) (c *reactor.Conn) {
	t.Helper()
	var err error
	on(t, l, func() { c, err = l.Adopt(fd, netip.AddrPort{}) })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// both are configurations of a server and of a client that trusts it.
func both(t *testing.T, version uint16) (server, client *tls.Config) {
	t.Helper()
	a := testkit.NewAuthority(t, "test authority")
	server = &tls.Config{Certificates: []tls.Certificate{certificate(a, "server.test")}, MaxVersion: version}
	client = &tls.Config{RootCAs: a.Pool(), ServerName: "server.test", MaxVersion: version, DynamicRecordSizingDisabled: true}
	return server, client
}

// certificate is one for these names.
func certificate(a *testkit.Authority, names ...string) tls.Certificate {
	i := a.Issue(testkit.Wish{Names: names})
	return tls.Certificate{Certificate: [][]byte{i.Leaf.Raw}, PrivateKey: i.Private, Leaf: i.Leaf}
}

var versions = map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13}

// each runs a test for each version.
func each(t *testing.T, test func(t *testing.T, version uint16)) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) { test(t, version) })
	}
}

// meet is a server's Stream on l, and crypto/tls at the other end; both have shaken
// hands.
func meet(t *testing.T, l *reactor.Loop, version uint16) (*Stream, *tls.Conn, *net.TCPConn) {
	t.Helper()
	server, client := both(t, version)
	near, far := tcpPair(t)
	s := Server(adopt(t, l, near), server)
	peer := tls.Client(far, client)
	greet(t, l, s, peer, far)
	return s, peer, far
}

// meetServer is the same for a client's Stream.
func meetServer(t *testing.T, l *reactor.Loop, version uint16) (*Stream, *tls.Conn, *net.TCPConn) {
	t.Helper()
	server, client := both(t, version)
	near, far := tcpPair(t)
	s := Client(adopt(t, l, near), client)
	peer := tls.Server(far, server)
	greet(t, l, s, peer, far)
	return s, peer, far
}

// greet has both shake hands.
func greet(t *testing.T, l *reactor.Loop, s *Stream, peer *tls.Conn, far net.Conn) {
	t.Helper()
	done := spawn(l, func() {
		if err := s.Handshake(); err != nil {
			t.Errorf("handshake: %v", err)
		}
	})
	far.SetDeadline(time.Now().Add(patience))
	if err := peer.Handshake(); err != nil {
		t.Fatal(err)
	}
	await(t, "the handshake ends", done)
}
