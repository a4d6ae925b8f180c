package admission

import (
	"fmt"
	"testing"
	"time"
)

// TestShares: two workers, both with more requests than a server has permits for.
// The first begins with all permits; soon both have as many. What comes in the same
// turn of a loop ends at once, and a bell is heard a while later.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		limit        int64
		turn, answer time.Duration
	}{
		{1, 10 * time.Microsecond, 50 * time.Microsecond},
		{2, time.Millisecond, time.Millisecond},
		{20, 10 * time.Microsecond, 50 * time.Microsecond},
		{20, time.Millisecond, 50 * time.Microsecond},
		{20, time.Millisecond, time.Millisecond},
		{100, time.Millisecond, time.Millisecond},
	} {
		t.Run(fmt.Sprintf("limit %d, turns of %v, a bell heard after %v", c.limit, c.turn, c.answer), func(t *testing.T) {
			w := stage(t)
			w.farms[0].queue = 1000
			for _, p := range w.workers[:2] {
				p.apply(w.farms)
			}
			w.shared.Gate(0).Limit.Store(c.limit)
			s := &rush{world: w, turn: int64(c.turn), answer: int64(c.answer)}
			for i := range 2 {
				for range c.limit + 20 {
					s.requests = append(s.requests, &visitor{r: w.ask(wish{worker: i, only: 0}), ends: -1})
				}
			}
			s.run(time.Second) // to come to an agreement
			s.ended = [2]int{}
			s.run(2 * time.Second)
			share := float64(s.ended[0]) / float64(s.ended[0]+s.ended[1])
			most := float64(c.limit) * 2 / serviceTime.Seconds()
			use := float64(s.ended[0]+s.ended[1]) / most
			if share < 0.4 || share > 0.6 || use < 0.85 {
				t.Errorf("the first ended %.2f of all; %.2f of what the server can do", share, use)
			}
		})
	}
}

// serviceTime is the mean time that a server takes.
const serviceTime = 10 * time.Millisecond

// rush is requests that come again as soon as they have ended, in virtual time.
type rush struct {
	*world
	turn, answer int64
	requests     []*visitor
	rungAt       [2]int64 // when the bell will be heard; 0: it is not rung
	ended        [2]int
}

// visitor is one of them.
type visitor struct {
	r    *request
	ends int64 // when the server will have answered; -1: it waits
}

// run lets time go by.
func (s *rush) run(span time.Duration) {
	for over := s.now + int64(span); s.now < over; {
		s.observe()
		next := over
		var first *visitor
		for _, a := range s.requests {
			if a.ends >= 0 && a.ends < next {
				next, first = a.ends, a
			}
		}
		for _, at := range s.rungAt {
			if at > 0 && at < next {
				next, first = at, nil
			}
		}
		s.now = max(s.now, next)
		if first != nil {
			s.again(first)
			continue
		}
		for i, at := range s.rungAt {
			if at > 0 && at <= s.now {
				s.rungAt[i] = 0
				s.look(s.workers[i])
			}
		}
	}
}

// observe notes who has been called and which bells have been rung.
func (s *rush) observe() {
	for _, a := range s.requests {
		if a.ends < 0 && a.r.Permit.Out() {
			took := int64(s.random.ExpFloat64() * float64(serviceTime))
			a.ends = (s.now+took)/s.turn*s.turn + s.turn
		}
	}
	for i := range s.rungAt {
		if s.workers[i].bell && s.rungAt[i] == 0 {
			s.rungAt[i] = s.now + s.answer
		}
	}
}

// again ends a request, and has its client send the next.
func (s *rush) again(a *visitor) {
	worker := a.r.p.index
	s.ended[worker]++
	s.end(a.r)
	*a = visitor{r: s.ask(wish{worker: worker, only: 0}), ends: -1}
}
