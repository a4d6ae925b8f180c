package worker

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"sluice/internal/segment"
)

// doorkeeper tells in the log of connections that were refused before they said what
// they want: because of their PROXY header, or in their TLS handshake. Any client can
// bring that about, so there is a line of each cause from time to time, with the number
// of connections and the latest as example.
type doorkeeper struct {
	worker  int                              // for the log
	headers [segment.ProxyHeaderCount]notice // by cause
	shunned [segment.ShunCount]notice        // likewise
}

// notice is what there is to tell of one cause.
type notice struct {
	latest atomic.Pointer[turnedAway] // any loop; nil: this process has refused none
	known  told                       // of the goroutine that calls look
}

// turnedAway is a connection that was refused. Immutable.
type turnedAway struct {
	peer     netip.AddrPort
	listener string
	name     string // that its TLS asked for
	why      error
}

// shunTellEvery is how often at most the log has a line of handshakes that failed by one
// cause: where a port is open to all there are always some.
const shunTellEvery = time.Minute

// note keeps a connection as the example. It comes before the count: look asks for it
// once that has risen.
func (n *notice) note(t *turnedAway) { n.latest.Store(t) }

// look tells of a cause that so many connections have met until now.
func (n *notice) look(now time.Duration, all uint64, tell func(n uint64, last *turnedAway)) {
	last := n.latest.Load()
	if last == nil { // those counted were refused by the process before this one, or were not refused
		n.known.shed = all
		return
	}
	if news, count := n.known.hear(now, all); news == shedding {
		tell(count, last)
	}
}

// teller is who writes what a doorkeeper has to tell.
type teller interface {
	header(cause segment.ProxyHeader, n uint64, last *turnedAway)
	shun(cause segment.Shun, n uint64, last *turnedAway)
}

// look tells what there is to tell of these loops.
func (d *doorkeeper) look(now time.Duration, loops []*segment.LoopStats, to teller) {
	for cause := range segment.ProxyHeaderCount {
		var all uint64
		for _, l := range loops {
			all += l.ProxyHeaders[cause].Load()
		}
		d.headers[cause].look(now, all, func(n uint64, last *turnedAway) { to.header(cause, n, last) })
	}
	for cause := range segment.ShunCount {
		var all uint64
		for _, l := range loops {
			all += l.Shunned[cause].Load()
		}
		d.shunned[cause].known.every = shunTellEvery
		d.shunned[cause].look(now, all, func(n uint64, last *turnedAway) { to.shun(cause, n, last) })
	}
}

// header writes a line of connections whose PROXY header is not good.
func (d *doorkeeper) header(cause segment.ProxyHeader, n uint64, last *turnedAway) {
	slog.Warn("connections without a good PROXY header are refused", "worker", d.worker, "cause", segment.ProxyHeaderNames[cause],
		"connections", n, "listener", last.listener, "latest", last.peer, "reason", last.why)
}

// shun writes a line of handshakes that have failed.
func (d *doorkeeper) shun(cause segment.Shun, n uint64, last *turnedAway) {
	about := []any{"worker", d.worker, "cause", segment.ShunNames[cause], "connections", n, "listener", last.listener, "latest", last.peer}
	if last.name != "" {
		about = append(about, "name", last.name[:min(len(last.name), mostName)])
	}
	slog.Info("TLS handshakes with clients have failed", append(about, "reason", last.why)...)
}

// mostName is as long as a name can be, RFC 1035 2.3.4, as text.
const mostName = 253
