package spread

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// look is two CPUs at home (0, 1), two of others (2, 3), and two loops, from
// shares in per cent.
func look(busy [4]float64, loops ...Use) Look {
	l := Look{Busy: map[int]float64{}}
	for cpu, share := range busy {
		if share >= 0 {
			l.Busy[cpu] = share / 100
		}
	}
	for _, u := range loops {
		l.Loops = append(l.Loops, Use{u.Ran / 100, u.Waited / 100, u.On})
	}
	return l
}

func text(orders []Order) string {
	var words []string
	for _, o := range orders {
		words = append(words, fmt.Sprintf("%d:%v", o.Loop, o.CPUs))
	}
	return strings.Join(words, " ")
}

// A busy home whose second loop waits: the look after which that goes out.
var crowdedHome = look([4]float64{100, 100, 0, 0}, Use{90, 10, 0}, Use{60, 40, 1})

func TestWhoGoesOut(t *testing.T) {
	for _, c := range []struct {
		name string
		look Look
		want string
	}{
		{"home is full, others idle: who waits most", crowdedHome, "1:[0 1 2 3]"},
		{"nobody waits", look([4]float64{100, 100, 0, 0}, Use{100, 9, 0}, Use{100, 9, 1}), ""},
		{"who waits a little", look([4]float64{100, 100, 0, 0}, Use{90, 10, 0}, Use{100, 0, 1}), "0:[0 1 2 3]"},
		{"one CPU at home is not full", look([4]float64{100, 89, 0, 0}, Use{90, 10, 0}, Use{60, 40, 1}), ""},
		{"both are just full", look([4]float64{90, 90, 0, 0}, Use{90, 10, 0}, Use{60, 40, 1}), "1:[0 1 2 3]"},
		{"one other is idle", look([4]float64{100, 100, 50, 49}, Use{90, 10, 0}, Use{60, 40, 1}), "1:[0 1 3]"},
		{"no other is idle", look([4]float64{100, 100, 50, 60}, Use{90, 10, 0}, Use{60, 40, 1}), ""},
		{"nothing is known of home", look([4]float64{-1, 100, 0, 0}, Use{90, 10, 0}, Use{60, 40, 1}), ""},
		{"nothing is known of one other", look([4]float64{100, 100, -1, 0}, Use{90, 10, 0}, Use{60, 40, 1}), "1:[0 1 3]"},
		{"nothing is known at all", look([4]float64{-1, -1, -1, -1}, Use{90, 10, 0}, Use{60, 40, 1}), ""},
	} {
		s := New([]int{0, 1}, []int{2, 3}, 2)
		if got := text(s.Step(c.look)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A CPU that was idle and is no more is no target for the first who goes.
func TestIdleIsAnew(t *testing.T) {
	s := New([]int{0, 1}, []int{2, 3}, 2)
	s.Step(look([4]float64{50, 50, 0, 0}, Use{50, 0, 0}, Use{50, 0, 1}))
	if got := text(s.Step(look([4]float64{100, 100, 55, 0}, Use{90, 10, 0}, Use{60, 40, 1}))); got != "1:[0 1 3]" {
		t.Errorf("%q", got)
	}
}

// After a loop has gone out: what brings it back, and what does not.
func TestWhoComesBack(t *testing.T) {
	for _, c := range []struct {
		name string
		look Look // again and again
		want []string
	}{
		{"all as it was: the other goes too", look([4]float64{100, 100, 100, 0}, Use{80, 20, 0}, Use{100, 0, 2}), []string{"", "", "0:[0 1 2 3]"}},
		{"nobody waits any more", look([4]float64{100, 100, 100, 0}, Use{100, 0, 0}, Use{100, 0, 2}), []string{"", "", ""}},
		{"its work does not fit", look([4]float64{90, 50, 50, 0}, Use{90, 0, 0}, Use{41, 0, 2}), []string{"", "", ""}},
		{"its work fits", look([4]float64{90, 50, 40, 0}, Use{90, 0, 0}, Use{40, 0, 2}), []string{"", "", "1:[0 1]"}},
		{"it is at home already, where there is room", look([4]float64{90, 85, 0, 0}, Use{90, 0, 0}, Use{85, 0, 1}), []string{"", "", "1:[0 1]"}},
		{"others have one CPU to do", look([4]float64{100, 100, 100, 60}, Use{90, 5, 0}, Use{100, 0, 2}), []string{"1:[0 1 2]", "", ""}},
		{"others have a little to do", look([4]float64{100, 100, 100, 59}, Use{90, 5, 0}, Use{100, 0, 2}), []string{"", "", ""}},
		{"others have all to do", look([4]float64{100, 100, 60, 100}, Use{90, 5, 0}, Use{0, 100, 2}), []string{"1:[0 1]", "", ""}},
		{"it ran elsewhere, and the rest there is others'", look([4]float64{100, 100, 100, 100}, Use{90, 5, 0}, Use{30, 60, 2}), []string{"1:[0 1]", "", ""}},
	} {
		s := New([]int{0, 1}, []int{2, 3}, 2)
		s.Step(crowdedHome)
		for i, want := range c.want {
			if got := text(s.Step(c.look)); got != want {
				t.Errorf("%s: look %d: %q, want %q", c.name, i, got, want)
			}
		}
	}
}

// Of a large home a part goes at once, those first that wait most, and no more
// than there are idle CPUs.
func TestHowManyGo(t *testing.T) {
	home, l := []int{}, Look{Busy: map[int]float64{}}
	for i := range 20 {
		home = append(home, i)
		l.Busy[i] = 1
		l.Loops = append(l.Loops, Use{0.5, 0.2 + float64(i)/100, i})
	}
	var others []int
	for i := range 7 {
		others = append(others, 20+i)
		l.Busy[20+i] = 0
	}
	s := New(home, others, 20)
	var went [][]int
	for range 8 {
		var loops []int
		for _, o := range s.Step(l) {
			loops = append(loops, o.Loop)
		}
		went = append(went, loops)
	}
	if got, want := fmt.Sprint(went), "[[15 16 17 18 19] [] [] [13 14] [] [] [] []]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if out, back := s.Moves(); out != 7 || back != 0 || s.Away() != 7 {
		t.Errorf("%d out, %d back, %d away", out, back, s.Away())
	}
}

// Whatever the looks: an order always allows home, else only others' CPUs that are
// known, and no more loops are out than there are idle CPUs.
func TestOrdersKeepTheirBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 4))
	for range 300 {
		home, others := r.IntN(4)+1, r.IntN(5)
		var homeCPUs, otherCPUs []int
		for i := range home {
			homeCPUs = append(homeCPUs, i)
		}
		for i := range others {
			otherCPUs = append(otherCPUs, home+i)
		}
		loops := r.IntN(6) + 1
		s := New(homeCPUs, otherCPUs, loops)
		allowed := make([][]int, loops)
		for i := range allowed {
			allowed[i] = homeCPUs
		}
		for range 60 {
			l := Look{Busy: map[int]float64{}}
			for cpu := range home + others {
				if r.IntN(20) > 0 {
					l.Busy[cpu] = min(1, 1.3*r.Float64()+0.2*float64(r.IntN(3)))
				}
			}
			for range loops {
				l.Loops = append(l.Loops, Use{r.Float64(), r.Float64() / 2, r.IntN(home+others+1) - 1})
			}
			for _, o := range s.Step(l) {
				allowed[o.Loop] = o.CPUs
			}
			checkBounds(t, allowed, homeCPUs, otherCPUs)
		}
		if out, back := s.Moves(); out-back != int64(s.Away()) {
			t.Errorf("%d out, %d back, %d away", out, back, s.Away())
		}
	}
}

