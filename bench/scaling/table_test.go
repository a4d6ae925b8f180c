package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/proc"
	"sluice/bench/report"
	"sluice/bench/shape"
	"sluice/bench/stats"
	"sluice/bench/suite"
)

// ran is the series of a machine, of which each round of n CPUs costs cost(n, workers)
// µs for a request, with every CPU busy; round by round it costs some more.
func ran(t *testing.T, whole shape.Shape, from feed, cost func(cpus, workers int) float64) series {
	ours := whole.Without(from.aside)
	todo, err := sizes(whole, from, autoSteps(ours), []string{"machine", "node"}, planned(whole))
	if err != nil {
		t.Fatal(err)
	}
	all, entrants := entrants(todo, peers.Peer{Name: peers.Sluice})
	if len(all) != len(todo)+1 || entrants[0].Per != "machine" || entrants[len(entrants)-1].Name != all[len(all)-1].rowName() {
		t.Fatalf("entrants %+v", entrants)
	}
	for _, m := range all {
		for _, more := range []float64{1, 1.01, 1.02} {
			n := len(m.cpus)
			rate := float64(n) * 1e6 / (cost(n, m.workers) * more)
			m.Add(suite.Round{Samples: []load.Sample{{Requests: int64(rate), ElapsedNS: 1e9}}, CPU: float64(n), CPUs: n}, nil)
		}
	}
	return all
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-3*b }

