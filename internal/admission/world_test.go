package admission

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/admission/queue"
	"sluice/internal/admission/regulator"
	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// world is a machine with several workers before the same servers, all on one
// goroutine: what goes from one loop or worker to another (calls, bells) lies
// about until a step delivers it, in any order.
type world struct {
	testing.TB
	random    *rand.Rand
	shared    *segment.Segment
	regulator *regulator.Regulator
	now       int64
	workers   []*process
	farms     []farmPlan // the configuration in force
	spill     int        // of all farms, percent points; negative: off
	requests  []*request // that are in the workers' hands
	lowered   []bool     // by slot: a limit was lowered while more were out
	changed   bool       // servers failed or came back, and nobody has been told
	seen      map[string]int
	meanwhile func(p *process, loop int) // runs in the middle of what a loop does; nil: nothing
}

// farmPlan is a farm of a configuration: weights of its servers by slot.
type farmPlan struct {
	name    string
	weights map[int]int
	queue   int
	target  time.Duration
}

// process is a worker.
type process struct {
	w        *world
	index    int
	alive    bool
	bell     bool // it has been rung
	applying bool // a configuration is half applied
	desks    []*Desk
	mail     [][]func() // submitted functions, by loop
	lines    *Lines
	states   map[int]*upstream.State
	byFarm   []*Line
	inLine   map[*Line]*upstream.Farm // what the line serves
}

// request is one that a model of proxy's exchange has in hand.
type request struct {
	Waiter
	p      *process
	loop   int
	line   *Line
	waits  bool // it joined, and nobody has called it or taken it out
	calls  int  // times that its loop was told
	called bool // the call has been run
}

// Submit is what the line does to call the request.
func (r *request) Submit(f func()) {
	if r.calls++; r.calls > 1 || !r.waits {
		r.p.w.Fatalf("a request was called %d times, waiting %v", r.calls, r.waits)
	}
	r.waits = false
	r.p.mail[r.loop] = append(r.p.mail[r.loop], f)
}

const (
	worldWorkers = 3
	worldLoops   = 2
	worldSlots   = 7
)

func newWorld(t testing.TB, seed uint64, workers int) *world {
	shared, err := segment.Create(segment.Shape{Workers: workers, Loops: worldLoops, Servers: worldSlots})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		TB: t, random: rand.New(rand.NewPCG(seed, 3)), shared: shared, now: 1e9,
		lowered: make([]bool, worldSlots), seen: map[string]int{},
	}
	w.regulator = regulator.New(regulator.Options{
		Shared: shared, Ring: w.ring,
		Clock: func() (time.Duration, time.Time) { return time.Duration(w.now), time.Unix(0, w.now) },
	})
	for slot := range worldSlots {
		if _, err := shared.Assign("farm", fmt.Sprint(slot)); err != nil {
			t.Fatal(err)
		}
		shared.Gate(slot).Limit.Store(2)
	}
	for i := range workers {
		p := &process{w: w, index: i}
		w.workers = append(w.workers, p)
		p.start()
	}
	return w
}

func (w *world) close() { w.shared.Close() }

func (w *world) ring(worker int) { w.workers[worker].bell = true }

// start begins a worker's life, with nothing of a former one but its bell.
func (p *process) start() {
	p.w.shared.Worker(p.index).Loops.Store(worldLoops)
	p.alive = true
	p.mail = make([][]func(), worldLoops)
	p.states = map[int]*upstream.State{}
	p.inLine = map[*Line]*upstream.Farm{}
	p.desks = nil
	for l := range worldLoops {
		gates := func(slot int) *segment.Gate {
			p.between(l)
			return p.w.shared.Gate(slot)
		}
		account := func(slot int) *segment.ServerStats {
			p.between(l)
			return p.w.shared.Server(p.index, l, slot)
		}
		office := &Office{Worker: p.index, Gates: gates, Ring: p.w.ring}
		p.desks = append(p.desks, office.NewDesk(account, int64(l))) // clocks differ by a little
	}
	p.lines = NewLines(func(slot int) *segment.LineStats { return p.w.shared.Line(p.index, slot) })
	p.apply(p.w.farms)
}

