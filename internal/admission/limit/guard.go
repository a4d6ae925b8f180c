package limit

import "math"

const (
	guardSeconds  = 0.8   // and three mean response times: no sooner is throughput judged
	guardExpected = 10    // and so many completions must have been expected
	collapsePart  = 0.55  // of the expected throughput
	outagePart    = 0.02  // of the expected throughput: that is not too much load, that is a standstill
	backOff       = 0.7   // factor on the centre
	steep         = -0.5  // elasticity below which a server breaks down rather than degrades
	ceilingRelax  = 0.005 // per second
	ceilingAgain  = 0.5   // factor on that when throughput breaks down near an earlier ceiling
	ceilingHaste  = 1.25  // factor on that for each climb that the ceiling stops: it may have been a false alarm
	failedPart    = 0.1   // of completions that may fail before the limit gives way
	failedLeast   = 3
	failedSeconds = 0.2 // and one mean response time: the window in which failures are counted
	failedTries   = 3   // steps down after which failures should have become fewer
	failedSame    = 0.8 // of what failed after the first step: that is not fewer
	failedSure    = 300 // answers after which it is known that no more fail than should
	failedMore    = 1.5 // times what usually fails, up to
	failedMost    = 0.9 // of the answers: more than that is an outage
)

// guard reacts at once to what evidence would learn too slowly.
type guard struct {
	ceiling float64 // throughput broke down above it; 0: nowhere
	relax   float64 // by which the ceiling rises, 1/s; more with each climb that it stopped
	again   float64 // ceilingRelax, less with each time that it broke down here
	before  float64 // centre before an outage; 0: there is none
	bound   window
	failures
}

// window is a stretch of time in which the limit bound.
type window struct{ seconds, good, expected float64 }

// failures are judged in windows, since one failure is no sign of load. When there
// are too many the limit gives way by steps, which is a bout. What follows a step
// adds up until it is clear whether they are still too many, and a bout that did
// not help is taken back.
type failures struct {
	seconds float64 // of the window
	window  answers
	since   answers // since the last step or verdict
	tries   int     // steps down in this bout
	from    float64 // highest centre of the bout
	first   float64 // part that failed after the first step
	usual   float64 // part that fails whatever the limit is, as far as is known
}

// answers are counted by how they ended.
type answers struct{ good, failed float64 }

func (a answers) all() float64  { return a.good + a.failed }
func (a answers) part() float64 { return a.failed / max(1, a.all()) }

// exceed reports whether clearly more failed than a part.
func (a answers) exceed(part float64) bool {
	noise := 3 * math.Sqrt(part*(1-part)*a.all())
	return a.failed >= failedLeast && a.failed > part*a.all()+noise
}

// react looks for the end of an outage, for failures, then for a collapse.
func (a *adaptive) react(s Sample) Reason {
	if a.guard.before > 0 && s.Good > 0 && s.Good > s.Failed {
		return a.recover()
	}
	a.guard.seconds += s.Span
	a.guard.window.good += float64(s.Good)
	a.guard.window.failed += float64(s.Failed)
	if a.guard.seconds >= max(failedSeconds, a.mean) {
		if reason := a.judgeFailures(); reason != Hold {
			return reason
		}
	}
	return a.judgeThroughput(s)
}

// judgeFailures ends a window of failures.
func (a *adaptive) judgeFailures() Reason {
	f := &a.guard.failures
	window := f.window
	f.since.good += window.good
	f.since.failed += window.failed
	f.seconds, f.window = 0, answers{}
	most := max(failedPart, min(failedMore*f.usual, failedMost))
	switch part := f.since.part(); {
	case !window.exceed(most) && (f.tries == 0 || !f.since.exceed(most)):
		if f.since.all() >= failedSure {
			f.settle()
		}
		return Hold
	case window.good > 0 && f.tries >= failedTries && part > failedSame*f.first:
		*f = failures{from: f.from, usual: part}
		a.moveTo(f.from)
		return Unrelated
	default:
		return a.giveWay(part)
	}
}

// giveWay is one more step down.
func (a *adaptive) giveWay(part float64) Reason {
	f := &a.guard.failures
	if f.tries == 0 {
		f.from = 0
	}
	if f.tries == 1 {
		f.first = part
	}
	f.tries++
	f.from = max(f.from, a.centre)
	f.since = answers{}
	if part > failedMost && a.guard.before == 0 {
		a.guard.before = f.from
	}
	if a.centre <= a.min {
		return Hold
	}
	a.moveTo(a.centre * backOff)
	return Failures
}

// settle ends a bout: no more fail than should. What still fails would do so at
// any limit.
func (f *failures) settle() {
	part := f.since.part()
	if part < failedPart/2 {
		part = 0
	}
	if f.tries > 0 || part < f.usual {
		f.usual = part
	}
	f.tries, f.since = 0, answers{}
}

// judgeThroughput holds windows in which the limit bound against what the server
// did lately. It does not wait for a pair, whose length suits a healthy server. A
// limit below the one that went with that throughput lets less be expected.
func (a *adaptive) judgeThroughput(s Sample) Reason {
	w := &a.guard.bound
	if a.held == 0 || float64(s.InFlight) < 0.9*a.limit-1 {
		*w = window{}
		return Hold
	}
	w.seconds += s.Span
	w.good += float64(s.Good)
	w.expected += s.Span * a.throughput * min(1, a.limit/a.held)
	if w.seconds < max(guardSeconds, 3*a.mean) || w.expected < guardExpected {
		return Hold
	}
	judged := *w
	*w = window{}
	switch {
	case judged.good >= collapsePart*judged.expected-2*math.Sqrt(a.evidence.dispersion*judged.expected):
		return Hold
	case judged.good < outagePart*judged.expected:
		return a.stop()
	}
	return a.collapse(judged.good / judged.seconds)
}

// collapse backs off, and sets a ceiling if the limit had been raised above where
// the throughput was known. A surge ends where it was before its last step.
func (a *adaptive) collapse(rate float64) Reason {
	surging := a.surge.running
	if surging || a.limit > 1.05*a.held {
		a.guard.mark(0.85*a.limit, a.min)
	}
	if surging {
		a.endSurge(a.surge.held, a.surge.held)
		return Collapse
	}
	a.throughput = max(rate, 0.2*a.throughput)
	a.held = a.limit
	a.moveTo(backOff * a.centre)
	return Collapse
}

// mark sets the ceiling where throughput broke down. One that was right the time
// before is trusted for longer.
func (g *guard) mark(at, least float64) {
	if g.ceiling > 0 && at > 0.6*g.ceiling && at < 1.5*g.ceiling {
		g.again *= ceilingAgain
	} else {
		g.again = ceilingRelax
	}
	g.ceiling, g.relax = max(least, at), g.again
}

// stop marks an outage: what stands still says nothing about concurrency.
func (a *adaptive) stop() Reason {
	if a.guard.before > 0 {
		return Hold
	}
	a.guard.before = a.centre
	return Outage
}

// recover goes back to where the server did well before the outage, with care.
func (a *adaptive) recover() Reason {
	before := a.guard.before
	a.guard.before = 0
	a.guard.failures = failures{}
	a.moveTo(max(a.centre, backOff*before))
	return Recovered
}

// moveTo moves the centre without evidence, and fades what was known. The window
// of the guard was of another limit, or of an outage.
func (a *adaptive) moveTo(centre float64) {
	a.guard.bound = window{}
	a.centre = a.clamp(centre)
	a.supported = min(a.supported, a.centre)
	a.surge.running = false
	a.evidence.fade(0.1)
}
