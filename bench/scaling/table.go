package main

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"

	"sluice/bench/report"
	"sluice/bench/shape"
	"sluice/bench/stats"
	"sluice/bench/suite"
)

// measured is one size with its rounds.
type measured struct {
	size
	suite.Tally
	twin string // the size's name, if this is its second measurement
}

// again is the name of a second measurement of the same.
func again(name string) string { return name + ", again (A/A)" }

func (m *measured) rowName() string {
	if m.twin != "" {
		return again(m.twin)
	}
	return m.name()
}

// cost is µs of CPU time for a request.
func cost(r suite.Round) float64 { return r.CPU / r.Rate() * 1e6 }

// series is what was measured, smallest size first.
type series []*measured

// find is the first measurement of a step with an arrangement; nil if there is none.
func (s series) find(cpus int, per string) *measured {
	for _, m := range s {
		if len(m.cpus) == cpus && m.twin == "" && slices.Contains(m.per, per) {
			return m
		}
	}
	return nil
}

// steps are the numbers of CPUs, ascending.
func (s series) steps() []int {
	var all []int
	for _, m := range s {
		all = append(all, len(m.cpus))
	}
	return slices.Compact(all)
}

// pers are the arrangements, those that make the same plan at every step together.
func (s series) pers() [][]string {
	var groups [][]string
	for _, m := range s {
		for _, per := range m.per {
			if !slices.ContainsFunc(groups, func(g []string) bool { return slices.Contains(g, per) }) {
				groups = append(groups, s.alike(per))
			}
		}
	}
	return groups
}

// alike are the arrangements that no step tells from per.
func (s series) alike(per string) []string {
	var same []string
	for i, step := range s.steps() {
		here := s.find(step, per).per
		if i == 0 {
			same = slices.Clone(here)
		}
		same = slices.DeleteFunc(same, func(other string) bool { return !slices.Contains(here, other) })
	}
	return same
}

// along is the course of one arrangement over all steps.
func (s series) along(per string) series {
	var all series
	for _, step := range s.steps() {
		all = append(all, s.find(step, per))
	}
	return all
}

// costTable has the CPU time of a request at every size, compared with the first step.
func (s series) costTable() report.Table {
	t := report.Table{
		ID: "scaling-cost", Title: "CPU time per request, by number of CPUs and workers.per",
		Metric: "CPU time of Sluice's processes per request, µs",
		Extras: []string{"CPUs are", "workers", "load runs on", "requests/s", "requests/s per CPU", "Sluice busy", "load busy"},
	}
	for _, m := range s {
		t.Rows = append(t.Rows, s.row(m, m.Figures(cost)))
	}
	t.Compare()
	if twin := s[len(s)-1]; twin.twin != "" {
		t.Notes = append(t.Notes, suite.Detection(t, twin.rowName())...)
	}
	for _, group := range s.pers() {
		t.Notes = append(t.Notes, s.along(group[0]).verdicts(group)...)
	}
	return t
}

// row is a size with its rounds, compared with the same arrangement on the first step.
func (s series) row(m *measured, rounds []float64) report.Row {
	row := report.Row{Name: m.rowName(), Base: m.twin, Rounds: rounds, Notes: m.Notes()}
	if m.twin == "" {
		row.Base = s.find(len(s[0].cpus), m.per[0]).name()
	}
	others := slices.Sorted(slices.Values(slices.Concat(slices.Concat(m.layout.Load...), slices.Concat(m.layout.Backend...))))
	on := shape.Count(len(slices.Compact(others)), "other")
	switch {
	case m.steering == steerCPU:
		on = "the first of them"
	case m.layout.Shared:
		on = "the same"
	case m.afar:
		on += ", partly afar"
	}
	row.Extra = []string{m.at, fmt.Sprint(m.workers), on, "", "", "", ""}
	if m.Good() > 0 {
		rate := m.Mean(suite.Round.Rate)
		row.Extra[3], row.Extra[4] = fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.0f", rate/float64(len(m.cpus)))
		row.Extra[5] = fmt.Sprintf("%.0f %%", 100*m.Mean(func(r suite.Round) float64 { return r.CPU / float64(r.CPUs) }))
		row.Extra[6] = fmt.Sprintf("%.0f %%", 100*m.Mean(func(r suite.Round) float64 { return r.Load }))
	}
	return row
}

