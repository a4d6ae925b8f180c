package admission

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/admission/queue"
)

// stage is a world of three workers before servers 0 and 1 of a farm, each with one
// permit.
func stage(t *testing.T) *world {
	w := newWorld(t, 1, worldWorkers)
	t.Cleanup(w.close)
	w.serve(map[int]int{0: 1, 1: 1})
	for slot := range 2 {
		w.shared.Gate(slot).Limit.Store(1)
	}
	return w
}

// serve makes these the servers of the only farm, everywhere.
func (w *world) serve(weights map[int]int) {
	w.farms = []farmPlan{{name: "red", weights: weights, queue: 10}}
	for _, p := range w.workers {
		p.apply(w.farms)
	}
}

// wish is what a request asks for.
type wish struct {
	worker, loop int
	only         int // -1: any server
	except       uint64
	deadline     int64
	due          int64
}

// ask makes a request, which gets a permit or waits.
func (w *world) ask(o wish) *request {
	w.Helper()
	p := w.workers[o.worker]
	r := &request{p: p, loop: o.loop, line: p.byFarm[0]}
	r.Only, r.Except, r.Deadline, r.Due = o.only, o.except, o.deadline, o.due
	w.enter(r)
	return r
}

// served wants the request to have a permit of the server, -1: of none.
func (w *world) served(r *request, slot int) {
	w.Helper()
	switch {
	case slot < 0 && r.Server == nil:
	case slot >= 0 && r.Server != nil && r.Server.Slot == slot && r.Permit.Out():
	default:
		w.Fatalf("server %v, permit out: %v, want server %d", r.Server, r.Permit.Out(), slot)
	}
}

// end gives a request's permit back.
func (w *world) end(r *request) { r.line.End(r.p.desks[r.loop], &r.Permit, gate.Good, 0, w.now) }

// leave takes a request out of the line.
func (w *world) leave(r *request) {
	w.Helper()
	if !r.line.Leave(r.p.desks[r.loop], &r.Waiter, w.now) {
		w.Fatal("it had been called")
	}
	r.waits = false
}

// rung is the one worker that has been rung.
func (w *world) rung() *process {
	w.Helper()
	var rung *process
	for _, p := range w.workers {
		switch {
		case p.bell && rung != nil:
			w.Fatal("two workers are rung")
		case p.bell:
			rung = p
		}
	}
	if rung == nil {
		w.Fatal("nobody is rung")
	}
	return rung
}

// left is a stage on which worker 0 has left a permit to one of two others that
// wait, and has rung it: next is that one's request, last the other's.
func left(t *testing.T) (w *world, next, last *request) {
	w = stage(t)
	r := w.ask(wish{worker: 0, only: 0})
	next, last = w.ask(wish{worker: 1, only: 0}), w.ask(wish{worker: 2, only: 0})
	w.end(r)
	if w.rung() == last.p {
		next, last = last, next
	}
	return w, next, last
}

// TestLeftPermit: a worker that was left a permit takes it, or leaves it to the
// next, whatever became of its own requests.
func TestLeftPermit(t *testing.T) {
	for _, c := range []struct {
		name     string
		becomes  func(w *world, next *request)
		unneeded bool
	}{
		{"it waits on", func(*world, *request) {}, false},
		{"it leaves", func(w *world, next *request) { w.leave(next) }, true},
		{"its deadline passes", func(w *world, next *request) { next.Deadline = w.now; w.now++ }, true},
		{"its server goes in a reload", func(w *world, next *request) {
			next.p.apply([]farmPlan{{name: "red", weights: map[int]int{1: 1}, queue: 10}})
		}, true},
		{"its farm goes in a reload", func(w *world, next *request) { w.leave(next); next.p.apply(nil) }, true},
		{"its worker dies", func(w *world, next *request) { w.kill(next.p) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, next, last := left(t)
			c.becomes(w, next)
			w.settle()
			if c.unneeded {
				w.served(next, -1)
				w.served(last, 0)
			} else {
				w.served(next, 0)
				w.served(last, -1)
			}
		})
	}
}

