package limit

import "math"

const (
	elasticityAim  = 0.03 // the elasticity at which more concurrency no longer pays for its response time
	certain        = 1.3  // standard errors from the aim before anything moves
	evidenceMost   = 240  // memory: no more than this is believed of the past
	surprise       = 3    // standard errors of a pair from the rest before the rest fades
	recentKeep     = 0.8  // of what recent pairs weigh, per pair
	recentApart    = 1.5  // standard errors between recent pairs and all, beyond which the old ones are dropped
	dispersionGain = 0.08
	dispersionWild = 9 // one pair counts for no more than this many dispersions
)

// evidence is what pairs of slots said about the elasticity at the present centre:
// a mean weighted by inverse variance. Whatever changes both halves of a pair
// alike (load, capacity, pauses, distant latency) cancels.
type evidence struct {
	weight     float64 // 1/variance of the elasticity
	sum        float64 // weighted sum of measured elasticities
	dispersion float64 // variance of a measurement over that of a Poisson stream
	last       float64 // measurement before, 0: none

	recentWeight, recentSum float64 // the same of the last few pairs only
}

func (e *evidence) elasticity() float64 {
	if e.weight == 0 {
		return 0
	}
	return e.sum / e.weight
}

// z is how many standard errors the elasticity is from its aim.
func (e *evidence) z() float64 { return (e.elasticity() - elasticityAim) * math.Sqrt(e.weight) }

func (e *evidence) fade(by float64) {
	e.weight *= by
	e.sum *= by
	e.recentWeight *= by
	e.recentSum *= by
}

// disperse learns how much noisier the server is than a Poisson stream, from
// differences of successive measurements, which a slow drift leaves alone.
func (e *evidence) disperse(s, poisson float64) {
	if e.last != 0 {
		ratio := (s - e.last) * (s - e.last) / 2 / poisson
		ratio = min(ratio, dispersionWild*e.dispersion+1)
		e.dispersion = clamp(e.dispersion+dispersionGain*(ratio-e.dispersion), 0.2, 50)
	}
	e.last = s
}

// surprised reports whether a measurement does not fit what was known: the server
// has changed.
func (e *evidence) surprised(s, poisson float64) bool {
	if e.weight == 0 {
		return false
	}
	variance := e.dispersion*poisson + 1/e.weight
	return math.Abs(s-e.elasticity()) > surprise*math.Sqrt(variance)
}

// add takes a measurement. It is clipped to where it could reasonably be, since a
// pause in one half makes it enormous.
func (e *evidence) add(s, poisson float64) {
	reach := max(1.5, 2.5*math.Sqrt(e.dispersion*poisson))
	s = clamp(s, elasticityAim-reach, elasticityAim+reach)
	weight := 1 / (e.dispersion * poisson)
	e.weight += weight
	e.sum += weight * s
	e.recentWeight = recentKeep*e.recentWeight + weight
	e.recentSum = recentKeep*e.recentSum + weight*s
	e.renew()
	if most := evidenceMost + weight; e.weight > most {
		e.fade(most / e.weight)
	}
}

// renew lets the last few pairs speak alone when all together say something else:
// the server has changed, in steps too small to surprise.
func (e *evidence) renew() {
	variance := 1/e.recentWeight + 1/e.weight
	if math.Abs(e.recentSum/e.recentWeight-e.elasticity()) > recentApart*math.Sqrt(variance) {
		e.weight, e.sum = e.recentWeight, e.recentSum
	}
}
