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
	waited  admin.Distribution // when the wait was asked for the last time
}

// moment is the sums of what was seen in one second, or in several.
type moment struct {
	second   int64 // since 1970
	limit    series
	inFlight series
	queue    series
	work     series // throughput
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
		r := h[name]
		if r == nil {
			r = &record{waited: one.Wait}
			r.recall(one.Decisions, l.Time)
			h[name] = r
		}
		now := r.at(l.Time.Unix())
		if one.Limit > 0 {
			now.limit.add(float64(one.Limit))
		}
		now.inFlight.add(float64(one.InFlight))
		now.queue.add(float64(one.Waiting))
		now.work.add(one.Throughput)
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

// wait is how long requests were held on average, in seconds, of those that were
// sent since it was asked for the last time; 0 if there were none.
func (r *record) wait(now admin.Distribution) float64 {
	before := r.waited
	r.waited = now
	if now.Count <= before.Count {
		return 0
	}
	spent := now.Mean*float64(now.Count) - before.Mean*float64(before.Count)
	return max(0, spent/float64(now.Count-before.Count))
}

// values takes one series out of columns.
func values(of []moment, which func(*moment) series) []float64 {
	all := make([]float64, len(of))
	for i := range of {
		all[i] = which(&of[i]).mean()
	}
	return all
}