// TestSeenWhileItLooks: a permit comes free in the middle of the other side's
// doing, and they do not miss each other.
func TestSeenWhileItLooks(t *testing.T) {
	t.Run("given back just before it waits", func(t *testing.T) {
		w := stage(t)
		r := w.ask(wish{worker: 0, only: 0})
		p := w.workers[1]
		late := &request{p: p, line: p.byFarm[0], waits: true}
		late.Only, late.To, late.Call = 0, late, func() {}
		w.end(r) // it has seen the gate closed, and nobody sees it yet
		late.line.Join(p.desks[0], &late.Waiter, w.now)
		w.served(late, 0)
	})
	for point := 1; point <= 2; point++ {
		t.Run(fmt.Sprint("begins to wait while it is given back, at point ", point), func(t *testing.T) {
			w := stage(t)
			r := w.ask(wish{worker: 0, only: 0})
			var late *request
			points := 0
			w.meanwhile = func(*process, int) {
				if points++; points == point {
					late = w.ask(wish{worker: 1, only: 0})
				}
			}
			w.end(r)
			w.settle()
			w.served(late, 0)
		})
	}
	t.Run("begins to wait while another finds nobody for it", func(t *testing.T) {
		w := stage(t)
		w.ask(wish{worker: 0, only: 0})
		gone := w.ask(wish{worker: 0, only: 0, deadline: w.now})
		w.now++
		g := w.shared.Gate(0)
		g.Limit.Store(2) // nobody has been told yet
		var late *request
		w.meanwhile = func(*process, int) {
			if g.InFlight.Load() == 2 { // claimed, and about to be undone
				late = w.ask(wish{worker: 1, only: 0})
			}
		}
		w.workers[0].byFarm[0].serveOneUnder(w.workers[0].desks[0], 0, w.now)
		w.meanwhile = nil
		if late == nil {
			t.Fatal("nothing was undone")
		}
		w.settle()
		w.served(late, 0)
		w.served(gone, -1)
	})
	t.Run("the last who waited here goes while it is given back", func(t *testing.T) {
		w := stage(t)
		w.ask(wish{worker: 0, only: 0})
		late := w.ask(wish{worker: 1, only: 0})
		w.shared.Gate(0).Limit.Store(2) // a permit is free, as after End, which saw that one of worker 0's waits
		w.workers[0].byFarm[0].handOn(w.workers[0].desks[0], 0, w.now)
		w.settle()
		w.served(late, 0)
	})
}

// serveOneUnder is serveOne with the lock around it.
func (l *Line) serveOneUnder(d *Desk, slot int, now int64) {
	l.mu.Lock()
	l.serveOne(d, l.bySlot[slot], now)
	l.unlock(d)
}

// TestBackAgain: whoever finds that a server is not left out any more serves those
// who may go there now.
func TestBackAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		finds func(w *world, at1, waiter *request)
	}{
		{"when another joins", func(w *world, _, _ *request) { w.ask(wish{worker: 0, only: 1}) }},
		{"when another leaves", func(w *world, _, waiter *request) { w.leave(waiter) }},
		{"when a permit of another server is given back", func(w *world, at1, _ *request) { w.end(at1) }},
		{"when the bell is rung", func(w *world, _, _ *request) { w.look(w.workers[0]) }},
		{"in a reload", func(w *world, _, _ *request) { w.workers[0].apply(w.farms) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := stage(t)
			p := w.workers[0]
			p.state(0).Fail(w.now, time.Second)
			at1 := w.ask(wish{only: 1})
			bound := w.ask(wish{only: 1})
			free := w.ask(wish{only: -1})
			w.served(free, -1)
			w.now += int64(time.Second)
			c.finds(w, at1, bound)
			w.served(free, 0)
		})
	}
	for name, serves := range map[string]func(w *world, at1 *request){
		"in the middle of a look":     func(w *world, _ *request) { w.look(w.workers[0]) },
		"while a permit is handed on": func(w *world, at1 *request) { w.end(at1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := stage(t)
			p := w.workers[0]
			p.state(0).Fail(w.now, time.Second)
			at1 := w.ask(wish{only: 1})
			first, second := w.ask(wish{only: -1}), w.ask(wish{only: -1})
			w.shared.Gate(1).Limit.Store(2)
			if name == "while a permit is handed on" {
				w.shared.Gate(1).Limit.Store(1)
			}
			w.meanwhile = func(*process, int) {
				if p.locked() && w.shared.Gate(1).InFlight.Load() < w.shared.Gate(1).Limit.Load() { // about to claim
					p.state(0).Succeed()
				}
			}
			serves(w, at1)
			w.served(first, 1)
			w.served(second, 0)
		})
	}
}

