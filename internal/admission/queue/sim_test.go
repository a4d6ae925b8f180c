package queue

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// sim is one server with so many permits, and the queue before it, in virtual
// time. Its requests come from users who wait for their answers (closed loop), or
// at a rate whatever happens (open loop).
type sim struct {
	q       *Queue
	random  *rand.Rand
	now     int64 // ns
	events  events
	made    int
	permits int
	busy    int
	service func(*rand.Rand) int64 // ns
	inOrder bool                   // plain first come first served, to compare with
	hangs   int64                  // nothing is answered before this moment

	users    int     // closed loop
	rate     float64 // open loop, per second
	tenant   func(*rand.Rand) uint64
	deadline int64 // after the arrival, ns; 0: none

	results  []result
	stood    int64 // time in which the queue was overloaded, ns
	was      bool
	wasSince int64
}

// result is what became of a request that was held or refused.
type result struct {
	at     int64 // when it came
	wait   int64 // until it was served or dropped
	tenant uint64
	what   Verdict // Held: it was served
}

type event struct {
	at     int64
	number int // events of one moment happen in the order in which they were made
	do     func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// exponential is service times of a mean.
func exponential(mean time.Duration) func(*rand.Rand) int64 {
	return func(r *rand.Rand) int64 { return int64(r.ExpFloat64() * float64(mean)) }
}

// constant is service times all alike.
func constant(d time.Duration) func(*rand.Rand) int64 {
	return func(*rand.Rand) int64 { return int64(d) }
}

// heavyTailed is service times of a mean whose logarithms are normal, with a
// standard deviation of 1.5: one in a hundred takes ten times the mean.
func heavyTailed(mean time.Duration) func(*rand.Rand) int64 {
	return func(r *rand.Rand) int64 { return int64(float64(mean) * math.Exp(1.5*r.NormFloat64()-1.5*1.5/2)) }
}

func newSim(seed uint64, set Settings, permits int, service func(*rand.Rand) int64) *sim {
	return &sim{q: New(1, set), random: rand.New(rand.NewPCG(seed, 11)), now: int64(time.Hour), permits: permits, service: service}
}

func (s *sim) after(ns int64, do func()) {
	s.made++
	heap.Push(&s.events, event{s.now + ns, s.made, do})
}

// run lets time go by.
func (s *sim) run(d time.Duration) {
	end := s.now + int64(d)
	for len(s.events) > 0 && s.events[0].at <= end {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
		s.look()
	}
	s.now = end
}

// look follows the queue's mode.
func (s *sim) look() {
	if s.inOrder {
		s.q.overloaded = false
	}
	if s.was {
		s.stood += s.now - s.wasSince
	}
	s.was, s.wasSince = s.q.overloaded, s.now
}

// addUsers lets more users come, all at once; each comes again when it is answered.
func (s *sim) addUsers(n int) {
	s.users += n
	for range n {
		s.after(0, s.request)
	}
}

// open lets requests come at a rate, as a Poisson process; 0 ends it.
func (s *sim) open(rate float64) {
	s.rate = rate
	var next func()
	next = func() {
		if s.rate != rate {
			return
		}
		s.request()
		s.after(int64(s.random.ExpFloat64()/rate*1e9), next)
	}
	if rate > 0 {
		s.after(0, next)
	}
}

// request is one that comes now.
func (s *sim) request() {
	w := &Waiter{Only: -1}
	if s.tenant != nil {
		w.Tenant = s.tenant(s.random)
	}
	if s.deadline > 0 {
		w.Deadline = s.now + s.deadline
	}
	if s.busy < s.permits && s.q.Len() == 0 {
		s.serve()
		return
	}
	v := s.q.Join(w, s.now)
	s.drops()
	if v != Held {
		s.end(w, s.now, v)
		return
	}
	if timeout := s.q.set.Timeout; timeout > 0 {
		s.after(int64(timeout), func() {
			if s.q.Leave(w, s.now) {
				s.end(w, w.since, Late)
			}
		})
	}
	s.fill()
}

// serve holds a permit for as long as the server takes.
func (s *sim) serve() {
	s.busy++
	var answer func()
	answer = func() {
		if s.now < s.hangs {
			s.after(s.hangs-s.now, answer)
			return
		}
		s.busy--
		s.fill()
		if s.users > 0 {
			s.request()
		}
	}
	s.after(s.service(s.random), answer)
}

// fill gives the free permits away.
func (s *sim) fill() {
	for s.busy < s.permits && s.q.Len() > 0 {
		w := s.q.Next(0, s.now)
		s.drops()
		if w == nil {
			return
		}
		s.end(w, w.since, Held)
		s.serve()
	}
}

func (s *sim) drops() {
	for _, d := range s.q.Dropped() {
		s.end(d.Waiter, d.Waiter.since, d.Why)
	}
}

// end notes what became of a request. A user whose request was not served comes
// again a little later.
func (s *sim) end(w *Waiter, came int64, what Verdict) {
	s.results = append(s.results, result{came, s.now - came, w.Tenant, what})
	if what != Held && s.users > 0 {
		s.after(100*ms, s.request)
	}
}

// waits are those of the requests that were served and are such, in order of length.
func (s *sim) waits(such func(result) bool) []time.Duration {
	var waits []time.Duration
	for _, r := range s.results {
		if r.what == Held && such(r) {
			waits = append(waits, time.Duration(r.wait))
		}
	}
	slices.Sort(waits)
	return waits
}

// count is how many requests came to an end.
func (s *sim) count(what Verdict) (n int) {
	for _, r := range s.results {
		if r.what == what {
			n++
		}
	}
	return n
}

func all(result) bool { return true }

// quantile of sorted waits.
func quantile(waits []time.Duration, q float64) time.Duration {
	if len(waits) == 0 {
		return 0
	}
	return waits[int(q*float64(len(waits)-1))]
}

// blog is the server of the published experiment at its best point: 51 permits,
// 372 answers per second.
const (
	blogPermits = 51
	blogRate    = 372
	blogTime    = blogPermits * time.Second / blogRate
)

var blogSettings = Settings{Length: 1000, Timeout: 30 * time.Second}

var services = map[string]func(time.Duration) func(*rand.Rand) int64{
	"constant": constant, "exponential": exponential, "heavy tail": heavyTailed,
}

// TestClosedLoop: when each answer brings the next request, the queue stands for
// ever and is in order all the same.
func TestClosedLoop(t *testing.T) {
	for name, service := range services {
		for seed := range uint64(2) {
			play := func(inOrder bool) *sim {
				s := newSim(seed, blogSettings, blogPermits, service(blogTime))
				s.inOrder = inOrder
				s.addUsers(250)
				s.run(30 * time.Second)
				return s
			}
			s, plain := play(false), play(true)
			if s.stood > 0 {
				t.Errorf("%s, seed %d: newest first for %v", name, seed, time.Duration(s.stood))
			}
			got, want := quantile(s.waits(all), 0.99), quantile(plain.waits(all), 0.99)
			t.Logf("%s, seed %d: p99 %v, in order %v", name, seed, got, want)
			if got > want*105/100 {
				t.Errorf("%s, seed %d: p99 of waits %v, in order %v", name, seed, got, want)
			}
			if refused := len(s.results) - s.count(Held); refused > 0 {
				t.Errorf("%s, seed %d: %d refused or dropped", name, seed, refused)
			}
		}
	}
}

// TestClosedLoopMoves: users who come in steps, and a limit that goes up and down
// as its controller probes, are no overload.
func TestClosedLoopMoves(t *testing.T) {
	for _, c := range []struct {
		name    string
		mean    time.Duration
		permits int
		slot    time.Duration
	}{
		{"fast", 20 * time.Millisecond, 20, 300 * time.Millisecond},
		{"the published one", blogTime, blogPermits, 600 * time.Millisecond},
		{"slow", time.Second, 50, 4800 * time.Millisecond},
		{"slow and many", time.Second, 200, 4800 * time.Millisecond},
	} {
		for name, service := range services {
			for seed := range uint64(2) {
				s := newSim(seed, blogSettings, c.permits, service(c.mean))
				for range 12 {
					s.addUsers(c.permits * 2 / 5)
					for up := range 4 {
						s.permits = c.permits * (80 + up%2*40) / 100
						s.fill()
						s.run(c.slot)
					}
				}
				if share := float64(s.stood) / float64(s.now-int64(time.Hour)); share > 0 {
					t.Errorf("%s, %s, seed %d: newest first for %.3f of the time", c.name, name, seed, share)
				}
			}
		}
	}
}

// TestOpenLoop: at 1.5 times what the server can do, those who are served have
// waited for a short time, and as many are served.
func TestOpenLoop(t *testing.T) {
	for name, service := range services {
		for seed := range uint64(2) {
			play := func(inOrder bool) *sim {
				s := newSim(seed, blogSettings, blogPermits, service(blogTime))
				s.inOrder = inOrder
				s.open(1.5 * blogRate)
				s.run(30 * time.Second)
				return s
			}
			s, plain := play(false), play(true)
			begin := int64(time.Hour + 10*time.Second)
			late := func(r result) bool { return r.at > begin }
			got, want := s.waits(late), plain.waits(late)
			t.Logf("%s, seed %d: served %d, median %v, p90 %v, p99 %v; in order %d, %v, %v; stood %v", name, seed,
				len(got), quantile(got, .5), quantile(got, .9), quantile(got, .99), len(want), quantile(want, .5), quantile(want, .9), time.Duration(s.stood))
			if 10*quantile(got, 0.5) > quantile(want, 0.5) || 4*quantile(got, 0.9) > quantile(want, 0.9) {
				t.Errorf("%s, seed %d: waits %v and %v; in order %v and %v", name, seed,
					quantile(got, 0.5), quantile(got, 0.9), quantile(want, 0.5), quantile(want, 0.9))
			}
			if len(got) < len(want)*97/100 {
				t.Errorf("%s, seed %d: %d served; in order %d", name, seed, len(got), len(want))
			}
		}
	}
}

// TestOverloadBeginsAndEnds: the queue finds out within seconds that more come than
// go, also at low rates, and that they no longer do.
func TestOverloadBeginsAndEnds(t *testing.T) {
	for _, c := range []struct {
		name       string
		load, rate float64
		soon       time.Duration
	}{
		{"1.5 times 372/s", 1.5, 372, 4 * time.Second},
		{"1.2 times 372/s", 1.2, 372, 15 * time.Second},
		{"1.5 times 20/s", 1.5, 20, 30 * time.Second},
		{"three times 5000/s", 3, 5000, 2 * time.Second},
	} {
		for seed := range uint64(3) {
			mean := time.Duration(20 / c.rate * 1e9)
			s := newSim(seed, Settings{Length: 1000, Timeout: time.Hour}, 20, exponential(mean))
			until := func(overloaded bool, longest time.Duration) time.Duration {
				began := s.now
				for s.q.overloaded != overloaded && s.now-began < int64(longest) {
					s.run(10 * time.Millisecond)
				}
				return time.Duration(s.now - began)
			}
			s.open(c.load * c.rate)
			began := until(true, c.soon)
			if !s.q.overloaded {
				t.Errorf("%s, seed %d: not seen for %v", c.name, seed, c.soon)
			}
			s.run(5 * time.Second)
			s.open(0.7 * c.rate)
			ended := until(false, 15*time.Second)
			if s.q.overloaded {
				t.Errorf("%s, seed %d: goes on", c.name, seed)
			}
			t.Logf("%s, seed %d: began after %v, ended after %v", c.name, seed, began, ended)
		}
	}
}

// TestNoOverload: at 0.9 of what the server can do, the newest are hardly ever
// served first.
func TestNoOverload(t *testing.T) {
	for seed := range uint64(3) {
		s := newSim(seed, blogSettings, blogPermits, exponential(blogTime))
		s.open(0.9 * blogRate)
		s.run(2 * time.Minute)
		if s.stood > int64(2*time.Second) {
			t.Errorf("seed %d: newest first for %v of 2 m", seed, time.Duration(s.stood))
		}
	}
}

// TestDropsStale: with a target, nobody waits much longer than twice as long while
// the queue is overloaded.
func TestDropsStale(t *testing.T) {
	set := blogSettings
	set.Target = 100 * time.Millisecond
	s := newSim(1, set, blogPermits, exponential(blogTime))
	s.open(1.5 * blogRate)
	s.run(time.Minute)
	stale := s.count(Stale)
	for _, r := range s.results {
		if r.at > int64(time.Hour+10*time.Second) && r.wait > int64(2*set.Target+50*time.Millisecond) {
			t.Fatalf("one waited for %v, and was %v", time.Duration(r.wait), r.what)
		}
	}
	if more := 0.5 * blogRate * 50; float64(stale) < 0.9*more {
		t.Errorf("%d were dropped, want about %.0f", stale, more)
	}
}

// TestFairShares: a tenant that floods takes nothing from one with a modest share.
func TestFairShares(t *testing.T) {
	modest := func(r result) bool { return r.tenant == 2 }
	play := func(flood float64) *sim {
		s := newSim(3, blogSettings, blogPermits, exponential(blogTime))
		s.tenant = func(r *rand.Rand) uint64 {
			if r.Float64() < flood/(flood+100) {
				return 1
			}
			return 2
		}
		s.open(flood + 100)
		s.run(15 * time.Second)
		return s
	}
	for _, flood := range []float64{1000, 5000} {
		s := play(flood)
		refused := 0
		for _, r := range s.results {
			if modest(r) && r.what != Held {
				refused++
			}
		}
		got := s.waits(modest)
		t.Logf("flood of %.0f/s: %d of the modest one served, %d not; median %v, p99 %v", flood, len(got), refused, quantile(got, 0.5), quantile(got, 0.99))
		if refused > len(got)/100 {
			t.Errorf("flood of %.0f/s: %d of the modest one not served, %d served", flood, refused, len(got))
		}
		// A turn comes every 2/372 s, and 100/s fill 54 % of them: a queue of ten is rare.
		if median, p99 := quantile(got, 0.5), quantile(got, 0.99); median > 10*time.Millisecond || p99 > 150*time.Millisecond {
			t.Errorf("flood of %.0f/s: the modest one waits %v, p99 %v", flood, median, p99)
		}
	}
}

// TestFairBacklog: one has 900 waiting when another comes with ten. These wait
// twice as long as if they were alone.
func TestFairBacklog(t *testing.T) {
	served := func(flood int) (last int) {
		q := New(1, Settings{Length: 1000})
		for range flood {
			q.Join(&Waiter{Only: -1, Tenant: 1}, 0)
		}
		for range 10 {
			q.Join(&Waiter{Only: -1, Tenant: 2}, 0)
		}
		for n := 1; ; n++ {
			w := q.Next(0, int64(n)*ms)
			if w == nil {
				return last
			}
			if w.Tenant == 2 {
				last = n
			}
		}
	}
	alone, beside := served(0), served(900)
	if alone != 10 || beside != 20 {
		t.Errorf("the last of ten is served as number %d, alone as number %d; want 20 and 10", beside, alone)
	}
}
