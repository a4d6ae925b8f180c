package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/proc"
	"sluice/bench/report"
)

func TestSingle(t *testing.T) {
	for _, c := range []struct {
		cpus []int
		want string
	}{
		{[]int{0}, "{[0] [[0]] [[0]] true}"},
		{[]int{0, 1}, "{[0] [[1]] [[1]] false}"},
		{[]int{4, 5, 6, 7}, "{[4] [[5]] [[6]] false}"},
	} {
		if got := fmt.Sprint(Single(c.cpus)); got != c.want {
			t.Errorf("%v: %s, want %s", c.cpus, got, c.want)
		}
	}
}

func TestSteps(t *testing.T) {
	for _, c := range []struct {
		cpus int
		want []string
	}{
		{1, []string{"{[0] [[0]] [[0]] true}"}},
		{2, []string{"{[0] [[1]] [[1]] false}", "{[0 1] [[0 1]] [[0 1]] true}"}},
		{4, []string{"{[0] [[1]] [[2]] false}", "{[0 1] [[2]] [[3]] false}"}},
		{12, []string{"{[0] [[1]] [[2]] false}", "{[0 1] [[2] [3]] [[4] [5]] false}",
			"{[0 1 2 3] [[4] [5] [6] [7]] [[8] [9] [10] [11]] false}"}},
	} {
		cpus := make([]int, c.cpus)
		for i := range cpus {
			cpus[i] = i
		}
		var got []string
		for _, s := range steps(cpus) {
			got = append(got, fmt.Sprint(s))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d CPUs: %v, want %v", c.cpus, got, c.want)
		}
	}
}

// all are entrants as found, with one peer missing.
func testRig() *Rig {
	r := &Rig{Layout: Single([]int{0, 1}), Rounds: 3, Progress: io.Discard}
	for _, name := range peers.Names() {
		p := peers.Peer{Name: name, Path: "/there"}
		if name == peers.Envoy {
			p.Missing = "no wheel"
		}
		r.Peers = append(r.Peers, p)
	}
	return r
}

func names[E fmt.Stringer](entrants []E) string {
	var all []string
	for _, e := range entrants {
		all = append(all, e.String())
	}
	return strings.Join(all, "; ")
}

func TestEntrants(t *testing.T) {
	base := testRig().entrants(map[string]float64{peers.Nginx: 0.95}, peers.Direct)
	if got, want := names(base), "sluice; sluice again (A/A); nginx; haproxy; caddy; reverseproxy; floor"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, e := range base {
		if (e.Goal != nil) != (e.Name == peers.Nginx) || e.Base != peers.Sluice {
			t.Errorf("%s: goal %v, base %s", e.Name, e.Goal, e.Base)
		}
	}
	for _, e := range logged(base) {
		if !e.Log || e.Goal != nil {
			t.Errorf("%s: log %v, goal %v", e.Name, e.Log, e.Goal)
		}
	}
	if got := names(logged(base)); got != sluiceLog+"; "+nginxLog {
		t.Errorf("with log: %s", got)
	}
	if got := names(largeBodies(base)); got != nginxLarge+"; "+haproxyLarge {
		t.Errorf("for large bodies: %s", got)
	}
}

// TestInterleave is a transcript: who runs when, and that a failure is one's own.
func TestInterleave(t *testing.T) {
	r := testRig()
	entrants := []Entrant{{Name: "A"}, {Name: "B"}, {Name: "C"}}
	var transcript []string
	err := Interleave(t.Context(), Turns[Entrant]{"W0", entrants, 3, r.Progress},
		func(_ context.Context, e Entrant) (string, error) {
			if e.Name == "B" {
				return "", errors.New("broken")
			}
			return "fine", nil
		},
		func(i int, result string, err error) {
			transcript = append(transcript, fmt.Sprint(entrants[i].Name, " ", result, err))
		})
	want := "A fine<nil>, B broken, C fine<nil>, B broken, C fine<nil>, A fine<nil>, C fine<nil>, A fine<nil>, B broken"
	if got := strings.Join(transcript, ", "); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestInterleaveEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ran := 0
	err := Interleave(ctx, Turns[Entrant]{"W0", []Entrant{{Name: "A"}, {Name: "B"}}, 10, io.Discard},
		func(context.Context, Entrant) (int, error) { ran++; cancel(); return 0, nil },
		func(int, int, error) { t.Error("an interrupted round was kept") })
	if !errors.Is(err, context.Canceled) || ran != 1 {
		t.Errorf("%d rounds, %v", ran, err)
	}
}

// round has the given CPU share and rate.
func round(cpu float64, rate int64) Round {
	return Round{Samples: []load.Sample{{Requests: rate, Bytes: rate << 10, ElapsedNS: 1e9}}, CPU: cpu, Proxy: cpu, Load: 0.5, Alone: true, CPUs: 1}
}

