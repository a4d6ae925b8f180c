package upstream

// Rotation is a loop's place in a farm's order: smooth weighted round robin, in
// which a server's turns are spread over the round instead of bunched. Loop only.
type Rotation struct {
	farm   *Farm
	credit []int // by server
}

// NewRotation starts a round.
func NewRotation(f *Farm) *Rotation { return &Rotation{farm: f, credit: make([]int, len(f.Servers))} }

// Tried is a set of servers of one farm, by index modulo 64: those that this
// request has been sent to.
type Tried uint64

func (t Tried) has(i int) bool { return t&(1<<(i%64)) != 0 }

// With adds server s of its farm.
func (t Tried) With(s *Server) Tried {
	for i, other := range s.Farm.Servers {
		if other == s {
			return t | 1<<(i%64)
		}
	}
	return t
}

// Slots is the set by the servers' slots modulo 64. One whose number a server
// outside the set shares is left out.
func (t Tried) Slots(f *Farm) (slots uint64) {
	others := uint64(0)
	for i, s := range f.Servers {
		if bit := uint64(1) << (s.Slot % 64); t.has(i) {
			slots |= bit
		} else {
			others |= bit
		}
	}
	return slots &^ others
}

// Rank is how good it is to send a request to a server, best first.
type Rank uint8

// The ranks. Near and far are explained at State.Near; failed is one that has
// failed lately.
const (
	Near Rank = iota
	Far
	NearFailed
	FarFailed
	never // it has been tried, or is taken out
)

// Rank is that of the server at time now.
func (s *State) Rank(now int64) Rank {
	r := Near
	if s.Skipped(now) {
		r = NearFailed
	}
	if !s.Near() {
		r++
	}
	return r
}

// rank is that of server i for a request.
func (r *Rotation) rank(i int, now int64, tried Tried) Rank {
	s := r.farm.Servers[i]
	if s.Weight == 0 || tried.has(i) {
		return never
	}
	return s.Rank(now)
}

// best is the best rank of all servers.
func (r *Rotation) best(now int64, tried Tried) Rank {
	best := never
	for i := range r.farm.Servers {
		best = min(best, r.rank(i, now, tried))
	}
	return best
}

// Next chooses a server at time now among the best: of the own node before others,
// those that have not failed lately before those that have, none that has been
// tried. some reports whether there is any. Of these it chooses one that open says
// may have one more request; nil if none may. Without open all may.
func (r *Rotation) Next(now int64, tried Tried, open func(*Server) bool) (s *Server, some bool) {
	servers := r.farm.Servers
	if len(servers) == 1 && tried == 0 && servers[0].Weight > 0 {
		if open != nil && !open(servers[0]) {
			return nil, true
		}
		return servers[0], true
	}
	for {
		best := r.best(now, tried)
		if best == never {
			return nil, false
		}
		s = r.turn(now, tried, best, open)
		if s != nil || open != nil { // else another loop has just found that those of this rank fail
			return s, true
		}
	}
}

// Spill chooses a server of another node that open says may have one more request,
// although one of the own node is up; nil if there is none.
func (r *Rotation) Spill(now int64, tried Tried, open func(*Server) bool) *Server {
	if !r.AtHome(now, tried) {
		return nil
	}
	return r.turn(now, tried, Far, open)
}

// AtHome reports whether a server of the own node, or of none, is up that has not
// been tried.
func (r *Rotation) AtHome(now int64, tried Tried) bool { return r.best(now, tried) == Near }

// turn gives every server of a rank that is open credit by its weight; the richest
// pays the whole round and is chosen.
func (r *Rotation) turn(now int64, tried Tried, at Rank, open func(*Server) bool) *Server {
	best, round := -1, 0
	for i, s := range r.farm.Servers {
		if r.rank(i, now, tried) != at || open != nil && !open(s) {
			continue
		}
		r.credit[i] += s.Weight
		round += s.Weight
		if best < 0 || r.credit[i] > r.credit[best] {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	r.credit[best] -= round
	return r.farm.Servers[best]
}
