package admission

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/admission/gate"
)

// step lets something happen.
func (w *world) step() {
	p := w.workers[w.random.IntN(len(w.workers))]
	switch n := w.random.IntN(1000); {
	case !p.alive:
		if n < 100 {
			p.start()
			w.seen["restarted"]++
		}
	case n < 850:
		w.work(p, w.random.IntN(worldLoops))
	case n < 930:
		w.pass(w.random.Int64N(int64(20 * time.Millisecond)))
	case n < 940:
		w.pass(w.random.Int64N(int64(time.Second)))
	case n < 965:
		w.limit(w.random.IntN(worldSlots), w.random.Int64N(5)) // 0: none
	case n < 970:
		w.fail(p, w.random.IntN(worldSlots))
	case n < 973:
		w.reload()
	case n < 980:
		p.apply(w.farms)
		w.seen["reloaded"]++
	case p.bell || n < 982: // it is worst to die with an unanswered bell
		w.kill(p)
		w.seen["killed"]++
	}
}

// work lets a loop do something.
func (w *world) work(p *process, loop int) {
	switch n := w.random.IntN(100); {
	case n < 35:
		w.arrive(p, loop)
	case n < 50:
		w.deliver(p, loop)
	case n < 90:
		mine := slices.DeleteFunc(slices.Clone(w.requests), func(r *request) bool { return r.p != p || r.loop != loop })
		if len(mine) > 0 {
			if r := mine[w.random.IntN(len(mine))]; r.called || w.random.IntN(4) == 0 {
				w.proceed(r)
			}
		}
	case loop == 0 && p.bell:
		w.look(p)
	}
}

// disturb lets a few other loops do something in the middle of what one does. The
// ones of its own worker would wait for the lock, if it has it.
func (w *world) disturb(busy *process, loop int) {
	for range w.random.IntN(3) {
		p := w.workers[w.random.IntN(len(w.workers))]
		other := w.random.IntN(worldLoops)
		if p.alive && (p != busy || other != loop && !p.locked()) {
			w.work(p, other)
			w.seen["disturbed"]++
		}
	}
}

// pass lets time go by.
func (w *world) pass(ns int64) {
	before := w.skipped()
	w.now += ns
	w.changed = w.changed || w.skipped() != before
}

// fail has a server fail in a worker's view, or answer again.
func (w *world) fail(p *process, slot int) {
	before := w.skipped()
	if w.random.IntN(4) == 0 {
		p.state(slot).Succeed()
	} else {
		p.state(slot).Fail(w.now, time.Duration(w.random.IntN(100))*time.Millisecond)
	}
	w.changed = w.changed || w.skipped() != before
}

// skipped is which workers leave out which servers.
func (w *world) skipped() (all [worldWorkers][worldSlots]bool) {
	for i, p := range w.workers {
		for slot, s := range p.states {
			all[i][slot] = s.Skipped(w.now)
		}
	}
	return all
}

// settle answers all bells, in any order, until none is rung any more. If servers
// failed or came back the supervisor's heartbeat has told the workers.
func (w *world) settle() {
	if w.changed {
		for slot := range worldSlots {
			w.ringAll(w.shared.Gate(slot).Waiters.Load())
		}
		w.changed = false
	}
	for range 200 {
		var rung []*process
		for _, p := range w.workers {
			if p.alive && p.bell {
				rung = append(rung, p)
			}
		}
		if len(rung) == 0 {
			return
		}
		w.look(rung[w.random.IntN(len(rung))])
	}
	w.Fatal("the workers ring each other for ever")
}

// count holds permits against gates.
func (w *world) count() {
	var out [worldSlots]int64
	for _, r := range w.requests {
		if r.Permit.Out() {
			out[r.Permit.slot]++
		}
	}
	for slot := range worldSlots {
		g := w.shared.Gate(slot)
		var accounts int64
		for i := range w.workers {
			for l := range worldLoops {
				accounts += w.shared.Server(i, l, slot).Permits.Load()
			}
		}
		n, limit := g.InFlight.Load(), g.Limit.Load()
		if n != accounts || n != out[slot] {
			w.Fatalf("server %d: %d in flight, %d in the accounts, %d out", slot, n, accounts, out[slot])
		}
		if limit == 0 || n <= limit {
			w.lowered[slot] = false
		} else if !w.lowered[slot] {
			w.Fatalf("server %d: %d in flight, the limit is %d", slot, n, limit)
		}
	}
}

