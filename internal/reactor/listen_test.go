package reactor

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// A storm of connections is taken in batches, so that others get their turn.
func TestAcceptIsBounded(t *testing.T) {
	const storm = 3*acceptBatch + 1
	l := startLoop(t, Options{})
	other, client := tcpConn(t, l)
	on(t, l, func() { other.Idle(&echo{Stream: other}) })

	fd, addr := listen(t, "127.0.0.1:0")
	for range storm { // they wait in the backlog until Listen
		dial(t, addr.String())
	}
	perTurn := map[uint64]int{}
	taken := 0
	var ln *Listener
	on(t, l, func() {
		var err error
		if ln, err = l.Listen(fd, func(c *Conn) { taken++; perTurn[l.stats.Turns]++; c.Close() }); err != nil {
			t.Error(err)
		}
	})
	say(t, client, "meanwhile")
	eventually(t, l, "all are taken", func() bool { return taken == storm })
	on(t, l, func() {
		for turn, n := range perTurn {
			if n > acceptBatch {
				t.Errorf("%d connections taken in turn %d, want at most %d", n, turn, acceptBatch)
			}
		}
		ln.Close()
	})
}

// A listener that closes takes what the kernel has already accepted, then
// refuses; connections that were taken before go on.
func TestListenerCloseTakesTheBacklog(t *testing.T) {
	const waiting = 2*acceptBatch + 5
	l := startLoop(t, Options{})
	fd, addr := listen(t, "127.0.0.1:0")
	var clients []*net.TCPConn
	for range waiting {
		clients = append(clients, dial(t, addr.String()))
	}
	on(t, l, func() {
		ln, err := l.Listen(fd, func(c *Conn) { c.Idle(&echo{Stream: c}) })
		if err != nil {
			t.Error(err)
			return
		}
		ln.Close()
		ln.Close() // twice does no harm
	})
	for i, c := range clients {
		say(t, c, fmt.Sprint("client ", i))
	}
	if c, err := net.Dial("tcp", addr.String()); err == nil {
		c.Close()
		t.Error("a closed listener still takes connections")
	}
}

