package limit_test

import "testing"

// lateSteps lets one step in five come 100 to 300 ms too late.
func lateSteps(s *sim) {
	s.late = func() float64 {
		if s.rng.Float64() < 0.8 {
			return 0
		}
		return 0.1 + 0.2*s.rng.Float64()
	}
}

// collect pauses the backend for 100 to 500 ms, every 5 s or so.
func collect(s *sim) {
	var pause func(at float64)
	pause = func(at float64) {
		s.change(at, func() { s.paused = true })
		s.change(at+0.1+0.4*s.rng.Float64(), func() { s.paused = false; pause(s.now + 0.1 + s.rng.ExpFloat64()*5) })
	}
	pause(3)
}

// TestRough: the blog's backend as a busy machine shows it. Samples are late or
// coarse, work is heavy-tailed, the backend collects garbage, connections take
// time. Each is played with three seeds, against the best fixed limit in the same
// conditions.
func TestRough(t *testing.T) {
	for _, tt := range []struct {
		name string
		with func(*sim)
		best float64 // fixed limit, by search on a grid
	}{
		{"late steps", lateSteps, 51},
		{"the binding is sampled", func(s *sim) { s.sampled = true }, 51},
		{"completions are reported every 100 ms", func(s *sim) { s.burst = 0.1 }, 51},
		{"log-normal work, sigma 1", func(s *sim) { s.classes = []class{{part: 1, work: 1, tail: 1}} }, 51},
		{"log-normal work, sigma 1.5", func(s *sim) { s.classes = []class{{part: 1, work: 1, tail: 1.5}} }, 51},
		{"pauses of 100 to 500 ms", collect, 51},
		{"30 ms to connect", func(s *sim) { s.classes = []class{{part: 1, work: 1, fixed: 0.03}} }, 60},
		{"everything at once", func(s *sim) {
			lateSteps(s)
			collect(s)
			s.sampled, s.burst = true, 0.1
			s.classes = []class{{part: 1, work: 1, tail: 1.2, fixed: 0.03}}
		}, 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const seeds = 3
			mean := 0.0
			for seed := range uint64(seeds) {
				sc := scenario{id: "rough", from: 100, end: 260, best: []phase{{0, tt.best}}, setup: func(s *sim) {
					blog(s)
					tt.with(s)
					crowd(s)
				}}
				part := sc.run(t, 20+seed, wide).throughput() / sc.oracle(20+seed).throughput()
				t.Logf("%.3f", part)
				mean += part / seeds
			}
			if mean < 0.93 {
				t.Errorf("%.3f of the best fixed limit, want 0.93", mean)
			}
		})
	}
}
