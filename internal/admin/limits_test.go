package admin

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/segment"
)

// hold puts figures of held requests into the segment, and a limit before the
// second server. The first one's is off.
func (v *fakeView) hold() {
	for worker := range 2 {
		for loop := range 2 {
			l := v.segment.Loop(worker, loop)
			l.Held.Set(7)
			l.LeftHeld.Add(2)
			l.Shed[segment.ShedMemory].Add(3)
			l.Wait.Observe(int64(20 * time.Millisecond))
			s := v.segment.Server(worker, loop, v.servers[1].Slot)
			s.Good.Add(100)
			s.Slow.Add(10)
			s.Ignored.Add(4)
			s.Failed.Add(1)
			s.Sum.Add(uint64(50 * time.Second))
			s.Wait.Observe(int64(10 * time.Millisecond))
		}
	}
	moved := time.Date(2026, 11, 21, 3, 4, 5, 0, time.UTC)
	v.limits = AdmissionView{Leaks: 1, Stranded: 2, Servers: []LimitView{
		{Farm: "app", URL: v.servers[1].URL, Slot: v.servers[1].Slot, Kind: "adaptive", Min: 2, Max: 500, Target: 2 * time.Second,
			Limit: 61, InFlight: 60, Waiting: 28, Half: "up", Centre: 51.5, Throughput: 371.5, Elasticity: 0.0625, Evidence: 40,
			Reason: "climb", Moved: moved, Moves: map[string]uint64{"climb": 90, "descend": 10}},
		{Farm: "app", URL: v.servers[0].URL, Slot: v.servers[0].Slot, Kind: "off", Limit: math.MaxInt32, Centre: math.MaxInt32, InFlight: 3, Half: "level"},
	}}
	for i := range 100 {
		at := moved.Add(time.Duration(i-99) * time.Second)
		v.limits.Servers[0].Decisions = append(v.limits.Servers[0].Decisions, DecisionView{
			At: at, From: i, To: i + 1, Half: "down", Reason: "climb", Centre: float64(i) + 0.5,
			Elasticity: 0.25, Evidence: 30, Throughput: 300, InFlight: i, Queue: 5,
		})
	}
}

func limits(t *testing.T, v *fakeView, query string) *Limits {
	t.Helper()
	got := request(v, "GET", "/limits"+query)
	l := new(Limits)
	if err := json.Unmarshal(got.Body.Bytes(), l); err != nil || got.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%v in %s", err, got.Body)
	}
	return l
}

func TestLimits(t *testing.T) {
	v := newFakeView(t)
	v.hold()
	l := limits(t, v, "")
	if l.Held != 28 || l.Leaks != 1 || l.Stranded != 2 || len(l.Servers) != 2 || time.Since(l.Time) > time.Minute {
		t.Fatalf("%+v", l)
	}
	open, one := l.Servers[0], l.Servers[1]
	if open.URL != v.servers[0].URL || open.Kind != "off" || open.Limit != 0 || open.Centre != 0 || open.InFlight != 3 {
		t.Errorf("a server without a limit: %+v", open)
	}
	decisions := one.Decisions
	one.Decisions, one.Wait = nil, Distribution{}
	want := LimitStatus{Farm: "app", URL: v.servers[1].URL, AdmissionStatus: AdmissionStatus{
		Kind: "adaptive", Limit: 61, Min: 2, Max: 500, Target: 2, InFlight: 60, Waiting: 28, Half: "up",
		Centre: 51.5, Throughput: 371.5, Elasticity: 0.0625, Evidence: 40, Reason: "climb", Moved: v.limits.Servers[0].Moved,
		Moves: map[string]uint64{"climb": 90, "descend": 10}, Permits: Permits{Good: 400, Slow: 40, Ignored: 16, Failed: 4},
	}}
	if got, want := fmt.Sprintf("%+v", one), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if len(decisions) != 100 {
		t.Fatalf("%d decisions, want all 100", len(decisions))
	}
	last := DecisionStatus{At: want.Moved, From: 99, To: 100, Reason: "climb", Half: "down", Centre: 99.5,
		Elasticity: 0.25, Evidence: 30, Throughput: 300, InFlight: 99, Waiting: 5}
	if decisions[99] != last {
		t.Errorf("the last decision is %+v, want %+v", decisions[99], last)
	}
	if p50 := l.Servers[1].Wait.P50; math.Abs(p50-0.010) > 0.010/8 || l.Servers[1].Wait.Count != 4 {
		t.Errorf("held: %+v, want 10 ms", l.Servers[1].Wait)
	}
}

