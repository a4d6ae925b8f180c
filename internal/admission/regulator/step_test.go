package regulator

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/admission/limit"
)

// What a controller is told, from what four loops counted: exact to the ns.
func TestSample(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	r.awake(s.Slot)

	// 10 ms on, worker 0 claims two permits, in loop 0 and loop 1; 10 ms on, worker 1
	// one; worker 0 gives one back in the other loop than it was claimed in.
	r.pass(10 * time.Millisecond)
	p, q := r.claim(0, 0, s.Slot), r.claim(0, 1, s.Slot)
	r.wait(1, s.Slot, 3)
	r.pass(10 * time.Millisecond)
	o := r.claim(1, 0, s.Slot)
	r.wait(1, s.Slot, 0)
	r.end(&p, 0, 1, s.Slot, gate.Good) // 10 ms
	r.wait(0, s.Slot, 2)
	r.pass(80 * time.Millisecond) // late
	r.step()
	want := limit.Sample{
		Span: 0.1, Good: 1, Held: 0.01 + 0.09 + 0.08, Bound: 0.08, Sum: 0.01, Squares: 0.0001, InFlight: 2, Queue: 2,
	}
	if got := c.last(); !alike(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	r.wait(0, s.Slot, 0)
	r.pass(1910 * time.Millisecond)
	r.end(&q, 0, 0, s.Slot, gate.Good) // 2 s: slow
	r.end(&o, 1, 1, s.Slot, gate.Failed)
	r.end(&o, 1, 1, s.Slot, gate.Failed) // once is enough
	r.step()
	want = limit.Sample{Span: 1.91, Good: 1, Slow: 1, Failed: 1, Held: 2 * 1.91, Sum: 2, Squares: 4}
	if got := c.last(); !alike(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	p = r.claim(0, 0, s.Slot)
	r.pass(step)
	r.end(&p, 0, 0, s.Slot, gate.Ignored)
	r.step()
	if got, want := c.last(), (limit.Sample{Span: 0.05, Ignored: 1, Held: 0.05}); !alike(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A server whose answers come so fast that no step ever meets a request is seen all
// the same.
func TestFastServerIsSeen(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	failed := 0
	for range 10 {
		r.pass(quietStep)
		for range 20 {
			p := r.claim(0, 0, s.Slot)
			r.end(&p, 0, 0, s.Slot, gate.Failed)
		}
		r.step()
		failed += int(c.last().Failed)
	}
	if failed < 9*20 {
		t.Errorf("told of %d failures, 200 were", failed)
	}
}

// alike compares samples, with room for the last digit.
func alike(a, b limit.Sample) bool {
	near := func(x, y float64) bool { return math.Abs(x-y) < 2e-6*max(1, math.Abs(y)) }
	ok := near(a.Span, b.Span) && near(a.Held, b.Held) && near(a.Bound, b.Bound) && near(a.Sum, b.Sum) && near(a.Squares, b.Squares)
	a.Span, a.Held, a.Bound, a.Sum, a.Squares = b.Span, b.Held, b.Bound, b.Sum, b.Squares
	return ok && a == b
}

// The limit bound all the time if no permit is left at the end.
func TestBoundWhenNoPermitIsLeft(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	for range 4 {
		r.claim(1, 0, s.Slot)
	}
	r.steps(2)
	if got := c.last().Bound; got != 0 {
		t.Errorf("with a permit left the limit bound for %g s", got)
	}
	r.claim(1, 1, s.Slot)
	r.steps(1)
	if got := c.last().Bound; got != 0.05 {
		t.Errorf("with no permit left the limit bound for %g s of 0.05", got)
	}
}

// Two workers wait at once: that is one time and not two, and no longer than the
// span.
func TestBoundOfSeveralWorkers(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	r.awake(s.Slot)
	r.wait(0, s.Slot, 1)
	r.pass(20 * time.Millisecond)
	r.wait(1, s.Slot, 1)
	r.pass(30 * time.Millisecond)
	r.step()
	if got := c.last(); got.Bound != 0.05 || got.Queue != 2 {
		t.Errorf("the limit bound for %g s of 0.05, %d wait", got.Bound, got.Queue)
	}
}

// A figure that came late, or torn, does not make a span longer than it was.
func TestBoundIsNoLongerThanTheSpan(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	r.awake(s.Slot)
	r.wait(0, s.Slot, 1)
	r.shared.Line(0, s.Slot).Bound.Add(uint64(time.Second))
	r.steps(1)
	if got := c.last(); got.Bound != 0.05 {
		t.Errorf("the limit bound for %g s of 0.05", got.Bound)
	}
}

// A decision is in force at once, whatever it says; off means no limit.
func TestEnforce(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	for _, step := range []struct{ says, want int64 }{{7, 7}, {1, 1}, {0, 1}, {-3, 1}, {limit.Unlimited, limit.Unlimited}} {
		c.answer.Limit = int(step.says)
		r.steps(5)
		if got := r.limit(s.Slot); got != step.want {
			t.Errorf("the controller says %d, the gate %d, want %d", step.says, got, step.want)
		}
	}
	r.shared.Gate(s.Slot).Limit.Store(99) // whoever did that
	c.answer.Limit = 6
	r.steps(5)
	if got := r.limit(s.Slot); got != 6 {
		t.Errorf("a strange limit stays: %d", got)
	}
	off := s
	off.Settings = limit.Settings{Kind: limit.Off}
	r.Use([]Server{off})
	r.steps(5)
	if got := r.limit(s.Slot); got != 0 {
		t.Errorf("without a limit the gate says %d", got)
	}
}

// Who waits before an open gate is woken at each step; before a closed one only by
// the heartbeat.
func TestWakes(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	for range 5 {
		r.claim(0, 0, s.Slot)
	}
	r.wait(0, s.Slot, 1)
	r.wait(1, s.Slot, 1)
	r.rung = nil
	r.steps(20)
	if !slices.Equal(r.rung, []int{0, 1}) {
		t.Errorf("in a second of a closed gate these were woken: %v", r.rung)
	}
	c.answer.Limit = 6
	r.wait(1, s.Slot, 0)
	r.rung = nil
	r.steps(1)
	if !slices.Equal(r.rung, []int{0}) {
		t.Errorf("the limit rose, and these were woken: %v", r.rung)
	}
}

// A server with nothing to do is looked at less often, and at once when it has.
func TestQuiet(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	r.awake(s.Slot)
	r.steps(1)
	before := len(c.samples)
	r.steps(100)
	if got := len(c.samples) - before; got != 20 {
		t.Errorf("%d steps of a quiet server in 5 s, want 20", got)
	}
	r.steps(2)
	p := r.claim(0, 0, s.Slot)
	before = len(c.samples)
	r.steps(10)
	if got := len(c.samples) - before; got != 10 {
		t.Errorf("%d steps of a busy server in 0.5 s, want 10", got)
	}
	r.end(&p, 0, 0, s.Slot, gate.Good)
	var seconds float64
	for _, sample := range c.samples {
		seconds += sample.Span
	}
	if want := (r.mono - time.Hour).Seconds(); math.Abs(seconds-want) > 1e-6 {
		t.Errorf("the spans of all samples are %g s of %g", seconds, want)
	}
}

// One busy server is enough to look around every 50 ms.
func TestPace(t *testing.T) {
	r := newRig(t, "")
	a, b := r.server("http://a", adaptive), r.server("http://b", adaptive)
	r.Use([]Server{a, b})
	if got := r.step(); got != quietStep {
		t.Errorf("before the first request: %s", got)
	}
	for _, s := range []Server{a, b} {
		r.pass(quietStep)
		p := r.claim(0, 0, s.Slot)
		if got := r.step(); got != step {
			t.Errorf("with a request at %s: %s", s.URL, got)
		}
		r.pass(step)
		r.end(&p, 0, 0, s.Slot, gate.Good)
		if got := r.step(); got != step {
			t.Errorf("as it ends: %s", got)
		}
		r.pass(step)
		if got := r.step(); got != quietStep {
			t.Errorf("after it: %s", got)
		}
	}
}

// Two hundred servers that nobody uses: their figures are not read, so that no
// memory is filled.
func TestUnusedServersCostNoMemory(t *testing.T) {
	r := newRig(t, "")
	var servers []Server
	for i := range 200 {
		servers = append(servers, r.server("http://server-"+itoa(i), adaptive))
	}
	r.Use(servers)
	before := r.memory()
	r.steps(100)
	if after := r.memory(); after != before {
		t.Errorf("%d bytes of the segment are in memory, %d were", after, before)
	}
	p := r.claim(1, 1, 7)
	r.steps(1)
	r.end(&p, 1, 1, 7, gate.Good)
	r.steps(5)
	if after := r.memory(); after-before < 4096 || after-before > 256<<10 {
		t.Errorf("one server in use takes %d bytes", after-before)
	}
}

// A step takes no memory.
func TestStepAllocatesNothing(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	c.samples = make([]limit.Sample, 0, 10_000)
	r.claim(0, 0, s.Slot)
	r.wait(1, s.Slot, 1)
	r.rung = make([]int, 0, 10_000)
	if n := testing.AllocsPerRun(100, func() { r.steps(1) }); n != 0 {
		t.Errorf("%g allocations in a step", n)
	}
}

// Each move is remembered with what it was made of, the last 128 of them.
func TestMoves(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	r.claim(0, 0, s.Slot)
	r.steps(1)
	for i := range 200 {
		c.answer = limit.Decision{Limit: 10 + i, Centre: 5.5, Reason: limit.Climb, Half: limit.Up, Elasticity: 0.5, Evidence: 9, Throughput: 100}
		if i%2 == 1 {
			c.answer.Reason = limit.Hold // the dither turns: no move
		}
		r.steps(1)
	}
	v := r.View().Servers[0]
	if len(v.Moves) != 100 || v.Counts[limit.Climb] != 100 || len(v.Counts) != 1 {
		t.Fatalf("%d moves, %v", len(v.Moves), v.Counts)
	}
	want := Move{
		At: r.wall.Add(-step), From: 207, To: 208, Half: limit.Up, Reason: limit.Climb, Centre: 5.5, Elasticity: 0.5,
		Evidence: 9, Throughput: 100, InFlight: 1,
	}
	if got := v.Moves[99]; got != want {
		t.Errorf("the last move is %+v, want %+v", got, want)
	}
	for i := range 60 { // the centre walks without a reason
		c.answer = limit.Decision{Limit: 10, Centre: 6 + 0.6*float64(i)}
		r.steps(1)
	}
	v = r.View().Servers[0]
	if len(v.Moves) != movesKept || v.Counts[limit.Hold] != 30 {
		t.Fatalf("%d moves, %v", len(v.Moves), v.Counts)
	}
	for i := 1; i < movesKept; i++ {
		if !v.Moves[i].At.After(v.Moves[i-1].At) {
			t.Errorf("move %d is not later than the one before", i)
		}
	}
}

// What an operator should know is in the log at level info, but not over and over.
func TestReport(t *testing.T) {
	r := newRig(t, "")
	c, s := r.scripted()
	r.claim(0, 0, s.Slot)
	for i := range 400 { // 20 s
		c.answer = limit.Decision{Limit: 10, Centre: 10, Reason: limit.Outage}
		if i%2 == 1 {
			c.answer.Reason = limit.Climb
		}
		r.steps(1)
	}
	for text, want := range map[string]int{
		"level=INFO msg=limit farm=app server=http://a reason=outage": 2,
		"level=DEBUG msg=limit": 398,
		"reason=climb":          200,
	} {
		if got := strings.Count(r.log.String(), text); got != want {
			t.Errorf("%d lines have %q, want %d", got, text, want)
		}
	}
}
