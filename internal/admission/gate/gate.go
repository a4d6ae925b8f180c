// Package gate claims permits of a server and gives them back.
//
// A permit is leave for one request to be at a server. How many there are at once
// is the Limit in the server's segment.Gate, which the supervisor sets; how many
// are out is InFlight beside it, which every loop of every worker claims by
// compare-and-swap. That line of memory is the only one that a request shares
// with other loops on its way.
//
// Each loop keeps account of what it claimed and gave back, and of how that
// ended, in its own lines (segment.ServerStats). From these the supervisor learns
// the limit, and gives back what a dead worker held. A permit is given back once:
// Permit knows whether it is still out.
//
// Whoever gives back and whoever begins to wait must not miss each other. The one
// lowers InFlight and then reads Waiters; the other sets its bit in Waiters and
// then tries once more to claim. Both orders are those of sequentially consistent
// atomics (the Go memory model), so at least one of the two sees the other: the
// scheme of Dekker's mutual exclusion.
package gate

import (
	"math"

	"sluice/internal/segment"
)

// Outcome is how a permit ended.
type Outcome uint8

const (
	Good    Outcome = iota // the server did the work
	Ignored                // nothing is to be learned: the client has gone, it is a stream, the server erred
	Failed                 // the server could not, or would not: refused, timed out, 429, 503
)

// Permit is leave for one request to be at a server. The zero Permit is none.
// It belongs to one loop at a time.
type Permit struct {
	gate  *segment.Gate
	since int64 // when it was claimed, CLOCK_MONOTONIC ns
}

// Out reports whether the permit has been claimed and not been given back.
func (p *Permit) Out() bool { return p.gate != nil }

// Since is when the permit was claimed, CLOCK_MONOTONIC ns.
func (p *Permit) Since() int64 { return p.since }

// Free is how many permits may be had at the moment: not above 0 if there is none,
// very many without a limit.
func Free(g *segment.Gate) int64 {
	limit := g.Limit.Load()
	if limit == 0 {
		return math.MaxInt64
	}
	return limit - g.InFlight.Load()
}

// Open reports whether a permit may be had at the moment.
func Open(g *segment.Gate) bool { return Free(g) > 0 }

// Claim takes a permit if there is one. mine is the account of the calling loop,
// now its time, CLOCK_MONOTONIC ns.
func Claim(g *segment.Gate, mine *segment.ServerStats, now int64) (p Permit, ok bool) {
	for {
		limit, n := g.Limit.Load(), g.InFlight.Load()
		if limit != 0 && n >= limit {
			return Permit{}, false
		}
		if g.InFlight.CompareAndSwap(n, n+1) {
			if g.Used.Load() == 0 {
				g.Used.Store(1)
			}
			settle(mine, now, 1)
			return Permit{g, now}, true
		}
	}
}

// End gives the permit back, once; a second End does nothing. mine is the account
// of the calling loop, which need not be the one that claimed. A good permit that
// was out for longer than target (ns, 0: none) counts as slow too. The caller
// looks at Waiters then.
func (p *Permit) End(mine *segment.ServerStats, now int64, how Outcome, target int64) {
	g := p.gate
	if g == nil {
		return
	}
	p.gate = nil
	settle(mine, now, -1)
	switch took := max(0, now-p.since); how {
	case Good:
		mine.Good.Inc()
		mine.Sum.Add(uint64(took))
		micros := uint64(took) / 1e3
		mine.Squares.Add(micros * micros)
		if target > 0 && took > target {
			mine.Slow.Inc()
		}
	case Failed:
		mine.Failed.Inc()
	default:
		mine.Ignored.Inc()
	}
	g.InFlight.Add(-1)
}

// Undo gives back a permit that nobody had a use for.
func (p *Permit) Undo(mine *segment.ServerStats, now int64) {
	g := p.gate
	p.gate = nil
	settle(mine, now, -1)
	g.InFlight.Add(-1)
}

// settle brings a loop's integral of permits up to now, and counts n more.
func settle(mine *segment.ServerStats, now, n int64) {
	since := int64(mine.Since.Load())
	if since != 0 {
		mine.Area.Add(uint64(mine.Permits.Load() * (now - since)))
	}
	mine.Since.Add(uint64(now - since))
	mine.Permits.Add(n)
}
