// Package engine drives virtual clients through a plan.
//
// Each user has a client of its own, and hands: goroutines that ask for one thing
// after another over it, as many as the plan says. What a hand does, again and again:
//
//  1. wait for the next request's time: its think time, or its turn in the schedule
//  2. claim a request of those that are left
//  3. choose one of the targets by weight
//  4. send it, and wait for the answer
//  5. record it, from the time when it was due
//
// One goroutine, the caller's, goes from stage to stage: it starts users, lets
// surplus ones leave after the request they are at, and collects what was recorded.
//
//	engine.go    the run and its stages
//	user.go      users and their hands; the five steps
//	secure.go    TLS, as the plan says
//	schedule.go  when requests are due
//	alarm.go     waking at a time
//	requests.go  from targets to bytes; the choice among them
package engine

import (
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/measure"
	"sluice/cmd/hb/plan"
)

// interval is how often the watcher is told, and recorders are emptied.
const interval = time.Second

// recordersPerCPU keeps users that run at the same time off each other's recorder.
const recordersPerCPU = 4

// Outside is what a run needs of the machine. The zero value is the machine's own.
type Outside struct {
	Dial     client.DialFunc
	NewAlarm func(context.Context) (Alarm, error)
}

// Tick is how a run stands, told once a second.
type Tick struct {
	Stage   int // from 0; -1: warm-up
	Load    plan.Stage
	Elapsed time.Duration   // of the stage
	Open    int64           // connections
	Last    *measure.Sample // since the tick before
	Span    time.Duration   // of Last
}

// run is one run of a plan.
type run struct {
	plan      *plan.Plan
	ctx       context.Context // ends when users shall drop what they are at
	idle      context.Context // ends when they shall wait no more: all requests are claimed
	wakeAll   context.CancelFunc
	mix       *mix
	options   client.Options
	open      client.Gauge
	schedule  *schedule // nil in a closed loop
	recorders []*measure.Recorder
	watch     func(Tick)

	phase  atomic.Pointer[phase]
	active atomic.Int64 // users with a number at or above it leave

	// The stage goroutine's own.
	users   []*user
	running sync.WaitGroup
	spare   *measure.Sample
}

// phase is what claimed requests count for.
type phase struct {
	left     atomic.Int64
	measured bool
}

// Run drives the plan until it is done or ctx ends, and tells watch, if it is not
// nil, how it stands. It returns an error only if it could not begin.
func Run(ctx context.Context, p *plan.Plan, outside Outside, watch func(Tick)) (*measure.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := newRun(ctx, p, outside, watch)
	if err != nil {
		return nil, err
	}
	defer r.wakeAll()
	result := &measure.Result{Protocol: p.Protocol, Streams: p.Streams}
	if p.WarmUp > 0 {
		r.begin(math.MaxInt64, false)
		warm := p.Stages[0]
		warm.For = p.WarmUp
		r.stage(-1, warm)
	}
	left := int64(math.MaxInt64)
	if p.Requests > 0 {
		left = p.Requests
	}
	r.begin(left, true)
	for i, s := range p.Stages {
		if ctx.Err() != nil || r.phase.Load().left.Load() <= 0 {
			break
		}
		result.Stages = append(result.Stages, r.stage(i, s))
	}
	result.Interrupted = ctx.Err() != nil // only the caller can have ended it
	end := time.Now()
	cancel()
	r.running.Wait()
	r.collectRest(result, end)
	return result, nil
}

