package limit

import (
	"math"
	"time"
)

const (
	slowPart      = 0.1 // of good responses that may be slower than the target: it is on p90
	targetSeconds = 1   // a window lasts this long at least
	targetGood    = 50  // and has so many completions
)

// target keeps an objective on the 90th percentile of response time by a ceiling
// over another controller's limit. It can only lower: when the objective is held,
// the ceiling rises until it touches nothing.
type target struct {
	inner Controller
	bounds
	ceiling float64 // max: none needed
	inForce int
	window  measure
	slow    float64 // completions in the window that took longer than the target
}

func newTarget(inner Controller, b bounds, learned State) *target {
	t := &target{inner: inner, bounds: b}
	t.ceiling = b.clamp(sane(learned.Objective, 1, Unlimited, b.max))
	t.inForce = int(t.ceiling)
	return t
}

// State is the inner controller's, and the ceiling.
func (t *target) State() State {
	state := t.inner.State()
	state.Objective = t.ceiling
	return state
}

// Step asks the inner controller, then lowers its answer to the ceiling.
func (t *target) Step(wall time.Time, s Sample) Decision {
	d := t.inner.Step(wall, s)
	d.Was = t.inForce
	if s.Span > 0 {
		t.window.add(s)
		t.slow += float64(s.Slow)
	}
	if t.window.seconds >= targetSeconds && t.window.good >= targetGood {
		before := int(t.ceiling)
		t.move(float64(d.Limit))
		t.window, t.slow = measure{}, 0
		if int(t.ceiling) != before && int(t.ceiling) < d.Limit {
			d.Reason = Target
		}
	}
	d.Limit = min(d.Limit, int(t.ceiling))
	t.inForce = d.Limit
	return d
}

// move judges a window. The share of slow responses is known within its standard
// error; inside of that nothing moves.
func (t *target) move(wanted float64) {
	part := t.slow / t.window.good
	noise := math.Sqrt(slowPart * (1 - slowPart) / t.window.good)
	switch {
	case part > slowPart+noise:
		excess := min(0.3, 0.5*(part-slowPart))
		t.ceiling = t.clamp(min(t.ceiling, wanted, t.window.peak+1) * (1 - excess))
	case part < slowPart-noise && t.ceiling < t.max && t.window.bind() > 0.5:
		t.ceiling = t.clamp(max(1.03*t.ceiling, t.ceiling+0.5))
	}
}
