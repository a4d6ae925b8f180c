package queue

import (
	"slices"
	"testing"
)

// TestAvoid: an avoided server is left to those who may go to no other.
func TestAvoid(t *testing.T) {
	for _, c := range []struct {
		name    string
		servers []int
		avoided []int
		want    []int // how many wait for servers 0 to 4
	}{
		{"none", []int{0, 1, 4}, nil, []int{3, 1, 0, 0, 3}},
		{"one", []int{0, 1, 4}, []int{0}, []int{1, 1, 0, 0, 3}},
		{"what the picky may go to", []int{0, 1, 4}, []int{0, 4}, []int{2, 1, 0, 0, 2}},
		{"all", []int{0, 1, 4}, []int{0, 1, 4}, []int{3, 1, 0, 0, 3}},
		{"one that is none", []int{0, 1, 4}, []int{2, 9, -1}, []int{3, 1, 0, 0, 3}},
		{"the other one", []int{0, 1}, []int{1}, []int{3, 0, 0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := New(0, Settings{Length: 10})
			q.SetSome(c.servers, Settings{Length: 10})
			for _, w := range []*Waiter{
				{Owner: "any", Only: -1}, {Owner: "bound", Only: 0}, {Owner: "not to 1", Only: -1, Except: 1 << 1},
				{Owner: "bound to 4", Only: 4},
			} {
				if got, want := q.Join(w, 0), slices.Contains(c.servers, w.Only) || w.Only < 0; (got == Held) != want {
					t.Fatalf("%s: %v", w.Owner, got)
				}
			}
			for _, s := range c.avoided {
				q.Avoid(s, true)
			}
			for s, want := range c.want {
				if got := q.Waiting(s); got != want {
					t.Errorf("%d wait for server %d, want %d", got, s, want)
				}
			}
			for _, s := range c.avoided {
				q.Avoid(s, false)
			}
			for s := range c.want {
				for q.Next(s, 0) != nil {
					if !slices.Contains(c.servers, s) {
						t.Errorf("server %d, which is none, got one", s)
					}
				}
			}
			if q.Len() != 0 {
				t.Errorf("%d wait though all servers are back", q.Len())
			}
		})
	}
}
