package upstream

import (
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

// movable is a Stream that can leave its loop.
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
}

func (w *waiter) served() bool { return w.conn != nil || w.room }

// give ends the wait with a connection.
func (w *waiter) give(c *Conn, how How) {
	w.conn, w.how = c, how
	w.signal.Set()
}

// fromSibling takes over an idle connection of the first sibling that has one.
func (p *Pool) fromSibling(s *State) *Conn {
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

// await waits for a connection to come free, up to the time for connecting.
func (p *Pool) await(s *Server) (*Conn, How, error) {
	at := p.at(s.State)
	w := &waiter{server: s.State, signal: p.exec.NewSignal(), most: int64(s.Farm.Connections.Max)}
	at.waiters = append(at.waiters, w)
	p.shared.waiting[s.Slot].Add(1) // first: who finds that tasks wait must find where
	s.waiting.Add(1)
	if !p.look(s.State, w) {
		w.signal.Wait(time.Duration(s.Farm.Timeouts.Connect))
	}
	at.dropWaiter(w)
	s.waiting.Add(-1)
	p.shared.waiting[s.Slot].Add(-1)
	switch {
	case w.conn != nil:
		at.stats.Reused.Inc()
		return w.conn, w.how, nil
	case w.room:
		c, err := p.open(s)
		return c, New, err
	}
	return nil, New, ErrFull
}

// look serves w with what came free before its wait could be seen by those who
// free connections; from then on they serve it. While it asks a sibling, both may
// happen; what is too much goes on to the next.
func (p *Pool) look(s *State, w *waiter) (served bool) {
	at := p.at(s)
	if w.room = s.reserve(w.most); w.room {
		return true
	}
	if c := at.pop(s); c != nil {
		w.give(c, Reused)
		return true
	}
	c := p.fromSibling(s)
	switch {
	case c == nil:
	case w.conn != nil:
		p.Discard(c)
	case w.room:
		w.room = false
		w.give(c, Taken)
		p.closed(s)
	default:
		w.give(c, Taken)
	}
	return w.served()
}

func (at *place) dropWaiter(w *waiter) {
	for i, other := range at.waiters {
		if other == w {
			at.waiters = append(at.waiters[:i], at.waiters[i+1:]...)
			return
		}
	}
}

// first is the task that has waited longest for s and has not been served.
func (at *place) first(s *State) *waiter {
	for _, w := range at.waiters {
		if w.server == s && !w.served() {
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
		w.give(c, Reused)
		return true
	}
	for _, other := range p.siblings {
		if other.shared.waiting[c.server.Slot].Load() > 0 {
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
		w.give(c, Taken)
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
		if !p.handOver(c) { // they have been served and are about to go on
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
	if p.grant(s) {
		return
	}
	for _, other := range p.siblings {
		if other.shared.waiting[s.Slot].Load() > 0 {
			other.exec.Submit(func() { other.room(s) })
			return
		}
	}
}

// grant lets this loop's first waiting task open a connection, if the room has
// not been taken meanwhile.
func (p *Pool) grant(s *State) bool {
	w := p.at(s).first(s)
	if w == nil {
		return false
	}
	if w.room = s.reserve(w.most); w.room {
		w.signal.Set()
	}
	return true
}