func TestLimitsOfOneFarm(t *testing.T) {
	v := newFakeView(t)
	v.config = parse(t, fakeConfig+"  other: {servers: [{url: \"http://127.0.0.1:9003\"}]}\nroutes: [{farm: app}]\n")
	v.hold()
	v.limits.Servers = append(v.limits.Servers, LimitView{Farm: "other", URL: "http://127.0.0.1:9003", Kind: "fixed", Limit: 5})
	for _, c := range []struct {
		query   string
		servers int
	}{{"", 3}, {"?farm=app", 2}, {"?farm=other", 1}} {
		if l := limits(t, v, c.query); len(l.Servers) != c.servers {
			t.Errorf("%q: %d servers, want %d", c.query, len(l.Servers), c.servers)
		}
	}
	if l := limits(t, v, "?farm=app&decisions=3"); len(l.Servers[0].Decisions) != 0 || len(l.Servers[1].Decisions) != 3 || l.Servers[1].Decisions[2].To != 100 {
		t.Errorf("asked for the last 3 decisions: %+v", l.Servers)
	}
	if got := request(v, "GET", "/limits?decisions=-1"); got.Code != 400 || !strings.Contains(got.Body.String(), "want a number") {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	if got := request(v, "GET", "/limits?farm=none"); got.Code != 404 || got.Body.String() != "There is no farm \"none\".\n" {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// A limit that is not there yet, as in the moment of a reload, leaves no null.
func TestLimitsBeforeTheFirst(t *testing.T) {
	v := newFakeView(t)
	if body := request(v, "GET", "/limits").Body.String(); !strings.Contains(body, `"servers": []`) {
		t.Errorf("%s", body)
	}
	v.limits.Servers = []LimitView{{Farm: "app", URL: v.servers[0].URL, Kind: "adaptive", Limit: 20, Elasticity: math.NaN(), Evidence: math.Inf(1)}}
	body := request(v, "GET", "/limits").Body.String()
	if strings.Contains(body, "null") || strings.Contains(body, `"moved"`) || !strings.Contains(body, `"elasticity": 0,`) {
		t.Errorf("%s", body)
	}
}

func TestStatusTellsLimits(t *testing.T) {
	v := newFakeView(t)
	if s := status(t, v); s.Farms[0].Servers[1].Admission != nil {
		t.Error("a limit that nobody set")
	}
	v.hold()
	s := status(t, v)
	a := s.Farms[0].Servers[1].Admission
	if a == nil || a.Limit != 61 || a.Reason != "climb" || a.Permits.Good != 400 {
		t.Fatalf("%+v", a)
	}
	if n := len(a.Decisions); n != decisionsInStatus || a.Decisions[n-1].To != 100 {
		t.Errorf("%d decisions, the last one to %d; want %d, to 100", n, a.Decisions[n-1].To, decisionsInStatus)
	}
	all := s.Admission
	if all.Held != 28 || all.ClientsGone != 8 || !maps.Equal(all.Shed, map[string]uint64{"memory": 12}) || all.Leaks != 1 || all.Stranded != 2 {
		t.Errorf("totals: %+v", all)
	}
	if math.Abs(all.Wait.P50-0.020) > 0.020/8 || all.Wait.Count != 4 {
		t.Errorf("held: %+v, want 20 ms", all.Wait)
	}
	if s.Workers[0].Held != 14 || s.Nodes[1].Held != 14 || !maps.Equal(s.Workers[0].Shed, map[string]uint64{"memory": 6}) {
		t.Errorf("held %d by worker 0, %d by node 1; shed %v", s.Workers[0].Held, s.Nodes[1].Held, s.Workers[0].Shed)
	}
}

func TestMetricsTellLimits(t *testing.T) {
	v := newFakeView(t)
	v.hold()
	lines := strings.Split(scrape(t, v), "\n")
	const one = `{farm="app",server="http://127.0.0.1:9002"} `
	const with = `{farm="app",%s,server="http://127.0.0.1:9002"} `
	for _, want := range []string{
		"sluice_limit" + one + "61",
		"sluice_limit_centre" + one + "51.5",
		"sluice_in_flight" + one + "60",
		"sluice_queue_length" + one + "28",
		"sluice_throughput" + one + "371.5",
		"sluice_elasticity" + one + "0.0625",
		"sluice_limit_evidence" + one + "40",
		fmt.Sprintf("sluice_limit_reason"+with+"1", `reason="climb"`),
		fmt.Sprintf("sluice_limit_moves_total"+with+"90", `reason="climb"`),
		fmt.Sprintf("sluice_limit_moves_total"+with+"10", `reason="descend"`),
		"sluice_slow_permits_total" + one + "40",
		"sluice_good_permit_seconds_total" + one + "200",
		"sluice_queue_wait_seconds_count" + one + "4",
		"sluice_queue_wait_seconds_sum" + one + "0.04",
		`sluice_permits_total{farm="app",outcome="good",server="http://127.0.0.1:9002"} 400`,
		`sluice_permits_total{farm="app",outcome="ignored",server="http://127.0.0.1:9002"} 16`,
		`sluice_permits_total{farm="app",outcome="failed",server="http://127.0.0.1:9002"} 4`,
		`sluice_held_requests{node="0",worker="0"} 14`,
		`sluice_held_clients_gone_total{node="0",worker="0"} 4`,
		`sluice_held_seconds_count{node="1",worker="1"} 2`,
		`sluice_shed_connections_total{cause="memory",node="0",worker="0"} 6`,
		`sluice_shed_connections_total{cause="latency",node="0",worker="0"} 0`,
		`sluice_admission_leaks_total 1`,
		`sluice_admission_stranded_total 2`,
		`sluice_in_flight{farm="app",server="http://127.0.0.1:9001"} 3`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("no line %s", want)
		}
	}
	v.limits.Servers[0].Kind = "fixed"
	if body := scrape(t, v); strings.Contains(body, "sluice_elasticity{") || !strings.Contains(body, "sluice_throughput{") || !strings.Contains(body, "sluice_limit{") {
		t.Error("a fixed limit has no elasticity, but a throughput, and is shown all the same")
	}
	v.limits.Servers[0].Reason = ""
	if want := fmt.Sprintf("sluice_limit_reason"+with+"1", `reason="none"`); !strings.Contains(scrape(t, v), want) {
		t.Errorf("no line %s before the first move", want)
	}
	for _, line := range lines {
		if strings.HasPrefix(line, "sluice_limit") && strings.Contains(line, ":9001") {
			t.Errorf("the server without a limit has %s", line)
		}
	}
}
