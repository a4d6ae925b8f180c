package upstream

import (
	"errors"
	"os"
	"time"

	"sluice/internal/reactor"
)

// ErrProtocol: a server that is to speak HTTP/2 has not agreed to.
var ErrProtocol = errors.New("the server does not agree to HTTP/2")

// Carrier is a connection to a server that carries many requests at once. It stays on
// the loop that has opened it: a sibling opens its own.
type Carrier interface {
	// Room is how many more requests it takes now.
	Room() int
	// Open is how many it has.
	Open() int
	// Call begins one; Close on the stream ends it.
	Call() (reactor.Stream, error)
	// Leave ends the connection once its requests are over.
	Leave()
}

// Carry makes a Carrier of a new connection, which ends when it has had no request for
// idle. freed is told when there may be more room than before, gone when it has ended.
type Carry func(conn reactor.Stream, idle time.Duration, freed, gone func()) Carrier

// CarryBy tells, before the first Borrow, how connections come to carry many requests.
// Without it none does.
func (p *Pool) CarryBy(carry Carry) { p.carry = carry }

// link is a connection that carries many requests. Loop only.
type link struct {
	Carrier
	server *State
	pool   *Pool
	idle   bool // counted as that
}

// carried reports whether requests to the server share connections.
func (s *State) carried() bool { return s.shares.Load() }

// stream begins a request on a connection that others share. The first who finds none
// with room opens one; the rest wait for it, or for a request to end.
func (p *Pool) stream(s *Server) (*Conn, How, error) {
	at := p.at(s.State)
	until := p.exec.Now() + int64(s.Farm.Timeouts.Connect)
	for {
		if c := at.call(s.State); c != nil {
			at.stats.Reused.Inc()
			return c, Reused, nil
		}
		if !at.opening && s.reserve(int64(s.Farm.Connections.Max)) {
			at.opening = true
			c, err := p.open(s)
			at.opening = false
			at.roomFor(s.State)
			return c, New, err
		}
		w := &waiter{server: s.State, signal: p.exec.NewSignal()}
		at.queued = append(at.queued, w)
		set := w.signal.Wait(time.Duration(max(1, until-p.exec.Now())))
		at.forget(w)
		if set {
			continue
		}
		if at.opening {
			return nil, New, os.ErrDeadlineExceeded
		}
		return nil, New, ErrFull
	}
}

// call begins a request on the connection of s used last that has room.
func (at *place) call(s *State) *Conn {
	for i := len(at.links) - 1; i >= 0; i-- {
		l := at.links[i]
		if l.server != s || l.Room() == 0 {
			continue
		}
		if c := l.begin(); c != nil {
			return c
		}
	}
	return nil
}

// begin begins a request; nil if there is no room after all.
func (l *link) begin() *Conn {
	stream, err := l.Call()
	if err != nil {
		return nil
	}
	l.counted()
	return &Conn{Stream: stream, server: l.server, pool: l.pool, link: l}
}

// counted keeps the figure of idle connections true.
func (l *link) counted() {
	stats := l.pool.at(l.server).stats
	if idle := l.Open() == 0; idle != l.idle {
		if l.idle = idle; idle {
			stats.Idle.Inc()
		} else {
			stats.Idle.Dec()
		}
	}
}

// share makes a new connection one that many requests share, and begins the first.
func (p *Pool) share(s *Server, conn reactor.Stream) (*Conn, error) {
	l := &link{server: s.State, pool: p}
	at := p.at(s.State)
	l.Carrier = p.carry(conn, time.Duration(s.Farm.Timeouts.KeepAlive), func() { at.roomFor(l.server) }, func() {
		at.unlink(l)
		if l.idle {
			at.stats.Idle.Dec()
		}
		at.stats.Open.Dec()
		p.closed(l.server)
		at.roomFor(l.server)
	})
	at.links = append(at.links, l)
	s.shares.Store(true)
	if c := l.begin(); c != nil {
		return c, nil
	}
	return nil, ErrProtocol
}

// unlink has a connection take no more requests.
func (at *place) unlink(l *link) {
	for i, other := range at.links {
		if other == l {
			at.links = append(at.links[:i], at.links[i+1:]...)
			return
		}
	}
}

// ended is the end of a request on a shared connection.
func (c *Conn) ended() {
	c.Close()
	c.link.counted()
}

// roomFor has the first who waits look again.
func (at *place) roomFor(s *State) {
	for _, w := range at.queued {
		if w.server == s {
			w.signal.Set()
			return
		}
	}
}

func (at *place) forget(w *waiter) {
	for i, other := range at.queued {
		if other == w {
			at.queued = append(at.queued[:i], at.queued[i+1:]...)
			return
		}
	}
}
