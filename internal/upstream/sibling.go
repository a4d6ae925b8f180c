package upstream

import (
	"slices"
	"sync/atomic"
	"time"

	"sluice/internal/reactor"
	"sluice/internal/segment"
)

// sharedPlaces is what siblings may read of a pool: how many idle connections
// and waiting tasks it has for each server. A stale figure costs a question that
// is answered with no.
type sharedPlaces struct {
	idle    [segment.MaxServers]atomic.Int32
	waiting [segment.MaxServers]atomic.Int32
}

// movable is a Stream that can leave its loop: one over TLS cannot.
type movable interface{ Detach() (fd int) }

// Join makes pools siblings: the loops of one worker.
func Join(pools []*Pool) {
	for i, p := range pools {
		for j := 1; j < len(pools); j++ {
			p.siblings = append(p.siblings, pools[(i+j)%len(pools)])
		}
	}
}

func (p *Pool) publish(s *State, idle int) {
	if len(p.siblings) > 0 {
		p.shared.idle[s.Slot].Store(int32(idle))
	}
}

// waiter is a task that waits for a connection, or for leave to open one.
type waiter struct {
	server *State
	signal reactor.Signal
	most   int64 // connections that the server may have
	conn   *Conn
	how    How
	room   bool // one more was counted in State.open: open it
	joined bool // it stands in the line of its place

	// Of one that waits for room on a connection that carries many requests.
	patient bool  // it opens none: there are some, and no more were to be had
	err     error // nothing will come
}

func (w *waiter) served() bool { return w.conn != nil || w.room }

// fromSibling takes over an idle connection of the first sibling that has one; none
// over TLS, whose state cannot leave its loop.
func (p *Pool) fromSibling(s *State) *Conn {
	if s.security.Load() != nil {
		return nil
	}
	for _, other := range p.siblings {
		if other.shared.idle[s.Slot].Load() == 0 {
			continue
		}
		w := &waiter{signal: p.exec.NewSignal()}
		other.exec.Submit(func() { other.yield(s, p, w) })
		w.signal.Wait(0)
		if w.conn != nil {
			p.takeover.Inc()
			return w.conn
		}
	}
	return nil
}

// yield gives an idle connection away to w on pool to. On the loop that has it.
func (p *Pool) yield(s *State, to *Pool, w *waiter) {
	c := p.at(s).pop(s)
	if c == nil {
		to.exec.Submit(w.signal.Set)
		return
	}
	p.send(c, to, func(moved *Conn) {
		w.conn = moved
		w.signal.Set()
	})
}

// send moves a connection to a sibling's loop, where it is received; nil if it
// was lost on the way.
func (p *Pool) send(c *Conn, to *Pool, receive func(*Conn)) {
	p.at(c.server).stats.Open.Dec()
	fd := c.Stream.(movable).Detach()
	to.exec.Submit(func() {
		stream, err := to.adopt(fd)
		if err != nil {
			to.closed(c.server)
			receive(nil)
			return
		}
		to.at(c.server).stats.Open.Inc()
		receive(&Conn{Stream: stream, server: c.server, pool: to})
	})
}

// await waits for a connection to come free.
func (p *Pool) await(s *Server) (*Conn, How, error) {
	w, err := p.waitFor(s)
	switch {
	case err != nil:
		return nil, New, err
	case w.conn != nil:
		p.at(s.State).stats.Reused.Inc()
		return w.conn, w.how, nil
	}
	c, err := p.open(s)
	return c, New, err
}

// waitFor waits for a connection, or for leave to open one, up to the time for
// connecting.
func (p *Pool) waitFor(s *Server) (*waiter, error) {
	w := &waiter{server: s.State, signal: p.exec.NewSignal(), most: int64(s.Farm.Connections.Max)}
	p.join(w)
	if p.look(w); !w.served() {
		w.signal.Wait(time.Duration(s.Farm.Timeouts.Connect))
	}
	if !w.served() {
		p.leave(w)
		return nil, ErrFull
	}
	return w, nil
}

