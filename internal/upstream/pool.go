package upstream

import (
	"errors"
	"slices"
	"time"

	"sluice/internal/reactor"
	"sluice/internal/segment"
)

// ErrFull: the server has as many connections as it may have, and none came free
// in time.
var ErrFull = errors.New("every allowed connection to the server is in use")

// ErrUnresolved: the server's name has no address yet.
var ErrUnresolved = errors.New("the server's name has not been resolved")

// Dial opens a connection, waiting up to timeout.
type Dial func(a reactor.Address, timeout time.Duration) (reactor.Stream, error)

// Adopt makes a Stream of a connected socket that came from a sibling.
type Adopt func(fd int) (reactor.Stream, error)

// Conn is a connection to a server, borrowed or idle. Loop only.
type Conn struct {
	reactor.Stream
	server *State
	pool   *Pool
	idle   bool
	link   *link // what it is a share of; nil: it is a connection of its own
}

// How tells where a borrowed connection came from.
type How uint8

const (
	New    How = iota // opened for this request
	Reused            // kept by this loop
	Taken             // kept by a sibling
)

// String is the word for it in logs.
func (h How) String() string { return [...]string{"new", "reused", "taken"}[h] }

// LeadsTo reports whether the connection is to this server.
func (c *Conn) LeadsTo(s *Server) bool { return c.server == s.State }

// Pool is the connections of one loop. Loop only, save what siblings read.
type Pool struct {
	exec     reactor.Executor
	dial     Dial
	adopt    Adopt
	stats    func(slot int) *segment.ServerStats
	carry    Carry // nil: no connection carries many requests
	takeover *segment.Counter
	siblings []*Pool  // immutable after Join
	places   []*place // by slot; made on first use
	shared   sharedPlaces
}

// place is one server's connections on one loop.
type place struct {
	stats   *segment.ServerStats
	idle    []*Conn // the last one used is the first one taken: it is warm, and the rest can age
	waiters []*waiter

	links   []*link   // that carry many requests
	opening *State    // one more is being opened to it
	queued  []*waiter // in line for room on one
}

// NewPool makes the pool of one loop. stats gives a server's block in the
// segment; takeovers counts connections that came from siblings.
func NewPool(exec reactor.Executor, dial Dial, adopt Adopt, stats func(slot int) *segment.ServerStats, takeovers *segment.Counter) *Pool {
	return &Pool{exec: exec, dial: dial, adopt: adopt, stats: stats, takeover: takeovers}
}

func (p *Pool) at(s *State) *place {
	for s.Slot >= len(p.places) {
		p.places = append(p.places, nil)
	}
	if p.places[s.Slot] == nil {
		p.places[s.Slot] = &place{stats: p.stats(s.Slot)}
	}
	return p.places[s.Slot]
}

// Stats are this loop's figures of a server.
func (p *Pool) Stats(s *State) *segment.ServerStats { return p.at(s).stats }

// Borrow gives a connection to the server: this loop's own if it has one, else a
// sibling's, else a new one. fresh asks for a new one. Give or Discard ends the
// loan. It may park.
func (p *Pool) Borrow(s *Server, fresh bool) (*Conn, How, error) {
	if s.carried() {
		return p.stream(s)
	}
	at := p.at(s.State)
	if !fresh {
		if c := at.pop(s.State); c != nil {
			at.stats.Reused.Inc()
			return c, Reused, nil
		}
		if c := p.fromSibling(s.State); c != nil {
			at.stats.Reused.Inc()
			return c, Taken, nil
		}
	}
	if !s.reserve(int64(s.Farm.Connections.Max)) {
		return p.await(s)
	}
	c, err := p.open(s)
	return c, New, err
}

// Open gives a new connection whose first bytes are preface, which nobody else has
// used or will: Discard ends the loan. It may park.
func (p *Pool) Open(s *Server, preface []byte) (*Conn, error) {
	if !s.reserve(int64(s.Farm.Connections.Max)) {
		w, err := p.waitFor(s)
		if err != nil {
			return nil, err
		}
		if w.conn != nil { // one that was used before: another takes its place
			w.conn.Close()
			p.at(s.State).stats.Open.Dec()
		}
	}
	return p.connect(s, preface)
}

// connect opens a connection that is counted in State.open already.
func (p *Pool) connect(s *Server, preface []byte) (*Conn, error) {
	stream, err := p.reach(s, preface)
	if err != nil {
		p.closed(s.State)
		return nil, err
	}
	stats := p.at(s.State).stats
	stats.Connects.Inc()
	stats.Open.Inc()
	return &Conn{Stream: stream, server: s.State, pool: p}, nil
}

// open is connect for requests, which may share the connection with others.
func (p *Pool) open(s *Server) (*Conn, error) {
	c, err := p.connect(s, nil)
	if err != nil {
		return nil, err
	}
	many, err := p.carriesMany(s, c)
	switch {
	case err != nil:
		p.Discard(c)
		return nil, err
	case many:
		return p.share(s, c.Stream)
	}
	return c, nil
}