// compare holds who waits against what the line says of it, and against the
// permits that are free. All bells have been answered.
func (w *world) compare() {
	var waiting [worldWorkers][worldSlots]int64
	crowded := map[*Line]bool{}
	for _, r := range w.requests {
		if !r.waits {
			continue
		}
		crowded[r.line] = true
		hopes := r.hopes()
		if len(hopes) == 0 {
			w.Fatal("a request waits for servers that are no more")
		}
		for _, s := range hopes {
			waiting[r.p.index][s.Slot]++
		}
	}
	for _, p := range w.workers {
		if !p.alive {
			continue
		}
		for l := range p.inLine {
			if l.Crowded() != crowded[l] {
				w.Fatalf("worker %d: line is crowded: %v, want %v", p.index, l.Crowded(), crowded[l])
			}
		}
	}
	for slot := range worldSlots {
		g := w.shared.Gate(slot)
		for i := range w.workers {
			if s := w.workers[i].states[slot]; s != nil && !s.Near() && w.spill >= 0 {
				continue // it is waited for or not as things were when the line was looked at
			}
			n := waiting[i][slot]
			if bit := g.Waiters.Load()>>i&1 != 0; bit != (n > 0) {
				w.Fatalf("server %d, worker %d: %d wait, but its bit is %v", slot, i, n, bit)
			}
			if got := w.shared.Line(i, slot).Waiting.Load(); got != n {
				w.Fatalf("server %d, worker %d: %d wait, its figure is %d", slot, i, n, got)
			}
			if n > 0 && gate.Open(g) {
				w.Fatalf("server %d: %d requests wait in worker %d, %d of %d permits are out", slot, n, i, g.InFlight.Load(), g.Limit.Load())
			}
		}
	}
}

// finish has everybody served or gone.
func (w *world) finish() {
	for len(w.requests) > 0 {
		r := w.requests[w.random.IntN(len(w.requests))]
		for w.deliver(r.p, r.loop) {
		}
		w.proceed(r)
		w.settle()
		w.count()
		w.compare()
	}
	for slot := range worldSlots {
		if g := w.shared.Gate(slot); g.InFlight.Load() != 0 || g.Waiters.Load() != 0 {
			w.Fatalf("server %d: %d in flight, waiters %b at the end", slot, g.InFlight.Load(), g.Waiters.Load())
		}
	}
}

// TestModel: whatever happens in whichever order, permits are accounted for, nobody
// waits before an open gate, and everybody is called once or taken out.
func TestModel(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed, worldWorkers)
			defer w.close()
			w.seen = seen
			if seed%3 > 0 { // each server has a node, or none
				for slot := range worldSlots {
					w.shared.Home(slot).Settle(w.random.IntN(worldWorkers+1) - 1)
				}
				w.spill = []int{-1, w.random.IntN(101)}[seed%3-1]
			}
			w.reload()
			for _, p := range w.workers {
				p.apply(w.farms)
			}
			for range 3000 {
				w.meanwhile = w.disturb
				w.step()
				w.meanwhile = nil
				w.count()
				if w.random.IntN(4) == 0 {
					w.settle()
					w.compare()
				}
			}
			w.finish()
		})
	}
	for _, what := range []string{
		"passed", "held", "full", "late", "gone", "left", "ended", "reloaded", "killed", "restarted",
		"ended, of its own node", "ended, of another node", "thrown out: late", "thrown out: gone", "thrown out: pushed", "thrown out: stale",
	} {
		if seen[what] == 0 {
			t.Errorf("nobody was ever %s: %v", what, seen)
		}
	}
	t.Log(seen)
}
