package reactor

// Buffered is a Conn for use under crypto/tls, whose Conn holds a mutex while it
// writes: if that write parked, a second task that came to the mutex would stop
// the whole loop. So Write only gathers, and Flush, called when tls holds
// nothing, sends and may park.
type Buffered struct {
	*Conn
	gathered []byte // not yet sent
	spare    []byte // the other buffer, while one is being sent
	flushing bool
	broken   error // of the flush that failed: a part of the stream is missing
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
	}
	b.gathered = append(b.gathered, p...)
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
func (b *Buffered) Pending() int { return len(b.gathered) }

// Flush sends what was gathered. If another task is flushing, that one sends it.
func (b *Buffered) Flush() error {
	if b.flushing {
		return nil
	}
	b.flushing = true
	defer func() { b.flushing = false }()
	for b.broken == nil && len(b.gathered) > 0 {
		out := b.gathered
		b.gathered = b.spare[:0]
		_, b.broken = b.Conn.Write(out)
		b.spare = out
	}
	return b.broken
}