func TestRound(t *testing.T) {
	r := Round{Samples: []load.Sample{
		{Requests: 100, Bytes: 1000, Errors: 1, ElapsedNS: 1e9},
		{Requests: 100, Bytes: 1000, Errors: 2, ElapsedNS: 2e9},
	}, CPU: 0.6, Proxy: 0.8, CPUs: 1}
	if r.Rate() != 150 || r.ByteRate() != 1500 || r.Errors() != 3 {
		t.Errorf("rate %v, bytes %v, errors %v", r.Rate(), r.ByteRate(), r.Errors())
	}
	if r.others() != 0 {
		t.Error("others are told apart where the generators share the CPU")
	}
	r.Alone = true
	if math.Abs(r.others()-0.2) > 1e-9 {
		t.Errorf("others %v, want 0.2", r.others())
	}
}

func TestCost(t *testing.T) {
	r := round(0.5, 50_000) // half a CPU for 50,000 requests of 1 KiB a second
	if got := (closed{}).cost(r); math.Abs(got-10) > 1e-9 {
		t.Errorf("%v µs per request, want 10", got)
	}
	if got, want := (closed{perGiB: true}).cost(r), 0.5*1e3*(1<<20)/50_000; math.Abs(got-want) > 1e-9 {
		t.Errorf("%v ms per GiB, want %v", got, want)
	}
}

