package worker

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"sluice/internal/proxy"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/tlsconn"
	"sluice/internal/tlsterm"
)

const (
	// mostShaking is how many handshakes of a listener a loop has in progress at once
	// if the configuration sets no limit: each holds a task and some 50 KiB.
	mostShaking = 1000
	// farewell is how long what a client still sends is thrown away after its
	// handshake has failed, so that it can read why.
	farewell = time.Second
)

// handshake is a client's connection from accept to the end of its TLS handshake. It
// has no task before the client speaks, nor while others are as many as may be. Loop
// only.
type handshake struct {
	lane     *lane
	conn     *reactor.Conn
	peer     netip.AddrPort
	as       *entrance
	admitted bool // it has one of the places
	queued   bool // it waits for one
	called   bool // it is its turn
}

// shakings are the handshakes of one listener on one loop. Loop only.
type shakings struct {
	now     int          // that have a place
	waiting []*handshake // first come, first served; those that are no longer queued are passed over
}

// shake has a new connection's client shake hands before it is served. Loop only.
func (l *lane) shake(c *reactor.Conn, peer netip.AddrPort, as *entrance) {
	h := &handshake{lane: l, conn: c, peer: peer, as: as}
	l.stats.Connections.Inc()
	l.stats.Shaking.Inc()
	l.silent[h] = struct{}{}
	within := as.tls.Handshake()
	c.SetReadTimeout(within)
	c.SetWriteTimeout(within)
	if l.draining {
		h.hurry()
	}
	c.Idle(h)
}

// hurry gives a client that has said nothing yet little time.
func (h *handshake) hurry() { h.conn.SetReadTimeout(min(drainGrace, h.as.tls.Handshake())) }

// end is the end of the handshake. Whom the connection goes to has counted it again
// by then, lest a drain believes that all are gone.
func (h *handshake) end() {
	h.lane.stats.Shaking.Dec()
	h.lane.stats.Connections.Dec()
}

// Run begins the handshake: the client has spoken, or gone, or its time is over.
func (h *handshake) Run() {
	l := h.lane
	delete(l.silent, h)
	all := l.shakings[h.as.http.Name]
	if all == nil {
		all = &shakings{}
		l.shakings[h.as.http.Name] = all
	}
	if !h.admitted && all.now >= l.shakingLimit(h.as) {
		h.queued = true
		all.waiting = append(all.waiting, h)
		h.conn.Watch((*impatient)(h))
		return
	}
	if !h.admitted {
		h.admitted = true
		all.now++
	}
	if !l.rota.begins(h) {
		return
	}
	h.perform()
	all.leave(l)
}

// rota has one handshake begin in each turn of a loop: its key exchange and signature
// take 0.2 ms or, with RSA, 1 ms, and nobody else is served meanwhile. Those of a flood
// would come together, and everybody wait for all of them. Networks take turns, so that
// one which floods delays the handshakes of others by one of its own each. Loop only.
type rota struct {
	lane *lane
	last int64 // when one began, the loop's time
	next []*network
	by   map[netip.Prefix]*network // those of next
}

// network is where handshakes come from, and wait for their turn: first come, first
// served.
type network struct {
	prefix  netip.Prefix
	waiting []*handshake
}

// begins reports whether h may go on; else it runs again when it is its turn.
func (r *rota) begins(h *handshake) bool {
	now := r.lane.loop.Now()
	if h.called || len(r.next) == 0 && r.last != now {
		r.last = now
		return true
	}
	from := proxy.NetworkOf(h.peer.Addr())
	n := r.by[from]
	if n == nil {
		n = &network{prefix: from}
		r.by[from], r.next = n, append(r.next, n)
		if len(r.next) == 1 {
			r.lane.loop.Go(r)
		}
	}
	n.waiting = append(n.waiting, h)
	return false
}

// Run calls the first of the network whose turn it is.
func (r *rota) Run() {
	n := r.next[0]
	r.next[0] = nil
	r.next = r.next[1:]
	h := n.waiting[0]
	n.waiting[0] = nil
	if n.waiting = n.waiting[1:]; len(n.waiting) > 0 {
		r.next = append(r.next, n)
	} else {
		delete(r.by, n.prefix)
	}
	h.called = true
	r.lane.loop.Go(h)
	if len(r.next) > 0 {
		r.lane.loop.Go(r)
	}
}

