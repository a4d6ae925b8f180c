package main

import (
	"time"

	"sluice/internal/admin"
)

// keepSeconds is how far back a picture can reach: a wide terminal shows no more.
const keepSeconds = 15 * 60

// history is what was seen of each server, second by second.
type history map[serverName]*record

// serverName is a server's identity.
type serverName struct{ farm, url string }

// record is what was seen of one server: a ring of seconds.
type record struct {
	moments [keepSeconds]moment
	looked  counters // at the last look
	told    counters // when since was asked for the last time
}

// counters are what rates are made of.
type counters struct {
	at   time.Time
	good uint64
	wait admin.Distribution
}

func countersOf(s *admin.LimitStatus, at time.Time) counters {
	return counters{at, s.Permits.Good, s.Wait}
}

// moment is the sums of what was seen in one second, or in several.
type moment struct {
	second   int64 // since 1970
	limit    series
	inFlight series
	queue    series
	work     series // good responses per second
}

// series sums up looks.
type series struct {
	sum   float64
	looks int
}

func (s *series) add(v float64) { s.merge(series{v, 1}) }

func (s *series) merge(o series) {
	s.sum += o.sum
	s.looks += o.looks
}

// mean is negative if nobody looked.
func (s series) mean() float64 {
	if s.looks == 0 {
		return -1
	}
	return s.sum / float64(s.looks)
}

// note takes a look into the history. Of a server that is new it also takes what
// its decisions tell of the time before.
func (h history) note(l *admin.Limits) {
	for i := range l.Servers {
		one := &l.Servers[i]
		name := serverName{one.Farm, one.URL}
		counted := countersOf(one, l.Time)
		r := h[name]
		if r == nil {
			r = &record{looked: counted, told: counted}
			r.recall(one.Decisions, l.Time)
			r.at(l.Time.Unix()).work.add(one.Throughput)
			h[name] = r
		}
		now := r.at(l.Time.Unix())
		if rate, ok := r.looked.rate(counted); ok {
			now.work.add(rate)
		}
		r.looked = counted
		if one.Limit > 0 {
			now.limit.add(float64(one.Limit))
		}
		now.inFlight.add(float64(one.InFlight))
		now.queue.add(float64(one.Waiting))
	}
}

// recall fills the seconds before now: between two decisions the limit stayed
// around its centre. What was in flight meanwhile nobody knows.
func (r *record) recall(decisions []admin.DecisionStatus, now time.Time) {
	for i, d := range decisions {
		end := now
		if i+1 < len(decisions) {
			end = decisions[i+1].At
		}
		for second := max(d.At.Unix(), now.Unix()-keepSeconds+1); second < end.Unix(); second++ {
			m := r.at(second)
			m.limit.add(d.Centre)
			m.work.add(d.Throughput)
		}
	}
}

// at is the moment of a second; it takes the place of the oldest one.
func (r *record) at(second int64) *moment {
	m := &r.moments[second%keepSeconds]
	if m.second != second {
		*m = moment{second: second}
	}
	return m
}

// columns sums up the last n spans of so many seconds, up to and including now.
// Spans begin at multiples of their length, so that a picture moves by whole
// columns and does not flicker.
func (r *record) columns(n, seconds int, now time.Time) []moment {
	all := make([]moment, n)
	span := int64(seconds)
	first := (now.Unix()/span - int64(n) + 1) * span
	for i := range all {
		for second := first + int64(i)*span; second < first+int64(i+1)*span; second++ {
			m := &r.moments[((second%keepSeconds)+keepSeconds)%keepSeconds]
			if m.second == second {
				all[i].merge(m)
			}
		}
	}
	return all
}

func (m *moment) merge(o *moment) {
	m.limit.merge(o.limit)
	m.inFlight.merge(o.inFlight)
	m.queue.merge(o.queue)
	m.work.merge(o.work)
}

// since tells what happened since it was asked for the last time: good responses
// per second, and how long requests were held in the mean, in seconds, of those
// that were sent meanwhile; 0 if there were none.
func (r *record) since(s *admin.LimitStatus, at time.Time) (rate, wait float64) {
	now := countersOf(s, at)
	rate, ok := r.told.rate(now)
	if !ok {
		rate = s.Throughput
	}
	wait = r.told.waited(now)
	r.told = now
	return rate, wait
}

// rate is good responses per second from one look to another. It is not known if
// no time passed, or if Sluice was started again.
func (c counters) rate(next counters) (perSecond float64, ok bool) {
	passed := next.at.Sub(c.at).Seconds()
	if passed <= 0 || next.good < c.good {
		return 0, false
	}
	return float64(next.good-c.good) / passed, true
}

// waited is the mean time held, of requests sent from one look to another.
func (c counters) waited(next counters) float64 {
	if next.wait.Count <= c.wait.Count {
		return 0
	}
	spent := next.wait.Mean*float64(next.wait.Count) - c.wait.Mean*float64(c.wait.Count)
	return max(0, spent/float64(next.wait.Count-c.wait.Count))
}

// values takes one series out of columns.
func values(of []moment, which func(*moment) series) []float64 {
	all := make([]float64, len(of))
	for i := range of {
		all[i] = which(&of[i]).mean()
	}
	return all
}
