package http3

import (
	"github.com/quic-go/quic-go"

	"sluice/internal/http2"
)

// openRequests are those of a connection that are not over, by their streams' numbers.
type openRequests map[quic.StreamID]*quic.Stream

// priorities are what PRIORITY_UPDATE has said of requests that are not over, or that
// have not begun: the frame comes on another stream, and so may overtake them.
type priorities map[quic.StreamID]http2.Priority

// enlist lists a request. The caller holds mu.
func (c *Conn) enlist(q *quic.Stream) {
	id := q.StreamID()
	c.next = id + 4
	if c.open == nil {
		c.open = openRequests{}
	}
	c.open[id] = q
	if p, is := c.told[id]; is {
		give(q, p)
	}
}

// delist takes it off the list. The caller holds mu.
func (c *Conn) delist(q *quic.Stream) {
	delete(c.open, q.StreamID())
	delete(c.told, q.StreamID())
}

// give has quic-go send by a priority: the most urgent first; of the same urgency those
// that are incremental by turns, the others one after the other. Requests of which
// nothing is said have turns, which is quic-go's own default: else who just loads two
// long files would see the second stand still.
func give(q *quic.Stream, p http2.Priority) { q.SetPriority(int8(p.Urgency), p.Incremental) }

// asked takes the priority that a request names in its head. PRIORITY_UPDATE goes before
// that (RFC 9218 7).
func (c *Conn) asked(q *quic.Stream, p http2.Priority) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, is := c.told[q.StreamID()]; !is {
		give(q, p)
	}
}

// readPriority reads PRIORITY_UPDATE (RFC 9218 7.2).
func (c *Conn) readPriority(from *source, h frameHead) error {
	if h.length > maxPriority {
		return c.pass(from, h)
	}
	if !c.bear(1) {
		return errLoad
	}
	b, err := from.whole(int(h.length))
	if err != nil {
		return err
	}
	id, n := readVarint(b)
	switch {
	case n == 0:
		return errFrame
	case id%4 != 0: // RFC 9000 2.1: not a client's, or one-way
		return errPriority
	}
	c.tell(quic.StreamID(id), http2.ParsePriority(b[n:]))
	return nil
}

// maxPriority is how many bytes a PRIORITY_UPDATE may have; of a longer one nothing is
// taken.
const maxPriority = 256

// tell gives a request its priority now, or once it begins: of those that are to come as
// many are kept in mind as may be open at once.
func (c *Conn) tell(id quic.StreamID, p http2.Priority) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.open[id]
	if q == nil && (id < c.next || id >= c.next+4*quic.StreamID(c.cfg.Streams)) {
		return
	}
	if c.told == nil {
		c.told = priorities{}
	}
	c.told[id] = p
	if q != nil {
		give(q, p)
	}
}
