package limit_test

import (
	"slices"
	"testing"

	"sluice/internal/admission/limit"
)

// three are proxies with a third of the users each, who stay with theirs.
func three(from, end, best float64, setup func(*sim)) scenario {
	return scenario{id: "three", from: from, end: end, best: []phase{{0, best}}, shares: []float64{1. / 3, 1. / 3, 1. / 3}, setup: func(s *sim) {
		blog(s)
		s.sticky = true
		setup(s)
	}}
}

// fair holds three proxies against the best fixed limits, and against each other.
func (sc scenario) fair(t *testing.T, s *sim, seed uint64) {
	t.Helper()
	if got := s.throughput() / sc.oracle(seed).throughput(); got < 0.95 {
		t.Errorf("seed %d: together %.3f of the best, want 0.95", seed, got)
	}
	mean := s.throughput() * (s.end - s.from) / 3
	for i, p := range s.proxies {
		if part := float64(p.done) / mean; part < 0.8 || part > 1.2 {
			t.Errorf("seed %d: proxy %d has %.2f of its fair share, want 0.80 to 1.20", seed, i, part)
		}
	}
}

// TestThreeProxies: proxies before one server get the best together, and equal
// parts of it, though they exchange no messages: where each request takes any of
// them, as behind a balancer, and where users stay with one. The latter takes some
// minutes, and is judged over five. (With other seeds and curves 91 of 96 runs were
// as fair as this; the worst proxy had 0.59 of its share, before a cliff.)
func TestThreeProxies(t *testing.T) {
	for _, tt := range []struct {
		name  string
		seed  uint64
		best  float64 // fixed limit, of all together
		setup func(*sim)
	}{
		{"each request takes any", 3, 51, func(s *sim) { s.sticky = false; crowd(s) }},
		{"users stay with one", 2, 51, crowd},
		{"32 workers", 2, 40, func(s *sim) { s.curve = workers(10.9, 32); crowd(s) }},
		{"a big server", 3, 180, func(s *sim) {
			s.curve = usl(40, 0.02, 3e-5)
			s.ramp(40, 1000, 40, 4)
		}},
	} {
		if raceDetector && tt.best != 51 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			sc := three(240, 540, tt.best, tt.setup)
			sc.fair(t, sc.run(t, tt.seed, wide), tt.seed)
		})
	}
}

// TestProxiesBecomeFair: proxies that begin with limits far apart end with equal
// parts of the work.
func TestProxiesBecomeFair(t *testing.T) {
	for _, tt := range []struct {
		name    string
		curve   curve
		best    float64
		centres [3]float64
	}{
		{"one has nearly all", usl(blogLambda, blogSigma, blogKappa), 51, [3]float64{40, 8, 8}},
		{"each has another part", workers(10.9, 32), 40, [3]float64{60, 30, 4}},
		{"one is new", usl(blogLambda, blogSigma, blogKappa), 51, [3]float64{25, 25, 0}},
	} {
		if raceDetector && tt.best != 51 {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			sc := three(240, 540, tt.best, func(s *sim) { s.curve = tt.curve; s.addUsers(250) })
			s := sc.start(1, func(i int) limit.Controller {
				return made(t, wide, limit.State{Centre: tt.centres[i], Supported: tt.centres[i]})
			})
			s.run()
			sc.fair(t, s, 1)
		})
	}
}

// TestCapacityHalves: within 15 s of each change throughput is within 10 % of the
// best at the new capacity, in the mean of five seeds; none is far below. (Of 240
// such stretches with other seeds two were below, at 0.89.)
func TestCapacityHalves(t *testing.T) {
	for _, tt := range []struct {
		name        string
		whole, half curve
		best        []phase
	}{
		{"retrograde", usl(blogLambda, blogSigma, blogKappa), usl(blogLambda/2, blogSigma, blogKappa*4), []phase{{0, 51}, {120, 26}, {200, 51}}},
		{"half the workers", workers(10.9, 32), workers(10.9, 16), []phase{{0, 40}, {120, 20}, {200, 40}}},
		{"half as fast", workers(10.9, 32), workers(5.45, 32), []phase{{0, 40}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sc := scenario{id: "half", from: 100, end: 240, best: tt.best, setup: func(s *sim) {
				blog(s)
				s.curve = tt.whole
				crowd(s)
				s.change(120, func() { s.curve = tt.half })
				s.change(200, func() { s.curve = tt.whole })
			}}
			const seeds = 5
			changes := []int{120, 200}
			mean := make([]float64, len(changes))
			for seed := range uint64(seeds) {
				best, s := sc.oracle(30+seed), sc.run(t, 30+seed, wide)
				for i, change := range changes {
					from, to := change+15, change+40
					got := s.between(from, to) / best.between(from, to)
					mean[i] += got / seeds
					if got < 0.85 {
						t.Errorf("seed %d, from %d to %d s: %.3f of the best, want 0.85", seed, from, to, got)
					}
				}
			}
			if slices.Min(mean) < 0.9 {
				t.Errorf("after changes at %v s: %.3f of the best, want 0.90", changes, mean)
			}
		})
	}
}

