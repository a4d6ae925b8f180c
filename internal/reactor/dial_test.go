package reactor

import (
	"golang.org/x/sys/unix"
	"testing"
)

// fullUnixListener is the path of a Unix socket that listens and whose backlog
// is full.
func fullUnixListener(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/full.sock"
	at := &unix.SockaddrUnix{Name: path}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, at); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for err = nil; err == nil; {
		filler, _ := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		t.Cleanup(func() { unix.Close(filler) })
		err = unix.Connect(filler, at)
	}
	if err != unix.EAGAIN {
		t.Fatal(err)
	}
	return path
}