// A listener may be closed by the very connection that it hands over. Its
// descriptor may then be another's at once, from whom it must not take.
func TestListenerClosedWhileTaking(t *testing.T) {
	const waiting = 5
	l := startLoop(t, Options{})
	fd, addr := listen(t, "127.0.0.1:0")
	other, otherAddr := listen(t, "127.0.0.1:0")
	for range waiting {
		dial(t, addr.String())
	}
	dial(t, otherAddr.String())
	taken := 0
	on(t, l, func() {
		var ln *Listener
		heir := -1
		ln, err := l.Listen(fd, func(c *Conn) {
			taken++
			defer c.Close()
			if ln.Close(); heir < 0 {
				unix.Dup3(other, ln.fd, unix.O_CLOEXEC)
				heir = ln.fd
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
	eventually(t, l, "all are taken", func() bool { return taken >= waiting })
	on(t, l, func() {})
	if taken != waiting {
		t.Errorf("%d connections taken, want %d", taken, waiting)
	}
	unix.Close(other)
	unix.Close(fd)
}

func TestAddrPort(t *testing.T) {
	var sa4, sa6, mapped, other unix.RawSockaddrAny
	in4 := sockaddr4(&sa4)
	in4.Family, in4.Port, in4.Addr = unix.AF_INET, swap(8080), [4]byte{192, 0, 2, 1}
	in6 := sockaddr6(&sa6)
	in6.Family, in6.Port, in6.Addr = unix.AF_INET6, swap(443), netip.MustParseAddr("2001:db8::1").As16()
	inMapped := sockaddr6(&mapped)
	inMapped.Family, inMapped.Port, inMapped.Addr = unix.AF_INET6, swap(1), netip.MustParseAddr("::ffff:192.0.2.7").As16()
	other.Addr.Family = unix.AF_UNIX
	for _, tc := range []struct {
		sa   *unix.RawSockaddrAny
		want string
	}{
		{&sa4, "192.0.2.1:8080"},
		{&sa6, "[2001:db8::1]:443"},
		{&mapped, "192.0.2.7:1"}, // a dual-stack listener's IPv4 client
		{&other, "invalid AddrPort"},
	} {
		if got := addrPort(tc.sa).String(); got != tc.want {
			t.Errorf("got %s, want %s", got, tc.want)
		}
	}
}

// childOfEMFILE is set in the process in which descriptors run out.
const childOfEMFILE = "SLUICE_REACTOR_EMFILE"

// Descriptors run out, in a process of its own.
func TestEMFILE(t *testing.T) {
	if os.Getenv(childOfEMFILE) != "" {
		runOutOfDescriptors(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestEMFILE$", "-test.v", "-test.timeout=25s")
	cmd.Env = append(os.Environ(), childOfEMFILE+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// runOutOfDescriptors lets free descriptors be fewer than clients: accept
// pauses, those who are served go on, and each descriptor that is closed lets
// another client in.
func runOutOfDescriptors(t *testing.T) {
	const free, clients = 5, 12
	l := startLoop(t, Options{})
	_, addr := serveOn(t, l, func(c *Conn) { c.Idle(&echo{Stream: c}) })
	sockets := unconnected(t, clients)
	limitDescriptors(t, free)
	to := netip.MustParseAddrPort(addr)
	for _, fd := range sockets {
		if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, l, "accept has paused", func() bool { return l.stats.AcceptPauses > 0 })
	var before, after Stats
	began := nanotime()
	on(t, l, func() { before = l.stats })
	for i := range 100 {
		say(t, fdConn(sockets[0]), fmt.Sprint("served ", i))
	}
	eventually(t, l, "accept has tried again", func() bool { return l.stats.AcceptPauses >= before.AcceptPauses+2 })
	on(t, l, func() { after = l.stats })
	most := uint64(nanotime()-began)/uint64(acceptPause) + 1
	if pauses := after.AcceptPauses - before.AcceptPauses; pauses > most {
		t.Errorf("accept tried %d times, want at most %d: one in %v", pauses, most, acceptPause)
	}
	for i, fd := range sockets {
		say(t, fdConn(fd), fmt.Sprint("client ", i))
		unix.Shutdown(fd, unix.SHUT_WR) // the echo closes, and the next is let in
	}
	for _, fd := range sockets {
		unix.Close(fd)
	}
}

// unconnected are blocking sockets whose reads end after patience.
func unconnected(t *testing.T, n int) (fds []int) {
	for range n {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		wait := unix.NsecToTimeval(int64(patience))
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)
		fds = append(fds, fd)
	}
	return fds
}

// limitDescriptors leaves this process free descriptors below its limit.
func limitDescriptors(t *testing.T, free int) {
	t.Helper()
	limit := uint64(0)
	for open := descriptors(); free > 0; limit++ {
		if open[strconv.FormatUint(limit, 10)] == "" {
			free--
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
}

// fdConn reads and writes a blocking descriptor.
type fdConn int

func (c fdConn) Read(p []byte) (int, error)  { return unix.Read(int(c), p) }
func (c fdConn) Write(p []byte) (int, error) { return unix.Write(int(c), p) }

// A listener whose pause is not over when it closes leaves no timer, which would
// change the events of whoever has the descriptor then.
func TestCloseDuringPause(t *testing.T) {
	h := newByHand(t)
	fd, _ := listen(t, "127.0.0.1:0")
	ln, err := h.Listen(fd, func(c *Conn) { c.Close() })
	if err != nil {
		t.Fatal(err)
	}
	ln.pause()
	ln.Close()
	if h.wheel.sleep(h.now) != -1 {
		t.Error("its timer is still armed")
	}
}
