package admin

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fieldsOf is how many named fields a struct has.
func fieldsOf[S any]() (n int) {
	for f := range reflect.TypeFor[S]().Fields() {
		if f.Name != "_" {
			n++
		}
	}
	return n
}

func status(t *testing.T, v *fakeView) *Status {
	t.Helper()
	got := request(v, "GET", "/status")
	s := new(Status)
	if err := json.Unmarshal(got.Body.Bytes(), s); err != nil {
		t.Fatalf("%v in %s", err, got.Body)
	}
	return s
}

func TestStatus(t *testing.T) {
	v := newFakeView(t)
	v.work()
	s := status(t, v)
	if s.Version != "1.2.3" || s.Generation != 7 || !s.Ready || s.PID != os.Getpid() || s.UptimeSeconds < 3600 {
		t.Errorf("the program: %+v", s)
	}
	if len(s.Workers) != 2 || len(s.Nodes) != 2 || len(s.Farms) != 1 || len(s.Farms[0].Servers) != 2 {
		t.Fatalf("%d workers, %d nodes, %d farms", len(s.Workers), len(s.Nodes), len(s.Farms))
	}
	w := s.Workers[1]
	if w.Node != 1 || !slices.Equal(w.CPUs, []int{2, 3}) || w.Loops != 2 || w.State != "serving" || w.Restarts != 3 {
		t.Errorf("worker 1: %+v", w)
	}
	if w.Connections != 8 || w.Idle != 6 || w.Active != 2 || w.Requests != 200 || w.BytesOut != 100_000 || w.BusySeconds != 3 {
		t.Errorf("traffic of worker 1: %+v", w.Traffic)
	}
	if w.Process.MemoryBytes == 0 {
		t.Error("worker 1 lives without memory")
	}
	if !maps.Equal(w.Refused, map[string]uint64{"no_server": 10}) || w.Responses["2xx"] != 180 || w.Responses["none"] != 4 {
		t.Errorf("worker 1: refused %v, responses %v", w.Refused, w.Responses)
	}
	if l := s.Listeners; len(l) != 1 || l[0] != (ListenerStatus{Name: "web", Address: "127.0.0.1:8080"}) {
		t.Errorf("listeners: %+v", l)
	}
	first, second := s.Farms[0].Servers[0], s.Farms[0].Servers[1]
	if first.Requests != 0 || first.Node == nil || *first.Node != 1 || first.Crossings != (Crossings{}) {
		t.Errorf("the idle server: %+v", first)
	}
	if second.Requests != 380 || second.Weight != 50 || second.Open != 8 || second.Node != nil || second.Failures != 12 {
		t.Errorf("the busy server: %+v", second)
	}
	if got, want := second.Crossings, (Crossings{Local: 280, Remote: 100, Spilled: 20}); got != want || w.Crossings != (Crossings{160, 30, 22}) {
		t.Errorf("crossings: %+v, want %+v; of worker 1: %+v", got, want, w.Crossings)
	}
	if p50 := second.Response.P50; math.Abs(p50-0.003) > 0.003/8 || second.Response.Count != 4 {
		t.Errorf("response times: %+v, want 3 ms", second.Response)
	}
	if p99 := s.Duration.P99; math.Abs(p99-100e-6) > 100e-6/8 {
		t.Errorf("durations: %+v, want 100 µs", s.Duration)
	}
}

// Lists are lists even when empty, so that a program can go over them.
func TestStatusHasNoNullLists(t *testing.T) {
	v := newFakeView(t)
	v.workers, v.servers, v.config = nil, nil, listenOn("off")
	v.config.Listeners = nil
	body := request(v, "GET", "/status").Body.String()
	if strings.Contains(body, "null") {
		t.Errorf("null in %s", body)
	}
}

func TestNodesAreSums(t *testing.T) {
	worker := func(index, node, loops int, busy float64) WorkerStatus {
		return WorkerStatus{Index: index, Node: node, Loops: loops, Traffic: Traffic{
			Connections: 10, Requests: 100, RequestsPerSecond: 5, Utilisation: busy, BytesOut: 7, Crossings: Crossings{4, 3, 2},
		}}
	}
	got := newNodes([]WorkerStatus{worker(0, 1, 1, 0.8), worker(1, 0, 4, 0.5), worker(2, 1, 3, 0.4)})
	want := []NodeStatus{
		{Node: 0, Workers: []int{1}, Loops: 4, Traffic: Traffic{Connections: 10, Requests: 100, RequestsPerSecond: 5, Utilisation: 0.5, BytesOut: 7, Crossings: Crossings{4, 3, 2}}},
		{Node: 1, Workers: []int{0, 2}, Loops: 4, Traffic: Traffic{Connections: 20, Requests: 200, RequestsPerSecond: 10, Utilisation: 0.5, BytesOut: 14, Crossings: Crossings{8, 6, 4}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestRateTo(t *testing.T) {
	before := work{requests: 1000, busy: 10 * time.Second}
	for _, c := range []struct {
		name  string
		after work
		over  time.Duration
		loops int
		known bool
		want  rate
	}{
		{"half of two loops", work{1500, 20 * time.Second}, 10 * time.Second, 2, true, rate{50, 0.5}},
		{"nothing happened", before, 10 * time.Second, 2, true, rate{}},
		{"more than possible", work{1000, 90 * time.Second}, 10 * time.Second, 2, true, rate{0, 1}},
		{"counters stepped back", work{0, 0}, 10 * time.Second, 2, true, rate{}},
		{"no time passed", work{1500, 20 * time.Second}, 0, 2, true, rate{}},
		{"a new worker", work{1500, 20 * time.Second}, 10 * time.Second, 2, false, rate{}},
		{"no loops yet", work{1500, 20 * time.Second}, 10 * time.Second, 0, true, rate{}},
	} {
		if got := before.rateTo(c.after, c.over, c.loops, c.known); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Rates are over the last one or two sample distances, and forget what was before.
func TestSampler(t *testing.T) {
	v := newFakeView(t) // its segment is made outside the bubble
	synctest.Test(t, func(t *testing.T) {
		s := newSampler(v)
		go s.run(t.Context())
		requests := &v.segment.Loop(0, 0).Requests
		now := func() float64 {
			return s.rate(v.workers[0], v.segment.Totals(0), time.Now()).requests
		}
		for _, step := range []struct {
			wait     time.Duration
			requests uint64
			want     float64
		}{
			{sampleEvery / 2, 50, 50 / (sampleEvery / 2).Seconds()}, // since the start
			{sampleEvery, 0, 50 / (sampleEvery * 3 / 2).Seconds()},  // the start is still the older sample
			{sampleEvery, 30, 30 / (sampleEvery * 3 / 2).Seconds()}, // the 50 came before it
			{3 * sampleEvery, 0, 0},
		} {
			<-time.After(step.wait) // virtual
			synctest.Wait()
			requests.Add(step.requests)
			if got := now(); math.Abs(got-step.want) > 1e-9 {
				t.Errorf("after %s more and %d requests: %g per second, want %g", step.wait, step.requests, got, step.want)
			}
		}
	})
}
