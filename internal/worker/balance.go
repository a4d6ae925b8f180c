package worker

import (
	"net/netip"

	"sluice/internal/reactor"
)

// The kernel gives a connection to one of the worker's loops without a look at what
// each has already: by chance, or by the CPU that received it. If a loop has
// clearly more than another it hands what it accepts to that one, before anything
// is read.

const (
	// handOverFrom is how many connections more than the other a loop must have, and
	// handOverPart what part of the other's; both are exceeded. By chance alone loops
	// differ by less: n connections on each by some √2n.
	handOverFrom = 16
	handOverPart = 4 // a quarter

	// lookEach is how many connections a loop takes that found nobody with clearly
	// fewer before it looks again, since a look costs a line of memory for each
	// sibling, which that is writing to.
	lookEach = 8
)

// clearlyMore tells whether a loop with own connections should hand a new one to a
// loop that has others.
func clearlyMore(own, others int64) bool {
	more := own - others
	return more > handOverFrom && more*handOverPart > others
}

// handOver gives c to the lane of the worker that has the fewest connections, if
// this one has clearly more, and reports whether it has. Whoever drains hands
// nothing over. Loop only.
func (l *lane) handOver(c *reactor.Conn, as *entrance) bool {
	own := l.load()
	if own <= handOverFrom || l.draining {
		return false
	}
	if l.unlooked > 0 {
		l.unlooked--
		return false
	}
	to, least := l, own
	for _, sibling := range l.siblings {
		if load := sibling.load(); load < least {
			to, least = sibling, load
		}
	}
	if !clearlyMore(own, least) {
		l.unlooked = lookEach
		return false
	}
	l.stats.HandedOver.Inc()
	to.arriving.Add(1)
	peer, fd := c.Peer(), c.Detach()
	to.loop.Submit(func() { to.arrive(fd, peer, as) })
	return true
}

// load is the connections that a lane has, and those on their way to it. Any
// goroutine.
func (l *lane) load() int64 {
	return l.arriving.Load() + l.stats.Connections.Load() // in this order: one that arrives meanwhile is counted twice, not never
}

// arrive takes a connection that a sibling has accepted. Loop only.
func (l *lane) arrive(fd int, peer netip.AddrPort, as *entrance) {
	defer l.arriving.Add(-1)
	c, err := l.loop.Adopt(fd, peer)
	if err != nil {
		return // no memory; it is closed, as if it had not been accepted
	}
	l.enter(c, as)
}
