package limit_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"sluice/internal/admission/limit"
)

// scenario is a backend and a load. Throughput is measured from..end.
type scenario struct {
	id, name  string
	from, end float64
	best      []phase   // the best fixed limit of each phase, by search on a grid
	shares    []float64 // of the proxies; none: one proxy
	setup     func(*sim)
}

// The backend of the published experiment (docs of ARR): 281/s direct with 222 in
// flight, 347/s with 110. Its true best is 372/s at 51.
const blogLambda, blogSigma, blogKappa = 50.4, 0.1, 3.41e-4

func blog(s *sim) {
	s.think = 0.1
	s.classes = uniform
	s.curve = usl(blogLambda, blogSigma, blogKappa)
}

func crowd(s *sim) { s.ramp(10, 250, 10, 4) }

var thirds, eighths = []float64{.5, .3, .2}, []float64{.125, .125, .125, .125, .125, .125, .125, .125}

// published are the scenarios by which limits were compared (ADMISSION).
var published = []scenario{
	{"A", "the blog's backend, 10 to 250 users", 100, 220, []phase{{0, 51}}, nil, func(s *sim) {
		blog(s)
		crowd(s)
	}},
	{"B", "flat: 32 workers, never degrades", 100, 220, []phase{{0, 32}}, nil, func(s *sim) {
		blog(s)
		s.curve = workers(10.9, 32)
		crowd(s)
	}},
	{"C", "pure delay of 0.4 s, no knee", 100, 220, []phase{{0, 1000}}, nil, func(s *sim) {
		blog(s)
		s.curve = workers(5000, 1)
		s.classes = []class{{part: 1, work: 1, remote: 0.4}}
		crowd(s)
	}},
	{"D", "capacity halves from 120 to 200 s", 100, 280, []phase{{0, 51}, {120, 26}, {200, 51}}, nil, func(s *sim) {
		blog(s)
		crowd(s)
		s.change(120, func() { s.curve = usl(blogLambda/2, blogSigma, blogKappa*4) })
		s.change(200, func() { s.curve = usl(blogLambda, blogSigma, blogKappa) })
	}},
	{"E", "90 % fast, 10 % slow", 100, 280, []phase{{0, 64}}, nil, func(s *sim) {
		blog(s)
		s.classes = []class{{part: .9, work: .25}, {part: .1, work: 7.75, remote: .3}}
		crowd(s)
	}},
	{"F", "150 ms more downstream from 120 to 200 s", 100, 280, []phase{{0, 51}, {120, 100}, {200, 51}}, nil, func(s *sim) {
		blog(s)
		crowd(s)
		s.at(120, func() { s.extra = .15 })
		s.at(200, func() { s.extra = 0 })
	}},
	{"G", "3 proxies, users stay with one: 50, 30, 20 %", 100, 260, []phase{{0, 51}}, thirds, func(s *sim) {
		blog(s)
		s.sticky = true
		crowd(s)
	}},
	{"P", "8 equal proxies, users stay with one", 100, 260, []phase{{0, 48}}, eighths, func(s *sim) {
		blog(s)
		s.sticky = true
		crowd(s)
	}},
	{"Q", "3 proxies, each request takes one at random", 100, 220, []phase{{0, 80}}, thirds, func(s *sim) {
		blog(s)
		crowd(s)
	}},
	{"H", "cliff: thrashes beyond 60", 100, 220, []phase{{0, 64}}, nil, func(s *sim) {
		blog(s)
		s.curve = thrash(usl(16, 0.03, 0), 60, math.Sqrt(600))
		crowd(s)
	}},
	{"I", "the blog's with pauses of 250 ms, every 7 s or so", 100, 220, []phase{{0, 51}}, nil, func(s *sim) {
		blog(s)
		crowd(s)
		var pause func(at float64)
		pause = func(at float64) {
			s.change(at, func() { s.paused = true })
			s.change(at+.25, func() { s.paused = false; pause(s.now + s.rng.ExpFloat64()*7) })
		}
		pause(3)
	}},
	{"J", "light: 20 users, below the knee", 20, 140, []phase{{0, 1000}}, nil, func(s *sim) {
		blog(s)
		s.addUsers(20)
	}},
	{"K", "flash crowd: 10 to 250 users at 20 s", 20, 80, []phase{{0, 51}}, nil, func(s *sim) {
		blog(s)
		s.addUsers(10)
		s.at(20, func() { s.addUsers(240) })
	}},
	{"L", "slow: the blog's at a tenth of its speed", 200, 500, []phase{{0, 51}}, nil, func(s *sim) {
		blog(s)
		s.think = 1
		s.curve = usl(blogLambda/10, blogSigma, blogKappa)
		crowd(s)
	}},
	{"R", "70 users: demand just below the knee", 100, 220, []phase{{0, 51}}, nil, func(s *sim) {
		blog(s)
		s.ramp(10, 70, 10, 4)
	}},
	{"M", "the blog's for an hour, the last ten minutes", 3000, 3600, []phase{{0, 51}}, nil, func(s *sim) {
		blog(s)
		crowd(s)
	}},
	{"N", "flat: 4 fast workers", 100, 220, []phase{{0, 8}}, nil, func(s *sim) {
		blog(s)
		s.curve = workers(90, 4)
		crowd(s)
	}},
}

var wide = limit.Settings{Kind: limit.Adaptive, Min: 1, Max: 1000}

// start makes a run ready: one controller for each proxy, wall clocks 20 ms apart.
func (sc scenario) start(seed uint64, control func(i int) limit.Controller) *sim {
	s := &sim{rng: rand.New(rand.NewPCG(seed, 1)), from: sc.from, end: sc.end, shares: sc.shares}
	if s.shares == nil {
		s.shares = []float64{1}
	}
	for i := range s.shares {
		s.proxies = append(s.proxies, &proxy{control: control(i), skew: 0.02 * float64(i)})
	}
	sc.setup(s)
	return s
}

// run plays a scenario with controllers as configured.
func (sc scenario) run(t testing.TB, seed uint64, set limit.Settings) *sim {
	t.Helper()
	s := sc.start(seed, func(int) limit.Controller { return made(t, set, limit.State{}) })
	s.run()
	return s
}

// oracle plays it with the best fixed limits.
func (sc scenario) oracle(seed uint64) *sim {
	s := sc.start(seed, func(int) limit.Controller { return share(sc.best, max(1, len(sc.shares))) })
	s.run()
	return s
}

func made(t testing.TB, set limit.Settings, learned limit.State) limit.Controller {
	t.Helper()
	c, err := limit.New(set, learned)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPublished holds the default limit against the best fixed one.
func TestPublished(t *testing.T) {
	worst, logs, runs := math.Inf(1), 0.0, 0.0
	for _, sc := range published {
		if raceDetector && sc.end > 280 {
			continue
		}
		best := sc.oracle(1).throughput()
		got := sc.run(t, 1, wide).throughput() / best
		t.Logf("%s %.3f of %.0f/s  %s", sc.id, got, best, sc.name)
		worst, logs, runs = min(worst, got), logs+math.Log(got), runs+1
		if sc.id == "M" && got < 0.97 {
			t.Errorf("after an hour at saturation: %.3f of the best fixed limit, want 0.97", got)
		}
	}
	if mean := math.Exp(logs / runs); worst < 0.90 || mean < 0.965 {
		t.Errorf("of the best fixed limit: worst %.3f, want 0.90; geometric mean %.4f, want 0.965", worst, mean)
	}
}
