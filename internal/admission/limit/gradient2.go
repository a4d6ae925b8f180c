package limit

import (
	"math"
	"time"
)

// The figures of the algorithm as published (Netflix concurrency-limits,
// Gradient2Limit), with the tolerance that did best in our simulations.
const (
	gradientTolerance = 1.5 // short-term response time may be this many times the long-term one
	gradientQueue     = 4   // requests by which a limit grows at once
	gradientSmoothing = 0.2
	gradientWindows   = 600 // of the long-term mean
	gradientSeconds   = 0.5 // a window lasts this long
	gradientGood      = 10  // and has at least so many completions
)

// gradient2 lowers the limit when the response time of the last half second rises
// above that of the last minutes. Simple, and good while the load changes; held
// at saturation for long it takes the long queue for normal and drifts upwards.
type gradient2 struct {
	bounds
	limit   float64
	long    float64 // response time over minutes, s
	windows float64 // in the long mean, while it is young
	window  measure
	sum     float64 // of response times in the window, s
}

func newGradient2(b bounds, learned State) *gradient2 {
	g := &gradient2{bounds: b}
	g.limit = b.clamp(sane(learned.Centre, 1, Unlimited, firstCentre))
	g.long = sane(learned.LongMean, 0, math.MaxInt32, 0)
	if g.long > 0 {
		g.windows = gradientWindows
	}
	return g
}

// State is the limit and the long-term response time.
func (g *gradient2) State() State { return State{Centre: g.limit, LongMean: g.long} }

// Step moves the limit at the end of each window.
func (g *gradient2) Step(_ time.Time, s Sample) Decision {
	was := g.limit
	reason := Hold
	rate := 0.0
	if s.Span > 0 {
		g.window.add(s)
		g.sum += s.Sum
		rate = g.window.rate()
	}
	if g.window.seconds >= gradientSeconds && g.window.good >= gradientGood {
		g.move(g.sum/g.window.good, g.window.peak)
		g.window, g.sum = measure{}, 0
	}
	switch {
	case int(g.limit) > int(was):
		reason = Climb
	case int(g.limit) < int(was):
		reason = Descend
	}
	return Decision{Limit: int(g.limit), Was: int(was), Reason: reason, Centre: g.limit, Throughput: rate}
}

// move takes the mean response time of a window, and the most that was in flight.
func (g *gradient2) move(short, peak float64) {
	if g.windows < 10 {
		g.windows++
		g.long += (short - g.long) / g.windows
	} else {
		g.long += 2.0 / (gradientWindows + 1) * (short - g.long)
	}
	if g.long > 2*short {
		g.long *= 0.9 // the load fell: do not wait for minutes
	}
	if peak < g.limit/2 {
		return
	}
	gradient := clamp(gradientTolerance*g.long/short, 0.5, 1)
	wanted := g.limit*gradient + gradientQueue
	g.limit = g.clamp(g.limit + gradientSmoothing*(wanted-g.limit))
}
