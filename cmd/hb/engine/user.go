package engine

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/measure"
)

// failurePause is what a user of a closed loop waits after a failure to reach
// the server. Without it, a dead server would be asked as fast as it refuses.
const failurePause = 10 * time.Millisecond

// user is one virtual client. It asks for as many things at once as it has hands.
type user struct {
	client *client.Client
	hands  []*hand
}

// hand is what asks for one thing after another. Its goroutine owns all of it.
type hand struct {
	run      *run
	user     int64 // its number
	client   *client.Client
	random   *rand.Rand
	recorder *measure.Recorder
	answer   client.Answer
	pause    *time.Timer // nil until it is needed
}

func newUser(r *run, number int) *user {
	u := &user{client: client.New(r.ctx, &r.options)}
	streams := r.plan.Streams
	for i := range streams {
		one := number*streams + i
		u.hands = append(u.hands, &hand{
			run:      r,
			user:     int64(number),
			client:   u.client,
			random:   rand.New(rand.NewPCG(r.plan.Seed, uint64(one))),
			recorder: r.recorders[number%len(r.recorders)],
		})
	}
	return u
}

// live runs the hands until all are done.
func (u *user) live() {
	defer u.client.Close()
	var others sync.WaitGroup
	for _, h := range u.hands[1:] {
		others.Go(h.live)
	}
	u.hands[0].live()
	others.Wait()
}

// live does the five steps until the run is over, or there are users enough
// without this one.
func (h *hand) live() {
	var wait time.Duration
	if h.run.plan.Think.Mean > 0 {
		// Users that began at once shall not march in step.
		wait = time.Duration(h.random.Float64() * float64(h.run.plan.Think.Mean))
	}
	for !h.surplus() {
		due, ok := h.await(wait)                // 1
		if !ok || due.IsZero() && h.surplus() { // what the schedule gave must be sent
			return
		}
		ph, ok := h.run.claim() // 2
		if !ok {
			return
		}
		request := h.run.mix.pick(h.random) // 3
		failure := h.do(request)            // 4
		if h.run.measures(ph) {             // 5
			h.recorder.Add(&h.answer, failure, due)
		}
		if failure != nil && failure.Kind == client.Stopped {
			return
		}
		wait = h.think(failure)
	}
}

// surplus reports whether there are users enough without this one.
func (h *hand) surplus() bool { return h.user >= h.run.active.Load() }

// await waits for the time of the next request. In an open loop it says when
// that was.
func (h *hand) await(wait time.Duration) (due time.Time, ok bool) {
	if h.run.schedule != nil {
		return h.run.schedule.next(h.run.idle)
	}
	if wait <= 0 {
		return time.Time{}, h.run.idle.Err() == nil
	}
	if h.pause == nil {
		h.pause = time.NewTimer(wait)
	} else {
		h.pause.Reset(wait)
	}
	select {
	case <-h.pause.C:
		return time.Time{}, true
	case <-h.run.idle.Done():
		h.pause.Stop()
		return time.Time{}, false
	}
}

// do sends the request; nil means that an answer came.
func (h *hand) do(request *client.Request) *client.Failure {
	err := h.client.Do(request, &h.answer)
	if err == nil {
		return nil
	}
	var failure *client.Failure
	errors.As(err, &failure)
	return failure
}

// think chooses how long to wait before the next request of a closed loop.
func (h *hand) think(failure *client.Failure) time.Duration {
	think := h.run.plan.Think
	wait := think.Mean
	if think.Exponential {
		wait = time.Duration(h.random.ExpFloat64() * float64(think.Mean))
	}
	if failure != nil {
		wait = max(wait, failurePause)
	}
	return wait
}