// TestHungServer: a server stands still for 20 s while requests time out; it is
// back at work within seconds of its return.
func TestHungServer(t *testing.T) {
	for _, timeout := range []float64{0, 2, 5} {
		sc := scenario{id: "hung", from: 100, end: 200, best: []phase{{0, 51}}, setup: func(s *sim) {
			blog(s)
			s.timeout = timeout
			crowd(s)
			s.change(120, func() { s.paused = true })
			s.change(140, func() { s.paused = false })
		}}
		s := sc.run(t, 4, wide)
		before := s.between(110, 120)
		if got := s.between(120, 140); got > 0.05*before {
			t.Fatalf("time-out %v s: %.0f/s while hung: this is no outage", timeout, got)
		}
		if got := s.between(146, 156) / before; got < 0.85 {
			t.Errorf("time-out %v s: %.2f of the throughput before, 6 to 16 s after its return; want 0.85", timeout, got)
		}
		reasons := reasons(s.proxies[0])
		if !slices.Contains(reasons, limit.Outage) || !slices.Contains(reasons, limit.Recovered) {
			t.Errorf("time-out %v s: outage and recovery are not among the reasons %v", timeout, reasons)
		}
	}
}

// reasons are those of a proxy's decisions, in order, without Hold.
func reasons(p *proxy) []limit.Reason {
	var all []limit.Reason
	for _, d := range p.trace {
		if d.Reason != limit.Hold {
			all = append(all, d.Reason)
		}
	}
	return all
}

// TestLiars: errors that come fast must not look like work. Each backend below
// answers some requests with an error after 1 ms.
func TestLiars(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faulty func(s *sim) func(onBackend int) bool
		best   float64 // fixed limit
		want   float64
	}{
		{"refuses beyond 40", func(*sim) func(int) bool {
			return func(n int) bool { return n >= 40 }
		}, 40, 0.85},
		{"one in three always", func(s *sim) func(int) bool {
			return func(int) bool { return s.rng.Float64() < 0.33 }
		}, 51, 0.85},
		{"one in five always", func(s *sim) func(int) bool {
			return func(int) bool { return s.rng.Float64() < 0.2 }
		}, 51, 0.93},
		{"one in three always, and slow", func(s *sim) func(int) bool {
			s.curve = usl(blogLambda/10, blogSigma, blogKappa)
			return func(int) bool { return s.rng.Float64() < 0.33 }
		}, 51, 0.85},
		{"one in three always, and not so slow", func(s *sim) func(int) bool {
			s.curve = usl(blogLambda/3, blogSigma, blogKappa)
			return func(int) bool { return s.rng.Float64() < 0.33 }
		}, 51, 0.9},
		{"one in twenty always", func(s *sim) func(int) bool {
			return func(int) bool { return s.rng.Float64() < 0.05 }
		}, 51, 0.93},
		{"everything from 110 to 130 s", func(s *sim) func(int) bool {
			return func(int) bool { return s.now > 110 && s.now < 130 }
		}, 51, 0.93},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sc := scenario{id: "liar", from: 100, end: 220, best: []phase{{0, tt.best}}, setup: func(s *sim) {
				blog(s)
				s.faulty = tt.faulty(s)
				crowd(s)
			}}
			best, s := sc.oracle(6).throughput(), sc.run(t, 6, wide)
			if got := s.throughput() / best; got < tt.want {
				t.Errorf("%.3f of the best, want %.2f; %v", got, tt.want, reasons(s.proxies[0]))
			}
		})
	}
}

// TestClockJumps: the wall clock steps back and forth by up to hours, or runs a
// little wrong; work goes on as if nothing had happened.
func TestClockJumps(t *testing.T) {
	for _, tt := range []struct {
		name  string
		skews []float64 // s, every 20 s from 100 s on
		jumps int
	}{
		{"an hour forward", []float64{3600}, 1},
		{"ten hours back", []float64{-36000}, 1},
		{"to and fro", []float64{1, -1, 7200, 0, -0.5, 86400}, 6},
		{"before 1970", []float64{-3e9}, 1},
		{"a little", []float64{0.01, 0.02, 0.03}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sc := scenario{id: "clock", from: 100, end: 220, best: []phase{{0, 51}}, setup: func(s *sim) {
				blog(s)
				crowd(s)
				for i, skew := range tt.skews {
					s.at(100+20*float64(i), func() { s.proxies[0].skew = skew })
				}
			}}
			best, s := sc.oracle(2).throughput(), sc.run(t, 2, wide)
			if got := s.throughput() / best; got < 0.94 {
				t.Errorf("%.3f of the best, want 0.94", got)
			}
			jumps := 0
			for _, r := range reasons(s.proxies[0]) {
				if r == limit.ClockJump {
					jumps++
				}
			}
			if jumps != tt.jumps {
				t.Errorf("%d jumps noticed, want %d", jumps, tt.jumps)
			}
		})
	}
}
