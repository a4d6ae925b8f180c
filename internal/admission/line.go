package admission

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/admission/queue"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// Line is who waits for the servers of one farm, in one worker. It stays over
// reloads. Its loops share it; the lock is held for some microseconds at most with
// a hundred servers, and only where requests wait.
type Line struct {
	waiting atomic.Int64 // length of the queue, for those who need not lock

	mu      sync.Mutex
	queue   *queue.Queue // guarded by mu, as all below
	farm    *upstream.Farm
	servers []*server
	bySlot  []*server // nil: none of this line's
	next    int       // the server that is served first, in turn
}

// server is one server as a line sees it.
type server struct {
	*upstream.Server
	gate    *segment.Gate
	figures *segment.LineStats
	shown   int // how many wait for it, as others see it
	rank    upstream.Rank
	avoided bool // it is left to those who may go to no better one
	most    int  // percent of its permits that may be in use when it is given another
	turn    int  // counts permits that were given back while requests here and elsewhere waited
}

// Waiter is one request that waits. The fields of the first group are set before
// Join; the others may be read once Call runs, or Leave has returned false.
type Waiter struct {
	queue.Waiter
	Due  int64                       // an answer that comes later is of no use to it, ns; 0: any is
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
	former := l.servers
	for _, s := range former {
		s.show(d, 0, now)
	}
	l.farm, l.servers, l.bySlot = farm, nil, nil
	var slots []int
	for _, s := range farm.Servers {
		if s.Weight > 0 {
			l.add(&server{Server: s, gate: d.gates(s.Slot), figures: figures(s.Slot)})
			slots = append(slots, s.Slot)
		}
	}
	a := &farm.Admission
	l.queue.SetSome(slots, queue.Settings{Length: a.Queue, Timeout: time.Duration(a.Timeout), Target: time.Duration(a.Target)})
	l.serve(d, now)
	for _, s := range former { // another worker may have left a permit to us
		l.passOn(d, s)
	}
	l.unlock(d)
}

// add takes one more server.
func (l *Line) add(s *server) {
	for len(l.bySlot) <= s.Slot {
		l.bySlot = append(l.bySlot, nil)
	}
	l.bySlot[s.Slot] = s
	l.servers = append(l.servers, s)
}

// Crowded reports whether anybody waits: then nobody may pass by the line.
func (l *Line) Crowded() bool { return l.waiting.Load() > 0 }

// Join puts w at its place in the line. Held means that Call will come; anything
// else is a refusal, and drain is how long those who wait will keep the servers.
// When its answer is due, its deadline is so much earlier as a server takes for it.
func (l *Line) Join(d *Desk, w *Waiter, now int64) (v queue.Verdict, drain time.Duration) {
	l.mu.Lock()
	w.Owner = w
	if w.Due != 0 {
		w.Deadline = w.Due - l.quickest(w.Only)
	}
	v = l.queue.Join(&w.Waiter, now)
	if v != queue.Held {
		drain = l.queue.Drain(&w.Waiter, now)
	}
	l.settle(d, now) // somebody may have given back a permit before we could be seen
	l.unlock(d)
	return v, drain
}

