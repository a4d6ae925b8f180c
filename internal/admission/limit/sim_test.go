package limit_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/internal/admission/limit"
)

// The simulator: closed-loop users, proxies with one controller each, one backend
// that they share. Discrete events in virtual time; the same seed gives the same
// run. Only users and backend are doubles: the controllers are the real ones, and
// they see just what a supervisor would give them, every 50 ms.
//
// The backend is processor sharing that depends on its state: with n requests on
// it the total rate is curve(n), and each gets an equal part. A request's work has
// mean 1 and is exponential.

const tick = 0.05 // s between two calls of Step

// epoch is where the proxies' wall clocks start.
var epoch = time.Date(2026, 11, 20, 9, 30, 0, 123456789, time.UTC)

// curve gives the total rate, 1/s, with n requests on the backend.
type curve func(n int) float64

// usl is the Universal Scalability Law (Gunther 2007).
func usl(lambda, sigma, kappa float64) curve {
	return func(n int) float64 {
		f := float64(n)
		return lambda * f / (1 + sigma*(f-1) + kappa*f*(f-1))
	}
}

// workers is a pool of c workers of one rate each, behind a queue that costs nothing.
func workers(rate float64, c int) curve {
	return func(n int) float64 { return rate * float64(min(n, c)) }
}

// thrash lets a curve break down beyond an edge: at edge+width it does half.
func thrash(under curve, edge, width float64) curve {
	return func(n int) float64 {
		over := max(0, float64(n)-edge) / width
		return under(n) / (1 + over*over)
	}
}

// class is a kind of request.
type class struct {
	part   float64 // of all requests
	work   float64 // mean of an exponential
	remote float64 // mean of an exponential delay elsewhere, s
	fixed  float64 // delay elsewhere, s
	tail   float64 // if not 0, work is log-normal instead, and this its sigma
}

// draw gives the work of one request.
func (c class) draw(rng *rand.Rand) float64 {
	if c.tail > 0 {
		return c.work * math.Exp(c.tail*rng.NormFloat64()-c.tail*c.tail/2)
	}
	return c.work * rng.ExpFloat64()
}

var uniform = []class{{part: 1, work: 1}}

type request struct {
	user    int
	proxy   *proxy
	work    float64
	remote  float64 // s elsewhere before it needs the backend
	arrived float64
	sent    float64
	due     float64 // in the backend's virtual time
	fails   bool    // the backend answers with an error
	over    bool    // the proxy gave up
}

// proxy counts as the workers of one machine do, and holds what the limit does not let through.
type proxy struct {
	control  limit.Controller
	limit    int
	inFlight int
	queue    []*request
	seen     float64 // time up to which sample is counted
	stepped  float64
	sample   limit.Sample
	skew     float64 // of its wall clock, s
	done     int     // good completions while measuring
	trace    []limit.Decision
	unsaid   limit.Sample // completions that were not reported yet
	said     float64      // when the last ones were
}

func (p *proxy) count(now float64) {
	span := now - p.seen
	p.sample.Held += span * float64(p.inFlight)
	if len(p.queue) > 0 || p.inFlight >= p.limit {
		p.sample.Bound += span
	}
	p.seen = now
}

type event struct {
	at  float64
	seq int // events of one time happen in the order they were made
	do  func()
}

type sim struct {
	rng       *rand.Rand
	now       float64
	end       float64
	from      float64 // measured from here on
	seq       int
	events    heap[event]
	curve     curve
	paused    bool
	cpu       heap[*request]
	virtual   float64 // work that each request on the backend has got so far
	since     float64 // time up to which virtual is counted
	classes   []class
	extra     float64 // s elsewhere that every request needs besides
	think     float64 // mean, s
	metronome bool    // each pause between requests is that long
	users     int
	shares    []float64
	sticky    bool                     // a user stays with one proxy
	timeout   float64                  // s after which a proxy gives up; 0: never
	faulty    func(onBackend int) bool // whether a request that comes now will fail, at once
	late      func() float64           // s by which a step comes too late; nil: none does
	sampled   bool                     // Bound is guessed from how things stand at a step
	burst     float64                  // s; completions are reported only so often; 0: at each step
	target    float64                  // s; slower good responses are counted
	proxies   []*proxy
	times     []float64 // of requests as users see them, s, while measuring
	backend   []float64 // of requests as the proxies see them, s, while measuring
	perSecond []int     // good completions in each second
}

