package regulator

import (
	"math/bits"

	"sluice/internal/segment"
)

const (
	// leakSteps: so often in a row must the same difference be seen. A claim writes
	// the gate and then the account, within nanoseconds. A process may be stopped
	// between the two for longer; what is mended wrongly then is mended back.
	leakSteps = 20

	// strandedSteps: so often in a row may requests be seen to wait before an open gate
	// while nothing moves, although their workers have looked. A worker that has not
	// even looked lacks time, and that is no fault of its bookkeeping.
	strandedSteps = 5
)

// audit watches one server for what must not happen.
type audit struct {
	difference int64 // permits claimed less permits accounted for, at the last step
	same       int   // steps in a row with that difference
	standing   int   // steps in a row in which requests waited before an open gate, and had been looked at
}

// inspect looks at the account that was just read. It returns the workers to wake.
func (r *Regulator) inspect(s *server) (wake uint64) {
	if d := s.difference(r.shared); s.audit.leaked(d) {
		s.gate.InFlight.Add(-d)
		r.leaks += uint64(max(d, -d))
		r.log.Warn("permits belonged to nobody and are given back", "farm", s.Farm, "server", s.URL, "permits", d)
	}
	stuck := s.stuck()
	if stuck && !r.looked(s.next.waiters) {
		return 0
	}
	if !s.audit.stands(stuck) {
		return 0
	}
	if s.audit.standing == strandedSteps {
		r.stranded++
		r.log.Warn("requests waited although permits were free; their workers are woken", "farm", s.Farm, "server", s.URL,
			"waiting", s.next.waiting, "in_flight", s.next.inFlight, "limit", s.decision.Limit)
	}
	return s.next.waiters
}

// difference is how many permits of the gate no worker accounts for. It is 0 while
// the figures move: then it says nothing.
func (s *server) difference(shared *segment.Segment) int64 {
	d := s.next.inFlight - s.next.permits
	if d == 0 || !s.next.steady || s.gate.InFlight.Load()-permitsOf(shared, s.Slot) != d {
		return 0
	}
	return d
}

// leaked says whether a difference has stood for long enough to be none that is
// about to vanish.
func (a *audit) leaked(difference int64) bool {
	if difference == 0 || difference != a.difference {
		a.difference, a.same = difference, 0
	}
	if difference == 0 {
		return false
	}
	if a.same++; a.same < leakSteps {
		return false
	}
	a.difference, a.same = 0, 0
	return true
}

// stuck says whether requests wait before an open gate, and nothing has moved since
// the step before.
func (s *server) stuck() bool {
	return s.next.waiting > 0 && s.open() && s.next.inFlight == s.last.inFlight && s.next.ended() == s.last.ended()
}

// looked says whether the workers of a set have answered when they were woken last.
func (r *Regulator) looked(workers uint64) bool {
	for ; workers != 0; workers &= workers - 1 {
		if !r.answered(bits.TrailingZeros64(workers)) {
			return false
		}
	}
	return true
}

// stands says whether requests have been stuck for long enough to be forgotten.
func (a *audit) stands(stuck bool) bool {
	if !stuck {
		a.standing = 0
		return false
	}
	a.standing++
	return a.standing >= strandedSteps
}
