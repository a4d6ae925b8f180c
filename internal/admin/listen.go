package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// maxConnections bounds the open admin connections. Scrapers and people need a
// few; beyond this many the next waits in the kernel's queue.
const maxConnections = 64

// socketMode of a Unix socket: who may reload is who runs Sluice.
const socketMode = 0o600

// probeTimeout bounds the question whether somebody listens on an old socket.
const probeTimeout = time.Second

// open listens on address: host:port, or unix:PATH.
func open(address string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, "unix:")
	var (
		l   net.Listener
		err error
	)
	if isUnix {
		l, err = openUnix(path)
	} else {
		l, err = net.Listen("tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("admin.listen %q: %w%s", address, err, cure(err))
	}
	return &boundedListener{Listener: l, free: make(chan struct{}, maxConnections)}, nil
}

// cure says what the operator can do about a failed listen.
func cure(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; another program uses it: choose another address by admin.listen or --admin"
	case errors.Is(err, syscall.EACCES):
		return "; choose a port above 1023 or a directory that may be written"
	}
	return ""
}

// openUnix listens on path. A socket that a dead process left there is replaced;
// one that answers is not.
func openUnix(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, errors.New("a file that is no socket has this name")
		}
		if c, err := net.DialTimeout("unix", path, probeTimeout); err == nil {
			c.Close()
			return nil, os.NewSyscallError("bind", syscall.EADDRINUSE)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	lc := net.ListenConfig{Control: restrict}
	return lc.Listen(context.Background(), "unix", path)
}

// restrict sets the mode of a socket before it is bound. Linux gives the file the
// mode of the socket's own inode (unix_bind_bsd in net/unix/af_unix.c), so that
// there is no moment at which others may connect, as there is with chmod after.
func restrict(_, _ string, raw syscall.RawConn) error {
	var modeErr error
	err := raw.Control(func(fd uintptr) { modeErr = unix.Fchmod(int(fd), socketMode) })
	return errors.Join(err, modeErr)
}

// boundedListener keeps at most cap(free) accepted connections open.
type boundedListener struct {
	net.Listener
	free chan struct{} // one element for each open connection
}

func (l *boundedListener) Accept() (net.Conn, error) {
	l.free <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &boundedConn{Conn: c, put: sync.OnceFunc(func() { <-l.free })}, nil
}

// boundedConn gives its place back when it is closed for the first time.
type boundedConn struct {
	net.Conn
	put func()
}

func (c *boundedConn) Close() error {
	defer c.put()
	return c.Conn.Close()
}