// rateTable has the throughput per CPU, of sizes whose load has CPUs of its own; it
// is no table if that is less than two steps.
func (s series) rateTable() (report.Table, bool) {
	alone := slices.DeleteFunc(slices.Clone(s), func(m *measured) bool { return m.layout.Shared })
	if len(alone.steps()) < 2 {
		return report.Table{}, false
	}
	t := report.Table{
		ID: "scaling-rate", Title: "throughput per CPU: its inverse, by number of CPUs and workers.per",
		Metric: "CPUs ÷ requests/s: time that a CPU has for a request, µs",
		Extras: []string{"CPUs are", "workers", "load runs on", "requests/s", "requests/s per CPU", "Sluice busy", "load busy"},
		Notes:  []string{"where Sluice was not fully busy, the load was the bottleneck, and the figure is not Sluice's"},
	}
	for _, m := range alone {
		t.Rows = append(t.Rows, alone.row(m, m.Figures(func(r suite.Round) float64 { return float64(r.CPUs) / r.Rate() * 1e6 })))
	}
	t.Compare()
	return t, true
}

// perTables compare the arrangements of each step with the first of them, if any has
// two. Where all have the same load on the same CPU requests/s say something too.
func (s series) perTables(first string) []report.Table {
	all := s.perTable(report.Table{
		ID: "scaling-per", Title: "one process for all CPUs, one per node, one per cache, so many",
		Metric: "CPU time of Sluice's processes per request, µs",
	}, first, "requests for the same CPU time", cost)
	if s[0].steering != steerCPU {
		return all
	}
	return append(all, s.perTable(report.Table{
		ID: "scaling-first", Title: "what comes of load for the loop on one CPU",
		Metric: "1 ÷ requests/s, µs",
	}, first, "requests/s", func(r suite.Round) float64 { return 1e6 / r.Rate() })...)
}

