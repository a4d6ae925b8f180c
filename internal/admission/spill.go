package admission

import (
	"math"

	"sluice/internal/admission/gate"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// A request goes to a server of its own node, or of none, while one of them is up.
// It is spilled to another node only if none of these has a permit left, and if
// they have a larger part of their permits in use, all together, than the other
// server has: by farms.NAME.spill.threshold percent points. So the last permits of
// a server, that many percent, stay with its own node.
//
// Servers without a limit never run out of permits: then nothing is spilled. To
// know more one would have to write to memory that all nodes share.

// anyUse is no bound for the use of a server's permits.
const anyUse = math.MaxInt

// used is how many of a server's permits are out, in percent; 0 without a limit. It
// is more than 100 when the limit has just been lowered.
func used(g *segment.Gate) int {
	if limit := g.Limit.Load(); limit > 0 {
		return int(100 * g.InFlight.Load() / limit)
	}
	return 0
}

// SpillBound is how many percent of its permits a server of another node may have
// in use for a request to be spilled to it now. Negative: none is.
func (d *Desk) SpillBound(f *upstream.Farm, now int64) int {
	if f.Spill < 0 {
		return -1
	}
	inFlight, limit := int64(0), int64(0)
	for _, s := range f.Servers {
		if s.Weight == 0 || s.Rank(now) != upstream.Near {
			continue
		}
		g := d.gates(s.Slot)
		if gate.Open(g) {
			return -1
		}
		inFlight += g.InFlight.Load()
		limit += g.Limit.Load()
	}
	if limit == 0 {
		return -1
	}
	return int(100*inFlight/limit) - f.Spill
}

// Spare reports whether the server has a permit left and no more in use than most,
// in percent.
func (d *Desk) Spare(s *upstream.Server, most int) bool {
	g := d.gates(s.Slot)
	return gate.Open(g) && used(g) <= most
}

// rank decides which servers are avoided at the moment: all that are worse than the
// best, save those to which requests may be spilled.
func (l *Line) rank(d *Desk, now int64) {
	best, far := upstream.FarFailed, false
	for _, s := range l.servers {
		s.rank = s.Rank(now)
		best, far = min(best, s.rank), far || s.rank == upstream.Far
	}
	bound := -1
	if best == upstream.Near && far && l.queue.Len() > 0 {
		bound = d.SpillBound(l.farm, now)
	}
	for _, s := range l.servers {
		avoid := false
		switch {
		case s.rank == best:
			s.most = anyUse
		case s.rank == upstream.Far && bound >= 0 && used(s.gate) <= bound: // else its gate's memory is left to its node
			s.most = bound
		default:
			s.most, avoid = anyUse, true
		}
		if avoid != s.avoided {
			s.avoided = avoid
			l.queue.Avoid(s.Slot, avoid)
		}
	}
}