// TestSlowToAnswer: what is left to a worker stays free until it comes for it, but
// one permit at most, and nobody waits for it who is rung.
func TestSlowToAnswer(t *testing.T) {
	const permits = 20
	w := stage(t)
	w.farms[0].queue = 1000
	w.workers[0].apply(w.farms)
	w.shared.Gate(0).Limit.Store(permits)
	var held, own []*request
	for range permits {
		held = append(held, w.ask(wish{only: 0}))
	}
	for range 5 * ownTurns {
		own = append(own, w.ask(wish{only: 0}))
	}
	other := w.ask(wish{worker: 1, only: 0})
	free := func() int64 { return gate.Free(w.shared.Gate(0)) }
	for i := range 3 * ownTurns {
		if i < permits {
			w.end(held[i])
		} else {
			w.end(own[i-permits])
		}
		want := int64(0)
		if i+1 >= ownTurns {
			want = 1
		}
		if free() != want {
			t.Fatalf("%d permits are free after %d were given back, want %d", free(), i+1, want)
		}
	}
	if w.rung() != other.p {
		t.Fatal("the other worker is not rung")
	}
	w.look(w.workers[0]) // as when the supervisor rings
	if free() != 0 {
		t.Errorf("%d permits are free after a look", free())
	}
	w.settle()
	w.served(other, -1)
}

// TestLeftForNobody: if the worker that a permit was left to needs none any more,
// and is slow to say so, the next to end here takes that one too.
func TestLeftForNobody(t *testing.T) {
	w := stage(t)
	w.workers[0].byFarm[0].bySlot[0].turn = ownTurns - 1
	w.shared.Gate(0).Limit.Store(2)
	one, two := w.ask(wish{only: 0}), w.ask(wish{only: 0})
	a, b := w.ask(wish{only: 0}), w.ask(wish{only: 0})
	other := w.ask(wish{worker: 1, only: 0})
	w.end(one)
	w.served(a, -1)
	w.leave(other)
	w.end(two)
	w.served(a, 0)
	w.served(b, 0)
}

// TestRingsTakeTurns: where several other workers wait, each is rung in its turn.
func TestRingsTakeTurns(t *testing.T) {
	const permits = 8
	w := stage(t)
	w.shared.Gate(0).Limit.Store(permits)
	var held []*request
	var others [2][]*request
	for range permits {
		held = append(held, w.ask(wish{only: 0}))
	}
	for range permits {
		for i := range others {
			others[i] = append(others[i], w.ask(wish{worker: i + 1, only: 0}))
		}
	}
	for _, r := range held {
		w.end(r)
		w.settle()
	}
	if a, b := called(others[0]), called(others[1]); a != permits/2 || b != permits/2 {
		t.Errorf("worker 1 was left %d permits, worker 2 %d", a, b)
	}
}

