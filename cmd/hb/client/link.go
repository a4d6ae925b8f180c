package client

import (
	"net"
	"time"
)

// bufferBytes holds the head of an answer, and what a read takes of a body. A
// head with a longer line is a bad response.
const bufferBytes = 16 << 10

// past is a deadline that has gone by; the zero time would mean none.
var past = time.Unix(1, 0)

// link is a client's connection to one remote, open or not. Its buffer outlives
// the connection.
type link struct {
	remote string // address and whether it is TLS
	conn   net.Conn
	armed  time.Time // the deadline that is set on conn
	keep   bool      // the last answer leaves the connection usable

	buf   []byte
	r, w  int       // buf[r:w] is not yet consumed
	fills int       // reads for the current answer
	first time.Time // when the first of them returned
}

// link finds the client's link for a request.
func (c *Client) link(r *Request) *link {
	for _, l := range c.links {
		if l.remote == r.remote {
			return l
		}
	}
	l := &link{remote: r.remote, buf: make([]byte, bufferBytes)}
	c.mu.Lock()
	c.links = append(c.links, l)
	c.mu.Unlock()
	return l
}

// open connects.
func (c *Client) open(l *link, r *Request, a *Answer) error {
	conn, err := c.connect(r, a)
	if err != nil {
		return err
	}
	c.adopt(l, conn)
	return nil
}

// adopt gives a link its new connection.
func (c *Client) adopt(l *link, conn net.Conn) {
	c.opts.Open.up()
	c.mu.Lock()
	defer c.mu.Unlock()
	l.conn, l.armed = conn, time.Time{}
	l.r, l.w = 0, 0
	if c.stopped {
		conn.SetDeadline(past)
	}
}

// arm sees to it that the connection has a deadline, Timeout or up to a quarter
// more away. The slack spares a timer's change with almost every request.
func (c *Client) arm(l *link, now time.Time) {
	if l.armed.Sub(now) >= c.opts.Timeout {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	l.armed = now.Add(c.opts.Timeout + c.opts.Timeout/4)
	l.conn.SetDeadline(l.armed)
}

// hangUp closes a link's connection, if it has one.
func (c *Client) hangUp(l *link) {
	if l.conn == nil {
		return
	}
	c.mu.Lock()
	conn := l.conn
	l.conn = nil
	c.mu.Unlock()
	conn.Close()
	c.opts.Open.down()
}

// begin forgets the answer before.
func (l *link) begin() { l.fills, l.keep = 0, true }

// silent reports whether no byte of an answer has come.
func (l *link) silent() bool { return l.fills == 0 }

func (l *link) write(request []byte, a *Answer) error {
	n, err := l.conn.Write(request)
	a.Sent += int64(n)
	return err
}

// fill reads what has come. A full buffer is made room in by moving what is not
// consumed to its front.
func (l *link) fill(a *Answer) error {
	if l.r == l.w {
		l.r, l.w = 0, 0
	} else if l.w == len(l.buf) {
		if l.r == 0 {
			return badResponse("a line of the head is longer than 16 KiB")
		}
		l.w = copy(l.buf, l.buf[l.r:l.w])
		l.r = 0
	}
	n, err := l.conn.Read(l.buf[l.w:])
	if n == 0 && err != nil {
		return err
	}
	if l.fills == 0 {
		l.first = time.Now()
	}
	l.fills++
	l.w += n
	a.Received += int64(n)
	return nil
}
