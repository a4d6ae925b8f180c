package http3

import (
	"errors"
	"time"

	"github.com/quic-go/quic-go"
)

// strangeStream is how many frames that mean nothing a one-way stream of an unknown type
// counts for.
const strangeStream = 8

// age is the clock of the connection's calm, ns.
func (c *Conn) age() int64 { return int64(time.Since(c.began)) }

// bear takes n frames that lead to nothing; false: they are too many.
func (c *Conn) bear(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calm.Idle.Spend(int64(n), c.age())
}

// bytesPerIdle bytes of a frame of an unknown type count as much as the frame.
const bytesPerIdle = 256

// pass lets a frame of an unknown type go by (RFC 9114 9): it leads to nothing.
func (c *Conn) pass(from *source, h frameHead) error {
	if !c.bear(1 + int(min(h.length, 1<<30)/bytesPerIdle)) {
		return errLoad
	}
	return from.skip(h.length)
}

// forgive takes a request that is refused; false: they are too many.
func (c *Conn) forgive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calm.Faults.Spend(1, c.age())
}

// noteReset takes a request that has ended before its answer: by a reset of the
// client's, if why is that.
func (c *Conn) noteReset(why error) {
	var reset *quic.StreamError
	if !errors.As(why, &reset) || !reset.Remote {
		return
	}
	c.mu.Lock()
	calm := c.calm.Resets.Spend(1, c.age())
	c.mu.Unlock()
	c.server.tally(Resets)
	if !calm {
		c.lose(ExcessiveLoad, errLoad.Rule)
	}
}

// noteStall counts a stream of whose answer the client takes too little, once. Any
// goroutine.
func (s *Stream) noteStall() {
	if !s.stalled.Swap(true) {
		s.c.server.tally(Stalled)
	}
}

func (c *Conn) noteMalformed() { c.server.tally(Malformed) }
