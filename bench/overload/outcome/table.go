package outcome

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// rows are a table: the first row is its head, the first column has names.
type rows [][]string

// write writes Markdown; of no rows, nothing.
func (r rows) write(w io.Writer) {
	if len(r) == 0 {
		return
	}
	for i, row := range r {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|---%s|\n", strings.Repeat("|--:", len(row)-1))
		}
	}
	fmt.Fprintln(w)
}

// WriteMarkdown writes all results.
func WriteMarkdown(w io.Writer, r Results) {
	fmt.Fprintf(w, "# Overload, %s\n\n", r.When.Format("2006-01-02"))
	m := r.Machine
	fmt.Fprintf(w, "%s: %d CPUs (%s), %d NUMA node(s), %d GiB, Linux %s, %s\n\n",
		r.When.UTC().Format("2006-01-02 15:04 UTC"), len(m.CPUs), m.Model, m.Nodes, (m.Memory+1<<29)>>30, m.Kernel, m.System)
	versions := rows{{"program", "version"}}
	for _, v := range r.Versions {
		said := v.Version
		if v.Missing != "" {
			said = "not measured: " + v.Missing
		}
		versions = append(versions, []string{v.Name, said})
	}
	versions.write(w)
	for _, line := range r.Method {
		fmt.Fprintf(w, "- %s\n", line)
	}
	for i := range r.Scenes {
		fmt.Fprintln(w)
		r.Scenes[i].WriteMarkdown(w)
	}
}

// WriteMarkdown writes the targets, the summary and all steps of one scene.
func (s *Scene) WriteMarkdown(w io.Writer) {
	s.WriteSummary(w)
	for _, e := range s.Entries {
		steps := e.ramp()
		if len(steps) == 0 {
			continue
		}
		fmt.Fprintf(w, "### %s: %s, the ramp\n\n", s.Name, e.Name)
		table := rows{{"users", "requests/s", "mean", "p50", "p99", "errors/s", "backend: at most held", "mean", "connections"}}
		for _, step := range steps {
			table = append(table, append([]string{strconv.Itoa(step.Users)}, step.cells()...))
		}
		table.write(w)
	}
}

// WriteSummary writes the targets of a scene and a line for each entry.
func (s *Scene) WriteSummary(w io.Writer) {
	fmt.Fprintf(w, "## %s: %s\n\n", s.Name, s.Title)
	if len(s.Checks) > 0 {
		table := rows{{"target", "wanted", "got", "95 %", "rounds", "verdict"}}
		for _, c := range s.Checks {
			table = append(table, c.cells())
		}
		table.write(w)
	}
	s.heldTable().write(w)
	s.notes(w)
}

func (c Check) cells() []string {
	var wanted []string
	if c.Least > 0 {
		wanted = append(wanted, "≥ "+number(c.Least))
	}
	if c.Most > 0 {
		wanted = append(wanted, "≤ "+number(c.Most))
	}
	interval := ""
	if c.Got.N > 1 && c.Got.Lo < c.Got.Hi {
		interval = fmt.Sprintf("[%s, %s]", number(c.Got.Lo), number(c.Got.Hi))
	}
	return []string{c.What, strings.Join(wanted, ", "), number(c.Got.Mean), interval, strconv.Itoa(c.Got.N), c.Verdict()}
}

// heldTable has a line for each entry: when all users were there, and the whole ramp.
func (s *Scene) heldTable() rows {
	table := rows{{"all users there", "requests/s", "mean", "p50", "p99", "errors/s", "backend: at most held", "mean", "connections",
		"÷ " + s.base(), "whole ramp: requests/s", "mean"}}
	for _, e := range s.Entries {
		held, ok := e.held()
		if !ok {
			continue
		}
		line := append([]string{e.Name}, held.cells()...)
		ratio := s.Ratio(e.Name, s.base(), Held(func(s Step) float64 { return s.Rate }))
		line = append(line, number(ratio.Mean), number(s.Mean(e.Name, Whole)), seconds(s.Mean(e.Name, WholeMean)))
		table = append(table, line)
	}
	if len(table) == 1 {
		return nil
	}
	return table
}

// base is what throughput is compared with: the first entry.
func (s *Scene) base() string {
	if len(s.Entries) == 0 {
		return ""
	}
	return s.Entries[0].Name
}

// notes writes what must be known before the figures are believed.
func (s *Scene) notes(w io.Writer) {
	notes := s.Notes
	for _, e := range s.Entries {
		for i, r := range e.Rounds {
			if r.Failed != "" {
				notes = append(notes, fmt.Sprintf("%s: round %d failed: %s", e.Name, i+1, r.Failed))
			}
			for _, t := range r.Times {
				notes = append(notes, fmt.Sprintf("%s, round %d: %s: %s", e.Name, i+1, t.What, seconds(t.Seconds)))
			}
		}
	}
	for _, n := range notes {
		fmt.Fprintf(w, "- %s\n", n)
	}
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
}

// cells are the figures of a step in the order of the tables.
func (s Step) cells() []string {
	return []string{number(s.Rate), seconds(s.Mean), seconds(s.P50), seconds(s.P99), number(s.Errors),
		strconv.Itoa(s.MostHeld), number(s.MeanHeld), strconv.Itoa(s.MostConnections)}
}

// ramp is the ramp of an entry, each step over its rounds.
func (e Entry) ramp() []Step {
	var all [][]Step
	for _, r := range e.Rounds {
		for i, step := range r.Ramp {
			if i == len(all) {
				all = append(all, nil)
			}
			all[i] = append(all[i], step)
		}
	}
	steps := make([]Step, len(all))
	for i, same := range all {
		steps[i] = mean(same)
	}
	return steps
}

// held is the time when all users were there, over its rounds.
func (e Entry) held() (Step, bool) {
	var all []Step
	for _, r := range e.Rounds {
		if r.Held != nil {
			all = append(all, *r.Held)
		}
	}
	if len(all) == 0 {
		return Step{}, false
	}
	return mean(all), true
}

// mean is one step for several of as many users: means of all, and the most of what
// is a most. There is at least one.
func mean(steps []Step) Step {
	m := Step{Users: steps[0].Users}
	n := float64(len(steps))
	for _, s := range steps {
		m.Seconds += s.Seconds
		m.Rate += s.Rate / n
		m.Worked += s.Worked / n
		m.Errors += s.Errors / n
		m.Mean += s.Mean / n
		m.P50 += s.P50 / n
		m.P99 += s.P99 / n
		m.MedianError += s.MedianError / n
		m.MeanHeld += s.MeanHeld / n
		m.SlowestError = max(m.SlowestError, s.SlowestError)
		m.MostHeld = max(m.MostHeld, s.MostHeld)
		m.MostConnections = max(m.MostConnections, s.MostConnections)
	}
	return m
}

// number is a figure with three digits; empty if there is none.
func number(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return ""
	case x == 0:
		return "0"
	case math.Abs(x) >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case math.Abs(x) >= 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 3, 64)
}

// seconds is a time; empty if there is none.
func seconds(x float64) string {
	if text := number(x); text != "" && x != 0 {
		return text + " s"
	}
	return ""
}
