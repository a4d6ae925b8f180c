package reactor

import (
	"time"

	"golang.org/x/sys/unix"
)

// lingerBytes is the most that is read and thrown away before a connection is
// closed regardless: enough for an upload that was refused in its first moments.
const lingerBytes = 8 << 20

// mostDismissed connections of a loop wait at once for their peer's request, so
// that a flood which is turned away costs little.
const mostDismissed = 64

// lingering is a Conn that only reads to throw away. It has no task while the
// peer is silent.
type lingering struct {
	*Conn
	left      int
	farewell  []byte // to be sent when the peer has sent something, or in the end; nil: nothing
	dismissed bool   // counted in Loop.denied
}

// Linger implements Stream. The caller must not touch the connection again.
func (c *Conn) Linger(d time.Duration) {
	if c.closed {
		return
	}
	if c.hung || c.failure != nil || d <= 0 {
		c.Close()
		return
	}
	shutdownWrite(c.fd)
	c.hangup = nil
	c.SetWriteTimeout(0)
	c.SetReadTimeout(d)
	c.Idle(&lingering{Conn: c, left: lingerBytes})
}

// Dismiss turns a new connection away: it sends farewell, which must fit an empty
// socket buffer, as the answer to the peer's first bytes or after d, throws away
// what arrives until then, and closes. Some clients take what comes before they
// have asked for a fault. With d <= 0, and when many connections of the loop wait
// already, it does all that at once, and a peer that sends after may miss the
// farewell. The caller must not touch the connection again.
func (c *Conn) Dismiss(farewell []byte, d time.Duration) {
	if d <= 0 || c.loop.denied >= mostDismissed {
		send(c.fd, farewell) // without an answer if it fails: there is no time for more
		c.Close()
		return
	}
	c.loop.denied++
	c.SetReadTimeout(d)
	c.Idle(&lingering{Conn: c, left: lingerBytes, farewell: farewell, dismissed: true})
}

// Reset closes the connection by RST, which the peer's read reports as an error:
// for content that ends with its connection and is not whole (RFC 9112 8). What
// the kernel has not sent yet is lost.
func (c *Conn) Reset() {
	if !c.closed {
		unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // socket(7)
		c.Close()
	}
}

// Run throws away what is there; at the end of the stream, of the time or of the
// patience it closes.
func (g *lingering) Run() {
	c := g.Conn
	if c.closed {
		return
	}
	if g.farewell != nil {
		send(c.fd, g.farewell)
		shutdownWrite(c.fd)
		g.farewell = nil
	}
	scratch := c.loop.trash()
	for c.readable && !c.closed {
		n, e := recv(c.fd, scratch)
		if e == unix.EAGAIN && !c.ended {
			c.readable = false
			break
		}
		g.left -= n
		if e != 0 || n == 0 || g.left <= 0 {
			g.end()
			return
		}
		c.loop.spent(n)
	}
	if c.loop.now >= c.readBy {
		g.end()
		return
	}
	c.Idle(g)
}

func (g *lingering) end() {
	if g.dismissed {
		g.loop.denied--
	}
	g.Close()
}

func (l *Loop) trash() []byte {
	if l.scratch == nil {
		l.scratch = make([]byte, 64<<10)
	}
	return l.scratch
}
