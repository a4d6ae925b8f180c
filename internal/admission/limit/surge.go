package limit

import "math"

const (
	surgeGood    = 10  // completions that a slot must have to judge a step
	surgeSure    = 100 // completions that end the slot of a step when its time is over
	surgeLong    = 3   // slots that a step may last at most to get them
	surgeStep    = 1.5 // factor of one step
	surgeFollows = 0.3 // elasticity that keeps a step
)

// surge climbs fast when a limit that was learned at a low demand meets a high
// one. Each step is a trial: it is kept only if throughput followed.
type surge struct {
	armed   bool // the demand was below the limit for a while, or nothing is known yet
	running bool
	misses  int     // slots in a row in which throughput did not follow
	rate    float64 // before the last step
	held    float64 // in flight before the last step
	from    float64 // limit before the last step
}

func (a *adaptive) startSurge() Reason {
	a.surge.running = true
	return a.stepSurge()
}

// stepSurge tries one step more, and remembers what it must beat.
func (a *adaptive) stepSurge() Reason {
	a.surge.misses = 0
	a.surge.rate, a.surge.held = a.slot.rate(), a.slot.inFlight()
	a.throughput, a.held = a.surge.rate, a.surge.held
	a.surge.from = max(a.centre, a.limit)
	a.centre = a.clamp(a.surge.from * surgeStep)
	return Surge
}

// nextSurge judges the last step.
func (a *adaptive) nextSurge() Reason {
	if a.slot.good < surgeGood {
		return Hold
	}
	grown := a.slot.inFlight() / a.surge.held
	if grown < 1.1 { // the demand does not fill it
		return a.endSurge(a.centre, a.surge.held)
	}
	followed := math.Log(a.slot.rate()/a.surge.rate) / math.Log(grown)
	switch {
	case followed < surgeFollows:
		if a.surge.misses++; a.surge.misses < 2 {
			return Hold
		}
		return a.endSurge(a.surge.from, a.surge.held)
	case a.slot.bind() < 0.8:
		return a.endSurge(a.centre, a.slot.inFlight())
	}
	return a.stepSurge()
}

func (a *adaptive) endSurge(centre, supported float64) Reason {
	a.surge = surge{}
	a.idle = 0
	a.centre = a.clamp(centre)
	a.supported = a.clamp(min(supported, a.centre))
	a.evidence.fade(0)
	a.forget()
	return SurgeOver
}
