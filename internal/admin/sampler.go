package admin

import (
	"context"
	"sync"
	"time"

	"sluice/internal/segment"
)

// sampleEvery is the distance of samples. Rates are over the last one or two
// distances: long enough to be calm, short enough to show what happens now.
const sampleEvery = 5 * time.Second

// sampler remembers what the counters were a moment ago, so that one look at
// /status tells rates.
type sampler struct {
	view View // immutable

	mu            sync.Mutex
	older, newest sample // guarded by mu
}

// sample is the counters that rates are made of, at one time.
type sample struct {
	at      time.Time
	workers map[int]work // by index of the worker
}

// work is what one worker has done since the segment was made.
type work struct {
	requests uint64
	busy     time.Duration // of all its loops together
}

// rate is what a worker does now.
type rate struct {
	requests    float64 // per second
	utilisation float64 // share of its loops' time that is not asleep, 0 to 1
}

// newSampler takes the first sample, so that rates exist from the start.
func newSampler(view View) *sampler {
	s := &sampler{view: view}
	s.newest = s.take()
	s.older = s.newest
	return s
}

// run takes samples until ctx ends.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			next := s.take()
			s.mu.Lock()
			s.older, s.newest = s.newest, next
			s.mu.Unlock()
		}
	}
}

// take reads the counters.
func (s *sampler) take() sample {
	now := sample{at: time.Now(), workers: make(map[int]work)}
	for _, w := range s.view.Workers() {
		now.workers[w.Index] = workOf(s.view.Segment().Totals(w.Index))
	}
	return now
}

func workOf(t segment.LoopStats) work {
	return work{requests: t.Requests.Load(), busy: time.Duration(t.BusyNanos.Load())}
}

// rate compares a worker's totals with those of the older sample.
func (s *sampler) rate(w WorkerView, totals segment.LoopStats, now time.Time) rate {
	s.mu.Lock()
	past := s.older
	s.mu.Unlock()
	before, known := past.workers[w.Index]
	return before.rateTo(workOf(totals), now.Sub(past.at), w.Loops, known)
}

// rateTo is the rate from one reading to another. It is zero for a worker that was
// not there, and never beyond what is possible: counters are read while they move.
func (before work) rateTo(after work, over time.Duration, loops int, known bool) rate {
	if !known || over <= 0 || loops <= 0 {
		return rate{}
	}
	busy := float64(after.busy-before.busy) / float64(over) / float64(loops)
	return rate{
		requests:    max(0, float64(after.requests)-float64(before.requests)) / over.Seconds(),
		utilisation: min(max(0, busy), 1),
	}
}