// carriesMany reports whether requests share a new connection: as the farm says, or as
// was agreed by ALPN.
func (p *Pool) carriesMany(s *Server, c *Conn) (bool, error) {
	agreed, secured := c.Protocol(), s.security.Load() != nil
	must := s.speaksHTTP2(s.Farm)
	switch {
	case p.carry == nil:
		return false, nil
	case must && secured && agreed != "h2":
		return false, ErrProtocol
	case must || agreed == "h2":
		return true, nil
	}
	if s.shares.Swap(false) {
		p.leaveLinks(s.State) // they count among those allowed, and no request would use them
	}
	return false, nil
}

// reach dials one after another of the server's addresses until one accepts, and
// proves itself if it is https://; together they have the time for connecting. preface
// is sent before all else.
func (p *Pool) reach(s *Server, preface []byte) (stream reactor.Stream, err error) {
	err = ErrUnresolved
	until := p.exec.Now() + int64(s.Farm.Timeouts.Connect)
	for range s.addressCount() {
		a, _ := s.nextAddress()
		left := until - p.exec.Now()
		if left <= 0 {
			return nil, err
		}
		if stream, err = p.dial(a, time.Duration(left)); err == nil {
			err = begin(stream, preface, time.Duration(left))
		}
		if err != nil {
			s.passOver(a)
		} else if stream, err = p.secure(s.State, stream, time.Duration(until-p.exec.Now())); err == nil {
			return stream, nil
		}
		p.at(s.State).stats.ConnectFails.Inc()
	}
	return nil, err
}

// begin sends the first bytes of a connection, before TLS, and closes it if it cannot.
// They fit its empty buffer.
func begin(stream reactor.Stream, preface []byte, timeout time.Duration) error {
	if len(preface) == 0 {
		return nil
	}
	stream.SetWriteTimeout(timeout)
	_, err := stream.Write(preface)
	stream.SetWriteTimeout(0)
	if err != nil {
		stream.Close()
	}
	return err
}

// Give takes back a connection whose response was read to its end and that the
// server keeps open. It stays up to keepAlive, if fewer than most are idle.
func (p *Pool) Give(c *Conn, keepAlive time.Duration, most int) {
	if c.link != nil {
		c.ended()
		return
	}
	at := p.at(c.server)
	c.OnHangup(nil)
	c.OnSlow(0, nil)
	c.SetWriteTimeout(0)
	if c.Ready() || c.server.gone.Load() { // Ready: the server has closed it, or speaks out of turn
		p.Discard(c)
		return
	}
	if p.handOver(c) {
		return
	}
	if len(at.idle) >= most {
		p.Discard(c)
		return
	}
	c.SetReadTimeout(keepAlive)
	if !c.Idle(c) { // over plain goroutines nobody would watch it
		p.Discard(c)
		return
	}
	p.push(c)
	p.handOverIdle(c.server)
}

// Discard closes a borrowed connection.
func (p *Pool) Discard(c *Conn) {
	if c.link != nil {
		c.ended()
		return
	}
	c.Close()
	p.at(c.server).stats.Open.Dec()
	p.closed(c.server)
}

// closed notes that a connection is no more, so that a task that waits for one
// may open another.
func (p *Pool) closed(s *State) {
	s.open.Add(-1)
	p.room(s)
}

// Run is the end of an idle connection: the server closed it, spoke out of turn,
// or its time is over.
func (c *Conn) Run() {
	if !c.idle {
		return // it was borrowed in this very turn
	}
	at := c.pool.at(c.server)
	at.remove(c)
	c.pool.publish(c.server, len(at.idle))
	c.pool.Discard(c)
}

// push makes a connection, whose Idle job is set, the first to be taken.
func (p *Pool) push(c *Conn) {
	at := p.at(c.server)
	c.idle = true
	at.idle = append(at.idle, c)
	at.stats.Idle.Inc()
	p.publish(c.server, len(at.idle))
}

// pop takes the connection to s used last that is still good. A place is a slot's,
// which may have been another server's until a reload.
func (at *place) pop(s *State) *Conn {
	for n := len(at.idle); n > 0; n = len(at.idle) {
		c := at.idle[n-1]
		at.idle[n-1] = nil
		at.idle = at.idle[:n-1]
		c.taken(at)
		c.pool.publish(c.server, n-1)
		if c.server == s && !c.Ready() {
			return c
		}
		c.pool.Discard(c)
	}
	return nil
}

func (at *place) remove(c *Conn) {
	for i, other := range at.idle {
		if other == c {
			at.idle = append(at.idle[:i], at.idle[i+1:]...)
			c.taken(at)
			return
		}
	}
}

func (c *Conn) taken(at *place) {
	c.idle = false
	c.Idle(nil)
	at.stats.Idle.Dec()
}

// Retire closes the idle connections to a server that is no longer configured;
// those in use end when they are given back.
func (p *Pool) Retire(s *State) {
	at := p.at(s)
	for c := at.pop(s); c != nil; c = at.pop(s) {
		p.Discard(c)
	}
	p.leaveLinks(s)
}

// leaveLinks ends the connections to s that carry many requests, once these are over.
func (p *Pool) leaveLinks(s *State) {
	for _, l := range slices.Clone(p.at(s).links) {
		if l.server == s {
			l.Leave()
		}
	}
}
