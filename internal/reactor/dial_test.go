package reactor

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// echoListener answers one connection with what it says, then goes on.
func echoListener(t *testing.T, network, addr string) (net.Listener, error) {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p := make([]byte, 64)
			n, _ := c.Read(p)
			c.Write(p[:n])
			c.Close()
		}
	}()
	return ln, nil
}

func TestDial(t *testing.T) {
	path := t.TempDir() + "/echo.sock"
	for _, tc := range []struct{ network, listen, shown string }{
		{"tcp4", "127.0.0.1:0", "127.0.0.1:"},
		{"tcp6", "[::1]:0", "[::1]:"},
		{"unix", path, "unix:" + path},
	} {
		t.Run(tc.network, func(t *testing.T) {
			l := startLoop(t, Options{})
			ln, noFamily := echoListener(t, tc.network, tc.listen)
			to := Address{Path: path}
			if tc.network != "unix" {
				to = Address{TCP: netip.MustParseAddrPort("[::1]:9")}
			}
			if tcp, ok := ln.(*net.TCPListener); ok {
				to = Address{TCP: tcp.Addr().(*net.TCPAddr).AddrPort()}
			}
			if got := to.String(); len(got) < len(tc.shown) || got[:len(tc.shown)] != tc.shown {
				t.Errorf("address %q, want %q", got, tc.shown)
			}
			inTask(t, l, func() {
				c, err := l.Dial(to, time.Minute)
				if noFamily != nil { // a machine without IPv6 says so at once
					var e syscall.Errno
					if !errors.As(err, &e) {
						t.Errorf("%v; want an errno, as from listen: %v", err, noFamily)
					}
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if c.writeBy != 0 {
					t.Error("the time-out of the connect stays as a write deadline")
				}
				c.Write([]byte("hello"))
				p := make([]byte, 64)
				if n, err := c.Read(p); string(p[:n]) != "hello" {
					t.Errorf("read %q, %v", p[:n], err)
				}
			})
		})
	}
}

func TestDialFails(t *testing.T) {
	const wait = 30 * time.Millisecond
	nobody := netip.MustParseAddrPort("127.0.0.1:1") // a port that the kernel gives to no other test
	for _, tc := range []struct {
		name string
		to   Address
		want error
		took time.Duration // at least
	}{
		{"refused", Address{TCP: nobody}, syscall.ECONNREFUSED, 0},
		{"no such Unix socket", Address{Path: t.TempDir() + "/none"}, syscall.ENOENT, 0},
		{"path too long", Address{Path: string(make([]byte, 200))}, syscall.EINVAL, 0},
		{"no address", Address{}, syscall.ECONNREFUSED, 0},
		{"full backlog", Address{TCP: fullTCPListener(t)}, os.ErrDeadlineExceeded, wait},
		{"full backlog of a Unix socket", Address{Path: fullUnixListener(t)}, os.ErrDeadlineExceeded, wait},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := startLoop(t, Options{})
			before := descriptors()
			inTask(t, l, func() {
				began, timeout := l.Clock(), time.Minute
				if tc.took > 0 {
					timeout = tc.took
				}
				c, err := l.Dial(tc.to, timeout)
				if mustFail(t, "dial", err, tc.want); err == nil {
					c.Close()
				}
				if took := time.Duration(l.Clock() - began); took < tc.took/2 {
					t.Errorf("failed after %v, want at least %v", took, tc.took)
				}
			})
			wantOpened(t, 0, before)
		})
	}
}

// A full backlog is waited for: when there is room, Dial succeeds.
func TestDialWaitsForBacklog(t *testing.T) {
	path := t.TempDir() + "/busy.sock"
	ln, fillers := fillUnixListener(t, path)
	l := startLoop(t, Options{})
	tries := 0
	dialled := spawn(l, func() {
		c, err := l.Dial(Address{Path: path}, 0)
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	})
	eventually(t, l, "the dial waits", func() bool { tries++; return tries > 1 && l.wheel.sleep(l.now) >= 0 })
	for range fillers {
		fd, _, err := unix.Accept(ln)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
	await(t, "the dial succeeds", dialled)
}

// Who connects to a port where nobody listens may meet itself, which is not to
// be taken for a server.
func TestDialToItself(t *testing.T) {
	l := startLoop(t, Options{})
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, _ := unix.Getsockname(fd)
	if err := unix.Connect(fd, sa); err != nil {
		t.Fatal(err)
	}
	unix.SetNonblock(fd, true)
	on(t, l, func() {
		self, err := l.Adopt(fd, tcpAddr(sa).(*net.TCPAddr).AddrPort())
		if err != nil || !self.toItself() {
			t.Errorf("a socket that is connected to itself is not known to be, %v", err)
		}
	})
	_, addr := serveOn(t, l, func(c *Conn) { c.Close() })
	inTask(t, l, func() {
		c, err := l.Dial(Address{TCP: netip.MustParseAddrPort(addr)}, time.Minute)
		if err != nil || c.toItself() {
			t.Errorf("a connection to another: %v", err)
		}
		c.Close()
	})
}

// fullUnixListener is the path of a Unix socket that listens and whose backlog
// is full.
func fullUnixListener(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/full.sock"
	fillUnixListener(t, path)
	return path
}

// fillUnixListener listens at path and fills the backlog.
func fillUnixListener(t *testing.T, path string) (fd, fillers int) {
	t.Helper()
	at := &unix.SockaddrUnix{Name: path}
	fd = listenWithoutRoom(t, unix.AF_UNIX, at)
	for {
		switch err := unix.Connect(nonBlocking(t, unix.AF_UNIX), at); err {
		case nil:
			fillers++
		case unix.EAGAIN:
			return fd, fillers
		default:
			t.Fatal(err)
		}
	}
}

// fullTCPListener is an address whose kernel drops what would connect.
func fullTCPListener(t *testing.T) netip.AddrPort {
	t.Helper()
	fd := listenWithoutRoom(t, unix.AF_INET, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // more than a backlog of 0 holds
		unix.Connect(nonBlocking(t, unix.AF_INET), sa)
	}
	return tcpAddr(sa).(*net.TCPAddr).AddrPort()
}

func listenWithoutRoom(t *testing.T, family int, at unix.Sockaddr) (fd int) {
	t.Helper()
	fd = nonBlocking(t, family)
	if err := unix.Bind(fd, at); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	return fd
}

func nonBlocking(t *testing.T, family int) (fd int) {
	t.Helper()
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// A link-local address names its interface, by name or by number.
func TestZoneID(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for zone, want := range map[string]uint32{"": 0, "lo": uint32(lo.Index), "7": 7, "no such interface": 0} {
		if got := zoneID(zone); got != want {
			t.Errorf("zone %q is %d, want %d", zone, got, want)
		}
	}
}
