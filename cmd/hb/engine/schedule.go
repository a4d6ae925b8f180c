package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"sluice/cmd/hb/plan"
)

// schedule says when the requests of an open loop are due: one list for all users,
// made as it is read. A user who is late for a request still gets its due time, so
// that a stalled server's delay is seen in full by all who would have come
// meanwhile. (Without that a measurement leaves out what it should find: Tene,
// "How NOT to Measure Latency", 2013: coordinated omission.)
//
// Only the holder of the list reads it, and waits for the due time with it in
// hand. So there is one sleeper, whatever the number of users.
type schedule struct {
	list chan *list    // of capacity 1
	rate atomic.Uint64 // bits of a float64: requests per second
}

// list is what the holder owns.
type list struct {
	next    time.Time // due time of the next request; zero: at once, the first
	alarm   Alarm
	random  *rand.Rand
	poisson bool
}

func newSchedule(p *plan.Plan, alarm Alarm) *schedule {
	s := &schedule{list: make(chan *list, 1)}
	s.list <- &list{alarm: alarm, random: rand.New(rand.NewPCG(p.Seed, math.MaxUint64)), poisson: p.Poisson}
	return s
}

func (s *schedule) setRate(perSecond float64) { s.rate.Store(math.Float64bits(perSecond)) }

// next waits until the next request is due, and says when that was.
func (s *schedule) next(ctx context.Context) (due time.Time, ok bool) {
	var l *list
	select {
	case l = <-s.list:
	case <-ctx.Done():
		return time.Time{}, false
	}
	due = l.next
	if due.IsZero() {
		due = time.Now()
	}
	if ok = l.waitFor(ctx, due); ok {
		l.next = due.Add(l.gap(math.Float64frombits(s.rate.Load())))
	}
	s.list <- l
	return due, ok
}

// overdue is the number of requests that were due by a time, and that no user had
// come to. It is for when no user is left.
func (s *schedule) overdue(by time.Time) int64 {
	l := <-s.list
	defer func() { s.list <- l }()
	if l.next.IsZero() || l.next.After(by) {
		return 0
	}
	return int64(math.Ceil(by.Sub(l.next).Seconds() * math.Float64frombits(s.rate.Load())))
}

// waitFor waits until a time that may have gone by.
func (l *list) waitFor(ctx context.Context, due time.Time) bool {
	if wait := time.Until(due); wait > 0 {
		l.alarm.Wait(wait)
	}
	return ctx.Err() == nil
}

// gap is the time from one request to the next. Arrivals of many independent
// clients are a Poisson process: its gaps are distributed exponentially.
func (l *list) gap(perSecond float64) time.Duration {
	gap := float64(time.Second) / perSecond
	if l.poisson {
		gap *= l.random.ExpFloat64()
	}
	return time.Duration(gap)
}