func checkBounds(t *testing.T, allowed [][]int, home, others []int) {
	t.Helper()
	out, targets := 0, 0
	for i, cpus := range allowed {
		for _, cpu := range home {
			if !slices.Contains(cpus, cpu) {
				t.Fatalf("loop %d may not run at home: %v", i, cpus)
			}
		}
		for _, cpu := range cpus {
			if !slices.Contains(home, cpu) && !slices.Contains(others, cpu) {
				t.Fatalf("loop %d may run on CPU %d", i, cpu)
			}
		}
		if !slices.IsSorted(cpus) {
			t.Fatalf("loop %d: %v is not in order", i, cpus)
		}
		if len(cpus) > len(home) {
			out, targets = out+1, len(cpus)-len(home)
		}
	}
	if out > targets {
		t.Fatalf("%d loops are out, with %d CPUs to go to: %v", out, targets, allowed)
	}
}

// world is a machine in which loops want shares of CPUs, others do too, and a CPU
// is shared equally: crude, and enough to see whether loops go to and fro.
type world struct {
	wants   []float64 // by loop
	foreign map[int]float64
	at      []int // by loop: its CPU
	allowed [][]int
}

// run moves each loop to where most is left, as a kernel would, and tells what
// was seen.
func (w *world) run(cpus int) Look {
	for i := range w.at {
		load := w.load(cpus, i)
		best := w.at[i]
		if !slices.Contains(w.allowed[i], best) {
			best = w.allowed[i][0]
		}
		for _, cpu := range w.allowed[i] {
			if load[cpu] < load[best]-0.1 {
				best = cpu
			}
		}
		w.at[i] = best
	}
	load := w.load(cpus, -1)
	l := Look{Busy: map[int]float64{}}
	for cpu := range cpus {
		l.Busy[cpu] = min(1, load[cpu])
	}
	for i, want := range w.wants {
		ran := want / max(1, load[w.at[i]])
		l.Loops = append(l.Loops, Use{ran, want - ran, w.at[i]})
	}
	return l
}