// perTable is one of them, or none.
func (s series) perTable(t report.Table, first, what string, figure func(suite.Round) float64) []report.Table {
	t.Extras = []string{"CPUs are", "workers", "requests/s"}
	for _, m := range s {
		base := s.find(len(m.cpus), first)
		same := func(o *measured) bool { return len(o.cpus) == len(m.cpus) && o.twin == "" && o != base }
		if m.twin != "" || !slices.ContainsFunc(s, same) {
			continue
		}
		rate := ""
		if m.Good() > 0 {
			rate = fmt.Sprintf("%.0f", m.Mean(suite.Round.Rate))
		}
		t.Rows = append(t.Rows, report.Row{Name: m.name(), Base: base.name(), Rounds: m.Figures(figure),
			Extra: []string{m.at, fmt.Sprint(m.workers), rate}})
	}
	t.Compare()
	for _, row := range t.Rows {
		if row.Name != row.Base {
			t.Notes = append(t.Notes, what+", "+row.Name+" ÷ "+row.Base+": "+row.Ratio.Multiple())
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return []report.Table{t}
}

// verdicts are the sentences about one arrangement: W12 from the first step to each
// other, and what each step gains over the one before.
func (s series) verdicts(group []string) []string {
	who := "per " + strings.Join(group, " = ")
	var all, gains []string
	for i, m := range s[1:] {
		r := stats.GeoMean(stats.Ratios(s[0].Figures(cost), m.Figures(cost)))
		all = append(all, flat(fmt.Sprintf("%s, %d to %s", who, len(s[0].cpus), shape.Count(len(m.cpus), "CPU")), r, m.besides(s[0].size)...))
		before := s[i]
		times := float64(len(m.cpus)) / float64(len(before.cpus))
		g := stats.GeoMean(stats.Ratios(before.Figures(cost), m.Figures(cost)))
		if g.N > 1 {
			gains = append(gains, fmt.Sprintf("%.2f × [%.2f, %.2f] from %d to %d CPUs", times*g.Mean, times*g.Lo, times*g.Hi, len(before.cpus), len(m.cpus)))
		}
	}
	if len(gains) > 0 {
		all = append(all, who+": by CPU time Sluice could do "+strings.Join(gains, ", "))
	}
	return all
}

// besides is what else than its number of CPUs makes a size differ from the first.
func (s size) besides(first size) []string {
	var all []string
	if s.layout.Shared && !first.layout.Shared {
		all = append(all, "load generator and backend ran on the same CPUs there, and what they do to the caches is in it")
	}
	if s.threads > first.threads {
		all = append(all, fmt.Sprintf("%d threads share a core there, and each does less", s.threads))
	}
	return all
}

// flat is the verdict of W12 on throughput per CPU as a multiple of that on the
// first step, with its interval, and what else is in it.
func flat(from string, r stats.Interval, besides ...string) string {
	var said string
	switch {
	case r.N < 2:
		return "W12, " + from + ": open, one round has no interval"
	case r.Hi < 1:
		said = "not flat, throughput per CPU falls"
	case r.Lo > 1:
		said = "not flat, throughput per CPU rises"
	default:
		said = fmt.Sprintf("flat within the interval, a fall of more than %.0f %% is ruled out", max(0, 100*(1-r.Lo)))
	}
	said = fmt.Sprintf("W12, %s: %s: %.3f [%.3f, %.3f]", from, said, r.Mean, r.Lo, r.Hi)
	return strings.Join(append([]string{said}, besides...), "; ")
}

// panels are the pictures: throughput by CPUs for each arrangement, and per CPU.
func (s series) panels() []report.Panel {
	able := report.Panel{Title: "What CPU time allows (CPUs ÷ CPU time per request; 1000 requests/s)", Over: "CPUs of Sluice"}
	seen := report.Panel{Title: "Measured where the load has CPUs of its own (1000 requests/s)", Over: "CPUs of Sluice"}
	each := report.Panel{Title: "Throughput per CPU, by CPU time (1: as on the first step)", Over: "CPUs of Sluice"}
	for number, group := range s.pers() {
		course := s.along(group[0])
		name := "per " + strings.Join(group, " = ")
		a, b, c := report.Curve{Name: name, Number: number}, report.Curve{Name: name, Number: number}, report.Curve{Name: name, Number: number}
		for i, m := range course {
			x := float64(len(m.cpus))
			if m.Good() == 0 {
				continue
			}
			a.Points = append(a.Points, plotter.XY{X: x, Y: x * 1e3 / stats.GeoMean(m.Figures(cost)).Mean})
			if !m.layout.Shared {
				b.Points = append(b.Points, plotter.XY{X: x, Y: m.Mean(suite.Round.Rate) / 1e3})
			}
			r := stats.GeoMean(stats.Ratios(course[0].Figures(cost), m.Figures(cost)))
			if r.N == 0 {
				continue
			}
			below, above := 0.0, 0.0
			if i > 0 && r.N > 1 {
				below, above = r.Mean-r.Lo, r.Hi-r.Mean
			}
			c.Points = append(c.Points, plotter.XY{X: x, Y: r.Mean})
			c.Errors = append(c.Errors, struct{ Low, High float64 }{below, above})
		}
		able.Add(a)
		if len(b.Points) > 1 {
			seen.Add(b)
		}
		each.Add(c)
	}
	return []report.Panel{able, seen, each}
}

// silent says what the machine, or what was asked of it, cannot show.
func (s series) silent(whole shape.Shape) []string {
	var all []string
	add := func(format string, args ...any) {
		all = append(all, "cannot be shown here: "+fmt.Sprintf(format, args...))
	}
	steps := s.steps()
	widest := whole.Only(s[len(s)-1].cpus)
	if len(widest.Nodes()) == 1 {
		add("what a process per node is worth. Sluice's CPUs are on one NUMA node, where it is the same plan as one process for all; "+
			"the published factors (1.67 and 1.64 × per doubling, with a worker per node) are not tested%s", hidden(whole))
	}
	switch n := len(widest.Caches()); {
	case n == 0:
		add("what a process per last-level cache is worth: the kernel does not tell the caches")
	case n == 1:
		add("what a process per last-level cache is worth: there is one cache")
	}
	if len(steps) < 3 {
		add("a curve: with %s there is no third point that could bend it", shape.Count(len(steps), "step"))
	}
	for _, m := range s {
		if m.twin == "" && m.layout.Shared && m.steering == "" {
			add("requests/s with %s: load generator and backend run on the same ones, so it is no throughput of Sluice's; the CPU time per request is what counts", shape.Count(len(m.cpus), "CPU"))
			break
		}
	}
	if slices.ContainsFunc(s, func(m *measured) bool { return m.afar }) {
		add("a machine whose clients are all near: part of the load came from nodes that are not Sluice's")
	}
	if whole.Limit > 0 {
		add("more than %g CPUs: the control group's limit, which throttles all of them at once", whole.Limit)
	}
	return all
}

// hidden is what must be said of a single node under a hypervisor.
func hidden(whole shape.Shape) string {
	if whole.Hypervisor == "" || len(whole.Nodes()) > 1 {
		return ""
	}
	return "; a hypervisor is there, and may hide nodes that there are"
}
