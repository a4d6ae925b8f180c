package reactor

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Address is where to connect to: a TCP address or, if Path is set, a Unix
// socket.
type Address struct {
	TCP  netip.AddrPort
	Path string
}

// Dial connects to a, waiting up to timeout (0: for ever). It runs in a task.
// Errors unwrap to a syscall.Errno, os.ErrDeadlineExceeded or, when the loop
// ends, net.ErrClosed.
func (l *Loop) Dial(a Address, timeout time.Duration) (*Conn, error) {
	family, sa := a.sockaddr()
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if family != unix.AF_UNIX {
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	err = unix.Connect(fd, sa)
	for until := l.now + int64(timeout); err == unix.EAGAIN && !l.closing; err = unix.Connect(fd, sa) {
		if timeout > 0 && l.now >= until {
			closeFD(fd)
			return nil, os.ErrDeadlineExceeded
		}
		l.NewSignal().Wait(fullBacklogPause)
	}
	if err != nil && err != unix.EINPROGRESS && !l.closing {
		closeFD(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	c, adoptErr := l.Adopt(fd, a.TCP)
	if adoptErr != nil {
		return nil, adoptErr
	}
	if err == unix.EINPROGRESS {
		err = c.awaitConnected(timeout)
	}
	if err == nil && c.toItself() {
		err = os.NewSyscallError("connect", unix.ECONNREFUSED)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// fullBacklogPause is the wait before another try at a Unix socket whose backlog
// is full: unlike TCP, the kernel does not try again by itself (EAGAIN, unix(7)).
const fullBacklogPause = 20 * time.Millisecond

func (c *Conn) awaitConnected(timeout time.Duration) error {
	c.writable = false
	c.SetWriteTimeout(timeout)
	defer c.SetWriteTimeout(0)
	if err := c.awaitWritable(); err != nil {
		return err
	}
	e, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && e != 0 {
		err = unix.Errno(e)
	}
	return os.NewSyscallError("connect", err)
}

// toItself reports whether a socket has met itself: if nobody listens at a port,
// the kernel may give that very port to the socket that connects to it
// (simultaneous open, RFC 9293 3.5).
func (c *Conn) toItself() bool {
	return c.peer.IsValid() && c.LocalAddr().String() == c.peer.String()
}

func (a Address) sockaddr() (family int, sa unix.Sockaddr) {
	if a.Path != "" {
		return unix.AF_UNIX, &unix.SockaddrUnix{Name: a.Path}
	}
	ip := a.TCP.Addr()
	if ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.TCP.Port()), Addr: ip.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.TCP.Port()), Addr: ip.As16(), ZoneId: zoneID(ip.Zone())}
}

// zoneID is the index of the interface that zone names; 0 if there is none.
func zoneID(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if named, err := net.InterfaceByName(zone); err == nil {
		return uint32(named.Index)
	}
	id, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(id)
}

// String is the address as an operator writes it.
func (a Address) String() string {
	if a.Path != "" {
		return "unix:" + a.Path
	}
	return a.TCP.String()
}
