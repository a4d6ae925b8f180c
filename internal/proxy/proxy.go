package proxy

import (
	"net/netip"
	"time"

	"sluice/internal/accesslog"
	"sluice/internal/admission"
	"sluice/internal/http2"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/tunnel"
	"sluice/internal/upstream"
)

// Place says where a loop runs, for logs and for X-Sluice-Placement.
type Place struct{ Worker, Node, Loop int }

// Proxy is the traffic of one loop. Loop only.
type Proxy struct {
	exec     reactor.Executor
	pool     *upstream.Pool
	desk     *admission.Desk // nil: no snapshot has lines
	stats    *segment.LoopStats
	log      *accesslog.Writer // nil: off
	place    Place
	snapshot *Snapshot

	rotations []*upstream.Rotation // by farm of the snapshot
	buffers   buffers
	tunnels   *tunnel.Tunnels
	multi     *http2.Server                   // for connections that come from now on
	clients   map[time.Duration]*http2.Client // for connections to servers, the same; by how long those may be idle
	spare     []*exchange
	lent      int        // exchanges that somebody has
	streams   []*session // spare ones, of streams
	ids       identities
	date      date
	sessions  session // head of the ring of all sessions
	draining  bool
	dawdlers  dawdlers
	proofs    map[string]string // what authorities are answered, by path
	entry     accesslog.Entry   // under construction
	wallBase  int64             // Unix ns at executor time 0
	wallUntil int64             // when wallBase is read again
}

// New makes the traffic of a loop. Nothing is served before Apply.
func New(exec reactor.Executor, pool *upstream.Pool, desk *admission.Desk, stats *segment.LoopStats, place Place) *Proxy {
	p := &Proxy{exec: exec, pool: pool, desk: desk, stats: stats, place: place, ids: newIdentities(), tunnels: tunnel.New(exec, stats)}
	p.sessions.next, p.sessions.prev = &p.sessions, &p.sessions
	return p
}

// LogTo has requests logged by w from now on; nil: not at all.
func (p *Proxy) LogTo(w *accesslog.Writer) { p.log = w }

// Apply makes s the configuration of every exchange that begins from now on.
func (p *Proxy) Apply(s *Snapshot) {
	p.snapshot = s
	p.rotations = nil // exchanges in progress keep the old ones
	for _, f := range s.farms {
		p.rotations = append(p.rotations, upstream.NewRotation(f))
	}
	p.buffers.fit(max(s.limits.Head, s.answer.Head))
	p.multi, p.clients = p.newHTTP2(s), map[time.Duration]*http2.Client{}
}

// Prove has an authority that asks for one of these paths without TLS answered: so it
// sees that a name is ours (RFC 8555 8.3). The map is not changed.
func (p *Proxy) Prove(answers map[string]string) { p.proofs = answers }

// wall is the Unix time, in ns, of executor time at. The base is read anew each
// time the clock may have been set.
func (p *Proxy) wall(at int64) int64 {
	if now := p.exec.Now(); now >= p.wallUntil {
		p.wallBase = time.Now().UnixNano() - now
		p.wallUntil = now + int64(time.Second)
	}
	return p.wallBase + at
}

// Serve takes a connection from a client at peer that was accepted by listener.
func (p *Proxy) Serve(conn reactor.Stream, peer netip.AddrPort, secured *Secured, listener *Listener) {
	s := p.open(conn, peer, secured, listener)
	conn.SetStall(time.Duration(p.snapshot.timeouts.Write))
	s.waitFor(time.Duration(p.snapshot.timeouts.Header))
	s.rest()
	if !conn.Idle(s) {
		p.exec.Go(s)
	}
}

// open makes a client's connection known.
func (p *Proxy) open(conn reactor.Stream, peer netip.AddrPort, secured *Secured, listener *Listener) *session {
	s := &session{proxy: p, conn: conn, peer: peer, secured: secured, listener: listener}
	s.next, s.prev = &p.sessions, p.sessions.prev
	s.prev.next, s.next.prev = s, s
	p.stats.Accepted.Inc()
	p.stats.Connections.Inc()
	return s
}

// Listener is what a session must know of the socket that it came from.
// Immutable.
type Listener struct {
	Name   string
	Port   []byte // as X-Forwarded-Port says it
	Secure bool   // its clients come by TLS
	HTTP2  bool   // they may speak HTTP/2 without having agreed on it (RFC 9113 3.3)
	HSTS   []byte // Strict-Transport-Security of every answer, RFC 6797; nil: none
	AltSvc []byte // Alt-Svc of every answer that does not come by HTTP/3, RFC 7838; nil: none
	// Redirect sends clients to the same address by https: "https", or "https:" and
	// the port. Empty: they are served.
	Redirect string
}

// Secured is the TLS of one client's connection, whether it ends here or at the proxy
// before, which told of it. Immutable.
type Secured struct {
	TLS  accesslog.TLS
	Cert []byte // that the client has shown here, and that was found good: DER in base64; nil: none
	Port []byte // that it has connected to, if that is another machine's; nil: the listener's
}

// secure reports whether the client speaks TLS.
func (s *session) secure() bool { return s.listener.Secure || s.secured != nil }

// scheme is how the client's address of a resource begins.
func (s *session) scheme() []byte {
	if s.secure() {
		return schemeHTTPS
	}
	return schemeHTTP
}

// clientCert is the certificate that the client has shown; nil: none.
func (s *session) clientCert() []byte {
	if s.secured == nil {
		return nil
	}
	return s.secured.Cert
}

// port is the one that the client has connected to.
func (s *session) port() []byte {
	if s.secured != nil && s.secured.Port != nil {
		return s.secured.Port
	}
	return s.listener.Port
}

var schemeHTTP, schemeHTTPS = []byte("http"), []byte("https")

// drainGrace is how long an idle connection stays open when draining begins, and
// how long it stays idle at most after: a request that is under way when the
// connection is closed would be lost, and most come within this time.
const drainGrace = time.Second

// Drain ends sessions as soon as that loses nothing: those with a request after
// its answer, idle ones after a moment. All are gone when LoopStats.Connections is 0.
func (p *Proxy) Drain() {
	p.draining = true
	for s := p.sessions.next; s != &p.sessions; s = s.next {
		switch {
		case s.carrier != nil:
			s.carrier.Drain()
		case s.idle && s.began == 0:
			s.wait()
		}
	}
}

func (p *Proxy) getExchange() *exchange {
	p.lent++
	if n := len(p.spare); n > 0 {
		x := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return x
	}
	return newExchange(p)
}

// putExchange takes back an exchange that holds nothing any more.
func (p *Proxy) putExchange(x *exchange) {
	p.lent--
	if cap(x.first) > smallBytes { // content of a request that was awaited
		x.first, x.head = nil, nil
	}
	x.req.Reset() // the next may time out before it is read: this one must not be seen through it
	if len(p.spare) < kept {
		p.spare = append(p.spare, x)
	}
}
