package worker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// switched is a machine whose CPUs a test switches, in virtual time.
type switched struct {
	mu      sync.Mutex // guards all
	online  []int
	threads []int
	unread  error
	denied  error
	allowed []string // orders, as thread:CPUs
}

func (s *switched) kernel() kernel {
	return kernel{
		online: func() ([]int, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.online, s.unread
		},
		threads: func() ([]int, error) { return s.threads, nil },
		allow: func(tid int, cpus []int) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.allowed = append(s.allowed, fmt.Sprint(tid, ":", cpus))
			return s.denied
		},
	}
}

// plug has these CPUs online from now on, and forgets what was ordered.
func (s *switched) plug(online []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.online, s.allowed = online, nil
}

// ordered is what was ordered since.
func (s *switched) ordered() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.allowed, " ")
}

// A worker with CPUs 2 and 3, whose loops are the threads 10 and 11; 12 is another
// thread of it. Each line is what is online, and what is ordered then.
func TestKeeper(t *testing.T) {
	type step struct {
		online []int
		want   string
	}
	for _, c := range []struct {
		name  string
		pin   bool
		steps []step
	}{
		{"nothing changes", true, []step{{[]int{0, 1, 2, 3}, ""}, {[]int{0, 1, 2, 3}, ""}}},
		{"one goes and comes", true, []step{
			{[]int{0, 1, 2}, "10:[2] 11:[2 3] 12:[2 3]"},
			{[]int{0, 1, 2}, "10:[2] 11:[2 3] 12:[2 3]"}, // once more
			{[]int{0, 1, 2}, ""},
			{[]int{0, 1, 2, 3}, "10:[2] 11:[3] 12:[2 3]"},
		}},
		{"all go", true, []step{{[]int{0, 1}, ""}, {[]int{0, 1}, ""}, {[]int{0, 1, 3}, "10:[2 3] 11:[3] 12:[2 3]"}}},
		{"another's goes", true, []step{{[]int{0, 2, 3}, "10:[2] 11:[3] 12:[2 3]"}}},
		{"loops are not pinned", false, []step{{[]int{0, 1, 2}, "10:[2 3] 11:[2 3] 12:[2 3]"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &switched{online: []int{0, 1, 2, 3}, threads: []int{10, 11, 12}}
				k := newKeeper([]int{2, 3}, c.pin, s.kernel(), func() []int { return []int{10, 11} })
				k.start()
				defer k.close()
				time.Sleep(replugEvery / 2)
				for i, step := range c.steps {
					s.plug(step.online)
					time.Sleep(replugEvery)
					synctest.Wait()
					if got := s.ordered(); got != step.want {
						t.Errorf("step %d, with %v online: %q, want %q", i, step.online, got, step.want)
					}
				}
			})
		})
	}
}

// What the kernel refuses is told, but for a thread that has ended meanwhile; the
// other threads are moved all the same.
func TestKeeperIsRefused(t *testing.T) {
	for _, c := range []struct {
		denied error
		want   error
	}{{unix.EPERM, unix.EPERM}, {unix.ESRCH, nil}} {
		s := &switched{online: []int{0, 1}, threads: []int{10, 11}, denied: c.denied}
		k := newKeeper([]int{0, 1}, true, s.kernel(), func() []int { return s.threads })
		if err := k.look(); err != c.want || !slices.Equal(s.allowed, []string{"10:[0]", "11:[1]"}) {
			t.Errorf("refused with %v: %v, %v", c.denied, err, s.allowed)
		}
		s.unread = unix.EIO
		if err := k.look(); err != unix.EIO {
			t.Errorf("nobody knows what is online, and it says %v", err)
		}
	}
	s := &switched{unread: unix.ENOENT}
	k := newKeeper([]int{0}, true, s.kernel(), nil)
	k.start() // watches nothing
	k.close()
}