// impatient is a handshake in the queue whose connection has ended, or whose time is
// over.
type impatient handshake

// Run gives up, unless it has just got its place.
func (i *impatient) Run() {
	if h := (*handshake)(i); h.queued {
		h.queued = false
		h.fail(h.conn.Await())
	}
}

// leave gives a place that has come free to who has waited longest.
func (s *shakings) leave(l *lane) {
	s.now--
	for len(s.waiting) > 0 {
		h := s.waiting[0]
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
		if h.queued {
			h.queued, h.admitted = false, true
			s.now++
			h.conn.Watch(nil)
			l.loop.Go(h)
			return
		}
	}
}

// shakingLimit is how many handshakes of a listener this loop may have in progress.
func (l *lane) shakingLimit(as *entrance) int {
	if most := as.tls.Handshakes(); most > 0 {
		return max(1, most/len(l.siblings))
	}
	return mostShaking
}

// perform shakes hands and has the client served.
func (h *handshake) perform() {
	stream := tlsconn.Server(h.conn, h.as.tls.Config())
	if err := stream.Handshake(); err != nil {
		h.refuse(stream, err)
		return
	}
	l := h.lane
	state := stream.ConnectionState()
	if state.NegotiatedProtocol == "" && !h.as.http1 && h.as.tcp == nil {
		h.refuse(stream, errNotChosen)
		return
	}
	l.stats.Handshakes[versionIndex(state.Version)].Inc()
	if state.DidResume {
		l.stats.Resumed.Inc()
	}
	if tlsterm.Hybrid(state.CurveID) {
		l.stats.Hybrid.Inc()
	}
	stream.SetWriteTimeout(0)
	as, secured := h.as, securedHere(&state)
	switch state.NegotiatedProtocol {
	case tlsterm.Proof: // there is nothing more to see
		l.stats.Accepted.Inc()
		stream.Linger(farewell)
	case "h2":
		l.serveHTTP2(stream, h.peer, secured, as)
	default:
		l.serve(stream, h.peer, secured, as)
	}
	h.end()
}

func versionIndex(version uint16) int {
	if version == tls.VersionTLS13 {
		return segment.TLS13
	}
	return segment.TLS12
}

// errNotChosen: over TLS HTTP/2 is spoken only by who has chosen it (RFC 9113 3.2). Its
// words are those of crypto/tls, by which its cause is known.
var errNotChosen = errors.New("tls: unsupported application protocols: the client offered none, and the listener speaks HTTP/2 only")

// notTLS answers a client that speaks HTTP where TLS is spoken.
const notTLS = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: 49\r\n\r\n" +
	"This port speaks HTTPS, and was sent plain HTTP.\n"

// refuse ends a connection whose handshake has failed.
func (h *handshake) refuse(stream *tlsconn.Stream, err error) {
	switch h.count(err, stream.ConnectionState().ServerName) {
	case segment.ShunHTTP:
		h.conn.Write([]byte(notTLS))
		h.conn.Linger(farewell)
	case segment.ShunTimeout, segment.ShunGone:
		stream.Close()
	default:
		stream.Linger(farewell)
	}
}

// fail ends a connection whose handshake never began.
func (h *handshake) fail(err error) {
	h.count(err, "")
	h.conn.Close()
}

// count notes a failure, of a client that has asked for this name, if any.
func (h *handshake) count(err error, name string) segment.Shun {
	l := h.lane
	cause := segment.ShunGone
	if err != nil {
		cause = tlsconn.CauseOf(err)
	}
	h.end()
	l.stats.Accepted.Inc()
	l.doorkeeper.shunned[cause].note(&turnedAway{h.peer, h.as.http.Name, name, err})
	l.stats.Shunned[cause].Inc()
	slog.Debug("a TLS handshake failed", "listener", h.as.http.Name, "client", h.peer, "name", name, "cause", segment.ShunNames[cause], "error", err)
	return cause
}

// Abandon closes the connection when the handshake has panicked.
func (h *handshake) Abandon() {
	l := h.lane
	h.conn.Close()
	h.end()
	l.shakings[h.as.http.Name].leave(l)
}
