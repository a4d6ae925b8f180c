package reactor

import (
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

// Buffered is a Conn for use under crypto/tls, whose Conn holds a mutex while it
// writes: if that write parked, a second task that came to the mutex would stop
// the whole loop. So Write only gathers, and Flush, called when tls holds
// nothing, sends and may park. What is gathered lies in a borrowed buffer: there
// is none while nothing is.
type Buffered struct {
	*Conn
	gathered *gather // not yet sent; nil: nothing is
	flushing bool
	broken   error // of the flush that failed: a part of the stream is missing
}

// gather is bytes to be sent.
type gather struct{ b []byte }

const (
	gatherBytes = 68 << 10 // four records of 16 KiB and what frames them
	keptGather  = 2 * gatherBytes
)

// gathers are spare buffers. What was in them had been encrypted.
var gathers = sync.Pool{New: func() any { return &gather{make([]byte, 0, gatherBytes)} }}

func putGather(g *gather) {
	if cap(g.b) <= keptGather {
		g.b = g.b[:0]
		gathers.Put(g)
	}
}

// Buffer wraps c.
func Buffer(c *Conn) *Buffered { return &Buffered{Conn: c} }

// Write gathers p. It never parks and fails only once the connection has.
func (b *Buffered) Write(p []byte) (int, error) {
	switch {
	case b.failure != nil:
		return 0, b.failure
	case b.broken != nil:
		return 0, b.broken
	case b.closed:
		return 0, net.ErrClosed
	}
	if b.gathered == nil {
		b.gathered = gathers.Get().(*gather)
	}
	b.gathered.b = append(b.gathered.b, p...)
	return len(p), nil
}

// Read sends what was gathered, since the answer to it may be what is awaited
// (the handshake is written by Read's caller), and reads. A flush that fails
// does not keep it from reading what the peer has said before.
func (b *Buffered) Read(p []byte) (int, error) {
	b.Flush()
	return b.Conn.Read(p)
}

// Pending is how many bytes wait for Flush: who writes much flushes when it
// grows past what one wants to hold.
func (b *Buffered) Pending() int {
	if b.gathered == nil {
		return 0
	}
	return len(b.gathered.b)
}

// Flush sends what was gathered. If another task is flushing, that one sends it.
func (b *Buffered) Flush() error {
	if b.flushing {
		return nil
	}
	b.flushing = true
	defer func() { b.flushing = false }()
	for b.broken == nil && b.gathered != nil {
		out := b.gathered
		b.gathered = nil
		_, b.broken = b.Conn.Write(out.b)
		putGather(out)
	}
	return b.broken
}

// Push sends what the kernel takes at once of what was gathered, and keeps the
// rest for Flush. It never parks.
func (b *Buffered) Push() {
	if b.gathered == nil || b.flushing || b.broken != nil || b.failure != nil || b.closed || !b.writable {
		return
	}
	g := b.gathered
	n, e := send(b.fd, g.b)
	switch {
	case e == unix.EAGAIN:
		b.writable = false
	case e == unix.EINTR:
	case e != 0:
		b.broken = opError("write", e)
	default:
		g.b = g.b[:copy(g.b, g.b[n:])]
	}
	if len(g.b) == 0 {
		b.gathered = nil
		putGather(g)
	}
}

// Close closes the connection and gives back what was gathered.
func (b *Buffered) Close() error {
	err := b.Conn.Close()
	if g := b.gathered; g != nil && !b.flushing {
		b.gathered = nil
		putGather(g)
	}
	return err
}
