package queue

import (
	"math"
	"time"
)

const (
	// paceSpan is the time constant of the rate: a departure so long ago weighs
	// 1/e of one now. A server that hangs shows within a few of it.
	paceSpan = 2 * time.Second
	// A rate is known from so many departures over so long a time: the error of a
	// Poisson process is then below 36 %, and a burst of permits that come free at
	// once is no rate.
	leastDepartures = 8
	leastSpan       = 250 * time.Millisecond
	// Without a departure for pauseAfter, the rate is at most pauseDepartures over
	// the time since the last: at a high rate that is much sooner than it decays.
	// Shorter pauses are those of a garbage collector.
	pauseAfter      = time.Second
	pauseDepartures = 64
	// stallAfter without departures the servers hang. When they depart again,
	// the rate from before and the stall itself say nothing of the rate to come.
	stallAfter = 2 * time.Second
	// forgetAfter a time without waiters the rate was that of other days.
	forgetAfter = int64(5 * time.Second)
	// longest is the longest wait that is predicted: nobody waits for longer.
	longest = time.Hour
)

// group is waiters that the same servers may serve. Each has its pace: those who
// are bound to a server that hangs tell nothing of the others.
type group struct {
	size    int
	at      int64 // until when pace has been told of time, ns
	emptied int64 // when the last of them went, ns
	pace    pace
}

// pass lets time go by.
func (g *group) pass(now int64) {
	if g.size > 0 {
		g.pace.pass(seconds(now - g.at))
	}
	g.at = now
}

// resize notes that one more waits (+1), or one less (-1).
func (g *group) resize(d int, now int64) {
	g.pass(now)
	if g.size == 0 && now-g.emptied >= forgetAfter {
		g.pace = pace{}
	}
	g.size += d
	if g.size > 0 {
		return
	}
	g.emptied = now
	if g.pace.anew { // they were served too soon after a stall to tell the rate
		g.pace = pace{}
	}
}

// depart counts one who goes to be served.
func (g *group) depart(now int64) {
	g.pass(now)
	g.pace.depart()
}

// pace is the rate at which waiters of a group depart to be served. Only time in
// which somebody waits counts: without waiters the rate is that of those who come.
type pace struct {
	known rate    // in force, if it has enough behind it
	again rate    // since the last stall, if it is under way
	since float64 // time without a departure, s
	anew  bool    // again is under way
}

// rate is an exponentially decayed count of departures over the time that it was
// counted in, decayed alike. Its clock starts with the first departure, since
// nobody knows for how long that was under way.
type rate struct {
	begun      bool
	departures int     // after the first, up to leastDepartures
	count      float64 // the same, decayed
	span       float64 // decayed, s
}

// pass lets time go by, s, in which somebody waits.
func (p *pace) pass(s float64) {
	if s <= 0 {
		return
	}
	p.since += s
	p.known.pass(s)
	if p.anew {
		p.again.pass(s)
	}
	if p.anew && p.again.sure() {
		p.known, p.again, p.anew = p.again, rate{}, false
	}
}

// depart counts one who goes to be served.
func (p *pace) depart() {
	if p.stalled() {
		p.again, p.anew = rate{}, true
	}
	p.since = 0
	p.known.depart()
	if p.anew {
		p.again.depart()
	}
}

// stalled reports whether nobody has been served for long.
func (p *pace) stalled() bool { return p.since >= stallAfter.Seconds() }

// resumes reports whether the first departures after a stall are so fresh that they
// could not have told the rate, however fast they come.
func (p *pace) resumes() bool { return p.anew && p.again.span < leastSpan.Seconds() }

// perSecond is the rate; infinite if it is not known.
func (p *pace) perSecond() float64 {
	r := math.Inf(1)
	if p.known.sure() && !p.resumes() {
		r = p.known.count / p.known.span
	}
	if p.since >= pauseAfter.Seconds() {
		r = math.Min(r, pauseDepartures/p.since)
	}
	return r
}

// wait is how long it takes until so many have departed, at most the longest; 0 if
// the rate is not known.
func (p *pace) wait(departures int) time.Duration {
	if departures == 0 {
		return 0
	}
	s := math.Min(float64(departures)/p.perSecond(), longest.Seconds())
	return time.Duration(s * float64(time.Second))
}

// seconds is a length of time, ns, as seconds.
func seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }

func (r *rate) pass(s float64) {
	if !r.begun {
		return
	}
	kept := math.Exp(-s / paceSpan.Seconds())
	r.count *= kept
	r.span = r.span*kept + paceSpan.Seconds()*(1-kept)
}

func (r *rate) depart() {
	if !r.begun {
		r.begun = true
		return
	}
	r.departures = min(r.departures+1, leastDepartures)
	r.count++
}

// sure reports whether there is enough behind the rate to refuse anybody by it.
func (r *rate) sure() bool {
	return r.departures >= leastDepartures && r.span >= leastSpan.Seconds()
}
