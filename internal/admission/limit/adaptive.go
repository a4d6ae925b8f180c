package limit

import (
	"math"
	"time"
)

const (
	firstCentre = 20   // with nothing learned
	ditherScale = 0.75 // fraction of the centre, times the centre's root
	ditherLeast = 0.06
	ditherMost  = 0.2

	settledWeight = 20   // evidence with which a centre is supported
	settledOff    = 0.12 // if the elasticity is no further from its aim
	stepMost      = 0.5  // a centre moves by no more than this in ln at once
	stepFree      = 0.4  // so far above the aim the best point is far away, and a step may be longer
	strideLeast   = 0.1  // nor is that bound ever less than this
	steady        = 0.75 // mean over peak in flight: above it the demand is a fixed crowd
	supportAges   = 0.99 // per pair without demand
	supportTime   = 120  // s; and no slower than by a factor of e in this time
	followMost    = 0.85 // per pair: no faster does a limit follow the demand down
	followLeast   = 10   // and no lower
	idlePairs     = 4    // pairs with demand below the limit before a surge may come
)

// adaptive is paired elasticity seeking. Time is cut into slots, slots into pairs.
// One half of a pair holds the server at the centre plus a dither, the other at
// the centre less it. The two throughputs and numbers in flight give an
// elasticity; pairs add up to evidence; the centre moves when the evidence is
// certain, and only then. That sequential test is what keeps it from drifting
// for hours at saturation, where every pair by itself is mostly noise.
type adaptive struct {
	bounds
	centre    float64
	supported float64 // the last centre that evidence supported
	limit     float64 // in force, not yet rounded down

	times
	wall       time.Time // of the call before
	slot       slot
	first      measure // of the pair's first half
	firstWas   Half    // which half that was; Level: none
	evidence   evidence
	stride     float64 // the longest step now, in ln
	direction  float64 // sign of the last step
	throughput float64 // good completions per second, smoothed; 0: not known
	held       float64 // requests in flight that went with it, smoothed

	idle  int // pairs in a row with demand below the limit
	surge surge
	guard guard
}

func newAdaptive(b bounds, learned State) *adaptive {
	a := &adaptive{bounds: b}
	a.centre = b.clamp(sane(learned.Centre, 1, Unlimited, firstCentre))
	a.supported = b.clamp(sane(learned.Supported, 1, Unlimited, b.min))
	a.stride = stepMost
	a.mean = sane(learned.Mean, 0, math.MaxInt32, 0)
	a.square = sane(learned.Square, a.mean*a.mean, math.MaxInt32, 2*a.mean*a.mean)
	a.throughput = sane(learned.Throughput, 0, math.MaxInt32, 0)
	a.evidence.dispersion = sane(learned.Dispersion, 0.2, 50, 1.5)
	a.guard.ceiling = sane(learned.Ceiling, 1, Unlimited, 0)
	a.guard.relax, a.guard.again = ceilingRelax, ceilingRelax
	a.surge.armed = true
	a.limit = a.centre
	return a
}

// State is the centre and all that makes it trustworthy. The evidence itself is
// not kept: it is gathered again within seconds, and may be of another server.
func (a *adaptive) State() State {
	return State{
		Centre: a.centre, Supported: a.supported, Mean: a.mean, Square: a.square,
		Dispersion: a.evidence.dispersion, Throughput: a.throughput, Ceiling: a.guard.ceiling,
	}
}

// Step is one turn:
//
//  1. count the sample;
//  2. throw the slot away if the wall clock jumped;
//  3. react to failures, an outage, a collapse: at once;
//  4. at the end of a slot: step a surge on, or else weigh a finished pair;
//  5. begin the next slot.
func (a *adaptive) Step(wall time.Time, s Sample) Decision {
	was := a.limit
	if s.Span <= 0 {
		if a.slot.length == 0 {
			a.wall = wall
			a.begin(wall)
		}
		return a.decide(was, Hold)
	}
	a.times.add(s.Good, s.Sum, s.Squares) // 1
	jumped := a.slot.length == 0 || a.jumped(wall, s.Span)
	a.wall = wall
	if jumped { // 2
		a.forget()
		a.begin(wall)
		return a.decide(was, ClockJump)
	}
	a.slot.add(s)
	reason := a.react(s) // 3
	if reason != Hold {
		a.forget()
		a.begin(wall)
		return a.decide(was, reason)
	}
	if a.ended(wall) { // 4
		reason = a.close(s)
		a.begin(wall) // 5
	}
	return a.decide(was, reason)
}

