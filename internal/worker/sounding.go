package worker

import (
	"sync/atomic"
	"time"
)

// sounding is how long a loop takes, for goroutines that are not its own: connections of
// QUIC begin there, and are refused for the same lag as others. The loop is asked when
// somebody wants to know, and while it owes the answer it lags by as much as that is late.
type sounding struct {
	submit func(func()) // to the loop
	lag    func() int64 // what the loop says, ns; loop only
	clock  func() int64 // ns
	asked  atomic.Int64 // when the loop was asked; 0: it owes no answer
	said   atomic.Int64 // its last answer
	at     atomic.Int64 // when that was
}

// staleAfter is how long an answer counts: an idle loop's lag falls to nothing by then
// (reactor.Loop.Lag).
const staleAfter = int64(time.Second)

// Lag is the loop's, or how long it has owed an answer if that is longer. Any goroutine.
func (s *sounding) Lag() time.Duration {
	now := s.clock()
	owed := int64(0)
	if asked := s.asked.Load(); asked != 0 {
		owed = now - asked
	} else if s.asked.CompareAndSwap(0, max(now, 1)) {
		s.submit(s.answer)
	}
	if now-s.at.Load() >= staleAfter {
		return time.Duration(owed)
	}
	return time.Duration(max(owed, s.said.Load()))
}

// answer is the loop's. Loop only.
func (s *sounding) answer() {
	s.said.Store(s.lag())
	s.at.Store(s.clock())
	s.asked.Store(0)
}
