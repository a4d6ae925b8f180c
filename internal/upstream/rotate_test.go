package upstream

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
)

// farmWith is a farm whose servers, named a, b, c …, have these weights.
func farmWith(weights ...int) *Farm {
	f := &Farm{Farm: config.Farm{Name: "app"}}
	for i, w := range weights {
		f.Servers = append(f.Servers, &Server{State: &State{Slot: i, URL: string(rune('a' + i))}, Farm: f, Weight: w})
	}
	return f
}

// sequence is the names of the next n servers; - stands for none.
func sequence(r *Rotation, now int64, tried Tried, n int) string {
	var s strings.Builder
	for range n {
		if next, _ := r.Next(now, tried, nil); next != nil {
			s.WriteString(next.URL)
		} else {
			s.WriteByte('-')
		}
	}
	return s.String()
}

func TestRotation(t *testing.T) {
	for _, c := range []struct {
		name    string
		weights []int
		failed  string // servers that have failed lately
		tried   string
		want    string
	}{
		{"one server", []int{100}, "", "", "aaaa"},
		{"one server, failed: there is no other", []int{100}, "a", "", "aaaa"},
		{"one server, tried", []int{100}, "", "a", "----"},
		{"one server, taken out", []int{0}, "", "", "----"},
		{"equal weights take turns", []int{100, 100, 100}, "", "", "abcabcabc"},
		{"turns are spread over the round", []int{5, 1, 1}, "", "", "aabacaaaabacaa"},
		{"two to one", []int{2, 1}, "", "", "abaaba"},
		{"weight 0 gets none", []int{1, 0, 1}, "", "", "acacac"},
		{"the failed one is passed over", []int{1, 1, 1}, "b", "", "acacac"},
		{"all failed: as if none had", []int{1, 1}, "ab", "", "abab"},
		{"the tried one is passed over", []int{1, 1}, "", "a", "bbbb"},
		{"failed is better than tried", []int{1, 1}, "b", "a", "bbbb"},
		{"all tried", []int{1, 1}, "", "ab", "----"},
		{"all taken out", []int{0, 0}, "", "", "----"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const now = int64(1e9)
			f := farmWith(c.weights...)
			var tried Tried
			for _, s := range f.Servers {
				if strings.Contains(c.failed, s.URL) {
					s.Fail(now-1, time.Second)
				}
				if strings.Contains(c.tried, s.URL) {
					tried = tried.With(s)
				}
			}
			if got := sequence(NewRotation(f), now, tried, len(c.want)); got != c.want {
				t.Errorf("turns %q, want %q", got, c.want)
			}
		})
	}
}

// TestRotationRound: over a round each server gets just its weight, and at no
// point within it is anyone more than one turn per other server off its share.
func TestRotationRound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		weights, round := make([]int, 1+random.IntN(8)), 0
		for i := range weights {
			weights[i] = random.IntN(20)
			round += weights[i]
		}
		if round == 0 {
			continue
		}
		r, turns := NewRotation(farmWith(weights...)), make([]int, len(weights))
		for n := 1; n <= 2*round; n++ {
			s, _ := r.Next(0, 0, nil)
			turns[s.Slot]++
			for i, w := range weights {
				if off := turns[i]*round - n*w; off > round*len(weights) || -off > round*len(weights) {
					t.Fatalf("weights %v: after %d turns server %d has had %d", weights, n, i, turns[i])
				}
			}
			for i, w := range weights {
				if n%round == 0 && turns[i] != w*n/round {
					t.Fatalf("weights %v: after %d turns server %d has had %d, want %d", weights, n, i, turns[i], w*n/round)
				}
			}
		}
	}
}

// TestRotationBack: a server that was passed over does not make up for it.
func TestRotationBack(t *testing.T) {
	f := farmWith(1, 1)
	r := NewRotation(f)
	f.Servers[0].Fail(0, time.Second)
	if got := sequence(r, 1, 0, 4); got != "bbbb" {
		t.Errorf("while a is skipped: %q", got)
	}
	if got := sequence(r, int64(time.Second), 0, 4); got != "abab" && got != "baba" {
		t.Errorf("when a's time is over: %q", got)
	}
	f.Servers[0].Fail(int64(time.Second), time.Minute)
	f.Servers[0].Succeed()
	if got := sequence(r, int64(time.Second), 0, 4); got != "abab" && got != "baba" {
		t.Errorf("when a has answered: %q", got)
	}
}

func TestRotationAllocatesNothing(t *testing.T) {
	r := NewRotation(farmWith(3, 2, 1))
	if n := testing.AllocsPerRun(100, func() { r.Next(1, 0, nil) }); n != 0 {
		t.Errorf("%v allocations for a turn", n)
	}
}

// TestTriedSlots: as slots, the set must not keep a request from a server that it
// has not been sent to.
func TestTriedSlots(t *testing.T) {
	for _, c := range []struct {
		name  string
		slots []int // of servers a, b, c …
		tried string
		want  uint64
	}{
		{"none", []int{2, 3}, "", 0},
		{"by slot, not by place", []int{5, 3}, "a", 1 << 5},
		{"all", []int{5, 3}, "ab", 1<<5 | 1<<3},
		{"modulo 64", []int{70, 3}, "a", 1 << 6},
		{"a number that two share, one of them not tried", []int{70, 6, 3}, "ac", 1 << 3},
		{"a number that two share, both tried", []int{70, 6, 3}, "ab", 1 << 6},
	} {
		f, tried := farmWith(make([]int, len(c.slots))...), Tried(0)
		for i, s := range f.Servers {
			if s.Slot = c.slots[i]; strings.Contains(c.tried, s.URL) {
				tried = tried.With(s)
			}
		}
		if got := tried.Slots(f); got != c.want {
			t.Errorf("%s: %b, want %b", c.name, got, c.want)
		}
	}
}
