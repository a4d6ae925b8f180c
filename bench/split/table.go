package main

import (
	"fmt"

	"sluice/bench/report"
	"sluice/bench/shape"
	"sluice/bench/stats"
	"sluice/bench/suite"
)

// tally is the rounds of one arrangement; a failed one is zero.
type tally struct {
	rounds []result
	faults []string
}

func (y *tally) add(r result, err error) {
	if err != nil {
		y.faults = append(y.faults, fmt.Sprintf("round %d failed: %v", len(y.rounds)+1, err))
		r = result{}
	}
	y.rounds = append(y.rounds, r)
}

// figures are one of each round; 0 for a failed one.
func (y *tally) figures(of func(result) float64) []float64 {
	var all []float64
	for _, r := range y.rounds {
		if r.rate == 0 {
			all = append(all, 0)
		} else {
			all = append(all, of(r))
		}
	}
	return all
}

// pace is µs for each request of all instances: the inverse of requests per second.
func pace(r result) float64 { return 1e6 / r.rate }

// tables compare the arrangements of one application: by requests per second, and
// by CPU time where that was read.
func tables(app string, all []arrangement, tallies []tally, cpus int) []report.Table {
	rate := report.Table{
		ID: "split-" + app, Title: titles[app],
		Metric: "1 ÷ requests/s of all instances, µs; base ÷ it is how many times the base's requests/s",
		Extras: []string{"requests/s", "application busy"},
	}
	cpu := report.Table{
		ID: "split-" + app + "-cpu", Title: rate.Title,
		Metric: "CPU time of the application per request, µs; it counts also where load shares the CPUs",
	}
	for i, a := range all {
		y := &tallies[i]
		row := report.Row{Name: a.name, Base: a.base, Rounds: y.figures(pace), Notes: y.faults}
		if r := stats.GeoMean(y.figures(func(r result) float64 { return r.rate })); r.N > 0 {
			row.Extra = []string{fmt.Sprintf("%.0f", r.Mean), ""}
		}
		if busy := stats.GeoMean(y.figures(func(r result) float64 { return r.cpu })); busy.N > 0 {
			row.Extra[1] = fmt.Sprintf("%.0f %%", 100*busy.Mean/float64(cpus))
		}
		rate.Rows = append(rate.Rows, row)
		cpu.Rows = append(cpu.Rows, report.Row{Name: a.name, Base: a.base, Rounds: y.figures(func(r result) float64 { return r.cpu / r.rate * 1e6 })})
	}
	found := []report.Table{judged(rate, "requests/s")}
	if cpu = judged(cpu, "requests for the same CPU time"); cpu.Rows[0].Value.N > 0 {
		found = append(found, cpu)
	}
	return found
}

// judged is the table with its ratios and what they say about a figure.
func judged(t report.Table, figure string) report.Table {
	t.Compare()
	t.Notes = append(suite.Detection(t, twoAgain), verdicts(&t, figure)...)
	return t
}

var titles = map[string]string{
	appLedger:   "an HTTP application whose requests share a lock, 16 connections for each CPU",
	appPostgres: "PostgreSQL, pgbench's select-only script, 8 clients for each CPU",
}

// verdicts say what splitting has brought.
func verdicts(t *report.Table, figure string) []string {
	rounds := map[string][]float64{}
	for _, r := range t.Rows {
		rounds[r.Name] = r.Rounds
	}
	var all []string
	for _, pair := range []struct{ who, base string }{{split, two}, {split, one}, {splitSilo, twoBehind}} {
		if rounds[pair.who] != nil && rounds[pair.base] != nil {
			all = append(all, figure+", "+pair.who+" ÷ "+pair.base+": "+stats.GeoMean(stats.Ratios(rounds[pair.base], rounds[pair.who])).Multiple())
		}
	}
	return all
}

// silent says what the machine cannot show.
func silent(whole shape.Shape, parts [2]part) []string {
	var all []string
	add := func(text string) { all = append(all, "cannot be shown here: "+text) }
	if nodes := whole.Nodes(); len(nodes) == 1 {
		add("what memory of its own node is worth: both halves are on one; only locks and cache lines stay in a half, so the 1.73 × that was published for a database split by cpusets is not tested")
		add("local servers behind Sluice: they need two nodes")
	} else if len(nodes) > 2 {
		add(fmt.Sprintf("%d of %d nodes: there are two instances, and the first two nodes take part", len(nodes)-2, len(nodes)))
	}
	if len(parts[0].load) == 0 {
		add("requests/s of the application alone: the load runs on the same CPUs, everywhere, in all arrangements, and makes each factor smaller")
	}
	if len(parts[0].cpus) == 1 {
		add("how an instance scales within its half: it has one CPU there")
	}
	return all
}
