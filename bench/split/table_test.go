package main

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// TestTable: a split that does 1.73 times the unsplit pair's requests reads as that.
func TestTable(t *testing.T) {
	all := arrangements([2]part{}, true)
	tallies := make([]tally, len(all))
	for i, rate := range []float64{900, 1000, 1730, 1000} {
		for range 3 {
			tallies[i].add(result{rate: rate, cpu: 1}, nil)
		}
		tallies[i].add(result{}, errors.New("gone"))
	}
	both := tables(appLedger, all, tallies, 2)
	got := both[0]
	row := got.Rows[2]
	if math.Abs(row.Ratio.Mean-1.73) > 1e-9 || row.Ratio.N != 3 || strings.Join(row.Extra, "; ") != "1730; 50 %" {
		t.Errorf("split: %+v", row)
	}
	if cpu := both[1].Rows[2]; math.Abs(cpu.Value.Mean-1e6/1730) > 1e-6 || math.Abs(cpu.Ratio.Mean-1.73) > 1e-9 {
		t.Errorf("CPU time: %+v", cpu)
	}
	if len(row.Notes) != 1 || row.Notes[0] != "round 4 failed: gone" {
		t.Errorf("notes %q", row.Notes)
	}
	notes := strings.Join(got.Notes, "\n")
	for _, want := range []string{
		"detection limit", "requests/s, two instances, split by sluice place ÷ two instances, all CPUs: more: 1.73 × [1.73, 1.73]",
		"split by sluice place ÷ one instance, all CPUs: more: 1.92 ×",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in\n%s", want, notes)
		}
	}
	if strings.Contains(notes, "behind") {
		t.Errorf("a verdict on what did not run:\n%s", notes)
	}
}

// TestTableOfFailures: an application that never ran has a table that says so.
func TestTableOfFailures(t *testing.T) {
	all := arrangements([2]part{}, false)
	tallies := make([]tally, len(all))
	for i := range tallies {
		tallies[i].add(result{}, errors.New("gone"))
	}
	both := tables(appPostgres, all, tallies, 2)
	if len(both) != 1 {
		t.Errorf("%d tables, without CPU time", len(both))
	}
	got := both[0]
	for _, row := range got.Rows {
		if row.Value.N != 0 || len(row.Extra) != 0 || len(row.Notes) != 1 {
			t.Errorf("%+v", row)
		}
	}
	if !strings.Contains(strings.Join(got.Notes, "\n"), ": open, ") {
		t.Errorf("notes %q", got.Notes)
	}
}

func TestSilent(t *testing.T) {
	for _, c := range []struct {
		name   string
		nodes  int
		cpus   int
		want   []string
		unsaid []string
	}{
		{"two CPUs", 1, 2, []string{"memory of its own node", "local servers", "the application alone", "it has one CPU"}, []string{"first two nodes"}},
		{"eight CPUs", 1, 8, []string{"memory of its own node"}, []string{"the application alone", "it has one CPU"}},
		{"two nodes", 2, 8, nil, []string{"cannot"}},
		{"four nodes", 4, 8, []string{"2 of 4 nodes"}, []string{"memory of its own node"}},
	} {
		whole := machine(c.nodes, 1, c.cpus, 1)
		parts, err := halve(whole)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(silent(whole, parts), "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, text)
			}
		}
		for _, no := range c.unsaid {
			if strings.Contains(text, no) {
				t.Errorf("%s: %q in\n%s", c.name, no, text)
			}
		}
	}
}

func TestTransactions(t *testing.T) {
	const said = "number of failed transactions: 0 (0.000%)\nlatency average = 0.5 ms\ninitial connection time = 3.1 ms\ntps = 12345.678901 (without initial connection time)\n"
	if got, err := transactions(said); err != nil || math.Abs(got-12345.678901) > 1e-9 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := transactions("pgbench: no"); err == nil {
		t.Error("no figure is a figure")
	}
}