// between runs in the middle of what loop does: others do something meanwhile.
func (p *process) between(loop int) {
	if meanwhile := p.w.meanwhile; meanwhile != nil {
		p.w.meanwhile = nil // they are not disturbed in their turn
		meanwhile(p, loop)
		p.w.meanwhile = meanwhile
	}
}

// locked reports whether one of the worker's lines is being worked on.
func (p *process) locked() bool {
	if p.applying {
		return true
	}
	for l := range p.inLine {
		if !l.mu.TryLock() {
			return true
		}
		l.mu.Unlock()
	}
	return false
}

// apply has a worker serve other farms.
func (p *process) apply(plans []farmPlan) {
	var farms []*upstream.Farm
	for i, plan := range plans {
		f := &upstream.Farm{Index: i, Farm: config.Farm{Name: plan.name}, Spill: p.w.spill}
		f.Admission.Queue, f.Admission.Target = plan.queue, config.Duration(plan.target)
		f.Admission.Timeout = config.Duration(time.Minute)
		for slot := range worldSlots {
			if weight, ok := plan.weights[slot]; ok {
				f.Servers = append(f.Servers, &upstream.Server{State: p.state(slot), Farm: f, Weight: weight})
			}
		}
		farms = append(farms, f)
	}
	p.applying = true
	p.byFarm = p.lines.Apply(p.desks[0], farms, p.w.now)
	p.applying = false
	for i, l := range p.byFarm {
		p.inLine[l] = farms[i]
	}
}

func (p *process) state(slot int) *upstream.State {
	if p.states[slot] == nil {
		p.states[slot] = &upstream.State{Slot: slot}
		p.states[slot].Settle([]int{p.index}, p.w.shared.Home(slot)) // each worker has a node
	}
	return p.states[slot]
}

// servers are those that a line serves.
func (p *process) servers(l *Line) (servers []*upstream.Server) {
	for _, s := range p.inLine[l].Servers {
		if s.Weight > 0 {
			servers = append(servers, s)
		}
	}
	return servers
}

func (r *request) may(slot int) bool {
	if r.Only >= 0 {
		return r.Only == slot
	}
	return r.Except>>slot&1 == 0
}

// hopes are the servers that one of which should serve the request: the best that
// the line has or, if it may go to none of these, the others.
func (r *request) hopes() []*upstream.Server {
	servers := r.p.servers(r.line)
	best := upstream.FarFailed
	for _, s := range servers {
		best = min(best, s.Rank(r.p.w.now))
	}
	servers = slices.DeleteFunc(servers, func(s *upstream.Server) bool { return !r.may(s.Slot) })
	good := slices.DeleteFunc(slices.Clone(servers), func(s *upstream.Server) bool { return s.Rank(r.p.w.now) > best })
	if len(good) > 0 {
		return good
	}
	return servers
}

// arrive is steps 4 and 5 of an exchange.
func (w *world) arrive(p *process, loop int) {
	if len(p.byFarm) == 0 {
		return
	}
	farm := w.random.IntN(len(p.byFarm))
	r := &request{p: p, loop: loop, line: p.byFarm[farm]}
	r.Only, r.Class, r.Tenant = -1, uint8(w.random.IntN(3)), w.random.Uint64N(3)
	switch w.random.IntN(5) {
	case 0:
		r.Only = w.random.IntN(worldSlots)
		if servers := p.servers(r.line); len(servers) > 0 && w.random.IntN(8) > 0 {
			r.Only = servers[w.random.IntN(len(servers))].Slot
		}
	case 1:
		r.Except = w.random.Uint64N(1<<worldSlots) & w.random.Uint64N(1<<worldSlots)
	}
	if w.random.IntN(5) == 0 {
		r.Deadline = w.now + w.random.Int64N(int64(500*time.Millisecond))
	}
	w.enter(r)
}

