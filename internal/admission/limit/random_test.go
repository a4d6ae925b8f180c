package limit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawn is a random number, uniform or log-uniform between bounds.
type drawn struct{ *rand.Rand }

func (d drawn) uniform(a, b float64) float64 { return a + d.Float64()*(b-a) }
func (d drawn) log(a, b float64) float64     { return a * math.Exp(d.Float64()*math.Log(b/a)) }

// backend draws a curve and where it is best: USL, a pool of workers, or a pool
// that thrashes when it holds too many.
func (d drawn) backend() (c curve, best float64, name string) {
	alone := d.log(.005, .3) // s, the response time of one request by itself
	switch kind := d.Float64(); {
	case kind < .5:
		sigma, best := d.uniform(0, .15), d.log(8, 120)
		return usl(1/alone, sigma, (1-sigma)/best/best), best, fmt.Sprintf("USL best at %.0f, sigma %.2f", best, sigma)
	case kind < .8:
		n := int(d.log(2, 128))
		return workers(1/alone, n), float64(n), fmt.Sprintf("%d workers", n)
	default:
		n := int(d.log(4, 64))
		edge := float64(n) * d.uniform(1.3, 2.5)
		return thrash(workers(1/alone, n), edge, edge*d.uniform(.3, 1)), float64(n), fmt.Sprintf("%d workers, thrash from %.0f", n, edge)
	}
}

// requests draws a mix: alike, fast and slow, or with a delay elsewhere.
func (d drawn) requests(response float64) ([]class, string) {
	switch kind := d.Float64(); {
	case kind < .25:
		part, ratio := d.uniform(.05, .2), d.uniform(5, 40)
		fast := 1 / (1 - part + part*ratio)
		return []class{{part: 1 - part, work: fast}, {part: part, work: fast * ratio}}, fmt.Sprintf("%.0f %% are %.0f times slower", part*100, ratio)
	case kind < .5:
		remote := d.uniform(.5, 3) * response
		return []class{{part: 1, work: 1, remote: remote}}, fmt.Sprintf("%.0f ms elsewhere", remote*1e3)
	}
	return uniform, "alike"
}

// unseen draws a backend and a load that nothing was tuned on. The candidates
// are fixed limits of which one is about the best.
func unseen(seed uint64) (sc scenario, candidates []float64) {
	d := drawn{rand.New(rand.NewPCG(seed, 77))}
	for {
		c, best, name := d.backend()
		rate := 0.0
		for n := 1; n < 400; n++ {
			rate = max(rate, c(n))
		}
		response := best / rate
		think := d.uniform(.2, 3) * response
		users := int(best*d.uniform(.5, 6)*(1+think/response)) + 1
		if rate < 8 || rate > 500 || users > 1500 || response > 3 {
			continue
		}
		mix, mixName := d.requests(response)
		elsewhere := rate * mix[0].remote
		sc = scenario{
			id: fmt.Sprintf("r%d", seed), from: 150, end: 350,
			name: fmt.Sprintf("%s; %s; %d users, %.0f/s at best", name, mixName, users, rate),
			setup: func(s *sim) {
				s.curve, s.classes, s.think = c, mix, think
				step := max(1, users/25)
				s.ramp(step, users, step, 1.6)
			},
		}
		whole := best + elsewhere
		return sc, []float64{0.6 * whole, 0.8 * whole, whole, 1.3*best + elsewhere, 1.3 * (1.3*best + elsewhere), 2.2 * (best + elsewhere)}
	}
}

// bestOf plays a scenario with fixed limits and takes the best throughput.
func bestOf(sc scenario, candidates []float64) float64 {
	best := 0.0
	for _, l := range candidates {
		sc.best = []phase{{0, math.Ceil(l)}}
		best = max(best, sc.oracle(9).throughput())
	}
	return best
}

// TestUnseen holds the default limit against backends that nobody tuned it on.
func TestUnseen(t *testing.T) {
	backends := 60
	if raceDetector {
		backends = 6
	}
	var parts []float64
	sum := 0.0
	for seed := range uint64(backends) {
		sc, candidates := unseen(unseenFrom + seed)
		part := sc.run(t, 7, wide).throughput() / bestOf(sc, candidates)
		parts = append(parts, part)
		sum += part
		if part < 0.95 {
			t.Logf("%s %.3f  %s", sc.id, part, sc.name)
		}
	}
	slices.Sort(parts)
	mean, tenth := sum/float64(backends), parts[backends/10]
	t.Logf("mean %.4f, 10th percentile %.3f, worst %.3f", mean, tenth, parts[0])
	if !raceDetector && (mean < 0.975 || tenth < 0.95) || mean < 0.9 {
		t.Errorf("of the best fixed limit: mean %.4f, want 0.975; 10th percentile %.3f, want 0.95", mean, tenth)
	}
}

// unseenFrom is the first of 60 seeds that no constant was chosen by.
const unseenFrom = 5000
