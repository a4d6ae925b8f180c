package segment

import "fmt"

// States of a server slot.
const (
	slotFree     = iota // never given out
	slotUsed            // belongs to the server named in it
	slotReleased        // was given back; the name still tells whose figures these are
)

// Assign gives the server its slot: the one that it has, or had before Release,
// else one that was never used, else a released one, whose figures it clears.
// Only the supervisor calls it. It fails if farm and url together exceed NameBytes
// or if every slot is in use.
func (s *Segment) Assign(farm, url string) (slot int, err error) {
	if n := len(farm) + len(url); n > NameBytes {
		return 0, fmt.Errorf("segment: server %s of farm %s: name and URL take %d bytes, the limit is %d", url, farm, n, NameBytes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := int(s.header().Slots)
	released := -1
	for i := range slots {
		e := s.entry(i)
		if f, u := e.names(); f == farm && u == url {
			e.State = slotUsed
			return i, nil
		}
		if e.State == slotReleased && released < 0 {
			released = i
		}
	}
	switch {
	case slots < s.shape.Servers:
		slot = slots
		s.header().Slots++
	case released >= 0:
		slot = released
		s.clear(slot)
	default:
		return 0, fmt.Errorf("segment: server %s of farm %s: all %d server slots are in use", url, farm, slots)
	}
	s.entry(slot).take(farm, url)
	return slot, nil
}

// Release lets another server have the slot, once no other is left. Its figures
// stay until then. The caller must know from every worker that nothing writes to
// them any more. Only the supervisor calls it.
func (s *Segment) Release(slot int) {
	inRange("server slot", slot, s.shape.Servers)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inUse(slot) {
		s.entry(slot).State = slotReleased
	}
}

// ServerName says whose slot this is. ok is false if it is free or released. It is
// for readers in the supervisor's process.
func (s *Segment) ServerName(slot int) (farm, url string, ok bool) {
	inRange("server slot", slot, s.shape.Servers)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inUse(slot) {
		return "", "", false
	}
	farm, url = s.entry(slot).names()
	return farm, url, true
}

// inUse looks at an entry only if there ever was one: looking would cost its page.
func (s *Segment) inUse(slot int) bool {
	return slot < int(s.header().Slots) && s.entry(slot).State == slotUsed
}

func (e *serverEntry) take(farm, url string) {
	copy(e.Name[:], farm)
	copy(e.Name[len(farm):], url)
	e.FarmLen, e.URLLen = uint32(len(farm)), uint32(len(url))
	e.State = slotUsed
}

func (e *serverEntry) names() (farm, url string) {
	name := e.Name[:e.FarmLen+e.URLLen]
	return string(name[:e.FarmLen]), string(name[e.FarmLen:])
}

// clear forgets all that the slot's last server did.
func (s *Segment) clear(slot int) {
	g := s.Gate(slot)
	g.Limit.Store(0)
	g.InFlight.Store(0)
	g.Waiters.Store(0)
	g.Used.Store(0)
	g.Pace.Store(0)
	s.Home(slot).Settle(-1)
	*s.Learned(slot) = Learned{}
	for w := range s.shape.Workers {
		if s.Worker(w).Loops.Load() > 0 {
			zero(s.Line(w, slot))
		}
		for l := range s.Worker(w).Loops.Load() {
			zero(s.Server(w, int(l), slot))
		}
	}
}