// join puts w into the line of this loop.
func (p *Pool) join(w *waiter) {
	at := p.at(w.server)
	at.waiters = append(at.waiters, w)
	w.joined = true
	p.shared.waiting[w.server.Slot].Add(1) // first: who finds that tasks wait must find where
	w.server.waiting.Add(1)
}

// leave takes w out of the line, when it is served or its time is over.
func (p *Pool) leave(w *waiter) {
	at := p.at(w.server)
	at.waiters = slices.DeleteFunc(at.waiters, func(other *waiter) bool { return other == w })
	w.joined = false
	w.server.waiting.Add(-1)
	p.shared.waiting[w.server.Slot].Add(-1)
}

// serve ends the wait with a connection.
func (p *Pool) serve(w *waiter, c *Conn, how How) {
	w.conn, w.how = c, how
	p.leave(w)
	w.signal.Set()
}

// look serves w with what came free before its wait could be seen by those who
// free connections; from then on they serve it. While it asks a sibling, both may
// happen; what is too much goes on to the next.
func (p *Pool) look(w *waiter) {
	s := w.server
	if p.grant(s, w) {
		return
	}
	if c := p.at(s).pop(s); c != nil {
		p.serve(w, c, Reused)
		return
	}
	c := p.fromSibling(s)
	switch {
	case c == nil:
	case w.conn != nil:
		p.Discard(c)
	case w.room:
		w.room, w.conn, w.how = false, c, Taken
		p.closed(s)
	default:
		p.serve(w, c, Taken)
	}
}

// first is the task that has waited longest for s.
func (at *place) first(s *State) *waiter {
	for _, w := range at.waiters {
		if w.server == s {
			return w
		}
	}
	return nil
}

// handOver gives a connection that comes back to a task that waits for one: of
// this loop, else of a sibling. It reports whether anyone wanted it.
func (p *Pool) handOver(c *Conn) bool {
	if c.server.waiting.Load() == 0 {
		return false
	}
	if w := p.at(c.server).first(c.server); w != nil {
		p.serve(w, c, Reused)
		return true
	}
	for _, other := range p.siblings {
		if other.shared.waiting[c.server.Slot].Load() > 0 {
			if _, can := c.Stream.(movable); !can {
				p.Discard(c) // in its place the sibling opens another
				return true
			}
			p.send(c, other, func(moved *Conn) { other.received(moved, c.server) })
			return true
		}
	}
	return false
}

// received gives a connection from a sibling to who waits; if nobody does any
// more it is closed, which makes room. nil is one that was lost on the way.
func (p *Pool) received(c *Conn, s *State) {
	w := p.at(s).first(s)
	switch {
	case c == nil:
	case w == nil:
		p.Discard(c)
	default:
		p.serve(w, c, Taken)
		p.takeover.Inc()
	}
}

// handOverIdle serves tasks that began to wait while a connection became idle:
// they looked before it was published, and Give looked before they were. Now one
// of the two has seen the other.
func (p *Pool) handOverIdle(s *State) {
	for s.waiting.Load() > 0 {
		c := p.at(s).pop(s)
		if c == nil {
			return
		}
		if !p.handOver(c) { // they have been served meanwhile
			c.Idle(c)
			p.push(c)
			return
		}
	}
}

// room lets a waiting task open a connection in the place of one that was closed.
func (p *Pool) room(s *State) {
	if s.waiting.Load() == 0 {
		return
	}
	if w := p.at(s).first(s); w != nil {
		p.grant(s, w) // else someone has taken the room meanwhile
		return
	}
	for _, other := range p.siblings {
		if other.shared.waiting[s.Slot].Load() > 0 {
			other.exec.Submit(func() { other.room(s) })
			return
		}
	}
}

// grant lets w open a connection if there is room.
func (p *Pool) grant(s *State, w *waiter) bool {
	if w.room = s.reserve(w.most); w.room {
		p.leave(w)
		w.signal.Set()
	}
	return w.room
}