// TestCostTable: two nodes on which one process for all costs half more.
func TestCostTable(t *testing.T) {
	whole := machine(2, 1, 4)
	all := ran(t, whole, feed{aside: whole.Aside()}, func(cpus, workers int) float64 {
		if cpus == 4 && workers == 1 {
			return 15
		}
		return 10
	})
	table := all.costTable()
	var names []string
	for _, r := range table.Rows {
		names = append(names, r.Name)
	}
	want := "1 CPU, per machine = node; 2 CPUs, per machine = node; 4 CPUs, per machine; 4 CPUs, per node; 4 CPUs, per machine, again (A/A)"
	if got := strings.Join(names, "; "); got != want {
		t.Fatalf("rows %s", got)
	}
	one, four := table.Rows[2], table.Rows[3]
	if !near(one.Ratio.Mean, 2.0/3) || !near(four.Ratio.Mean, 1) || !near(table.Rows[4].Ratio.Mean, 1) {
		t.Errorf("ratios %v, %v, %v", one.Ratio, four.Ratio, table.Rows[4].Ratio)
	}
	if got := strings.Join(four.Extra, "; "); !strings.HasPrefix(got, "4 CPUs, 2 nodes, 2 caches; 2; 4 others; ") || !strings.HasSuffix(got, "; 100 %; 0 %") {
		t.Errorf("extras %s", got)
	}
	notes := strings.Join(table.Notes, "\n")
	for _, want := range []string{
		"detection limit",
		"W12, per machine, 1 to 4 CPUs: not flat, throughput per CPU falls: 0.667",
		"W12, per node, 1 to 4 CPUs: flat within the interval, a fall of more than 0 % is ruled out: 1.000",
		"per machine: by CPU time Sluice could do 2.00 × [2.00, 2.00] from 1 to 2 CPUs, 1.33 × [1.33, 1.33] from 2 to 4 CPUs",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
}

func TestOtherTables(t *testing.T) {
	flatCost := func(int, int) float64 { return 10 }
	whole := machine(2, 1, 4)
	all := ran(t, whole, feed{aside: whole.Aside()}, flatCost)
	tables := all.perTables("machine")
	if len(tables) != 1 {
		t.Fatalf("%d tables of arrangements", len(tables))
	}
	per := tables[0]
	if len(per.Rows) != 2 || per.Rows[1].Base != "4 CPUs, per machine" || !near(per.Rows[1].Ratio.Mean, 1) {
		t.Errorf("arrangements %+v", per.Rows)
	}
	if got := strings.Join(per.Notes, "; "); got != "requests for the same CPU time, 4 CPUs, per node ÷ 4 CPUs, per machine: no difference is shown: 1.00 × [1.00, 1.00]" {
		t.Errorf("notes %s", got)
	}
	rate, ok := all.rateTable()
	if !ok || len(rate.Rows) != 5 || !near(rate.Rows[2].Value.Mean, 10.1) {
		t.Errorf("rates %v, %+v", ok, rate.Rows)
	}
	small := ran(t, machine(1, 1, 2), feed{}, flatCost)
	if tables := small.perTables("machine"); len(tables) > 0 {
		t.Error("arrangements that are one plan are compared")
	}
	// Half the requests for the same CPU time per request.
	first := ran(t, whole, feed{first: true}, func(cpus, workers int) float64 { return 10 * float64(workers) })
	tables = first.perTables("machine")
	if len(tables) != 2 || tables[1].ID != "scaling-first" || !near(tables[1].Rows[1].Ratio.Mean, 0.5) || first.costTable().Rows[2].Extra[2] != "the first of them" {
		t.Errorf("with load for one CPU: %+v", tables)
	}
	if _, ok := small.rateTable(); ok {
		t.Error("a single step with load of its own is a series")
	}
}

func TestFlat(t *testing.T) {
	for _, c := range []struct {
		lo, mean, hi float64
		n            int
		want         string
	}{
		{0.95, 0.98, 1.01, 10, "flat within the interval, a fall of more than 5 % is ruled out: 0.980 [0.950, 1.010]"},
		{0.90, 0.95, 0.99, 10, "not flat, throughput per CPU falls: 0.950"},
		{1.01, 1.05, 1.09, 10, "not flat, throughput per CPU rises: 1.050"},
		{math.Inf(-1), 1, math.Inf(1), 1, "open, one round has no interval"},
	} {
		got := flat("x", stats.Interval{Mean: c.mean, Lo: c.lo, Hi: c.hi, N: c.n})
		if !strings.HasPrefix(got, "W12, x: "+c.want) {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	if got := flat("x", stats.Interval{Mean: 1, Lo: 1, Hi: 1, N: 2}, "a", "b"); !strings.HasSuffix(got, "1.000 [1.000, 1.000]; a; b") {
		t.Errorf("what else is in it is not told: %s", got)
	}
}

// TestBesides: a step is told from the first by what it shares, but not by what both share.
func TestBesides(t *testing.T) {
	alone, shared, crowded := size{threads: 1}, size{threads: 1}, size{threads: 2}
	shared.layout.Shared, crowded.layout.Shared = true, true
	for _, c := range []struct {
		size, first size
		want        int
	}{{alone, alone, 0}, {shared, alone, 1}, {crowded, alone, 2}, {crowded, shared, 1}, {shared, shared, 0}} {
		if got := c.size.besides(c.first); len(got) != c.want {
			t.Errorf("%+v after %+v: %q", c.size, c.first, got)
		}
	}
}

// TestSilent: what a machine cannot show is said, and nothing that it can.
func TestSilent(t *testing.T) {
	cost := func(int, int) float64 { return 10 }
	hidden := machine(1, 1, 2)
	hidden.Hypervisor, hidden.Limit = "KVM", 1.5
	big := machine(4, 2, 4)
	for _, c := range []struct {
		name  string
		whole shape.Shape
		from  feed
		want  []string
	}{
		{"two CPUs", hidden, feed{}, []string{"a process per node", "may hide nodes", "there is one cache", "with 2 steps", "requests/s with 2 CPUs", "more than 1.5 CPUs"}},
		{"four nodes", big, feed{aside: big.Aside()}, nil},
		{"four nodes, nothing set aside", big, feed{}, []string{"requests/s with 32 CPUs", "part of the load came from nodes"}},
	} {
		got := ran(t, c.whole, c.from, cost).silent(c.whole)
		text := strings.Join(got, "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, text)
			}
		}
		if len(c.want) == 0 && len(got) > 0 {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// TestWrite: tables, bars and curves are there; two arrangements have two curves.
func TestWrite(t *testing.T) {
	whole := machine(2, 1, 4)
	all := ran(t, whole, feed{aside: whole.Aside()}, func(int, int) float64 { return 10 })
	if panels := all.panels(); len(panels) != 3 || len(panels[0].Curves) != 2 || len(panels[2].Curves[0].Errors) != 3 {
		t.Errorf("panels %+v", panels)
	}
	if panels := ran(t, machine(1, 1, 2), feed{}, func(int, int) float64 { return 10 }).panels(); len(panels[0].Curves) != 1 || len(panels[1].Curves) != 0 {
		t.Errorf("panels of two CPUs: %+v", panels)
	}
	o := options{pers: []string{"machine", "node"}}
	o.Out = t.TempDir()
	if err := write(o, report.Results{Machine: proc.ReadMachine()}, all, whole); err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]string{"results.md": "# Benchmark", "results.svg": "<?xml", "scaling.svg": "<?xml", "scaling.png": "\x89PNG"} {
		if text, err := os.ReadFile(filepath.Join(o.Out, name)); err != nil || !bytes.HasPrefix(text, []byte(start)) {
			t.Errorf("%s begins with %.10q, %v", name, text, err)
		}
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-cpus", "20,40,80", "-per", "node,4"})
	if err != nil || len(o.counts) != 3 || o.counts[2] != 80 || o.pers[1] != "4" || o.load != auto {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-cpus", "1,two"}, {"-cpus", "0"}, {"-load", "here"}, {"-per", "node,"}, {"-rounds", "0"}, {"-measure", "1ms"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestPlan: CPUs are set aside only if that is asked for.
func TestPlan(t *testing.T) {
	whole := machine(2, 1, 4)
	for _, c := range []struct {
		load  string
		aside int
		steps string
	}{{auto, 4, "1 2 4"}, {loadRest, 0, "1 4 8"}, {loadShared, 0, "1 4 8"}} {
		todo, from, err := plan(options{load: c.load, pers: []string{"machine"}}, whole, planned(whole))
		var got [][]int
		for _, s := range todo {
			got = append(got, s.cpus)
		}
		if err != nil || len(from.aside) != c.aside || counts(got) != c.steps || from.shared != (c.load == loadShared) {
			t.Errorf("-load %s: %+v, %s, %v", c.load, from, counts(got), err)
		}
	}
	if got := strings.Join(method(options{}, whole, feed{aside: []int{2, 3}}), "\n"); !strings.Contains(got, "[2 3]") {
		t.Errorf("no word of CPUs that are set aside:\n%s", got)
	}
}