// TestFigures: what the line says of who waits, and for how long that was.
func TestFigures(t *testing.T) {
	w := stage(t)
	w.ask(wish{only: 0})
	f := w.shared.Line(0, 0)
	var a, b *request
	for _, step := range []struct {
		does           string
		do             func()
		waiting, bound int64
	}{
		{"nobody waits", func() {}, 0, 0},
		{"one joins", func() { a = w.ask(wish{only: 0}) }, 1, 0},
		{"another joins", func() { b = w.ask(wish{only: 0}) }, 2, 10},
		{"one leaves", func() { w.leave(a) }, 1, 20},
		{"the other leaves", func() { w.leave(b) }, 0, 30},
		{"nobody waits any more", func() {}, 0, 30},
		{"one joins again", func() { a = w.ask(wish{only: 0}) }, 1, 30},
		{"a reload", func() { w.workers[0].apply(w.farms) }, 1, 40},
		{"it leaves", func() { w.leave(a) }, 0, 50},
	} {
		step.do()
		if n, bound := f.Waiting.Load(), int64(f.Bound.Load()); n != step.waiting || bound != step.bound {
			t.Errorf("%s: %d wait, bound for %d ns, want %d and %d", step.does, n, bound, step.waiting, step.bound)
		}
		if n := w.shared.Line(0, 1).Waiting.Load(); n != 0 {
			t.Errorf("%s: %d wait for the other server", step.does, n)
		}
		w.now += 10
	}
}

// TestFailed: a server that has just failed gets none of those who may go elsewhere,
// and all of those who may not.
func TestFailed(t *testing.T) {
	look := func(w *world, _ *request) { w.look(w.workers[0]) }
	for _, c := range []struct {
		name  string
		wish  wish
		fails []int
		then  func(w *world, at0 *request)
		want  int
	}{
		{"when its permit is given back", wish{only: -1}, []int{0}, func(w *world, at0 *request) { w.end(at0) }, -1},
		{"when the bell is rung", wish{only: -1}, []int{0}, look, -1},
		{"in a reload", wish{only: -1}, []int{0}, func(w *world, _ *request) { w.serve(map[int]int{0: 1, 1: 1}) }, -1},
		{"bound to it", wish{only: 0}, []int{0}, look, 0},
		{"not to go to the other", wish{only: -1, except: 1 << 1}, []int{0}, look, 0},
		{"the other has failed too", wish{only: -1}, []int{0, 1}, look, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := stage(t)
			at0 := w.ask(wish{only: 0})
			w.ask(wish{only: 1})
			r := w.ask(c.wish)
			for _, slot := range c.fails {
				w.workers[0].state(slot).Fail(w.now, time.Second)
			}
			if c.name != "when its permit is given back" {
				w.shared.Gate(0).Limit.Store(2)
			}
			c.then(w, at0)
			w.served(r, c.want)
		})
	}
}

// TestNoServer: who may go to none of the farm's servers is refused, and thrown out
// when a reload takes the last.
func TestNoServer(t *testing.T) {
	for _, c := range []struct {
		name   string
		wish   wish
		before map[int]int // weights
		after  map[int]int
		now    bool // it is refused
		later  bool // it is thrown out
	}{
		{"any", wish{only: -1}, map[int]int{0: 1, 1: 1}, map[int]int{1: 1}, false, false},
		{"bound to one that stays", wish{only: 1}, map[int]int{0: 1, 1: 1}, map[int]int{1: 1}, false, false},
		{"bound to one that goes", wish{only: 0}, map[int]int{0: 1, 1: 1}, map[int]int{1: 1}, false, true},
		{"bound to one whose weight becomes 0", wish{only: 0}, map[int]int{0: 1, 1: 1}, map[int]int{0: 0, 1: 1}, false, true},
		{"bound to one without weight", wish{only: 0}, map[int]int{0: 0, 1: 1}, map[int]int{0: 1, 1: 1}, true, false},
		{"bound to one of another farm", wish{only: 3}, map[int]int{0: 1, 1: 1}, map[int]int{0: 1, 1: 1}, true, false},
		{"not to go to those that are", wish{only: -1, except: 3}, map[int]int{0: 1, 1: 1}, map[int]int{0: 1, 1: 1}, true, false},
		{"not to go to the one that stays", wish{only: -1, except: 2}, map[int]int{0: 1, 1: 1}, map[int]int{1: 1}, false, true},
		{"all go", wish{only: -1}, map[int]int{0: 1, 1: 1}, map[int]int{}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := stage(t)
			w.serve(map[int]int{0: 1, 1: 1})
			w.ask(wish{only: 0})
			w.ask(wish{only: 1})
			w.serve(c.before)
			r := w.ask(c.wish)
			if refused := w.seen["gone"] > 0; refused != c.now {
				t.Fatalf("refused: %v, want %v", refused, c.now)
			}
			if c.now {
				return
			}
			w.serve(c.after)
			if thrown := r.calls > 0; thrown != c.later || thrown && r.Why != queue.Gone {
				t.Errorf("called: %v (%v), want %v", thrown, r.Why, c.later)
			}
		})
	}
}

