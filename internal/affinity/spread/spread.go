// Package spread decides when loops may leave the CPUs of their worker
// (workers.affinity: soft): only while these are full and others idle. It is pure:
// shares of time go in, orders come out.
//
// A loop goes out by an order that allows it the idle CPUs of other workers beside
// its own; the kernel moves it. It is called back by one that allows it its own
// alone. Each step, in this order:
//
//  1. which of the others' CPUs are idle, but for what our loops do there
//  2. call back those that have no idle CPU any more
//  3. call back those for whom there is room at home again
//  4. let some out, if home is full and they wait for a CPU
//
// A full home is no reason by itself. A loop that has a CPU to itself gains
// nothing elsewhere, and would be far from its memory: so only one goes that was
// ready to run and did not, and only so long as the work at home and its own do
// not fit there. As those who left make room for others, the sum does not fall
// when one goes, and nobody goes to and fro.
package spread

import (
	"cmp"
	"slices"
)

// Shares of time from which a step follows.
const (
	full    = 0.9 // a CPU at home is full from here on
	idle    = 0.5 // another's CPU is idle below
	crowded = 0.6 // and one that was idle is so until here, so that its neighbour's noise does not drive loops about
	waiting = 0.1 // a loop that was ready to run and did not for so long would gain by going
)

// restLooks is how many looks pass after a move before the next one: shares are
// over so many looks, and must not be of the time before.
const restLooks = 3

// partAtOnce: of the loops that a home could have, at most one in so many goes out
// in a step, so that the next step sees what it brought.
const partAtOnce = 4

// Look is what was found of the last few looks' time.
type Look struct {
	Busy  map[int]float64 // by CPU, 0 to 1; one that is missing is unknown, and neither full nor idle
	Loops []Use           // by index
}

// Use is what the thread of one loop has done.
type Use struct {
	Ran    float64 // share of the time on a CPU
	Waited float64 // share of the time that it was ready to run, and others ran
	On     int     // CPU on which it was last; -1: unknown
}

// Order says where a loop may run from now on.
type Order struct {
	Loop int
	CPUs []int // ascending
}

// Spread knows where the loops of one worker are allowed. One goroutine owns it.
type Spread struct {
	home, overflow []int // immutable, ascending
	out            []bool
	idle           []int // of overflow, where those that are out may go
	rest           int   // looks to come before the next move

	letOut, calledBack int64
}

// New makes the spread of a worker whose loops are all at home.
func New(home, overflow []int, loops int) *Spread {
	return &Spread{home: home, overflow: overflow, out: make([]bool, loops)}
}

// Moves counts the loops that were let out, and those that were called back.
func (s *Spread) Moves() (out, back int64) { return s.letOut, s.calledBack }

// Away counts the loops that are out now.
func (s *Spread) Away() int { return len(s.away()) }

func (s *Spread) away() []int {
	var loops []int
	for i, out := range s.out {
		if out {
			loops = append(loops, i)
		}
	}
	return loops
}

// Step decides after a look, and returns the orders that follow from it. An order
// stays until the next for the same loop.
func (s *Spread) Step(l Look) []Order {
	before := slices.Clone(s.out)
	targets := s.targets(l) // 1
	moved := !slices.Equal(targets, s.idle)
	s.idle = targets
	s.callSurplus(l) // 2
	if s.rest > 0 {
		s.rest--
	} else if s.callFitting(l) || s.letWaiting(l) { // 3, 4
		s.rest = restLooks - 1
	}
	var orders []Order
	for i, out := range s.out {
		switch {
		case out && (moved || !before[i]):
			orders = append(orders, Order{i, s.everywhere()})
		case !out && before[i]:
			orders = append(orders, Order{i, s.home})
		}
	}
	return orders
}

// targets lists the CPUs of others that are idle but for our own loops.
func (s *Spread) targets(l Look) []int {
	ours := map[int]float64{}
	for _, i := range s.away() {
		ours[l.Loops[i].On] += l.Loops[i].Ran
	}
	var found []int
	for _, cpu := range s.overflow {
		bound := idle
		if len(s.away()) > 0 && slices.Contains(s.idle, cpu) {
			bound = crowded
		}
		if busy, known := l.Busy[cpu]; known && busy-ours[cpu] < bound {
			found = append(found, cpu)
		}
	}
	return found
}

// everywhere lists the CPUs of a loop that is out.
func (s *Spread) everywhere() []int {
	return slices.Sorted(slices.Values(slices.Concat(s.home, s.idle)))
}

// callSurplus calls back loops for which there is no idle CPU: the least busy.
func (s *Spread) callSurplus(l Look) {
	away := s.byUse(s.away(), l)
	for _, i := range away[:max(0, len(away)-len(s.idle))] {
		s.call(i)
	}
}

// callFitting calls back those whose work fits beside what is done at home, the
// least busy first, and reports whether there were any.
func (s *Spread) callFitting(l Look) bool {
	work := 0.0
	for _, cpu := range s.home {
		busy, known := l.Busy[cpu]
		if !known {
			return false
		}
		work += busy
	}
	room := full*float64(len(s.home)) - work
	called := false
	for _, i := range s.byUse(s.away(), l) {
		if use := l.Loops[i]; !slices.Contains(s.home, use.On) {
			room -= use.Ran
		}
		if room < 0 {
			break
		}
		s.call(i)
		called = true
	}
	return called
}

// letWaiting lets loops out that wait, those that wait most first, while there are
// idle CPUs, and reports whether there were any.
func (s *Spread) letWaiting(l Look) bool {
	for _, cpu := range s.home {
		if busy, known := l.Busy[cpu]; !known || busy < full {
			return false
		}
	}
	var candidates []int
	for i, out := range s.out {
		if !out && l.Loops[i].Waited >= waiting {
			candidates = append(candidates, i)
		}
	}
	slices.SortStableFunc(candidates, func(a, b int) int { return cmp.Compare(l.Loops[b].Waited, l.Loops[a].Waited) })
	atOnce := max(1, len(s.home)/partAtOnce)
	n := min(atOnce, len(s.idle)-s.Away(), len(candidates))
	for i := range max(0, n) {
		s.out[candidates[i]] = true
		s.letOut++
	}
	return n > 0
}

func (s *Spread) call(loop int) {
	s.out[loop] = false
	s.calledBack++
}

// byUse orders loops, the least busy first.
func (s *Spread) byUse(loops []int, l Look) []int {
	slices.SortStableFunc(loops, func(a, b int) int { return cmp.Compare(l.Loops[a].Ran, l.Loops[b].Ran) })
	return loops
}
