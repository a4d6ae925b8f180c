package reactor

import "math/bits"

// The wheel holds deadlines coarsely: a timer fires up to one tick late. It is
// one level; a deadline beyond the horizon is put at the horizon, fires early
// and is put again. Owners check their own deadline when their timer fires, so
// moving a deadline later costs nothing at all.
const (
	tickNanos  = 16e6 // 16 ms: well under any time-out that a configuration can name
	wheelSlots = 2048 // × 16 ms = 32.8 s horizon
)

// expirer is told when its timer has fired. It may arm the timer again.
type expirer interface{ expire(now int64) }

// timer is a node of one slot's list. Loop only.
type timer struct {
	next, prev *timer
	owner      expirer
	tick       int64 // the tick at which it fires; 0: not armed
}

type wheel struct {
	slots [wheelSlots]*timer
	used  [wheelSlots / 64]uint64 // bit set: slot is not empty
	tick  int64                   // the last tick that has been fired
}

// arm has t fire at nanosecond at, or at the horizon if that is nearer. A timer
// that is armed for an earlier tick stays where it is.
func (w *wheel) arm(t *timer, at int64) {
	tick := min(max(at/tickNanos+1, w.tick+1), w.tick+wheelSlots-1)
	if t.tick != 0 {
		if t.tick <= tick {
			return
		}
		w.disarm(t)
	}
	slot := tick % wheelSlots
	t.tick, t.prev, t.next = tick, nil, w.slots[slot]
	if t.next != nil {
		t.next.prev = t
	}
	w.slots[slot] = t
	w.used[slot/64] |= 1 << (slot % 64)
}

func (w *wheel) disarm(t *timer) {
	if t.tick == 0 {
		return
	}
	slot := t.tick % wheelSlots
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		w.slots[slot] = t.next
		if t.next == nil {
			w.used[slot/64] &^= 1 << (slot % 64)
		}
	}
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.next, t.prev, t.tick = nil, nil, 0
}

// advance fires every timer whose tick has come.
func (w *wheel) advance(now int64) {
	for due := now / tickNanos; w.tick < due; {
		w.tick = min(w.nextUsed(), due)
		for slot := w.tick % wheelSlots; w.slots[slot] != nil && w.slots[slot].tick <= w.tick; {
			t := w.slots[slot]
			w.disarm(t)
			t.owner.expire(now)
		}
	}
}

// nextUsed is the first tick after the present one whose slot holds a timer; a
// whole turn of the wheel away if none does.
func (w *wheel) nextUsed() int64 {
	for tick := w.tick + 1; tick < w.tick+wheelSlots; {
		slot := tick % wheelSlots
		if rest := w.used[slot/64] >> (slot % 64); rest != 0 {
			return min(tick+int64(bits.TrailingZeros64(rest)), w.tick+wheelSlots)
		}
		tick += 64 - slot%64
	}
	return w.tick + wheelSlots
}

// sleep is how many milliseconds the loop may sleep before a timer is due; -1
// if none is armed.
func (w *wheel) sleep(now int64) int {
	tick := w.nextUsed()
	if tick == w.tick+wheelSlots {
		return -1
	}
	return int(max(0, tick*tickNanos-now)/1e6) + 1
}