func (w *world) load(cpus, without int) []float64 {
	load := make([]float64, cpus)
	for cpu, share := range w.foreign {
		load[cpu] += share
	}
	for i, at := range w.at {
		if i != without {
			load[at] += w.wants[i]
		}
	}
	return load
}

// Loops go where they gain, stay while they do, and come back: with few moves.
func TestNobodyGoesToAndFro(t *testing.T) {
	for _, c := range []struct {
		name      string
		wants     []float64
		foreign   map[int]float64
		out, back int64 // in 600 looks, a minute
		away      int   // at the end
	}{
		{"idle", []float64{0.1, 0.1}, nil, 0, 0, 0},
		{"a loop on each CPU, full, alone", []float64{1, 1}, nil, 0, 0, 0},
		{"an app beside them takes one CPU", []float64{1, 1}, map[int]float64{0: 1}, 1, 0, 1},
		{"an app beside them takes both CPUs", []float64{1, 1}, map[int]float64{0: 1, 1: 1}, 2, 0, 2},
		{"an app, and others are busy too", []float64{1, 1}, map[int]float64{0: 1, 2: 0.9, 3: 0.9}, 0, 0, 0},
		{"an app, and one other is idle", []float64{1, 1}, map[int]float64{0: 1, 1: 1, 2: 0.9}, 1, 0, 1},
		{"more loops than CPUs", []float64{1, 1, 1, 1}, nil, 2, 0, 2},
		{"much, but it fits", []float64{0.8, 0.8}, map[int]float64{0: 0.05}, 0, 0, 0},
		{"just too much", []float64{0.9, 0.9}, map[int]float64{0: 0.3}, 1, 0, 1},
	} {
		s := New([]int{0, 1}, []int{2, 3}, len(c.wants))
		w := &world{wants: c.wants, foreign: c.foreign}
		for i := range c.wants {
			w.at, w.allowed = append(w.at, i%2), append(w.allowed, []int{0, 1})
		}
		step := func() {
			for _, o := range s.Step(w.run(4)) {
				w.allowed[o.Loop] = o.CPUs
			}
		}
		for range 600 {
			step()
		}
		if out, back := s.Moves(); out != c.out || back != c.back || s.Away() != c.away {
			t.Errorf("%s: %d out, %d back, %d away; want %d, %d, %d", c.name, out, back, s.Away(), c.out, c.back, c.away)
		}
		w.foreign, w.wants = nil, make([]float64, len(c.wants)) // the load ends
		for range 2 * restLooks {
			step()
		}
		if s.Away() != 0 {
			t.Errorf("%s: %d loops are still out %d looks after the load has ended", c.name, s.Away(), 2*restLooks)
		}
	}
}
