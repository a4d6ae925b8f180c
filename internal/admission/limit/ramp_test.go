package limit_test

import (
	"math"
	"testing"

	"sluice/internal/admission/limit"
)

// TestRamp: 10 users more every 4 s or 10 s, from 10 to 250, while nothing is known
// of the server. Over the whole ramp, the first steps too, throughput is near the
// best fixed limit's, in the mean of three seeds.
func TestRamp(t *testing.T) {
	for _, tt := range []struct {
		name      string
		think     float64 // s
		metronome bool
		every     int // s
		wants     float64
	}{
		{"no think time, every 4 s", 0, false, 4, 0.92},
		{"thinks 100 ms in the mean, every 4 s", 0.1, false, 4, 0.92},
		{"thinks 100 ms, every 4 s", 0.1, true, 4, 0.92},
		{"no think time, every 10 s", 0, false, 10, 0.95},
		{"thinks 100 ms in the mean, every 10 s", 0.1, false, 10, 0.95},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seeds := 3.0
			if raceDetector {
				seeds = 1
			}
			sc := scenario{id: "ramp", end: float64(25 * tt.every), best: []phase{{0, 51}}, setup: func(s *sim) {
				blog(s)
				s.think, s.metronome = tt.think, tt.metronome
				s.ramp(10, 250, 10, float64(tt.every))
			}}
			mean := 0.0
			for seed := range uint64(seeds) {
				mean += sc.run(t, 50+seed, wide).throughput() / sc.oracle(50+seed).throughput() / seeds
			}
			t.Logf("%.3f", mean)
			if mean < tt.wants-slack {
				t.Errorf("%.3f of the best fixed limit, want %.2f", mean, tt.wants)
			}
		})
	}
}

// TestSurgeTakenBack: a surge that brought nothing leaves the limit where it was
// before its last step, not where the demand happened to be.
func TestSurgeTakenBack(t *testing.T) {
	seeds := 12
	if raceDetector {
		seeds = 3
	}
	over := 0
	for seed := range uint64(seeds) {
		sc := scenario{id: "surge", end: 60, setup: func(s *sim) {
			blog(s)
			s.ramp(10, 150, 10, 4)
		}}
		s := sc.run(t, 100+seed, wide)
		before, last := 0.0, 0.0
		for _, d := range s.proxies[0].trace {
			switch d.Reason {
			case limit.Surge:
				before = last
			case limit.SurgeOver:
				over++
				if d.Centre < math.Floor(before) {
					t.Errorf("seed %d: a surge from %.1f ended at %.1f", seed, before, d.Centre)
				}
			}
			last = d.Centre
		}
	}
	if over == 0 {
		t.Error("no surge ended")
	}
}
