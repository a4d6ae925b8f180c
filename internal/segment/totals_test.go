package segment

import (
	"sync"
	"testing"
)

func TestTotals(t *testing.T) {
	s := create(t, Shape{Workers: 2, Loops: 3, Servers: 2})
	for w := range 2 {
		s.Worker(w).Loops.Store(3)
		for l := range 3 {
			st := s.Loop(w, l)
			st.Requests.Add(uint64(100*w + 10*l))
			st.Status[2].Inc()
			st.Refused[NoRoute].Add(2)
			st.Connections.Set(int64(l) - 1)
			st.Duration.Observe(1e6)
			s.Server(w, l, 1).Requests.Add(uint64(l))
			s.Server(w, l, 1).InFlight.Dec()
			s.Server(w, l, 1).Response.Observe(1e6)
		}
	}
	got := s.Totals(1)
	if got.Requests != 330 || got.Status[2] != 3 || got.Refused[NoRoute] != 6 || got.Connections != 0 ||
		got.Duration.Count() != 3 || got.Duration.Sum != 3e6 {
		t.Errorf("worker 1: %d requests, %d 2xx, %d without route, %d connections, %d durations",
			got.Requests, got.Status[2], got.Refused[NoRoute], got.Connections, got.Duration.Count())
	}
	server := s.ServerTotals(1, 1)
	if server.Requests != 3 || server.InFlight != -3 || server.Response.Count() != 3 {
		t.Errorf("server 1: %d requests, %d in flight, %d responses", server.Requests, server.InFlight, server.Response.Count())
	}
	if other := s.ServerTotals(1, 0); other != (ServerStats{}) {
		t.Errorf("server 0 was never used, yet has %d requests", other.Requests)
	}
	both := s.Totals(0)
	both.Merge(&got)
	if both.Requests != 360 {
		t.Errorf("both workers: %d requests, want 360", both.Requests)
	}
}

// A loop beyond Worker.Loops counts for nothing, and a wrong count there harms nobody.
func TestTotalsGoAsFarAsLoops(t *testing.T) {
	s := create(t, Shape{Workers: 1, Loops: 3, Servers: 1})
	for l := range 3 {
		s.Loop(0, l).Requests.Inc()
	}
	for _, c := range []struct{ loops, want int }{{0, 0}, {2, 2}, {3, 3}, {4, 3}} {
		s.Worker(0).Loops.Store(int64(c.loops))
		if got := s.Totals(0).Requests; got != Counter(c.want) {
			t.Errorf("%d loops: %d requests, want %d", c.loops, got, c.want)
		}
	}
}

func TestResetGauges(t *testing.T) {
	s := create(t, Shape{Workers: 2, Loops: 2, Servers: 3})
	for _, url := range []string{"u0", "u1"} {
		if _, err := s.Assign("f", url); err != nil {
			t.Fatal(err)
		}
	}
	for w := range 2 {
		s.Worker(w).Loops.Store(2)
		for l := range 2 {
			setAll(s.Loop(w, l))
			setAll(s.Server(w, l, 1))
		}
	}
	s.ResetGauges(0)

	loop, server := s.Loop(0, 1), s.Server(0, 1, 1)
	for name, g := range map[string]*Gauge{
		"connections": &loop.Connections, "idle": &loop.Idle, "active": &loop.Active,
		"server open": &server.Open, "server idle": &server.Idle, "server in flight": &server.InFlight,
	} {
		if g.Load() != 0 {
			t.Errorf("%s: %d of a dead worker", name, g.Load())
		}
	}
	if loop.Accepted != 9 || loop.Requests != 9 || loop.Duration.Buckets[Buckets-1] != 9 || server.Connects != 9 ||
		server.Response.Sum != 9 {
		t.Error("a counter of the dead worker is lost")
	}
	if l, sv := s.Loop(1, 1), s.Server(1, 1, 1); l.Connections != 9 || sv.InFlight != 9 {
		t.Error("the other worker's gauges were reset too")
	}
}

func setAll[B block](b *B) {
	w := words(b)
	for i := range w {
		w[i] = 9
	}
}

// Readers may look while a loop writes. With -race this shows that the test
// variants of the writers are clean; without, that no value is torn or lost.
func TestReadersBesideWriter(t *testing.T) {
	const n = 20_000
	var l LoopStats // on the heap: the race detector does not watch a mapping
	var wg sync.WaitGroup
	wg.Go(func() {
		for range n {
			l.Active.Inc()
			l.Requests.Inc()
			l.Duration.Observe(1e6)
			l.Active.Dec()
		}
	})
	var last Counter
	for last < n {
		var copied LoopStats
		copied.Merge(&l)
		if copied.Requests < last || copied.Requests > n || copied.Active < 0 || copied.Active > 1 {
			t.Fatalf("%d requests after %d, %d active", copied.Requests, last, copied.Active)
		}
		last = copied.Requests
	}
	wg.Wait()
	if l.Duration.Count() != n || l.Duration.Sum != n*1e6 || l.Active != 0 {
		t.Errorf("%d durations, sum %d, %d active", l.Duration.Count(), l.Duration.Sum, l.Active)
	}
}