// jumped reports whether the wall clock moved otherwise than time passed.
func (a *adaptive) jumped(wall time.Time, span float64) bool {
	return math.Abs(wall.Sub(a.wall).Seconds()-span) > jumpSeconds
}

// ended reports whether the slot is over: by the wall clock, so that peers agree;
// in a surge by its own age, since each step follows from the one before.
func (a *adaptive) ended(wall time.Time) bool {
	if a.surge.running {
		return a.slot.age >= a.slot.length && (a.slot.good >= surgeSure || a.slot.age >= surgeLong*a.slot.length)
	}
	return slotIndex(wall, a.slot.length) != a.slot.index
}

// close weighs the slot that ended.
func (a *adaptive) close(s Sample) Reason {
	if !a.slot.whole() {
		a.forget()
		return Hold
	}
	if a.surge.running {
		return a.nextSurge()
	}
	if a.surge.armed && float64(s.Queue) >= a.centre && a.slot.bind() > 0.8 && a.slot.good >= surgeGood {
		return a.startSurge()
	}
	if a.slot.index&1 == 0 {
		a.first, a.firstWas = a.slot.measure, a.slot.half
		return Hold
	}
	up, down := a.slot.measure, a.first
	if a.slot.half == Down {
		up, down = down, up
	}
	paired := a.firstWas == -a.slot.half && a.firstWas != Level
	a.forget()
	if !paired {
		return Hold
	}
	return a.weigh(up, down)
}

// forget drops the first half of a pair.
func (a *adaptive) forget() { a.first, a.firstWas = measure{}, Level }

// weigh learns from a finished pair, and moves the centre if that is enough.
func (a *adaptive) weigh(up, down measure) Reason {
	if up.good < 2 || down.good < 2 {
		return Hold
	}
	if down.bind() < 0.5 {
		return a.follow(up, down)
	}
	spread := math.Log(up.inFlight() / down.inFlight())
	if up.bind() < 0.5 && spread < 0.3*math.Log((1+a.dither())/(1-a.dither())) {
		a.evidence.fade(0.9) // the demand lies between the two halves
	}
	if spread < 0.03 {
		return Hold
	}
	a.idle = 0
	s := math.Log(up.rate()/down.rate()) / spread
	poisson := (1/up.good + 1/down.good) / (spread * spread)
	if a.evidence.last == 0 {
		a.evidence.dispersion = max(a.evidence.dispersion, 0.75*a.square/a.mean/a.mean)
	}
	a.evidence.disperse(s, poisson)
	if a.evidence.surprised(s, poisson) {
		a.evidence.fade(0.4)
		a.stride = stepMost
	}
	a.level(up, down)
	a.evidence.add(s, poisson)
	return a.seek()
}

// follow comes down to just above a demand that is below the limit. A demand that
// hardly varies is bounded by its users, who may be many enough to overload the
// server: there it comes down into the demand, so that the lower half binds and
// something can be learned. Never below what evidence supported, which ages.
func (a *adaptive) follow(up, down measure) Reason {
	if a.idle++; a.idle >= idlePairs {
		a.surge.armed = true
	}
	peak, mean := max(up.peak, down.peak), max(up.inFlight(), down.inFlight())
	demand := 1.05*peak + 2
	if mean > steady*peak && up.bind() < 0.05 {
		demand = mean
	}
	was := a.centre
	a.supported = a.clamp(a.supported * min(supportAges, math.Exp(-2*a.slot.length/supportTime)))
	a.centre = max(a.centre*followMost, a.supported, min(a.centre, demand))
	a.centre = a.clamp(max(a.centre, min(followLeast, was)))
	a.evidence.fade(0.8)
	if math.Floor(a.centre) != math.Floor(was) {
		return Demand
	}
	return Hold
}

// level smooths the throughput. A change that noise does not explain fades what
// was learned before it.
func (a *adaptive) level(up, down measure) {
	rate := (up.rate() + down.rate()) / 2
	held := (up.inFlight() + down.inFlight()) / 2
	if a.throughput == 0 || a.held == 0 {
		a.throughput, a.held = rate, held
	}
	noise := 2.5 * math.Sqrt(a.evidence.dispersion/(up.good+down.good))
	if math.Abs(math.Log(rate/a.throughput)) > 0.25+noise {
		a.evidence.fade(0.1)
		a.stride = stepMost
		a.throughput, a.held = rate, held
	}
	a.throughput += 0.2 * (rate - a.throughput)
	a.held += 0.2 * (held - a.held)
}

