package admission

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/admission/queue"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// Line is who waits for the servers of one farm, in one worker. It stays over
// reloads. Its loops share it; the lock is held for some hundred nanoseconds, and
// only where requests wait.
type Line struct {
	waiting atomic.Int64 // length of the queue, for those who need not lock

	mu      sync.Mutex
	queue   *queue.Queue // guarded by mu, as all below
	servers []*server
	next    int // the server that is served first, in turn
}

// server is one server as a line sees it.
type server struct {
	*upstream.Server
	gate    *segment.Gate
	figures *segment.LineStats
	left    bool // it failed lately, and others have not: nobody waits for it
}

// Waiter is one request that waits. The fields of the first group are set before
// Join; the others may be read once Call runs, or Leave has returned false.
type Waiter struct {
	queue.Waiter
	To   interface{ Submit(func()) } // the loop that Call runs on
	Call func()                      // it has got a permit, or was thrown out

	Permit Permit
	Server *upstream.Server // whose permit it is; nil: it was thrown out
	Why    queue.Verdict    // of that
}

// NewLine makes an empty line, which serves nobody before Apply.
func NewLine() *Line { return &Line{queue: queue.New(0, queue.Settings{})} }

// Apply makes farm the line's configuration. figures gives the worker's figures of
// who waits for a server.
func (l *Line) Apply(d *Desk, farm *upstream.Farm, figures func(slot int) *segment.LineStats, now int64) {
	l.mu.Lock()
	for _, s := range l.servers {
		l.show(d, s, 0, now)
	}
	l.servers = l.servers[:0]
	slots := 0
	for _, s := range farm.Servers {
		if s.Weight > 0 {
			l.servers = append(l.servers, &server{Server: s, gate: d.gates(s.Slot), figures: figures(s.Slot)})
			slots = max(slots, s.Slot+1)
		}
	}
	a := &farm.Admission
	l.queue.Set(slots, queue.Settings{Length: a.Queue, Timeout: time.Duration(a.Timeout), Target: time.Duration(a.Target)})
	l.serve(d, now)
	l.unlock(d)
}

// Crowded reports whether anybody waits: then nobody may pass by the line.
func (l *Line) Crowded() bool { return l.waiting.Load() > 0 }

// Join puts w at its place in the line. Held means that Call will come; anything
// else is a refusal, and wait is how long it would have been.
func (l *Line) Join(d *Desk, w *Waiter, now int64) (v queue.Verdict, wait time.Duration) {
	l.mu.Lock()
	w.Owner = w
	v = l.queue.Join(&w.Waiter, now)
	if v != queue.Held {
		wait = l.queue.Wait(&w.Waiter, now)
	}
	if l.update(d, now) { // somebody may have given back a permit before we could be seen
		l.serve(d, now)
	}
	l.unlock(d)
	return v, wait
}

// Leave takes w out of the line. False: it has been called already.
func (l *Line) Leave(d *Desk, w *Waiter, now int64) bool {
	l.mu.Lock()
	left := l.queue.Leave(&w.Waiter, now)
	l.update(d, now)
	l.unlock(d)
	return left
}

// Look serves the line because permits may have come free: one was given back, a
// limit rose, a worker died, another worker left this one its turn. What the line
// does not need is for the lines of other workers.
func (l *Line) Look(d *Desk, now int64) {
	l.mu.Lock()
	l.serve(d, now)
	for _, s := range l.servers {
		if others := s.gate.Waiters.Load() &^ d.worker; others != 0 && gate.Open(s.gate) {
			d.turn++
			d.ringOne(others)
		}
	}
	l.unlock(d)
}

// serve gives permits to the first of the line while there are any, one server
// after the other.
func (l *Line) serve(d *Desk, now int64) {
	l.update(d, now)
	for idle := 0; idle < len(l.servers) && l.queue.Len() > 0; {
		s := l.servers[l.next%len(l.servers)]
		if l.next++; l.serveOne(d, s, now) {
			idle = 0
		} else {
			idle++
		}
	}
	l.update(d, now)
}

// serveOne gives one permit of s away; false if there is none, or nobody for it.
func (l *Line) serveOne(d *Desk, s *server, now int64) bool {
	if s.left || l.queue.Waiting(s.Slot) == 0 {
		return false
	}
	p, ok := gate.Claim(s.gate, d.account(s.Slot), now+d.offset)
	if !ok {
		return false
	}
	next := l.queue.Next(s.Slot, now)
	if next == nil {
		p.Undo(d.account(s.Slot), now+d.offset)
		d.ringOne(s.gate.Waiters.Load() &^ d.worker)
		return false
	}
	w := next.Owner.(*Waiter)
	w.Permit, w.Server = Permit{p, s.Slot}, s.Server
	d.called = append(d.called, w)
	return true
}

// update makes what others see of the line true again. It reports whether somebody
// waits for a server now for which nobody did before.
func (l *Line) update(d *Desk, now int64) (fresh bool) {
	for _, drop := range l.queue.Dropped() {
		w := drop.Waiter.Owner.(*Waiter)
		w.Why = drop.Why
		d.called = append(d.called, w)
	}
	l.waiting.Store(int64(l.queue.Len()))
	up := false
	for _, s := range l.servers {
		up = up || !s.Skipped(now)
	}
	for _, s := range l.servers {
		s.left = up && s.Skipped(now)
		n := 0
		if !s.left {
			n = l.queue.Waiting(s.Slot)
		}
		fresh = l.show(d, s, n, now) || fresh
	}
	return fresh
}

// show tells the other workers and the supervisor that n requests wait for s. It
// reports whether they are the first.
func (l *Line) show(d *Desk, s *server, n int, now int64) (fresh bool) {
	f, was := s.figures, s.figures.Waiting.Load()
	if int64(n) == was {
		return false
	}
	clock := now + d.offset
	if since := int64(f.Since.Load()); was > 0 {
		f.Bound.Add(uint64(max(0, clock-since)))
	}
	f.Since.Add(uint64(clock) - f.Since.Load())
	f.Waiting.Set(int64(n))
	switch {
	case n == 0:
		s.gate.Waiters.And(^d.worker)
	case was == 0:
		s.gate.Waiters.Or(d.worker)
		return true
	}
	return false
}

// unlock gives the lock back, and tells those who were called meanwhile.
func (l *Line) unlock(d *Desk) {
	l.mu.Unlock()
	for i, w := range d.called {
		w.To.Submit(w.Call)
		d.called[i] = nil
	}
	d.called = d.called[:0]
}

// nth gives one of the members of a set of numbers, another for each i.
func nth(set uint64, i int) int {
	for range i % bits.OnesCount64(set) {
		set &= set - 1
	}
	return bits.TrailingZeros64(set)
}