func (s *sim) at(t float64, do func()) {
	s.seq++
	s.events.push(event{t, s.seq, do})
}

func (s *sim) after(d float64, do func()) { s.at(s.now+d, do) }

// change lets something happen to the backend at a time.
func (s *sim) change(t float64, do func()) {
	s.at(t, func() { s.work(); do() })
}

func (s *sim) rate() float64 {
	if s.cpu.len() == 0 || s.paused {
		return 0
	}
	return s.curve(s.cpu.len()) / float64(s.cpu.len())
}

func (s *sim) work() {
	s.virtual += (s.now - s.since) * s.rate()
	s.since = s.now
}

func (s *sim) addUsers(n int) {
	for range n {
		s.users++
		user := s.users
		s.after(s.rng.ExpFloat64()*s.think, func() { s.arrive(user) })
	}
}

// pause is the time until a user's next request.
func (s *sim) pause() float64 {
	if s.metronome {
		return s.think
	}
	return s.rng.ExpFloat64() * s.think
}

// ramp adds users in steps.
func (s *sim) ramp(from, to, step int, every float64) {
	s.addUsers(from)
	for k, users := 1, from; users < to; k, users = k+1, users+step {
		s.at(float64(k)*every, func() { s.addUsers(step) })
	}
}

func (s *sim) pick(u float64) *proxy {
	for i, share := range s.shares {
		if u < share {
			return s.proxies[i]
		}
		u -= share
	}
	return s.proxies[len(s.proxies)-1]
}

func (s *sim) arrive(user int) {
	r := &request{user: user, arrived: s.now, remote: s.extra}
	u := s.rng.Float64()
	for i, c := range s.classes {
		if u < c.part || i == len(s.classes)-1 {
			r.work = c.draw(s.rng)
			r.remote += s.rng.ExpFloat64()*c.remote + c.fixed
			break
		}
		u -= c.part
	}
	where := s.rng.Float64()
	if s.sticky {
		where = math.Mod(float64(user)*0.618033988749895, 1)
	}
	r.proxy = s.pick(where)
	r.proxy.count(s.now)
	r.proxy.queue = append(r.proxy.queue, r)
	s.admit(r.proxy)
}

// admit sends what the limit lets through. Whoever calls it has counted.
func (s *sim) admit(p *proxy) {
	for len(p.queue) > 0 && p.inFlight < p.limit {
		r := p.queue[0]
		p.queue = p.queue[1:]
		p.inFlight++
		r.sent = s.now
		if s.timeout > 0 {
			s.after(s.timeout, func() { s.giveUp(r) })
		}
		if r.remote > 0 {
			s.after(r.remote, func() { s.join(r) })
		} else {
			s.join(r)
		}
	}
}

func (s *sim) join(r *request) {
	if s.faulty != nil && s.faulty(s.cpu.len()) {
		r.fails = true
		s.after(0.001, func() { s.finish(r) })
		return
	}
	s.work()
	r.due = s.virtual + r.work
	s.cpu.push(r)
}

// giveUp is a time-out: the proxy no longer waits, the backend works on.
func (s *sim) giveUp(r *request) {
	if !r.over {
		r.fails = true
		s.finish(r)
	}
}

func (s *sim) finish(r *request) {
	if r.over {
		return
	}
	r.over = true
	p := r.proxy
	p.count(s.now)
	p.inFlight--
	took := s.now - r.sent
	if r.fails {
		p.sample.Failed++
	} else {
		s.good(p, r, took)
	}
	s.admit(p)
	user := r.user
	s.after(s.pause(), func() { s.arrive(user) })
}

func (s *sim) good(p *proxy, r *request, took float64) {
	p.sample.Good++
	p.sample.Sum += took
	p.sample.Squares += took * took
	if s.target > 0 && took > s.target {
		p.sample.Slow++
	}
	s.perSecond[int(s.now)]++
	if s.now >= s.from {
		p.done++
		s.times = append(s.times, s.now-r.arrived)
		s.backend = append(s.backend, took)
	}
}

