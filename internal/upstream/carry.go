package upstream

import (
	"errors"
	"os"
	"slices"
	"time"

	"sluice/internal/reactor"
)

var (
	// ErrProtocol: a server that is to speak HTTP/2 has not agreed to.
	ErrProtocol = errors.New("the server does not agree to HTTP/2")
	// ErrUnsettled: a connection of HTTP/2 ended before the server's SETTINGS came; it
	// may speak something else.
	ErrUnsettled = errors.New("the server has ended the connection before it began to speak HTTP/2")
	// ErrNoStreams: SETTINGS_MAX_CONCURRENT_STREAMS is 0 (RFC 9113 5.1.2), and stayed so
	// for the time for connecting.
	ErrNoStreams = errors.New("the server allows no request on its connections")
)

// Carrier is a connection to a server that carries many requests at once. It stays on
// the loop that has opened it: a sibling opens its own.
type Carrier interface {
	// Settled reports whether the server has said how many requests it takes.
	Settled() bool
	// Room is how many more requests it takes now.
	Room() int
	// Open is how many it has.
	Open() int
	// Call begins one; Close on the stream ends it.
	Call() (reactor.Stream, error)
	// Leave ends the connection once its requests are over.
	Leave()
	// Leaving reports whether it takes no more requests, and never will.
	Leaving() bool
}

// Carry makes a Carrier of a new connection, which ends when it has had no request for
// idle. freed is told when there may be more room than before, gone when it has ended.
// Neither is told before Carry has returned.
type Carry func(conn reactor.Stream, idle time.Duration, freed, gone func()) Carrier

// CarryBy tells, before the first Borrow, how connections come to carry many requests.
// Without it none does.
func (p *Pool) CarryBy(carry Carry) { p.carry = carry }

// link is a connection that carries many requests. Loop only.
type link struct {
	Carrier
	server *State
	pool   *Pool
	idle   bool  // counted as that
	gone   bool  // it has ended; requests may still have to be closed
	heir   *Pool // a sibling that is to open one in its place
}

// carried reports whether requests to the server share connections.
func (s *State) carried() bool { return s.shares.Load() }

// stream begins a request on a connection that others share. Who finds none with room
// stands in line.
func (p *Pool) stream(s *Server) (*Conn, How, error) {
	at := p.at(s.State)
	if at.head(s.State) == nil {
		if c := at.call(s.State); c != nil {
			at.stats.Reused.Inc()
			return c, Reused, nil
		}
	}
	w := &waiter{server: s.State, signal: p.exec.NewSignal(), most: int64(s.Farm.Connections.Max)}
	at.queued = append(at.queued, w)
	c, how, err := p.queue(s, w)
	at.forget(w)
	p.settle(w)
	if at.roomFor(s.State); err == errAlone {
		return p.Borrow(s, true)
	}
	return c, how, err
}

// errAlone: the server has chosen HTTP/1.1, where no request shares a connection.
var errAlone = errors.New("requests do not share connections")

// queue is the way of a task through the line, up to the time for connecting. The first
// begins its request on a connection that has room, or opens one, out of the line; the
// rest wait.
func (p *Pool) queue(s *Server, w *waiter) (*Conn, How, error) {
	at := p.at(s.State)
	until := p.exec.Now() + int64(s.Farm.Timeouts.Connect)
	for {
		if w.err != nil || !s.carried() {
			return nil, New, orAlone(w.err)
		}
		if at.head(s.State) == w {
			if c := at.call(s.State); c != nil {
				at.stats.Reused.Inc()
				return c, Reused, nil
			}
			if p.mayOpen(s, w) {
				at.forget(w)
				c, err := p.openShared(s)
				return c, New, err
			}
		}
		left := until - p.exec.Now()
		if left <= 0 || !w.signal.Wait(time.Duration(left)) {
			return nil, New, at.late(s.State)
		}
	}
}

// orAlone is err, or errAlone if that is nil.
func orAlone(err error) error {
	if err == nil {
		return errAlone
	}
	return err
}

// mayOpen takes leave for one more connection, or sees that somebody gives it.
func (p *Pool) mayOpen(s *Server, w *waiter) bool {
	at := p.at(s.State)
	switch {
	case w.patient && at.linked(s.State) || at.opening == s.State || at.unsettled(s.State):
		return false
	case w.conn != nil: // one of HTTP/1.1: another takes its place
		w.conn.Close()
		at.stats.Open.Dec()
		w.conn = nil
		return true
	case w.room:
		w.room = false
		return true
	case s.reserve(w.most):
		return true
	}
	p.seek(w)
	return false
}

// seek has w given leave when a connection ends. One of HTTP/1.1, which is of no use
// any more, ends for it; and if this loop has none, one of a sibling's.
func (p *Pool) seek(w *waiter) {
	if w.joined {
		return
	}
	p.join(w)
	if p.grant(w.server, w) {
		return
	}
	at := p.at(w.server)
	if c := at.pop(w.server); c != nil {
		p.Discard(c)
		return
	}
	if !at.linked(w.server) {
		p.ask(w.server, 0)
	}
}

// ask has the first sibling, from i on, that has a connection to s end it for this loop.
func (p *Pool) ask(s *State, i int) {
	if i == len(p.siblings) {
		return
	}
	other := p.siblings[i]
	other.exec.Submit(func() {
		if !other.part(s, p) {
			p.ask(s, i+1)
		}
	})
}

