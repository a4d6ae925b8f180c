package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/affinity"
	"sluice/internal/affinity/spread"
	"sluice/internal/segment"
)

// stage is a machine whose CPUs and loops do what a test says, in virtual time.
type stage struct {
	mu            sync.Mutex // guards all
	busy          [4]float64 // by CPU: share of the time from now on
	waited        [2]float64 // by loop, which runs for the rest
	cpus          [4]affinity.CPUTime
	threads       [2]affinity.ThreadTime
	at            time.Time // until when the figures go
	fault, denied error
	allowed       []string // orders, as thread:CPUs
}

// do changes what CPUs do from now on.
func (s *stage) do(busy [4]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = busy
}

// advance takes the figures to now.
func (s *stage) advance() {
	passed := time.Since(s.at)
	s.at = time.Now()
	for i, share := range s.busy {
		busy := time.Duration(share * float64(passed))
		s.cpus[i].Busy += busy
		s.cpus[i].Idle += passed - busy
	}
	for i, share := range s.waited {
		waited := time.Duration(share * float64(passed))
		s.threads[i].Waited += waited
		s.threads[i].Ran += passed - waited
		s.threads[i].On = i
	}
}

func (s *stage) machine() machine {
	return machine{
		cpus: func() (map[int]affinity.CPUTime, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.advance()
			now := map[int]affinity.CPUTime{}
			for i, t := range s.cpus {
				now[i] = t
			}
			return now, s.fault
		},
		thread: func(tid int) (affinity.ThreadTime, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.threads[tid-100], nil
		},
		allow: func(tid int, cpus []int) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.allowed = append(s.allowed, fmt.Sprint(tid, ":", cpus))
			return s.denied
		},
	}
}

// heard is what was ordered since it was asked last.
func (s *stage) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.allowed = nil }()
	return strings.Join(s.allowed, " ")
}

func TestRoaming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{busy: [4]float64{1, 1, 0, 0.9}, waited: [2]float64{0.2, 0.4}, at: time.Now()}
		stats := new(segment.WorkerStats)
		stats.LetOut.Store(7) // of a process before
		r := newRoamer(spread.New([]int{0, 1}, []int{2, 3}, 2), stats, s.machine(), func() []int { return []int{100, 101} })
		r.start()
		defer r.close()
		pass := func(looks int, orders string, out, back, away int64) {
			t.Helper()
			time.Sleep(time.Duration(looks) * lookEvery)
			synctest.Wait()
			if got := s.heard(); got != orders {
				t.Errorf("orders %q, want %q", got, orders)
			}
			if stats.LetOut.Load() != out || stats.CalledBack.Load() != back || stats.Away.Load() != away {
				t.Errorf("%d out, %d back, %d away; want %d, %d, %d", stats.LetOut.Load(), stats.CalledBack.Load(), stats.Away.Load(), out, back, away)
			}
		}
		pass(1, "", 7, 0, 0) // one look tells nothing
		pass(1, "101:[0 1 2]", 8, 0, 1)
		pass(20, "", 8, 0, 1)
		s.do([4]float64{1, 1, 0, 0}) // another has room: the first loop goes as well, within a window
		pass(4, "100:[0 1 2 3] 101:[0 1 2 3]", 9, 0, 2)
		s.do([4]float64{0.5, 0.5, 0, 0})
		pass(5, "100:[0 1] 101:[0 1]", 9, 2, 0)
		pass(20, "", 9, 2, 0)
	})
}

// What cannot be read or done is told once, and tried again.
func TestRoamingInTheDark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{busy: [4]float64{1, 1, 0, 0}, waited: [2]float64{0.2, 0.4}, at: time.Now(), fault: errors.New("no /proc")}
		r := newRoamer(spread.New([]int{0, 1}, []int{2, 3}, 2), new(segment.WorkerStats), s.machine(), func() []int { return []int{0, 101} })
		for range 5 {
			time.Sleep(lookEvery)
			if err := r.look(); err != s.fault || s.heard() != "" {
				t.Errorf("%v, ordered %q", err, s.allowed)
			}
		}
		s.fault, s.denied = nil, errors.New("not allowed")
		var faults []error
		for range 2 {
			time.Sleep(lookEvery)
			faults = append(faults, r.look())
		}
		if got := s.heard(); !slices.Equal(faults, []error{nil, s.denied}) || got != "101:[0 1 2 3]" {
			t.Errorf("faults %v, orders %q", faults, got)
		}
	})
}

// Each loop tells the number of its own thread.
func TestLoopsTellTheirThreads(t *testing.T) {
	h := newHouse(t, nil, "http://127.0.0.1:1")
	threads := h.traffic.threads()
	for i, tid := range threads {
		var on int
		h.traffic.on(h.traffic.lanes[i:i+1], func(*lane) { on = unix.Gettid() })
		if tid == 0 || tid != on {
			t.Errorf("loop %d is said to be thread %d, and is %d", i, tid, on)
		}
	}
	if len(threads) != loops || threads[0] == threads[1] {
		t.Errorf("threads %v", threads)
	}
}
