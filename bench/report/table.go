package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"sluice/bench/stats"
)

// WriteText writes the results for a terminal.
func WriteText(w io.Writer, r Results) {
	fmt.Fprintf(w, "%s\n\n", r.machine())
	for _, v := range r.Versions {
		fmt.Fprintf(w, "  %-14s %s\n", v.Name, v.words())
	}
	for _, m := range r.Method {
		fmt.Fprintf(w, "\n- %s", m)
	}
	fmt.Fprintln(w)
	for _, t := range r.Tables {
		fmt.Fprintf(w, "\n%s: %s\n%s\n", t.ID, t.Title, t.Metric)
		writeAligned(w, t.cells())
		for _, n := range t.notes() {
			fmt.Fprintf(w, "  %s\n", n)
		}
	}
}

// WriteMarkdown writes the results for a page.
func WriteMarkdown(w io.Writer, r Results) {
	fmt.Fprintf(w, "# Benchmark, %s\n\n%s\n\n| program | version |\n|---|---|\n", r.When.Format("2006-01-02"), r.machine())
	for _, v := range r.Versions {
		fmt.Fprintf(w, "| %s | %s |\n", v.Name, v.words())
	}
	fmt.Fprintln(w)
	for _, m := range r.Method {
		fmt.Fprintf(w, "- %s\n", m)
	}
	fmt.Fprintln(w)
	WriteSummary(w, r)
	for _, t := range r.Tables {
		fmt.Fprintf(w, "\n## %s: %s\n\n%s\n\n", t.ID, t.Title, t.Metric)
		writePiped(w, t.cells())
		fmt.Fprintln(w)
		for _, n := range t.notes() {
			fmt.Fprintf(w, "- %s\n", n)
		}
	}
}

// machine is one line about where the figures are from.
func (r Results) machine() string {
	m, kind := r.Machine, ""
	if m.Virtualised {
		kind = ", virtual"
	}
	return fmt.Sprintf("%s: %d CPUs (%s%s), %d NUMA node(s), %.0f GiB, Linux %s, %s",
		r.When.Format("2006-01-02 15:04 MST"), len(m.CPUs), m.Model, kind, m.Nodes,
		float64(m.Memory)/(1<<30), m.Kernel, m.System)
}

func (v Version) words() string {
	if v.Missing != "" {
		return "not measured: " + v.Missing
	}
	return v.Version
}

// cells are the header and the rows; a column that no row fills is left out.
func (t Table) cells() [][]string {
	head := append([]string{"", "value", "base ÷ it", "95 %", "goal", "verdict"}, t.Extras...)
	all := [][]string{head}
	for _, r := range t.Rows {
		all = append(all, append([]string{r.Name, number(r.Value.Mean), number(r.Ratio.Mean),
			bounds(r.Ratio), r.Goal.words(), r.Verdict()}, r.Extra...))
	}
	return dropEmpty(all)
}

// notes are those of the rows, each with its row, and those of the table.
func (t Table) notes() []string {
	var all []string
	for _, r := range t.Rows {
		for _, n := range r.Notes {
			all = append(all, r.Name+": "+n)
		}
	}
	return append(all, t.Notes...)
}

func (g *Goal) words() string {
	switch {
	case g == nil:
		return ""
	case g.Value:
		return "value ≤ " + number(g.Max)
	}
	return "≤ " + number(g.Max)
}

// number has three significant digits; nothing stands for what was not measured.
func number(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return ""
	case x == 0:
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(x))))
	return fmt.Sprintf("%.*f", min(max(digits, 0), 3), x)
}

func bounds(i stats.Interval) string {
	if i.N < 2 {
		return ""
	}
	return fmt.Sprintf("[%.3f, %.3f]", i.Lo, i.Hi)
}

// dropEmpty leaves out the columns that have a header only.
func dropEmpty(cells [][]string) [][]string {
	out := make([][]string, len(cells))
	for column := range cells[0] {
		filled := column == 0
		for _, row := range cells[1:] {
			filled = filled || column < len(row) && row[column] != ""
		}
		if !filled {
			continue
		}
		for i, row := range cells {
			cell := ""
			if column < len(row) {
				cell = row[column]
			}
			out[i] = append(out[i], cell)
		}
	}
	return out
}

func writeAligned(w io.Writer, cells [][]string) {
	width := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	for _, row := range cells {
		var line strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if i == 0 {
				line.WriteString("  " + c + pad)
			} else {
				line.WriteString("  " + pad + c)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

func writePiped(w io.Writer, cells [][]string) {
	for i, row := range cells {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|---%s|\n", strings.Repeat("|--:", len(row)-1))
		}
	}
}
