package upstream

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/segment"
)

// settled gives the servers of a farm these nodes, - for none, as a worker on node 0
// sees them.
func settled(f *Farm, nodes string) []*segment.Home {
	homes := make([]*segment.Home, len(nodes))
	for i, c := range nodes {
		homes[i] = new(segment.Home)
		homes[i].Settle(strings.IndexRune("0123456789", c))
		f.Servers[i].Settle([]int{0}, homes[i])
	}
	return homes
}

// mark fails and tries the servers that are named.
func mark(f *Farm, failed, tried string, now int64) (t Tried) {
	for _, s := range f.Servers {
		if strings.Contains(failed, s.URL) {
			s.Fail(now-1, time.Second)
		}
		if strings.Contains(tried, s.URL) {
			t = t.With(s)
		}
	}
	return t
}

func TestNearFirst(t *testing.T) {
	for _, c := range []struct {
		name          string
		weights       []int
		nodes         string // of servers a, b, c …
		failed, tried string
		full          string // servers without a permit
		want, spill   string
	}{
		{"the own node's", []int{1, 1, 1}, "010", "", "", "", "acac", "bbbb"},
		{"those of no node are everybody's", []int{1, 1, 1}, "0-1", "", "", "", "abab", "cccc"},
		{"of no node only", []int{1, 1}, "--", "", "", "", "abab", "----"},
		{"none on the own node: all alike", []int{1, 1}, "12", "", "", "", "abab", "----"},
		{"one of two is down", []int{1, 1, 1}, "001", "a", "", "", "bbbb", "cccc"},
		{"all are down", []int{1, 1, 1, 1}, "0011", "ab", "", "", "cdcd", "----"},
		{"the own are taken out", []int{0, 1, 1}, "011", "", "", "", "bcbc", "----"},
		{"the own was tried", []int{1, 1}, "01", "", "a", "", "bbbb", "----"},
		{"everything is down: the own again", []int{1, 1, 1}, "010", "abc", "", "", "acac", "----"},
		{"the own is down, the others were tried", []int{1, 1, 1}, "011", "a", "bc", "", "aaaa", "----"},
		{"the own are full", []int{1, 1, 1, 1}, "0011", "", "", "ab", "----", "cdcd"},
		{"one of the own is full", []int{1, 1, 1}, "001", "", "", "a", "bbbb", "cccc"},
		{"all are full", []int{1, 1}, "01", "", "", "ab", "----", "----"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const now = int64(1e9)
			f := farmWith(c.weights...)
			settled(f, c.nodes)
			tried := mark(f, c.failed, c.tried, now)
			open := func(s *Server) bool { return !strings.Contains(c.full, s.URL) }
			r, spills := NewRotation(f), NewRotation(f)
			got, spilled := "", ""
			name := func(s *Server) string {
				if s == nil {
					return "-"
				}
				return s.URL
			}
			for range len(c.want) {
				next, _ := r.Next(now, tried, open)
				got += name(next)
				spilled += name(spills.Spill(now, tried, open))
			}
			if got != c.want || spilled != c.spill {
				t.Errorf("turns %q, want %q; spilled to %q, want %q", got, c.want, spilled, c.spill)
			}
			up := false
			for i, s := range f.Servers {
				up = up || s.Weight > 0 && strings.Contains("0-", c.nodes[i:i+1]) && !strings.Contains(c.failed+c.tried, s.URL)
			}
			if r.AtHome(now, tried) != up {
				t.Errorf("a server of the own node is up: %v", !up)
			}
		})
	}
}

// TestNearProperty: whatever fails and comes back, a request goes to a server of the
// own node, or of none, while one is up that it has not been sent to, and else to
// another that is up.
func TestNearProperty(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	now, spread := int64(1e9), 0
	for range 300 {
		f := farmWith(make([]int, 1+random.IntN(9))...)
		nodes := ""
		for _, s := range f.Servers {
			s.Weight = random.IntN(4)
			nodes += string("-0123"[random.IntN(5)])
		}
		homes := settled(f, nodes)
		r := NewRotation(f)
		for range 100 {
			now += random.Int64N(int64(time.Second))
			i := random.IntN(len(f.Servers))
			switch random.IntN(4) {
			case 0:
				f.Servers[i].Fail(now, time.Duration(random.Int64N(int64(10*time.Second))))
			case 1:
				f.Servers[i].Succeed()
			case 2:
				homes[i].Began()
			}
			tried := Tried(0)
			for random.IntN(3) == 0 {
				tried = tried.With(f.Servers[random.IntN(len(f.Servers))])
			}
			got, some := r.Next(now, tried, nil)
			for j, s := range f.Servers {
				if s.Weight == 0 || tried.has(j) {
					if s == got {
						t.Fatalf("nodes %s: chose server %d, of weight %d, tried: %b", nodes, j, s.Weight, tried)
					}
					continue
				}
				if !some || s.Rank(now) < got.Rank(now) {
					t.Fatalf("nodes %s: chose %v although server %d is of rank %d", nodes, got, j, s.Rank(now))
				}
			}
			if some && !got.Near() {
				spread++
			}
		}
	}
	if spread < 1000 {
		t.Errorf("%d requests have left the node; the test tells little", spread)
	}
}

// TestStartedAnew: a server that was found dead is tried again as soon as it is known
// to have started, and else when its time is over.
func TestStartedAnew(t *testing.T) {
	f := farmWith(1, 1)
	homes := settled(f, "01")
	r := NewRotation(f)
	for i, step := range []struct {
		happens func()
		now     time.Duration
		want    string
	}{
		{func() {}, 0, "aa"},
		{func() { f.Servers[0].Fail(0, time.Minute) }, time.Second, "bb"},
		{func() { homes[1].Began() }, 2 * time.Second, "bb"},
		{func() { homes[0].Began() }, 3 * time.Second, "aa"},
		{func() { f.Servers[0].Fail(int64(3*time.Second), time.Minute) }, 4 * time.Second, "bb"}, // it had only begun to start
		{func() {}, 62 * time.Second, "bb"},
		{func() {}, 63 * time.Second, "aa"},
		{func() { homes[0].Settle(1) }, 64 * time.Second, "ab"}, // moved: none is near
		{func() { homes[1].Settle(0) }, 65 * time.Second, "bb"},
	} {
		step.happens()
		if got := sequence(r, int64(step.now), 0, 2); got != step.want && !(step.want == "ab" && got == "ba") {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// TestSettleServers: a reload keeps to the worker's nodes.
func TestSettleServers(t *testing.T) {
	servers, homes := newServers(noNames), make([]segment.Home, 3)
	defer servers.Close()
	servers.Settle([]int{1, 2}, func(slot int) *segment.Home { return &homes[slot] })
	for i := range homes {
		homes[i].Settle(i)
	}
	for range 2 {
		farms, _ := servers.Apply(farmsOf([]string{"x", "http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"}), slots{}.of)
		for i, s := range farms[0].Servers {
			if s.Node() != i || s.Near() != (i > 0) {
				t.Errorf("server %d: node %d, near %v", i, s.Node(), s.Near())
			}
		}
	}
	for threshold, want := range map[config.Threshold]int{"20": 20, "0": 0, "off": -1} {
		cfg := farmsOf([]string{"x", "http://127.0.0.1:1"})
		cfg.Farms[0].Spill.Threshold = threshold
		if farms, _ := servers.Apply(cfg, slots{}.of); farms[0].Spill != want {
			t.Errorf("spill: %s: %d, want %d", threshold, farms[0].Spill, want)
		}
	}
}
