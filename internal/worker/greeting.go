package worker

import (
	"errors"
	"io"
	"net/netip"
	"slices"
	"time"

	"sluice/internal/config"
	"sluice/internal/proxyproto"
	"sluice/internal/reactor"
	"sluice/internal/segment"
)

// A listener with proxy_protocol asks each connection for a PROXY header, before TLS
// and before anything else. The header is only looked at until it is whole, and then
// exactly its bytes are taken: what follows belongs to others.

// greeting is a connection whose header has not come yet. It holds neither task nor
// buffer. Loop only.
type greeting struct {
	lane  *lane
	conn  *reactor.Conn
	as    *entrance
	need  int   // bytes that a look is worth
	until int64 // when the patience ends, executor time
}

// drainGrace is how long a header may take that has not come when draining begins.
const drainGrace = time.Second

// greet awaits the PROXY header of c, or refuses it at once if it may send none.
func (l *lane) greet(c *reactor.Conn, as *entrance) {
	if !slices.ContainsFunc(as.trust, func(p config.Prefix) bool { return p.Contains(c.Peer().Addr()) }) {
		l.stats.Accepted.Inc()
		l.turnAway(segment.HeaderUntrusted, c, as, errUntrusted)
		return
	}
	g := &greeting{lane: l, conn: c, as: as, need: 1}
	l.greetings[g] = struct{}{}
	l.stats.Connections.Inc()
	g.wait(as.patience)
	c.Idle(g)
}

// wait allows the header this much time from now.
func (g *greeting) wait(d time.Duration) {
	g.until = g.lane.loop.Now() + int64(d)
	g.conn.SetReadTimeout(d)
}

// Run is a task: something has come, or the time is over.
func (g *greeting) Run() {
	l, c := g.lane, g.conn
	if l.scratch == nil {
		l.scratch = make([]byte, proxyproto.MaxBytes)
	}
	var h proxyproto.Header
	n, err := c.Peek(l.scratch, g.need)
	if n > 0 {
		n, err = g.read(l.scratch[:n], &h)
	}
	switch {
	case err == nil && n == 0 && l.loop.Now() < g.until:
		c.Idle(g)
		return
	case err == nil && n == 0:
		err = errLate
	case err == io.EOF:
		err = errEnded
	}
	delete(l.greetings, g)
	defer l.stats.Connections.Dec() // whom it goes to has counted it again by then
	if err == nil {
		l.stats.ProxyHeaders[segment.HeaderTaken].Inc()
		pose(c, &h)
		l.begin(c, c.Peer(), securedBefore(&h), g.as)
		return
	}
	l.stats.Accepted.Inc()
	l.turnAway(causeOf(err), c, g.as, err)
}

// read takes the header off the connection, if b begins with the whole of it. n is 0
// if it does not.
func (g *greeting) read(b []byte, h *proxyproto.Header) (n int, err error) {
	n, err = proxyproto.Parse(b, h)
	switch {
	case err != nil:
		return 0, err
	case n > len(b):
		g.need = n
		return 0, nil
	}
	return io.ReadFull(g.conn, b[:n]) // the same bytes again: they are there
}

// Abandon closes the connection of a task that has panicked.
func (g *greeting) Abandon() {
	g.conn.Close()
	delete(g.lane.greetings, g)
	g.lane.stats.Connections.Dec()
}

// pose has the connection tell the addresses of the client's. Of one that the header
// does not tell nothing is known: it is not the peer, which is trusted.
func pose(c *reactor.Conn, h *proxyproto.Header) {
	switch h.Origin {
	case proxyproto.Proxied:
		c.Pose(h.Source, h.Destination)
	case proxyproto.Unknown:
		c.Pose(netip.AddrPort{}, netip.AddrPort{})
	}
}

// Why a connection is refused, besides a *proxyproto.Fault.
var (
	errUntrusted = errors.New("its address is not in trust")
	errEnded     = errors.New("it ended before a PROXY header was whole")
	errLate      = errors.New("no whole PROXY header came in timeouts.header")
)

func causeOf(err error) segment.ProxyHeader {
	if _, bad := err.(*proxyproto.Fault); bad {
		return segment.HeaderInvalid
	}
	return segment.HeaderMissing
}

// turnAway closes a connection because of its header, and leaves word for the log.
func (l *lane) turnAway(cause segment.ProxyHeader, c *reactor.Conn, as *entrance, why error) {
	l.doorkeeper.headers[cause].note(&turnedAway{peer: c.Peer(), listener: as.http.Name, why: why})
	l.stats.ProxyHeaders[cause].Inc()
	c.Close()
}
