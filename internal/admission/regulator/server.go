package regulator

import (
	"context"
	"log/slog"
	"math"
	"time"

	"sluice/internal/admission/limit"
	"sluice/internal/segment"
)

// server is a server in use. The regulator's lock guards it.
type server struct {
	Server
	gate       *segment.Gate
	controller limit.Controller
	decision   limit.Decision
	audit      audit
	moves      moves
	rate       float64 // good permits per second, smoothed over rateOver
	pace       pace
	unkept     bool // a move came after what was learned had been kept

	stepped    time.Duration // when the last step was, CLOCK_MONOTONIC
	last, next account       // at the last step; room for the next one
	awake      bool          // it has been used; before, nothing is read but its gate
	quiet      bool          // nothing happened in the last step
}

// newServer makes the controller and puts its first limit in force. On an error
// there is no limit, and the server is whole all the same.
func newServer(shared *segment.Segment, s Server, learned limit.State, now time.Duration, wall time.Time) (*server, error) {
	workers := shared.Shape().Workers
	fresh := &server{
		Server: s, gate: shared.Gate(s.Slot), stepped: now, quiet: true,
		last: account{bound: make([]uint64, workers)},
		next: account{bound: make([]uint64, workers)},
	}
	var err error
	if fresh.controller, err = limit.New(s.Settings, learned); err != nil {
		fresh.Settings.Kind = limit.Off
		fresh.controller, _ = limit.New(limit.Settings{Kind: limit.Off}, limit.State{})
	}
	fresh.decision = fresh.controller.Step(wall, limit.Sample{})
	fresh.moves.centre = fresh.decision.Centre
	fresh.enforce()
	return fresh, err
}

// inherit takes over from the same server with other settings what an operator
// has seen of it.
func (s *server) inherit(old *server) {
	centre := s.moves.centre
	s.moves, s.rate = old.moves, old.rate
	s.moves.centre = centre
}

// rateOver is how long the throughput that an operator sees remembers, s. The
// controller's own is none to show: it stands still while the limit does not bind.
const rateOver = 2

// due says whether it is time to look at s. One that is quiet shows by its gate
// alone when that is over.
func (s *server) due(now time.Duration) bool {
	return !s.quiet || s.busy() || now-s.stepped >= quietStep
}

// busy says whether the gate shows a request.
func (s *server) busy() bool { return s.gate.InFlight.Load() != 0 || s.gate.Waiters.Load() != 0 }

// stepServer does the numbered steps of one server. It returns the workers to wake.
func (r *Regulator) stepServer(s *server, now time.Duration, wall time.Time) (wake uint64) {
	sample := s.sample(r.shared, now) // 1
	if sample.Span <= 0 {
		return 0
	}
	s.rate += (float64(sample.Good)/sample.Span - s.rate) * -math.Expm1(-sample.Span/rateOver)
	was := s.decision.Limit
	s.decision = s.controller.Step(wall, sample) // 2
	s.enforce()
	s.pace.count(sample)
	s.pace.tell(s.gate)
	if s.moves.note(was, s.decision, sample, wall) { // 3
		s.unkept = true
		r.report(s, now)
	}
	if s.awake {
		wake = r.inspect(s) // 4
		s.last, s.next = s.next, s.last
	}
	if s.open() { // 5
		wake |= s.gate.Waiters.Load()
	}
	return wake
}

// sample is what happened since the step before. A server that nobody has used yet
// is only looked at from its gate: to read the workers' figures would give memory
// to all of them.
func (s *server) sample(shared *segment.Segment, now time.Duration) limit.Sample {
	span := now - s.stepped
	s.stepped = now
	if !s.awake {
		if s.gate.Used.Load() == 0 && !s.busy() {
			return limit.Sample{Span: span.Seconds()}
		}
		s.awake = true
		s.last.read(shared, s.Slot, int64(now)) // what was before is none of this controller's
	}
	s.next.read(shared, s.Slot, int64(now))
	old, young := &s.last, &s.next
	s.quiet = young.ended() == old.ended() && young.permits == 0 && young.waiting == 0 && !s.busy()
	return limit.Sample{
		Span:     span.Seconds(),
		Good:     grown(old.good, young.good),
		Slow:     grown(old.slow, young.slow),
		Ignored:  grown(old.ignored, young.ignored),
		Failed:   grown(old.failed, young.failed),
		Held:     float64(grown(old.area, young.area)) / 1e9,
		Bound:    s.bound(span).Seconds(),
		Sum:      float64(grown(old.sum, young.sum)) / 1e9,
		Squares:  float64(grown(old.squares, young.squares)) / 1e12,
		InFlight: int(max(0, young.inFlight)),
		Queue:    int(max(0, young.waiting)),
	}
}

// grown is by how much a figure grew. Figures do not shrink; one that was torn when
// it was read may seem to.
func grown(old, young uint64) int64 { return max(0, int64(young-old)) }

// bound is the part of a span in which the limit bound: in some worker requests
// waited, or one more would have to wait now.
func (s *server) bound(span time.Duration) time.Duration {
	if !s.open() {
		return span
	}
	var longest int64
	for w := range s.next.bound {
		longest = max(longest, grown(s.last.bound[w], s.next.bound[w]))
	}
	return min(span, time.Duration(longest))
}

// open says whether a permit may be had.
func (s *server) open() bool {
	l := s.gate.Limit.Load()
	return l == 0 || s.gate.InFlight.Load() < l
}

// enforce puts the decision in force. The gate's line is written only if it says
// something else: every request of every worker reads it.
func (s *server) enforce() {
	want := int64(max(1, s.decision.Limit))
	if s.Settings.Kind == limit.Off {
		want = 0
	}
	if s.gate.Limit.Load() != want {
		s.gate.Limit.Store(want)
	}
}

// loudEvery is the least time between two lines of one server in the log at level
// info; what comes between is there at level debug.
const loudEvery = 10 * time.Second

// report writes the last move to the log. What an operator should know of without
// asking is said at level info.
func (r *Regulator) report(s *server, now time.Duration) {
	level := slog.LevelDebug
	m := s.moves.last()
	switch m.Reason {
	case limit.Outage, limit.Recovered, limit.Collapse, limit.Failures:
		if s.moves.loud == 0 || now-s.moves.loud >= loudEvery {
			level, s.moves.loud = slog.LevelInfo, now
		}
	}
	if !r.log.Enabled(context.Background(), level) {
		return
	}
	r.log.Log(context.Background(), level, "limit", "farm", s.Farm, "server", s.URL, "reason", m.Reason.String(),
		"from", m.From, "to", m.To, "centre", round(m.Centre), "elasticity", round(m.Elasticity), "evidence", round(m.Evidence),
		"throughput", round(m.Throughput), "in_flight", m.InFlight, "queue", m.Queue)
}

// round leaves what a reader of a log can use.
func round(x float64) float64 { return math.Round(x*100) / 100 }