// TestFarmComesBack: a farm goes in a reload and comes back in another while its
// requests are under way. It has one line all the time.
func TestFarmComesBack(t *testing.T) {
	w := stage(t)
	p := w.workers[0]
	old := w.ask(wish{only: 0})
	p.apply(nil)
	runtime.GC()
	p.apply(w.farms)
	young := w.ask(wish{only: 0})
	w.served(young, -1)
	w.end(old)
	w.served(young, 0)
	if old.line != young.line {
		t.Error("two lines before the same server")
	}
}

// TestForgottenFarm: nothing is kept of a farm that nobody has to do with any more.
func TestForgottenFarm(t *testing.T) {
	w := stage(t)
	p := w.workers[0]
	p.apply(nil)
	clear(p.inLine)
	for range 2 { // a line may be in a register of the first
		runtime.GC()
	}
	w.look(p)
	if n := len(p.lines.byFarm); n != 0 {
		t.Errorf("%d lines are kept", n)
	}
}

// TestNineToOne: of ten permits that are given back where two workers wait, one
// goes to the other; each server is counted for itself.
func TestNineToOne(t *testing.T) {
	const permits = 100
	w := stage(t)
	w.farms[0].queue = 1000
	var held, own, other [2][]*request
	for i := range 2 {
		w.workers[i].apply(w.farms)
		w.shared.Gate(i).Limit.Store(permits)
	}
	for range permits {
		for slot := range 2 {
			held[slot] = append(held[slot], w.ask(wish{worker: 0, only: slot}))
		}
	}
	for range permits {
		for slot := range 2 {
			own[slot] = append(own[slot], w.ask(wish{worker: 0, only: slot}))
			other[slot] = append(other[slot], w.ask(wish{worker: 1, only: slot}))
		}
	}
	for i := range permits {
		for slot := range 2 { // in turn, as requests to two servers come
			w.end(held[slot][i])
			w.settle()
		}
	}
	for slot := range 2 {
		if a, b := called(own[slot]), called(other[slot]); a != permits*9/10 || b != permits/10 {
			t.Errorf("server %d: %d of its own and %d of another's", slot, a, b)
		}
	}
}

// called is how many of the requests were called.
func called(requests []*request) (n int) {
	for _, r := range requests {
		n += r.calls
	}
	return n
}

// TestDue: a request whose answer is due sooner than a server would take has come in
// vain; another waits for as long as leaves a server its time.
func TestDue(t *testing.T) {
	const ms = int64(time.Millisecond)
	for _, c := range []struct {
		name     string
		pace     [2]int64 // of the two servers, ms
		only     int
		due      int64 // ms from now
		deadline int64 // ms from now; 0: refused
	}{
		{"time enough", [2]int64{300, 500}, -1, 1000, 700},
		{"the one that it is bound to is slower", [2]int64{300, 500}, 1, 1000, 500},
		{"too late for any", [2]int64{300, 500}, -1, 299, 0},
		{"too late for its own", [2]int64{300, 500}, 1, 400, 0},
		{"one is not known", [2]int64{0, 500}, -1, 299, 299},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := stage(t)
			for slot, pace := range c.pace {
				w.shared.Gate(slot).Pace.Store(pace * ms)
				w.served(w.ask(wish{only: slot}), slot) // the only permit
			}
			r := w.ask(wish{only: c.only, due: w.now + c.due*ms})
			if late := w.seen[queue.Late.String()] == 1; late != (c.deadline == 0) {
				t.Fatalf("refused as late: %v", late)
			}
			if c.deadline != 0 && r.Deadline != w.now+c.deadline*ms {
				t.Errorf("it waits until %d ms from now, want %d", (r.Deadline-w.now)/ms, c.deadline)
			}
		})
	}
}