// newRun makes all that the run needs.
func newRun(ctx context.Context, p *plan.Plan, outside Outside, watch func(Tick)) (*run, error) {
	r := &run{plan: p, ctx: ctx, watch: watch, spare: measure.NewSample()}
	r.idle, r.wakeAll = context.WithCancel(ctx)
	r.options = client.Options{
		Protocol:       p.Protocol,
		Dial:           outside.Dial,
		Resume:         p.TLS.Resume,
		Timeout:        p.Timeout,
		ConnectTimeout: p.ConnectTimeout,
		KeepAlive:      p.KeepAlive,
		Cookies:        p.Cookies,
		Open:           &r.open,
	}
	addresses := map[string]string{}
	if outside.Dial == nil {
		r.options.Dial = dialTCP
		var err error
		if addresses, err = resolve(ctx, p); err != nil {
			return nil, err
		}
	}
	r.mix = newMix(p, addresses)
	if r.mix.secure {
		var err error
		if r.options.TLS, err = secure(p); err != nil {
			return nil, err
		}
	}
	if p.Stages[0].Rate > 0 {
		newAlarm := outside.NewAlarm
		if newAlarm == nil {
			newAlarm = newTimer
		}
		alarm, err := newAlarm(r.idle)
		if err != nil {
			return nil, err
		}
		r.schedule = newSchedule(p, alarm)
	}
	for range recordersPerCPU * runtime.GOMAXPROCS(0) {
		r.recorders = append(r.recorders, measure.NewRecorder())
	}
	return r, nil
}

// begin lets users claim so many requests.
func (r *run) begin(requests int64, measured bool) {
	ph := &phase{measured: measured}
	ph.left.Store(requests)
	r.phase.Store(ph)
}

// claim takes one of the requests that are left.
func (r *run) claim() (*phase, bool) {
	ph := r.phase.Load()
	left := ph.left.Add(-1)
	if left == 0 {
		r.wakeAll()
	}
	return ph, left >= 0
}

// measures reports whether a request that was claimed in ph, and has its answer
// now, is measured. A number of requests is counted as they are claimed; else the
// answers of a stretch of time are counted as they come, also to requests that
// were sent before it: those that are under way at its end are not counted, and a
// rate that lacked both would be too low.
func (r *run) measures(ph *phase) bool {
	return ph.measured || r.plan.Requests == 0 && r.phase.Load().measured
}

// stage runs one stage and gives what was measured in it.
func (r *run) stage(number int, load plan.Stage) *measure.Stage {
	result := &measure.Stage{Stage: load, Sample: measure.NewSample()}
	r.open.Rewind()
	if r.schedule != nil {
		r.schedule.setRate(load.Rate)
	}
	begin := time.Now()
	r.staff(load.Users)
	var over <-chan time.Time
	if load.For > 0 {
		timer := time.NewTimer(load.For)
		defer timer.Stop()
		over = timer.C
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	told := begin
	for running := true; running; {
		select {
		case <-ticker.C:
		case <-over:
			running = false
		case <-r.ctx.Done():
			running = false
		case <-r.idle.Done(): // all claimed; now wait for the answers
			r.running.Wait()
			running = false
		}
		now := time.Now()
		last := r.collect()
		result.Merge(last)
		result.Elapsed = now.Sub(begin)
		if r.watch != nil {
			r.watch(Tick{number, load, result.Elapsed, r.open.Now(), last, now.Sub(told)})
		}
		told = now
	}
	result.Open = r.open.Peak()
	return result
}

// staff starts users until there are so many; of more than that, the surplus
// leaves when it has finished what it is at.
func (r *run) staff(want int) {
	r.active.Store(int64(want))
	for len(r.users) < want {
		u := newUser(r, len(r.users))
		r.users = append(r.users, u)
		r.running.Go(u.live)
	}
}

// collect empties the recorders into one sample.
func (r *run) collect() *measure.Sample {
	sum := measure.NewSample()
	for _, rec := range r.recorders {
		r.spare.Reset()
		r.spare = rec.Swap(r.spare)
		sum.Merge(r.spare)
	}
	return sum
}

// collectRest adds to the last stage what users were at when it ended, whether or
// not an answer came before they had dropped it, and what no user had come to.
func (r *run) collectRest(result *measure.Result, end time.Time) {
	if len(result.Stages) == 0 {
		return
	}
	last := result.Stages[len(result.Stages)-1]
	rest := r.collect()
	last.Unfinished += rest.Unfinished + rest.Requests + rest.Broken()
	if r.schedule != nil && r.plan.Requests == 0 {
		last.Overdue = r.schedule.overdue(end)
	}
}
