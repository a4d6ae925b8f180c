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

// Next chooses a server at time now: one that has not been tried and has not
// failed lately; failing that, one that has not been tried. some reports whether
// there is any. Of these it chooses one that open says may have one more request;
// nil if none may. Without open all may.
func (r *Rotation) Next(now int64, tried Tried, open func(*Server) bool) (s *Server, some bool) {
	servers := r.farm.Servers
	if len(servers) == 1 && tried == 0 && servers[0].Weight > 0 {
		if open != nil && !open(servers[0]) {
			return nil, true
		}
		return servers[0], true
	}
	eligible := func(i int) bool { return !tried.has(i) && !servers[i].Skipped(now) }
	if !r.any(eligible) {
		eligible = func(i int) bool { return !tried.has(i) }
	}
	s = r.turn(func(i int) bool { return eligible(i) && (open == nil || open(servers[i])) })
	return s, s != nil || r.any(eligible)
}

// any reports whether a server with a weight is eligible.
func (r *Rotation) any(eligible func(i int) bool) bool {
	for i, s := range r.farm.Servers {
		if s.Weight > 0 && eligible(i) {
			return true
		}
	}
	return false
}

// turn gives every eligible server credit by its weight; the richest pays the
// whole round and is chosen.
func (r *Rotation) turn(eligible func(i int) bool) *Server {
	best, round := -1, 0
	for i, s := range r.farm.Servers {
		if s.Weight == 0 || !eligible(i) {
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