// enter claims a permit for the request, or joins the line.
func (w *world) enter(r *request) {
	d := r.p.desks[r.loop]
	if hopes := r.hopes(); !r.line.Crowded() && len(hopes) > 0 {
		s := hopes[w.random.IntN(len(hopes))]
		var ok bool
		if r.Permit, ok = r.line.Claim(d, s, w.now); ok {
			r.Server, r.called = s, true
			w.requests = append(w.requests, r)
			w.seen["passed"]++
			return
		}
	}
	r.To, r.Call = r, func() { r.called = true }
	r.waits = true
	served := len(r.hopes()) > 0
	verdict, _ := r.line.Join(d, &r.Waiter, w.now)
	if verdict == queue.Held {
		w.requests = append(w.requests, r)
	} else if r.calls > 0 || !r.waits {
		w.Fatalf("a request was refused (%v) and called", verdict)
	}
	if served == (verdict == queue.Gone) {
		w.Fatalf("only %d, except %b: %v, though servers: %v", r.Only, r.Except, verdict, served)
	}
	w.seen[verdict.String()]++
}

// deliver runs one of the functions that lie about in a loop's mailbox.
func (w *world) deliver(p *process, loop int) bool {
	if len(p.mail[loop]) == 0 {
		return false
	}
	f := p.mail[loop][0]
	p.mail[loop] = p.mail[loop][1:]
	f()
	return true
}

// proceed takes a request on: it ends if it has its permit, or leaves the line.
func (w *world) proceed(r *request) {
	d := r.p.desks[r.loop]
	switch {
	case r.called && r.Server == nil:
		w.seen["thrown out: "+r.Why.String()]++
	case r.called:
		w.seen["ended"]++
		w.seen["ended, of "+map[bool]string{true: "its own node", false: "another node"}[r.Server.Near()]]++
		r.line.End(d, &r.Permit, gate.Outcome(w.random.IntN(3)), 0, w.now)
		r.line.End(d, &r.Permit, gate.Good, 0, w.now) // of no effect
	case r.line.Leave(d, &r.Waiter, w.now):
		w.seen["left"]++
		if !r.waits {
			w.Fatal("a request left that had been called")
		}
		r.waits = false
	default:
		if r.calls != 1 {
			w.Fatal("a request could not leave, and nobody has called it")
		}
		return // the call is under way
	}
	w.requests = slices.DeleteFunc(w.requests, func(o *request) bool { return o == r })
}

// look answers a worker's bell.
func (w *world) look(p *process) {
	p.bell = false
	p.lines.Look(p.desks[0], w.now)
	w.seen["looked"]++
}

// limit is what the regulator does: it sets a limit, and wakes who may have use of
// a higher one.
func (w *world) limit(slot int, limit int64) {
	g := w.shared.Gate(slot)
	g.Limit.Store(limit)
	w.lowered[slot] = limit > 0 && g.InFlight.Load() > limit
	if gate.Open(g) {
		w.ringAll(g.Waiters.Load())
	}
}

func (w *world) ringAll(workers uint64) {
	for i, p := range w.workers {
		if workers>>i&1 != 0 {
			p.bell = true
		}
	}
}

// reload makes other farms, which each worker takes over in its own time.
func (w *world) reload() {
	w.farms = nil
	for _, f := range []farmPlan{
		{name: "red", weights: map[int]int{0: 0, 1: 0, 2: 0, 3: 0}},
		{name: "blue", weights: map[int]int{4: 0, 5: 0}},
		{name: "green", weights: map[int]int{6: 0}},
	} {
		if w.random.IntN(3) == 0 {
			continue
		}
		for slot := range worldSlots {
			if _, ok := f.weights[slot]; !ok {
				continue
			}
			if f.weights[slot] = w.random.IntN(4); w.random.IntN(8) == 0 {
				delete(f.weights, slot)
			}
		}
		f.queue, f.target = w.random.IntN(20), time.Duration(w.random.IntN(2))*50*time.Millisecond
		w.farms = append(w.farms, f)
	}
}

// kill ends a worker, and gives back what it held as the supervisor does.
func (w *world) kill(p *process) {
	p.alive = false
	w.requests = slices.DeleteFunc(w.requests, func(r *request) bool { return r.p == p })
	w.regulator.GiveBack(p.index)
	w.shared.ResetGauges(p.index)
}
