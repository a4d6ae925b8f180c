package regulator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/admission/gate"
)

// A worker dies: what it held is given back at once and exactly, its bits go, the
// others that wait are woken, and no figure steps back.
func TestGiveBack(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	c.answer.Limit = 6
	gone := r.server("http://gone", adaptive) // in no configuration any more, and not idle
	p, q := r.claim(0, 0, s.Slot), r.claim(0, 0, s.Slot)
	r.claim(0, 1, s.Slot)
	r.claim(0, 0, gone.Slot)
	r.claim(1, 0, gone.Slot)
	r.steps(1)
	r.end(&p, 0, 1, s.Slot, gate.Good) // by the other loop: its account is -1
	r.end(&q, 0, 1, s.Slot, gate.Good)
	r.claim(0, 0, s.Slot)
	o := r.claim(1, 1, s.Slot)
	r.wait(0, s.Slot, 4)
	r.wait(1, s.Slot, 2)
	r.wait(1, gone.Slot, 1)
	r.steps(1)
	r.rung = nil
	r.pass(10 * time.Millisecond)
	r.GiveBack(0)
	if got, want := []int64{r.inFlight(s.Slot), r.inFlight(gone.Slot)}, []int64{1, 1}; !slices.Equal(got, want) {
		t.Errorf("%v permits are left, want %v", got, want)
	}
	if got := r.shared.Gate(s.Slot).Waiters.Load(); got != 2 {
		t.Errorf("workers %b wait, want 10", got)
	}
	if !slices.Equal(r.rung, []int{1}) {
		t.Errorf("woken: %v", r.rung)
	}
	r.GiveBack(0) // twice is once
	r.shared.ResetGauges(0)
	r.GiveBack(0)
	if got := r.inFlight(s.Slot); got != 1 {
		t.Errorf("%d permits are left", got)
	}
	r.pass(40 * time.Millisecond)
	r.step()
	// Two permits of the dead for 10 ms and one of the living for 50; worker 1 waited
	// all the time.
	if got := c.last(); !alike(got, sampleOf(0.05, 0.02+0.05, 0.05, 1, 2)) {
		t.Errorf("the sample after the death is %+v", got)
	}

	// The next process in the same place goes on from there.
	n := r.claim(0, 0, s.Slot)
	r.steps(1)
	r.end(&n, 0, 0, s.Slot, gate.Good)
	r.end(&o, 1, 1, s.Slot, gate.Good)
	if got := c.last(); got.Held < 0.0999 || got.Held > 0.1001 || r.inFlight(s.Slot) != 0 {
		t.Errorf("the sample of its successor is %+v", got)
	}
	r.steps(50)
	if v := r.View(); v.Leaks != 0 {
		t.Errorf("%d leaks", v.Leaks)
	}
}

// The dead worker alone waited: the limit bound until it died, and nobody waits now.
func TestDeathOfWhoWaited(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	r.awake(s.Slot)
	r.wait(0, s.Slot, 4)
	r.pass(10 * time.Millisecond)
	r.GiveBack(0)
	r.pass(40 * time.Millisecond)
	r.step()
	if got := c.last(); !alike(got, sampleOf(0.05, 0, 0.01, 0, 0)) {
		t.Errorf("the sample after the death is %+v", got)
	}
}

// A worker that never was has nothing to give back, and touches no memory.
func TestGiveBackOfNobody(t *testing.T) {
	r := newRig(t, "")
	_, s := r.scripted()
	r.claim(0, 0, s.Slot)
	r.shared.Worker(1).Loops.Store(0)
	before := r.memory()
	r.GiveBack(1)
	if r.inFlight(s.Slot) != 1 || r.memory() != before {
		t.Errorf("%d permits are left, want 1; %d bytes more", r.inFlight(s.Slot), r.memory()-before)
	}
}

// A worker was killed between its write to the gate and the one to its account.
func TestLeak(t *testing.T) {
	for _, d := range []int64{1, 3, -2} {
		r := newRig(t, "")
		_, s := r.scripted()
		for range 3 {
			r.claim(1, 0, s.Slot)
		}
		p := r.claim(1, 0, s.Slot)
		r.end(&p, 1, 1, s.Slot, gate.Good) // loop 1's account is -1
		r.steps(2)
		r.shared.Gate(s.Slot).InFlight.Add(d)
		r.wait(0, s.Slot, 1)
		r.steps(leakSteps - 1)
		if got := r.inFlight(s.Slot); got != 3+d {
			t.Errorf("%+d: mended too soon: %d in flight", d, got)
		}
		r.rung = nil
		r.steps(1)
		if got := r.inFlight(s.Slot); got != 3 {
			t.Errorf("%+d: %d in flight, want 3", d, got)
		}
		if got, want := r.View().Leaks, uint64(max(d, -d)); got != want {
			t.Errorf("%+d: %d leaks counted", d, got)
		}
		if !slices.Contains(r.rung, 0) {
			t.Errorf("%+d: nobody was told of free permits", d)
		}
		r.steps(3 * leakSteps)
		if got := r.inFlight(s.Slot); got != 3 || strings.Count(r.log.String(), "belonged to nobody") != 1 {
			t.Errorf("%+d: %d in flight later on, log: %s", d, got, &r.log)
		}
	}
}

// A server that nobody uses, but whose gate shows a permit, is looked at too.
func TestLeakOfAnUnusedServer(t *testing.T) {
	r := newRig(t, "")
	_, s := r.scripted()
	r.shared.Gate(s.Slot).InFlight.Add(1)
	r.steps(leakSteps + 1)
	if got := r.inFlight(s.Slot); got != 0 {
		t.Errorf("%d in flight", got)
	}
}

