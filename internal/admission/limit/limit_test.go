package limit_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/internal/admission/limit"
)

// TestNew: settings that make no sense are refused.
func TestNew(t *testing.T) {
	for _, tt := range []struct {
		set limit.Settings
		ok  bool
	}{
		{limit.Settings{Kind: limit.Adaptive, Min: 1, Max: 1}, true},
		{limit.Settings{Kind: limit.Adaptive, Min: 0, Max: 10}, false},
		{limit.Settings{Kind: limit.Adaptive, Min: 11, Max: 10}, false},
		{limit.Settings{Kind: limit.Gradient2, Min: 2, Max: 1000}, true},
		{limit.Settings{Kind: limit.Gradient2, Min: 2, Max: limit.Unlimited + 1}, false},
		{limit.Settings{Kind: limit.Fixed, Limit: 5, Min: 1, Max: 10, Target: time.Second}, true},
		{limit.Settings{Kind: limit.Fixed, Limit: 5, Min: 1, Max: 10, Target: -time.Second}, false},
		{limit.Settings{Kind: limit.Off}, true},
		{limit.Settings{Kind: limit.Off, Target: time.Second}, false},
		{limit.Settings{Kind: "vegas", Min: 1, Max: 10}, false},
		{limit.Settings{Min: 1, Max: 10}, false},
	} {
		if _, err := limit.New(tt.set, limit.State{}); (err == nil) != tt.ok {
			t.Errorf("New(%+v): error %v, want one: %v", tt.set, err, !tt.ok)
		}
	}
}

// TestFixed: a fixed limit keeps to min and max; off has none.
func TestFixed(t *testing.T) {
	for _, tt := range []struct {
		set  limit.Settings
		want int
	}{
		{limit.Settings{Kind: limit.Fixed, Limit: 50, Min: 2, Max: 100}, 50},
		{limit.Settings{Kind: limit.Fixed, Limit: 50, Min: 2, Max: 20}, 20},
		{limit.Settings{Kind: limit.Fixed, Limit: 1, Min: 2, Max: 20}, 2},
		{limit.Settings{Kind: limit.Off, Min: 2, Max: 20}, limit.Unlimited},
	} {
		d := made(t, tt.set, limit.State{}).Step(epoch, limit.Sample{Span: 0.05, Failed: 100})
		if d.Limit != tt.want || d.Was != tt.want || d.Reason != limit.Hold {
			t.Errorf("%+v: %+v, want %d held", tt.set, d, tt.want)
		}
	}
}

// anything draws a sample that no real server would give, but a fault might.
func anything(rng *rand.Rand) limit.Sample {
	span := rng.ExpFloat64() * 0.1
	good := rng.Int64N(1 + int64(math.Exp(rng.Float64()*10)))
	response := math.Exp(rng.NormFloat64()*4 - 2)
	s := limit.Sample{
		Span: span, Good: good, Slow: rng.Int64N(good + 1), Ignored: rng.Int64N(3),
		Held: span * rng.Float64() * 2000, Bound: span * rng.Float64(),
		Sum: float64(good) * response, Squares: float64(good) * response * response * (1 + rng.ExpFloat64()),
		InFlight: rng.IntN(3000), Queue: rng.IntN(3000),
	}
	switch rng.IntN(8) {
	case 0:
		s.Failed = rng.Int64N(1000)
	case 1:
		s = limit.Sample{}
	case 2:
		s = limit.Sample{Span: span * 1000}
	case 3:
		s.Bound, s.Good, s.Sum, s.Squares, s.Slow = span, 0, 0, 0, 0
	}
	return s
}

