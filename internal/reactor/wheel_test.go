package reactor

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// alarmClock is an owner of a timer that behaves as all do: it notes when its
// time has come, and is armed again if the wheel fires early.
type alarmClock struct {
	wheel *wheel
	timer timer
	at    int64 // 0: not wanted
	rang  []int64
}

func (a *alarmClock) set(at int64) {
	a.at = at
	a.wheel.arm(&a.timer, at)
}

func (a *alarmClock) expire(now int64) {
	switch {
	case a.at == 0:
	case now < a.at:
		a.wheel.arm(&a.timer, a.at)
	default:
		a.rang = append(a.rang, a.at)
		a.at = 0
	}
}

// model is what the wheel stands for: a list of times.
type model []*alarmClock

// due are the times that must have rung by now: a tick is over once it has
// passed.
func (m model) due(now int64) (n int) {
	for _, a := range m {
		if a.at != 0 && a.at/tickNanos+1 <= now/tickNanos {
			n++
		}
	}
	return n
}

// next is the earliest time wanted; 0 if none is.
func (m model) next() (at int64) {
	for _, a := range m {
		if a.at != 0 && (at == 0 || a.at < at) {
			at = a.at
		}
	}
	return at
}

// Against the model, over random times, changes and steps: none rings early,
// none is lost, and the wheel never says that it may sleep
// past a tick that is due.
func TestWheelAgainstModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := &wheel{}
		now := rng.Int64N(int64(time.Hour))
		w.advance(now)
		clocks := make(model, 40)
		for i := range clocks {
			clocks[i] = &alarmClock{wheel: w}
			clocks[i].timer.owner = clocks[i]
		}
		for step := range 400 {
			change(rng, clocks, now)
			now += stride(rng, w, now)
			w.advance(now)
			checkRung(t, clocks, now)
			if t.Failed() {
				t.Fatalf("seed %d, step %d, now %d", seed, step, now)
			}
		}
	}
}

// change sets, moves or takes back some of the times.
func change(rng *rand.Rand, clocks model, now int64) {
	for range rng.IntN(6) {
		a := clocks[rng.IntN(len(clocks))]
		span := []time.Duration{time.Millisecond, time.Second, 30 * time.Second, 5 * time.Minute}[rng.IntN(4)]
		switch rng.IntN(6) {
		case 0:
			a.at = 0 // taken back, the timer stays armed
		case 1:
			a.at = 0
			a.wheel.disarm(&a.timer)
		default:
			a.set(now + 1 + rng.Int64N(int64(span)))
		}
	}
}

// stride is how far time goes on: a little, far beyond the horizon, or exactly
// as long as the wheel lets the loop sleep.
func stride(rng *rand.Rand, w *wheel, now int64) int64 {
	switch rng.IntN(8) {
	case 0:
		return rng.Int64N(int64(3 * time.Minute))
	case 1, 2, 3:
		if ms := w.sleep(now); ms >= 0 {
			return int64(ms) * 1e6
		}
	}
	return rng.Int64N(int64(50 * time.Millisecond))
}

// checkRung holds what rang, and what the wheel would do now, against the model.
func checkRung(t *testing.T, clocks model, now int64) {
	t.Helper()
	for _, a := range clocks {
		for _, at := range a.rang {
			if at > now {
				t.Errorf("a clock set to %d rang at %d", at, now)
			}
		}
		a.rang = nil
	}
	if lost := clocks.due(now); lost > 0 {
		t.Errorf("%d clocks were due and have not rung", lost)
	}
	next, ms := clocks.next(), clocks[0].wheel.sleep(now)
	if next != 0 && (ms < 0 || now+int64(ms)*1e6 > next+2*tickNanos) {
		t.Errorf("next clock in %d ns, and the wheel would sleep %d ms", next-now, ms)
	}
}

// A loop that sleeps as long as the wheel says finds something to fire: it wakes
// once for a time within the horizon, not once a tick.
func TestWheelSleepIsExact(t *testing.T) {
	for _, d := range []time.Duration{1, tickNanos - 1, tickNanos, time.Second, 32 * time.Second, 33 * time.Second, time.Hour} {
		w := &wheel{}
		now := int64(12345 * time.Millisecond)
		w.advance(now)
		a := &alarmClock{wheel: w}
		a.timer.owner = a
		a.set(now + int64(d))
		wakes := 0
		for ms := w.sleep(now); ms >= 0; ms = w.sleep(now) {
			wakes++
			now += int64(ms) * 1e6
			w.advance(now)
		}
		horizon := time.Duration((wheelSlots - 1) * tickNanos)
		if most := int(d/(horizon-tickNanos)) + 1; wakes > most {
			t.Errorf("a clock of %v needs %d wake-ups, want at most %d", d, wakes, most)
		}
		if len(a.rang) != 1 || now-a.rang[0] > 2*tickNanos {
			t.Errorf("a clock of %v rang %d times, %d ns late", d, len(a.rang), now-a.rang[0])
		}
	}
}

// Several timers of one slot, taken out in every order: the list stays whole.
func TestWheelSlotList(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		w := &wheel{}
		var clocks []*alarmClock
		for range 3 {
			a := &alarmClock{wheel: w}
			a.timer.owner = a
			a.set(int64(time.Second))
			clocks = append(clocks, a)
		}
		for i, which := range order {
			w.disarm(&clocks[which].timer)
			w.disarm(&clocks[which].timer) // twice does no harm
			left := 0
			for n := w.slots[int64(time.Second)/tickNanos+1]; n != nil; n = n.next {
				if left++; slices.Contains(order[:i+1], slices.IndexFunc(clocks, func(a *alarmClock) bool { return &a.timer == n })) {
					t.Errorf("order %v: a timer is still in the list after it was taken out", order)
				}
			}
			if left != 2-i {
				t.Errorf("order %v: %d timers left after %d were taken out", order, left, i+1)
			}
		}
		if w.sleep(0) != -1 {
			t.Errorf("order %v: an empty wheel lets nobody sleep for ever", order)
		}
	}
}
