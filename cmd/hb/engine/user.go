package engine

import (
	"errors"
	"math/rand/v2"
	"time"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/measure"
)

// failurePause is what a user of a closed loop waits after a failure to reach
// the server. Without it, a dead server would be asked as fast as it refuses.
const failurePause = 10 * time.Millisecond

// user is one virtual client. Its goroutine owns all of it.
type user struct {
	run      *run
	number   int64
	client   *client.Client
	random   *rand.Rand
	recorder *measure.Recorder
	answer   client.Answer
	pause    *time.Timer // nil until it is needed
}

func newUser(r *run, number int) *user {
	return &user{
		run:      r,
		number:   int64(number),
		client:   client.New(r.ctx, &r.options),
		random:   rand.New(rand.NewPCG(r.plan.Seed, uint64(number))),
		recorder: r.recorders[number%len(r.recorders)],
	}
}

// live does the five steps until the run is over, or there are users enough
// without this one.
func (u *user) live() {
	defer u.client.Close()
	var wait time.Duration
	if u.run.plan.Think.Mean > 0 {
		// Users that began at once shall not march in step.
		wait = time.Duration(u.random.Float64() * float64(u.run.plan.Think.Mean))
	}
	for !u.surplus() {
		due, ok := u.await(wait)                // 1
		if !ok || due.IsZero() && u.surplus() { // what the schedule gave must be sent
			return
		}
		ph, ok := u.run.claim() // 2
		if !ok {
			return
		}
		request := u.run.mix.pick(u.random) // 3
		failure := u.do(request)            // 4
		if u.run.measures(ph) {             // 5
			u.recorder.Add(&u.answer, failure, due)
		}
		if failure != nil && failure.Kind == client.Stopped {
			return
		}
		wait = u.think(failure)
	}
}

// surplus reports whether there are users enough without this one.
func (u *user) surplus() bool { return u.number >= u.run.active.Load() }

// await waits for the time of the next request. In an open loop it says when
// that was.
func (u *user) await(wait time.Duration) (due time.Time, ok bool) {
	if u.run.schedule != nil {
		return u.run.schedule.next(u.run.idle)
	}
	if wait <= 0 {
		return time.Time{}, u.run.idle.Err() == nil
	}
	if u.pause == nil {
		u.pause = time.NewTimer(wait)
	} else {
		u.pause.Reset(wait)
	}
	select {
	case <-u.pause.C:
		return time.Time{}, true
	case <-u.run.idle.Done():
		u.pause.Stop()
		return time.Time{}, false
	}
}

// do sends the request; nil means that an answer came.
func (u *user) do(request *client.Request) *client.Failure {
	err := u.client.Do(request, &u.answer)
	if err == nil {
		return nil
	}
	var failure *client.Failure
	errors.As(err, &failure)
	return failure
}

// think chooses how long to wait before the next request of a closed loop.
func (u *user) think(failure *client.Failure) time.Duration {
	think := u.run.plan.Think
	wait := think.Mean
	if think.Exponential {
		wait = time.Duration(u.random.ExpFloat64() * float64(think.Mean))
	}
	if failure != nil {
		wait = max(wait, failurePause)
	}
	return wait
}
