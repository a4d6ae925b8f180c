package tcp

import (
	"net/netip"
	"time"

	"sluice/internal/accesslog"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/sni"
	"sluice/internal/tunnel"
	"sluice/internal/upstream"
)

// Place says where a loop runs, for logs.
type Place struct{ Worker, Node, Loop int }

// Service is the raw TCP of one loop. Loop only.
type Service struct {
	exec    reactor.Executor
	pool    *upstream.Pool
	stats   *segment.LoopStats
	place   Place
	tunnels *tunnel.Tunnels
	log     *accesslog.Writer // nil: off
	entry   accesslog.Entry   // under construction

	turns    map[*upstream.Farm]*upstream.Rotation
	waiting  map[*link]struct{} // for a ClientHello
	scratch  []byte             // for bytes that are looked at; nil: never used
	draining bool
}

// New makes the raw TCP of a loop.
func New(exec reactor.Executor, pool *upstream.Pool, stats *segment.LoopStats, place Place) *Service {
	return &Service{
		exec: exec, pool: pool, stats: stats, place: place, tunnels: tunnel.New(exec, stats),
		turns: map[*upstream.Farm]*upstream.Rotation{}, waiting: map[*link]struct{}{},
	}
}

// LogTo has connections logged by w from now on; nil: not at all.
func (s *Service) LogTo(w *accesslog.Writer) { s.log = w }

// Renew forgets the farms of the configuration before.
func (s *Service) Renew() { clear(s.turns) }

// rotation is this loop's place in a farm's order.
func (s *Service) rotation(f *upstream.Farm) *upstream.Rotation {
	r := s.turns[f]
	if r == nil {
		r = upstream.NewRotation(f)
		s.turns[f] = r
	}
	return r
}

// drainGrace is how long a ClientHello may take that is not complete when draining
// begins.
const drainGrace = time.Second

// Drain gives clients that have not said whom they want little time. Tunnels go on: only
// their ends know when nothing is lost.
func (s *Service) Drain() {
	s.draining = true
	for l := range s.waiting {
		l.wait(drainGrace)
	}
}

// Serve takes a connection from a client at peer that was accepted by as. secured is
// its TLS, whether that ends here or has ended before; nil: it speaks without, or the
// TLS goes through.
func (s *Service) Serve(conn reactor.Stream, peer netip.AddrPort, secured *accesslog.TLS, as *Listener) {
	now := s.exec.Now()
	l := &link{s: s, conn: conn, peer: peer, secured: secured, as: as, began: now}
	s.stats.Accepted.Inc()
	s.stats.Connections.Inc()
	if !as.enter() {
		l.refuse(partySluice, "connections", segment.NoServer, nil)
		return
	}
	l.entered = true
	l.plain, _ = conn.(*reactor.Conn)
	if secured != nil {
		l.name = lower([]byte(secured.SNI))
	}
	if secured != nil || l.plain == nil || !as.names {
		s.exec.Go(l)
		return
	}
	l.need = 1
	s.waiting[l] = struct{}{}
	if l.wait(as.header); s.draining {
		l.wait(drainGrace)
	}
	l.plain.Idle(l)
}

// look is the buffer for what a client has sent.
func (s *Service) look() []byte {
	if s.scratch == nil {
		s.scratch = make([]byte, sni.MaxBytes)
	}
	return s.scratch
}