// part ends a connection for a sibling: an idle one of HTTP/1.1, or that with the fewest
// requests, once these are over.
func (p *Pool) part(s *State, heir *Pool) bool {
	at := p.at(s)
	if c := at.pop(s); c != nil {
		p.Discard(c)
		return true
	}
	var least *link
	for _, l := range at.links {
		if l.server == s && !l.Leaving() && (least == nil || l.Open() < least.Open()) {
			least = l
		}
	}
	if least == nil {
		return false
	}
	least.heir = heir
	least.Leave()
	return true
}

// settle takes w, which has what it wants or will not have it, out of all lines, and
// passes on what it was given meanwhile.
func (p *Pool) settle(w *waiter) {
	if w.joined {
		p.leave(w)
	}
	if w.conn != nil {
		p.Discard(w.conn)
	}
	if w.room {
		p.closed(w.server)
	}
}

// late is why a request was not begun in time.
func (at *place) late(s *State) error {
	if at.opening == s {
		return os.ErrDeadlineExceeded
	}
	for _, l := range at.links {
		switch {
		case l.server != s || l.Leaving():
		case !l.Settled():
			return os.ErrDeadlineExceeded
		case l.Open() == 0 && l.Room() == 0:
			return ErrNoStreams
		}
	}
	return ErrFull
}

// openShared opens a connection; those who wait for it share its failure, save where
// they may still have room on others.
func (p *Pool) openShared(s *Server) (*Conn, error) {
	at := p.at(s.State)
	at.opening = s.State
	c, err := p.open(s)
	if at.opening == s.State {
		at.opening = nil
	}
	switch {
	case err != nil:
		at.disappoint(s.State, err)
	case c.link == nil: // none waits for the others here
		at.rouse(s.State)
	}
	return c, err
}

// disappoint tells those in line that a connection has not come about.
func (at *place) disappoint(s *State, err error) {
	linked := at.linked(s)
	for _, w := range at.queued {
		switch {
		case w.server != s:
		case linked:
			w.patient = true
		default:
			w.err = err
		}
	}
	at.rouse(s)
}

// linked reports whether there is a connection to s that takes requests.
func (at *place) linked(s *State) bool {
	for _, l := range at.links {
		if l.server == s && !l.Leaving() {
			return true
		}
	}
	return false
}

// unsettled reports whether a connection to s has yet to say what it takes, or takes
// none at all: another would do no better.
func (at *place) unsettled(s *State) bool {
	for _, l := range at.links {
		if l.server == s && !l.Leaving() && (!l.Settled() || l.Open() == 0) {
			return true
		}
	}
	return false
}

// call begins a request on the connection of s used last that has room.
func (at *place) call(s *State) *Conn {
	for i := len(at.links) - 1; i >= 0; i-- {
		l := at.links[i]
		if l.server != s || l.room() <= 0 {
			continue
		}
		if c := l.begin(); c != nil {
			return c
		}
	}
	return nil
}

// room is how many more requests may be begun: one, until the server has said how many
// it takes. It would refuse the others.
func (l *link) room() int {
	n := l.Room()
	if !l.Settled() {
		n = min(n, 1-l.Open())
	}
	return n
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
	if idle := !l.gone && l.Open() == 0; idle != l.idle {
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
	l.Carrier = p.carry(conn, time.Duration(s.Farm.Timeouts.KeepAlive), l.freed, l.ended)
	at.links = append(at.links, l)
	s.shares.Store(true)
	if c := l.begin(); c != nil {
		return c, nil
	}
	l.counted()
	l.Leave()
	return nil, ErrProtocol
}

// freed is told that there may be more room.
func (l *link) freed() { l.pool.at(l.server).roomFor(l.server) }

// ended is told that the connection is no more.
func (l *link) ended() {
	p, s := l.pool, l.server
	at := p.at(s)
	at.unlink(l)
	l.gone = true
	l.counted()
	at.stats.Open.Dec()
	if heir := l.heir; heir != nil {
		heir.exec.Submit(func() { heir.inherit(s) })
	} else {
		p.closed(s)
	}
	if !l.Settled() {
		at.disappoint(s, ErrUnsettled)
	}
	at.roomFor(s)
}

// inherit gives leave to open a connection in the place of a sibling's.
func (p *Pool) inherit(s *State) {
	w := p.at(s).first(s)
	if w == nil {
		p.closed(s)
		return
	}
	p.leave(w)
	w.room = true
	w.signal.Set()
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

// ended is the end of a request on a shared connection. One that has no other makes
// room for a sibling that waits for a connection, if none waits here.
func (c *Conn) ended() {
	c.Close()
	l := c.link
	l.counted()
	if l.idle && l.server.waiting.Load() > 0 && l.pool.shared.waiting[l.server.Slot].Load() == 0 {
		l.Leave()
	}
}

// head is who is first in line for s.
func (at *place) head(s *State) *waiter {
	for _, w := range at.queued {
		if w.server == s {
			return w
		}
	}
	return nil
}

// roomFor has the first in line look again.
func (at *place) roomFor(s *State) {
	if w := at.head(s); w != nil {
		w.signal.Set()
	}
}

// rouse has all in line look again.
func (at *place) rouse(s *State) {
	for _, w := range at.queued {
		if w.server == s {
			w.signal.Set()
		}
	}
}

func (at *place) forget(w *waiter) {
	at.queued = slices.DeleteFunc(at.queued, func(other *waiter) bool { return other == w })
}