// Loops of a worker give back what others of them claimed: only their sum counts.
func TestPermitsOverLoopsAreNoLeak(t *testing.T) {
	r := newRig(t, "")
	_, s := r.scripted()
	p := r.claim(0, 0, s.Slot)
	r.claim(0, 0, s.Slot)
	r.end(&p, 0, 1, s.Slot, gate.Good)
	r.steps(2 * leakSteps)
	if got := r.View().Leaks; got != 0 || r.inFlight(s.Slot) != 1 {
		t.Errorf("%d leaks mended, %d in flight", got, r.inFlight(s.Slot))
	}
}

// Differences of a moment are those of claims under way: not to be mended, however
// often they are seen.
func TestMovingDifferenceIsNoLeak(t *testing.T) {
	for name, difference := range map[string]func(i int) int64{
		"there and gone":        func(i int) int64 { return int64(i % 2) },
		"one, then two":         func(i int) int64 { return 1 + int64(i%2) },
		"gone one step of many": func(i int) int64 { return int64(min(1, i%leakSteps)) },
		"up and up":             func(i int) int64 { return int64(i) },
	} {
		r := newRig(t, "")
		c, s := r.scripted()
		c.answer.Limit = 1000
		r.claim(0, 0, s.Slot)
		for i := range 10 * leakSteps {
			r.shared.Gate(s.Slot).InFlight.Store(1 + difference(i))
			r.steps(1)
		}
		if got := r.View().Leaks; got != 0 {
			t.Errorf("%s: %d leaks mended", name, got)
		}
	}
}

// The second reading of a step: figures that move between the two say nothing.
func TestDifferenceMustHoldStill(t *testing.T) {
	r := newRig(t, "")
	_, s := r.scripted()
	r.awake(s.Slot)
	one := r.servers[0]
	one.next.inFlight, one.next.permits, one.next.steady = 2, 1, true
	r.shared.Gate(s.Slot).InFlight.Store(1)
	if d := one.difference(r.shared); d != 1 {
		t.Errorf("twice the same difference of 1 is %d", d)
	}
	r.shared.Gate(s.Slot).InFlight.Store(0)
	if d := one.difference(r.shared); d != 0 {
		t.Errorf("a difference that changed within a step is %d", d)
	}
	r.shared.Gate(s.Slot).InFlight.Store(1)
	one.next.steady = false
	if d := one.difference(r.shared); d != 0 {
		t.Errorf("a difference while the gate changed is %d", d)
	}
}

// Requests wait before an open gate and nobody comes: counted once, and they are
// woken until they move.
func TestStranded(t *testing.T) {
	r := newRig(t, "")
	_, s := r.scripted()
	r.claim(1, 0, s.Slot)
	r.steps(2)
	r.wait(0, s.Slot, 3)
	r.shared.Gate(s.Slot).Waiters.Store(0) // and its bit is lost
	r.steps(strandedSteps - 1)
	r.rung = nil
	if got := r.View().Stranded; got != 0 {
		t.Errorf("counted after %d steps", strandedSteps-1)
	}
	r.steps(1)
	if got := r.View().Stranded; got != 1 || !slices.Equal(r.rung, []int{0}) {
		t.Errorf("stranded %d times, woken: %v", got, r.rung)
	}
	r.rung = nil
	r.steps(10)
	if got := r.View().Stranded; got != 1 || len(r.rung) != 10 {
		t.Errorf("stranded %d times, woken %d times in 10 steps", got, len(r.rung))
	}
	p := r.claim(0, 0, s.Slot)
	r.steps(strandedSteps)
	if got := r.View().Stranded; got != 1 {
		t.Errorf("counted %d times after one has moved", got)
	}
	r.end(&p, 0, 0, s.Slot, gate.Good)
	r.steps(strandedSteps + 1)
	if got := r.View().Stranded; got != 2 {
		t.Errorf("the next time it is counted %d times", got)
	}
}

// A worker that has been woken and has not looked yet is slow. It is not counted, but
// woken.
func TestSlowWorkerStrandsNobody(t *testing.T) {
	r := newRig(t, "")
	_, s := r.scripted()
	r.wait(0, s.Slot, 3)
	r.deaf = true
	r.rung = nil
	r.steps(10 * strandedSteps)
	if got := r.View().Stranded; got != 0 || len(r.rung) < 10*strandedSteps {
		t.Errorf("stranded %d times, woken %d times", got, len(r.rung))
	}
	r.deaf = false
	r.steps(strandedSteps)
	if got := r.View().Stranded; got != 1 {
		t.Errorf("it has looked, and they are stranded %d times", got)
	}
}

// A full server and one that serves are no faults, however long requests wait.
func TestWaitingIsNotStranded(t *testing.T) {
	r := newRig(t, "")
	_, s := r.scripted()
	var permits []gate.Permit
	for range 5 {
		permits = append(permits, r.claim(0, 0, s.Slot))
	}
	r.wait(0, s.Slot, 9)
	r.steps(100)
	r.end(&permits[0], 0, 0, s.Slot, gate.Good)
	r.steps(1)
	for range 30 {
		p := r.claim(1, 0, s.Slot)
		r.steps(1)
		r.end(&p, 1, 0, s.Slot, gate.Good)
		r.steps(1)
	}
	for range 30 { // as many in flight at each step, and others
		p := r.claim(1, 0, s.Slot)
		r.end(&p, 1, 0, s.Slot, gate.Ignored)
		r.steps(1)
	}
	r.servers[0].controller.(*script).answer.Limit = 100
	for range 30 { // none ends, but they go
		r.claim(1, 0, s.Slot)
		r.steps(1)
	}
	if got := r.View().Stranded; got != 0 {
		t.Errorf("stranded %d times", got)
	}
}