func (s *sim) step(p *proxy) {
	p.count(s.now)
	p.sample.Span = s.now - p.stepped
	p.sample.InFlight, p.sample.Queue = p.inFlight, len(p.queue)
	if s.sampled {
		p.sample.Bound = 0
		if len(p.queue) > 0 || p.inFlight >= p.limit {
			p.sample.Bound = p.sample.Span
		}
	}
	p.report(s.now, s.burst)
	wall := epoch.Add(time.Duration((s.now + p.skew) * 1e9))
	d := p.control.Step(wall, p.sample)
	p.trace = append(p.trace, d)
	p.limit = d.Limit
	p.sample, p.stepped = limit.Sample{}, s.now
	s.admit(p)
	next := tick
	if s.late != nil {
		next += s.late()
	}
	s.after(next, func() { s.step(p) })
}

// report keeps the completions back until a burst of them is due.
func (p *proxy) report(now, burst float64) {
	if burst == 0 {
		return
	}
	p.unsaid.Good += p.sample.Good
	p.unsaid.Sum += p.sample.Sum
	p.unsaid.Squares += p.sample.Squares
	p.sample.Good, p.sample.Sum, p.sample.Squares = 0, 0, 0
	if now-p.said >= burst {
		p.sample.Good, p.sample.Sum, p.sample.Squares = p.unsaid.Good, p.unsaid.Sum, p.unsaid.Squares
		p.unsaid, p.said = limit.Sample{}, now
	}
}

// run lets time pass to its end.
func (s *sim) run() {
	s.perSecond = make([]int, int(s.end)+2)
	for i, p := range s.proxies {
		p.limit = p.control.Step(epoch.Add(time.Duration(p.skew*1e9)), limit.Sample{}).Limit
		s.at(tick*(1+float64(i)/float64(len(s.proxies))), func() { s.step(p) })
	}
	for {
		next := math.Inf(1)
		if rate := s.rate(); rate > 0 {
			next = max(s.now, s.since+(s.cpu.first().due-s.virtual)/rate)
		}
		if min(next, s.events.first().at) > s.end {
			return
		}
		if next <= s.events.first().at {
			s.now = next
			s.work()
			s.finish(s.cpu.pop())
			continue
		}
		e := s.events.pop()
		s.now = e.at
		e.do()
	}
}

// throughput is good completions per second while measuring.
func (s *sim) throughput() float64 {
	done := 0
	for _, p := range s.proxies {
		done += p.done
	}
	return float64(done) / (s.end - s.from)
}

// between is throughput from one second to another.
func (s *sim) between(from, to int) float64 {
	done := 0
	for _, n := range s.perSecond[from:to] {
		done += n
	}
	return float64(done) / float64(to-from)
}

// meanLimit is that of one proxy over the last part of a run.
func (p *proxy) meanLimit(part float64) float64 {
	last := p.trace[int(float64(len(p.trace))*(1-part)):]
	sum := 0
	for _, d := range last {
		sum += d.Limit
	}
	return float64(sum) / float64(len(last))
}

func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1))]
}

// scheduled is a double: limits that someone knew beforehand, by time.
type scheduled struct {
	seconds float64
	plan    []phase
}

// phase is a limit for all proxies together, from a time on.
type phase struct{ from, limit float64 }

// share is a plan for one of several proxies.
func share(plan []phase, proxies int) *scheduled {
	own := slices.Clone(plan)
	for i := range own {
		own[i].limit = max(1, math.Round(own[i].limit/float64(proxies)))
	}
	return &scheduled{plan: own}
}

func (f *scheduled) Step(_ time.Time, s limit.Sample) limit.Decision {
	f.seconds += s.Span
	now := 0.0
	for _, p := range f.plan {
		if f.seconds >= p.from-tick {
			now = p.limit
		}
	}
	return limit.Decision{Limit: int(now)}
}

func (f *scheduled) State() limit.State { return limit.State{} }

// before orders what stands in a heap.
func (e event) before(o event) bool {
	return cmp.Or(cmp.Compare(e.at, o.at), cmp.Compare(e.seq, o.seq)) < 0
}

func (r *request) before(o *request) bool { return r.due < o.due }

// heap is a binary heap: container/heap allocates for each event.
type heap[T interface{ before(T) bool }] struct{ items []T }

func (h *heap[T]) len() int { return len(h.items) }
func (h *heap[T]) first() T { return h.items[0] }

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	for i := len(h.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.items[i].before(h.items[parent]) {
			return
		}
		h.items[i], h.items[parent] = h.items[parent], h.items[i]
		i = parent
	}
}

func (h *heap[T]) pop() T {
	top, last := h.items[0], len(h.items)-1
	h.items[0] = h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h.items[child].before(h.items[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		h.items[i], h.items[least] = h.items[least], h.items[i]
		i = least
	}
}
