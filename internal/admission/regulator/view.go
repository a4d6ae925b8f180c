package regulator

import (
	"maps"
	"math"
	"time"

	"sluice/internal/admission/limit"
)

// View is how all limits stand, at one moment. It belongs to the caller.
type View struct {
	Servers  []ServerView // in the order of the configuration
	Leaks    uint64       // permits that belonged to nobody
	Stranded uint64       // times that requests waited though permits were free
}

// ServerView is one server's gate, and its controller's last word.
type ServerView struct {
	Server
	Decision limit.Decision
	Rate     float64                 // good permits per second, smoothed over two seconds
	InFlight int                     // permits claimed, at the last step
	Waiting  int                     // requests that may go to this server, at the last step
	Moves    []Move                  // oldest first, the last 128
	Counts   map[limit.Reason]uint64 // all moves since the regulator began
}

// Move is a decision that was worth a line.
type Move struct {
	At         time.Time
	From, To   int // the limit before and after
	Half       limit.Half
	Reason     limit.Reason
	Centre     float64
	Elasticity float64
	Evidence   float64
	Throughput float64
	InFlight   int
	Queue      int
}

// View shows all servers in use. It may be called at any time, also when the segment
// is gone.
func (r *Regulator) View() View {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := View{Leaks: r.leaks, Stranded: r.stranded, Servers: make([]ServerView, len(r.servers))}
	for i, s := range r.servers {
		v.Servers[i] = ServerView{
			Server: s.Server, Decision: s.decision, Rate: s.rate, InFlight: int(s.last.inFlight), Waiting: int(s.last.waiting),
			Moves: s.moves.oldestFirst(), Counts: maps.Clone(s.moves.counts),
		}
	}
	return v
}

// movesKept bounds the moves that are remembered of one server: half an hour of a
// busy one.
const movesKept = 128

// moves are the last moves of one server.
type moves struct {
	ring   []Move
	oldest int // index of the oldest, once the ring is full
	counts map[limit.Reason]uint64
	centre float64       // when the last one was noted
	loud   time.Duration // when one was last in the log at level info
}

// note remembers a decision if it moved something: it has a reason, or the centre
// is by one request or more elsewhere than when the last one was noted.
func (m *moves) note(was int, d limit.Decision, s limit.Sample, wall time.Time) bool {
	if d.Reason == limit.Hold && math.Abs(d.Centre-m.centre) < 1 {
		return false
	}
	m.centre = d.Centre
	if m.counts == nil {
		m.counts = map[limit.Reason]uint64{}
	}
	m.counts[d.Reason]++
	move := Move{
		At: wall, From: was, To: d.Limit, Half: d.Half, Reason: d.Reason, Centre: d.Centre, Elasticity: d.Elasticity,
		Evidence: d.Evidence, Throughput: d.Throughput, InFlight: s.InFlight, Queue: s.Queue,
	}
	if len(m.ring) < movesKept {
		m.ring = append(m.ring, move)
		return true
	}
	m.ring[m.oldest] = move
	m.oldest = (m.oldest + 1) % movesKept
	return true
}

// last is the move that was noted last. There must be one.
func (m *moves) last() Move { return m.ring[(m.oldest+len(m.ring)-1)%len(m.ring)] }

func (m *moves) oldestFirst() []Move {
	all := make([]Move, 0, len(m.ring))
	all = append(all, m.ring[m.oldest:]...)
	return append(all, m.ring[:m.oldest]...)
}
