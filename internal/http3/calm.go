package http3

import (
	"errors"
	"time"

	"github.com/quic-go/quic-go"
)

// A connection's budgets of what leads to nothing (RFC 9114 10.5): so much at once,
// and once more each pause.
const (
	// A client may reset so many requests before their answer: a browser that leaves a
	// page resets some hundred, once.
	mostResets = 1000
	resetPause = 30 * time.Millisecond

	// And may have so many refused.
	mostFaults = 100
	faultPause = 100 * time.Millisecond

	// And may send so many frames and streams that mean nothing.
	mostIdle  = 2000
	idlePause = 5 * time.Millisecond

	// And gets back so many of these for each request.
	idlePerStream = 8
)

// budget is how often something may happen.
type budget struct {
	spent int64
	since time.Time // when spent was brought up to date
}

// spend takes n of most; false: they are not left.
func (b *budget) spend(n, most int64, now time.Time, pause time.Duration) bool {
	if back := int64(now.Sub(b.since) / pause); back > 0 {
		b.spent = max(0, b.spent-back)
		b.since = now
	}
	b.spent += n
	return b.spent <= most
}

// calm is what a connection's client has spent. Guarded by Conn.mu.
type calm struct{ resets, faults, idle budget }

// bear takes n frames that lead to nothing; false: they are too many.
func (c *Conn) bear(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calm.idle.spend(int64(n), mostIdle, time.Now(), idlePause)
}

// forgive takes a request that is refused; false: they are too many.
func (c *Conn) forgive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calm.faults.spend(1, mostFaults, time.Now(), faultPause)
}

// noteReset takes a request that has ended before its answer: by a reset of the
// client's, if why is that.
func (c *Conn) noteReset(why error) {
	var reset *quic.StreamError
	if !errors.As(why, &reset) || !reset.Remote {
		return
	}
	c.mu.Lock()
	calm := c.calm.resets.spend(1, mostResets, time.Now(), resetPause)
	c.mu.Unlock()
	c.server.tally(Resets)
	if !calm {
		c.lose(ExcessiveLoad, errLoad.Rule)
	}
}

func (c *Conn) noteMalformed() { c.server.tally(Malformed) }