// TestBounds: whatever comes in, the limit is within min and max, every figure is
// a number, and so is what is kept.
func TestBounds(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		set := limit.Settings{Kind: []limit.Kind{limit.Adaptive, limit.Gradient2, limit.Fixed}[seed%3], Limit: rng.IntN(100)}
		set.Min = 1 + rng.IntN(30)
		set.Max = set.Min + rng.IntN(1+rng.IntN(2000))
		if seed%2 == 0 {
			set.Target = 100 * time.Millisecond
		}
		c, wall := made(t, set, limit.State{}), epoch
		for step := range 2000 {
			s := anything(rng)
			wall = wall.Add(time.Duration(s.Span * 1e9))
			if rng.IntN(200) == 0 {
				wall = wall.Add(time.Duration(rng.NormFloat64() * 1e13))
			}
			d := c.Step(wall, s)
			if d.Limit < set.Min || d.Limit > set.Max {
				t.Fatalf("seed %d, step %d: limit %d is not within %d and %d", seed, step, d.Limit, set.Min, set.Max)
			}
			for _, f := range []float64{d.Centre, d.Elasticity, d.Evidence, d.Throughput} {
				if math.IsNaN(f) || math.IsInf(f, 0) {
					t.Fatalf("seed %d, step %d: %+v has a figure that is no number", seed, step, d)
				}
			}
		}
		if _, err := json.Marshal(c.State()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestState: what was learned survives JSON, and a controller made from it goes on
// from there; a damaged state does no harm.
func TestState(t *testing.T) {
	for _, kind := range []limit.Kind{limit.Adaptive, limit.Gradient2} {
		set := limit.Settings{Kind: kind, Min: 1, Max: 1000, Target: 300 * time.Millisecond}
		sc := published[0]
		sc.end = 120
		s := sc.run(t, 1, set)
		learned := s.proxies[0].control.State()
		text, err := json.Marshal(learned)
		if err != nil {
			t.Fatal(err)
		}
		var back limit.State
		if err := json.Unmarshal(text, &back); err != nil || back != learned {
			t.Fatalf("%s: %+v came back as %+v, error %v", kind, learned, back, err)
		}
		again := made(t, set, back)
		if got := again.State(); got.Centre != learned.Centre || got.Objective != learned.Objective || got.Mean != learned.Mean {
			t.Errorf("%s: made from %+v, learned %+v", kind, learned, got)
		}
	}
	nan := math.NaN()
	for _, damaged := range []limit.State{
		{Centre: nan, Supported: nan, Mean: nan, Square: nan, Dispersion: nan, Throughput: nan, Ceiling: nan, LongMean: nan, Objective: nan},
		{Centre: math.Inf(1), Supported: -1, Mean: -1, Square: 1e300, Dispersion: 1e9, Throughput: -5, Ceiling: 0.1, LongMean: -3, Objective: -2},
	} {
		for _, kind := range []limit.Kind{limit.Adaptive, limit.Gradient2} {
			set := limit.Settings{Kind: kind, Min: 2, Max: 1000, Target: time.Second}
			fresh, got := made(t, set, limit.State{}).State(), made(t, set, damaged).State()
			if got != fresh {
				t.Errorf("%s from a damaged state: %+v, want a fresh one: %+v", kind, got, fresh)
			}
		}
	}
}

// TestRestart: a controller made from a state needs no time to learn.
func TestRestart(t *testing.T) {
	sc := published[0]
	first := sc.run(t, 1, wide)
	learned := first.proxies[0].control.State()
	sc.from, sc.end = 1, 30
	sc.setup = func(s *sim) {
		blog(s)
		s.addUsers(250)
	}
	s := sc.start(2, func(int) limit.Controller { return made(t, wide, learned) })
	s.run()
	if got := s.throughput() / sc.oracle(2).throughput(); got < 0.95 {
		t.Errorf("in the first 30 s after a restart: %.3f of the best, want 0.95", got)
	}
}

// TestStepAllocates: nothing, whatever the kind.
func TestStepAllocates(t *testing.T) {
	for _, set := range []limit.Settings{
		wide,
		{Kind: limit.Gradient2, Min: 1, Max: 1000},
		{Kind: limit.Adaptive, Min: 1, Max: 1000, Target: time.Second},
		{Kind: limit.Off},
	} {
		c, wall, rng := made(t, set, limit.State{}), epoch, rand.New(rand.NewPCG(1, 1))
		if n := testing.AllocsPerRun(2000, func() {
			s := anything(rng)
			wall = wall.Add(time.Duration(s.Span * 1e9))
			c.Step(wall, s)
		}); n != 0 {
			t.Errorf("%+v: %v allocations per step", set, n)
		}
	}
}

// TestWords: the words in logs and metrics are distinct, and none is missing.
func TestWords(t *testing.T) {
	seen := map[string]bool{}
	for r := limit.Hold; r.String() != "unknown"; r++ {
		if r.String() == "" || seen[r.String()] {
			t.Errorf("reason %d is called %q", r, r)
		}
		seen[r.String()] = true
	}
	if len(seen) != int(limit.Target)+1 {
		t.Errorf("%d words, want one for each reason", len(seen))
	}
	if limit.Down.String() != "down" || limit.Level.String() != "level" || limit.Up.String() != "up" {
		t.Errorf("halves are called %s, %s, %s", limit.Down, limit.Level, limit.Up)
	}
}

// TestGradient2 does well while the load changes. (Over an hour it drifts: that is
// why it is not the default.)
func TestGradient2(t *testing.T) {
	set := limit.Settings{Kind: limit.Gradient2, Min: 1, Max: 1000}
	for _, id := range []string{"A", "B", "D"} {
		for _, sc := range published {
			if sc.id != id {
				continue
			}
			if got := sc.run(t, 1, set).throughput() / sc.oracle(1).throughput(); got < 0.95 {
				t.Errorf("%s: %.3f of the best fixed limit, want 0.95", id, got)
			}
		}
	}
}

// TestTarget: nine in ten good responses are about as fast as asked for, with more
// work done than half of what is possible; an objective that is easy costs nothing.
func TestTarget(t *testing.T) {
	for _, tt := range []struct {
		target float64 // s
		least  float64 // of the throughput without one
		binds  bool
	}{
		{0.10, 0.70, true},
		{0.20, 0.85, true},
		{5, 0.99, false},
	} {
		sc := published[0]
		set := wide
		free := sc.run(t, 1, set).throughput()
		set.Target = time.Duration(tt.target * 1e9)
		s := sc.start(1, func(int) limit.Controller { return made(t, set, limit.State{}) })
		s.target = tt.target
		s.run()
		p90 := quantile(s.backend, 0.9)
		t.Logf("target %v s: p90 %.3f s, throughput %.2f of that without, limit %.0f", tt.target, p90, s.throughput()/free, s.proxies[0].meanLimit(.5))
		if p90 > 1.15*tt.target || tt.binds && p90 < 0.7*tt.target {
			t.Errorf("target %v s: p90 is %.3f s", tt.target, p90)
		}
		if got := s.throughput() / free; got < tt.least {
			t.Errorf("target %v s: %.2f of the throughput without, want %.2f", tt.target, got, tt.least)
		}
	}
}