// seek moves the centre towards the aim once the evidence is certain. How far: as
// far as the elasticity is off, less what of it may be noise.
func (a *adaptive) seek() Reason {
	z, off := a.evidence.z(), a.evidence.elasticity()-elasticityAim
	if math.Abs(z) < certain {
		if a.evidence.weight > settledWeight && math.Abs(off) < settledOff {
			a.supported = a.centre
		}
		return Hold
	}
	a.pace(off)
	move := clamp(off*(1-1/(z*z)), -a.stride, a.stride)
	if off < stepFree {
		move = min(move, math.Log(1+a.dither())) // no further than the upper half was tried
	}
	if a.evidence.elasticity() < steep {
		a.guard.mark(a.centre, a.min)
	}
	a.centre = a.clamp(a.centre * math.Exp(move))
	if a.guard.ceiling > 0 && a.centre*(1+a.dither()) > a.guard.ceiling {
		a.guard.relax *= ceilingHaste
	}
	a.supported = a.centre
	a.evidence.fade(math.Exp(-4 * math.Abs(move))) // it was of another place
	if move > 0 {
		return Climb
	}
	return Descend
}

// pace halves the longest step whenever the direction turns, as a bisection does,
// and lets it grow again while it stays: no swinging to and fro over an edge.
func (a *adaptive) pace(off float64) {
	if off*a.direction < 0 {
		a.stride = max(strideLeast, a.stride/2)
	} else {
		a.stride = min(stepMost, a.stride*1.5)
	}
	a.direction = off
}

// begin starts the slot that the wall clock is in, and puts its limit in force.
// The length changes between pairs only.
func (a *adaptive) begin(wall time.Time) {
	length := a.slot.length
	want := slotPerTime * a.biased()
	settle := settlePart * want
	if a.surge.running {
		want, settle = slotPerTime*a.mean, a.mean
	}
	if length == 0 || a.surge.running || a.slot.index&1 == 1 {
		length = slotLength(length, want)
	}
	index := slotIndex(wall, length)
	half := pairHalf(index)
	if a.surge.running {
		half = Level
	}
	if index != a.slot.index+1 || length != a.slot.length {
		a.forget()
	}
	a.slot = slot{length: length, index: index, half: half}
	a.slot.skip = min(max(settleLeast, settle), length/2)
	a.limit = a.clamp(a.dithered(half))
}

// dither is the part of the centre by which the halves of a pair differ from it.
// A slot is some response times long, so that about as many completions fall into
// it as requests are held: with a dither of one over their root every pair says as
// much about the elasticity as any other.
//
// It is also what makes proxies before one server fair, without a message. With a
// server's true elasticity e and in step, a proxy whose dither is d measures
// 1-(1-e)·D/d, where D is the mean dither of all, weighted by requests held. Who
// holds more than the others has the smaller d, measures less than e and comes
// down; who holds less climbs; where all measure e they hold the same. For that to
// be so the dither must not depend on anything that one proxy alone has seen.
func (a *adaptive) dither() float64 {
	return clamp(ditherScale/math.Sqrt(a.centre), ditherLeast, ditherMost)
}

// dithered is the limit of a half: off the centre by the dither, and by one whole
// request at least. A ceiling above which throughput broke down relaxes with each
// slot.
func (a *adaptive) dithered(half Half) float64 {
	if a.guard.ceiling > 0 {
		a.guard.ceiling = min(a.max, a.guard.ceiling*(1+a.guard.relax*a.slot.length))
		a.centre = a.clamp(min(a.centre, a.guard.ceiling/(1+a.dither())))
	}
	limit := a.centre * (1 + a.dither()*float64(half))
	switch {
	case half == Up:
		limit = max(limit, math.Floor(a.centre)+1)
	case half == Down && a.centre >= 2:
		limit = min(limit, math.Ceil(a.centre)-1)
	}
	if a.guard.ceiling > 0 {
		limit = min(limit, a.guard.ceiling)
	}
	return limit
}

func (a *adaptive) decide(was float64, reason Reason) Decision {
	return Decision{
		Limit: int(a.limit), Was: int(was), Half: a.slot.half, Reason: reason, Centre: a.centre,
		Elasticity: a.evidence.elasticity(), Evidence: a.evidence.weight, Throughput: a.throughput,
	}
}