// quickest is how long a server takes, ns: the one in the slot, or with -1 the
// quickest of all; one whose pace is not known may take no time.
func (l *Line) quickest(slot int) int64 {
	least := int64(math.MaxInt64)
	for _, s := range l.servers {
		if slot < 0 || slot == s.Slot {
			least = min(least, s.gate.Pace.Load())
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// Drain is how long those who wait like w will keep the servers; 0: it is not known.
func (l *Line) Drain(w *Waiter, now int64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Drain(&w.Waiter, now)
}

// Leave takes w out of the line. False: it has been called already.
func (l *Line) Leave(d *Desk, w *Waiter, now int64) bool {
	l.mu.Lock()
	left := l.queue.Leave(&w.Waiter, now)
	l.settle(d, now)
	l.unlock(d)
	return left
}

// Look serves the line because permits may have come free: a limit rose, a worker
// died, another worker left this one its turn. What the line does not need is for
// the lines of other workers.
func (l *Line) Look(d *Desk, now int64) {
	l.mu.Lock()
	l.serve(d, now)
	for _, s := range l.servers {
		l.passOn(d, s)
	}
	l.unlock(d)
}

// handOn gives on a permit that has been given back while this worker had requests
// waiting for it: nine times here, the tenth time to another worker.
//
// What was left to another stays free until it comes for it, which takes some
// microseconds, or milliseconds if it is busy: if the next permit's end took that
// too, a busy worker would let nobody else in, ever. One permit is left free at
// most, however slow the other is.
func (l *Line) handOn(d *Desk, slot int, now int64) {
	l.mu.Lock()
	defer l.unlock(d)
	if slot >= len(l.bySlot) || l.bySlot[slot] == nil {
		return // it went in a reload meanwhile, which looked for whom to leave it to
	}
	s := l.bySlot[slot]
	keep := int64(0)
	if others := s.gate.Waiters.Load() &^ d.worker; others != 0 {
		if s.turn++; s.turn%ownTurns == 0 {
			d.ringOne(others)
			keep = 1
		} else if gate.Free(s.gate) > 1 {
			keep = 1
		}
	}
	l.settle(d, now) // s may have failed just now
	for gate.Free(s.gate) > keep && l.serveOne(d, s, now) {
	}
	l.settle(d, now)
	l.passOn(d, s) // who waited here may have gone meanwhile
}

// ownTurns: of so many permits that two workers wait for, one goes to the other.
const ownTurns = 10

// passOn has another worker look after a permit of s if nobody here waits for it.
// While somebody does, whoever made it free looks after it.
func (l *Line) passOn(d *Desk, s *server) {
	others := s.gate.Waiters.Load() &^ d.worker
	if others != 0 && gate.Open(s.gate) && l.queue.Waiting(s.Slot) == 0 {
		d.ringOne(others)
	}
}

// serve gives permits to all who may have one.
func (l *Line) serve(d *Desk, now int64) {
	l.update(d, now) // first be seen, then claim
	l.round(d, now)
	l.settle(d, now)
}

// settle makes what others see of the line true, and serves it for as long as that
// shows them somebody for whom they have not looked.
func (l *Line) settle(d *Desk, now int64) {
	for l.update(d, now) {
		l.round(d, now)
	}
}

// round gives permits to the first of the line while there are any, one server
// after the other.
func (l *Line) round(d *Desk, now int64) {
	for idle := 0; idle < len(l.servers) && l.queue.Len() > 0; {
		s := l.servers[l.next%len(l.servers)]
		if l.next++; l.serveOne(d, s, now) {
			idle = 0
		} else {
			idle++
		}
	}
}

// serveOne gives one permit of s away; false if there is none, or nobody for it.
func (l *Line) serveOne(d *Desk, s *server, now int64) bool {
	if l.queue.Waiting(s.Slot) == 0 || used(s.gate) > s.most {
		return false
	}
	p, ok := gate.Claim(s.gate, d.account(s.Slot), now+d.offset)
	if !ok {
		return false
	}
	next := l.queue.Next(s.Slot, now)
	if next == nil { // all who could have had it were late
		p.Undo(d.account(s.Slot), now+d.offset)
		l.passOn(d, s)
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
	l.rank(d, now)
	for _, drop := range l.queue.Dropped() {
		w := drop.Waiter.Owner.(*Waiter)
		w.Why = drop.Why
		d.called = append(d.called, w)
	}
	l.waiting.Store(int64(l.queue.Len()))
	for _, s := range l.servers {
		fresh = s.show(d, l.queue.Waiting(s.Slot), now) || fresh
	}
	return fresh
}

// show tells the other workers and the supervisor that n requests wait for s. It
// reports whether they are the first.
func (s *server) show(d *Desk, n int, now int64) (fresh bool) {
	was := s.shown
	if n == was {
		return false
	}
	f, clock := s.figures, now+d.offset
	if since := int64(f.Since.Load()); was > 0 {
		f.Bound.Add(uint64(max(0, clock-since)))
	}
	f.Since.Add(uint64(clock) - f.Since.Load())
	f.Waiting.Set(int64(n))
	s.shown = n
	switch {
	case n == 0:
		s.gate.Waiters.And(^d.worker)
	case was == 0:
		s.gate.Waiters.Or(d.worker)
		return true
	}
	return false
}

// unlock gives the lock back, and tells those who are concerned.
func (l *Line) unlock(d *Desk) {
	l.mu.Unlock()
	d.tell()
}
