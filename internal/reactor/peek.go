package reactor

import (
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// Peek copies into p the first bytes that have come, without taking them off the
// socket: whoever reads next gets them too. If fewer than least, which is 1 or more,
// have come it copies none and n is 0; the caller then waits by Await or Idle for more to come. io.EOF says
// that the peer has ended before.
func (c *Conn) Peek(p []byte, least int) (n int, err error) {
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.failure != nil:
		return 0, c.failure
	case !c.readable:
		return 0, nil
	}
	if !c.ended && unread(c.fd) < least {
		c.readable = false // until more comes, of which epoll tells
		return 0, nil
	}
	for {
		n, e := peek(c.fd, p)
		switch e {
		case 0:
			if n < least {
				return 0, io.EOF
			}
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, io.EOF
		default:
			return 0, opError("peek", e)
		}
	}
}
