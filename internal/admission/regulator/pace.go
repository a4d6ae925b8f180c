package regulator

import (
	"math"

	"sluice/internal/admission/limit"
	"sluice/internal/segment"
)

// pace is how long a server takes for a good request of late. What is older fades.
type pace struct{ good, seconds float64 }

const (
	paceOver  = 2      // s, in which a good request fades by a factor of e
	paceLeast = 3      // good requests, faded, from which a pace is known
	paceStep  = 1. / 8 // by less than this part it is not told anew: every request reads that line
)

// count adds what happened since the step before.
func (p *pace) count(s limit.Sample) {
	fade := math.Exp(-s.Span / paceOver)
	p.good = p.good*fade + float64(s.Good)
	p.seconds = p.seconds*fade + s.Sum
}

// tell puts the pace where workers see it.
func (p *pace) tell(g *segment.Gate) {
	now, told := 0.0, float64(g.Pace.Load())
	if p.good >= paceLeast {
		now = p.seconds / p.good * 1e9
	}
	if math.Abs(now-told) > told*paceStep {
		g.Pace.Store(int64(now))
	}
}