func TestTallyNotes(t *testing.T) {
	full := round(1, 1000)
	waiting, stolen, noisy, failing := full, full, full, full
	waiting.CPU, waiting.Proxy, waiting.Load = 0.5, 0.5, 1
	stolen.Stolen = 0.1
	noisy.CPU = 0.8
	failing.Samples = []load.Sample{{Requests: 1, Errors: 7, ElapsedNS: 1e9}}
	for _, c := range []struct {
		name  string
		round Round
		err   error
		want  string
	}{
		{"quiet", full, nil, ""},
		{"load-bound", waiting, nil, "load generator and backend were the bottleneck (proxy 50 % busy)"},
		{"stolen", stolen, nil, "the hypervisor took 10 % of the proxy's CPU"},
		{"noisy", noisy, nil, "other processes used 20 % of the proxy's CPU"},
		{"errors", failing, nil, "7 failed requests"},
		{"failed", full, errors.New("gone"), "round 1 failed: gone"},
		{"silent", Round{}, nil, "round 1 failed: no request was answered"},
	} {
		var y Tally
		y.Add(c.round, c.err)
		if got := strings.Join(y.Notes(), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestClosedTable(t *testing.T) {
	c := closed{id: "W0", title: "test"}
	entrants := []Entrant{
		{Name: peers.Sluice, Base: peers.Sluice},
		{Name: again, Base: peers.Sluice},
		{Name: peers.Nginx, Base: peers.Sluice, Goal: &report.Goal{Max: 0.95}},
	}
	tallies := make([]Tally, 3)
	for i := range 3 {
		tallies[0].Add(round(0.5, 50_000), nil)
		tallies[1].Add(round(0.5, 50_000+int64(i)), nil)
		tallies[2].Add(round(1, 50_000), nil)
	}
	tallies[2].Add(Round{}, errors.New("gone"))
	table := c.table(entrants, tallies)
	nginx := table.Rows[2]
	if math.Abs(nginx.Value.Mean-20) > 1e-9 || math.Abs(nginx.Ratio.Mean-0.5) > 1e-9 || nginx.Verdict() != "met" {
		t.Errorf("nginx: %+v", nginx)
	}
	if len(nginx.Notes) != 1 || len(nginx.Rounds) != 4 {
		t.Errorf("the failed round is not told: %+v", nginx)
	}
	if len(table.Notes) != 1 || !strings.HasPrefix(table.Notes[0], "detection limit") || strings.Contains(table.Notes[0], "quiet") {
		t.Errorf("notes %q", table.Notes)
	}
	if got := nginx.Extra; !slices.Equal(got, []string{"50000", "100 %", "50 %"}) {
		t.Errorf("extra %q", got)
	}
}

func TestOpenRates(t *testing.T) {
	entrants := []Entrant{{Name: peers.Direct}, {Name: peers.Sluice}, {Name: peers.Nginx}, {Name: peers.Envoy}, {Name: peers.Caddy}}
	rates := openRates(entrants, map[string]float64{peers.Direct: 200, peers.Sluice: 100, peers.Nginx: 80, peers.Envoy: 50, peers.Caddy: 60})
	// Common: 40, half of nginx. Envoy's 50 are less than 4/3 of it, Caddy's 60 are not.
	for name, want := range map[string]float64{peers.Direct: 40, peers.Sluice: 40, peers.Nginx: 40, peers.Envoy: 25, peers.Caddy: 40} {
		if rates[name] != want {
			t.Errorf("%s is offered %v/s, want %v", name, rates[name], want)
		}
	}
}

func TestOpenTables(t *testing.T) {
	entrants := []Entrant{{Name: peers.Direct, Base: peers.Sluice}, {Name: peers.Sluice, Base: peers.Sluice}}
	tallies := make([]Tally, 2)
	for i, p50 := range []int64{10_000, 50_000} {
		one := round(1, 100)
		one.Samples[0].Latency = load.Histogram{{p50, 100}, {p50 * 10, 2}}
		one.Samples[0].Unfinished = int64(i)
		tallies[i].Add(one, nil)
	}
	tables := openTables(entrants, tallies, map[string]float64{peers.Sluice: 100})
	if len(tables) != len(quantiles) || tables[0].ID != "W8-p50" {
		t.Fatalf("%d tables, the first is %s", len(tables), tables[0].ID)
	}
	row := tables[0].Rows[1]
	if math.Abs(row.Value.Mean-50) > 0.05 || row.Extra[0] != "40.0" {
		t.Errorf("p50 %v µs, added %s µs; want 50 and 40.0", row.Value.Mean, row.Extra[0])
	}
	if row.Latency.TotalCount() != 102 || tables[1].Rows[1].Latency != nil {
		t.Error("the latencies of all rounds are to be with the first table, and only there")
	}
	if len(row.Notes) != 1 || !strings.Contains(row.Notes[0], "1 requests unanswered") {
		t.Errorf("notes %q", row.Notes)
	}
	if got := tables[2].Rows[1].Value.Mean; math.Abs(got-500) > 0.5 {
		t.Errorf("p99.9 %v µs, want 500", got)
	}
}

func TestIdleTables(t *testing.T) {
	entrants := []Entrant{{Name: peers.Sluice, Base: peers.Sluice}, {Name: peers.Nginx, Base: peers.Sluice}}
	before := proc.Memory{PSS: 10e6, RSS: 11e6}
	results := [][]idleRound{
		{{before, proc.Memory{PSS: 20e6, RSS: 21e6}}, {before, proc.Memory{PSS: 20e6, RSS: 21e6}}},
		{{before, proc.Memory{PSS: 15e6, RSS: 16e6}}, {}},
	}
	tables := w7.tables(entrants, results, [][]string{nil, {"round failed"}})
	sluice, nginx := tables[0].Rows[0], tables[0].Rows[1]
	if math.Abs(sluice.Value.Mean-1000) > 1e-6 || sluice.Verdict() != "met" || nginx.Rounds[1] != 0 || len(nginx.Notes) != 1 {
		t.Errorf("per connection: %+v, %+v", sluice, nginx)
	}
	whole := tables[1].Rows[0]
	if math.Abs(whole.Value.Mean-20) > 1e-6 || !slices.Equal(whole.Extra, []string{"10.0", "21.0"}) || whole.Verdict() != "met" {
		t.Errorf("whole: %+v", whole)
	}
}

func TestScaleTable(t *testing.T) {
	entrants := scaleEntrants(testRig().Peers, steps([]int{0, 1}))
	if got, want := names(entrants), "sluice, CPUs: 1; sluice, CPUs: 2; nginx, CPUs: 1; nginx, CPUs: 2"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	tallies := make([]Tally, 4)
	for range 2 {
		tallies[0].Add(round(1, 100_000), nil)
		tallies[1].Add(round(2, 160_000), nil)
	}
	table := scaleTable(entrants, tallies, 2)
	two := table.Rows[1]
	if math.Abs(two.Ratio.Mean-0.8) > 1e-9 || two.Extra[1] != "80000" {
		t.Errorf("two CPUs: %+v", two)
	}
	if len(table.Notes) != 2 || !strings.Contains(table.Notes[1], "cannot be shown here") {
		t.Errorf("notes %q", table.Notes)
	}
}

func TestShares(t *testing.T) {
	before := map[int]proc.Usage{0: {Total: 100}, 1: {Total: 100}}
	after := map[int]proc.Usage{0: {Busy: 100, Total: 200}, 1: {Busy: 50, Steal: 10, Total: 200}}
	if busy, stolen := shares(before, after, []int{0, 1}); busy != 0.75 || stolen != 0.05 {
		t.Errorf("busy %v, stolen %v", busy, stolen)
	}
}

func TestCheck(t *testing.T) {
	if err := Check(Names); err != nil {
		t.Error(err)
	}
	if err := Check([]string{"W1", "W99"}); err == nil || !strings.Contains(err.Error(), "W99") {
		t.Errorf("got %v", err)
	}
}
