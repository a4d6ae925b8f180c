package finding

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/bench/abuse/ground"
	"sluice/bench/stats"
)

// WriteAll writes results.md and results.json into a directory.
func WriteAll(dir string, r Results) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var text strings.Builder
	WriteMarkdown(&text, r)
	document, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "results.md"), []byte(text.String()), 0o644),
		os.WriteFile(filepath.Join(dir, "results.json"), append(document, '\n'), 0o644),
	)
}

// WriteMarkdown writes all results.
func WriteMarkdown(w io.Writer, r Results) {
	m := r.Machine
	fmt.Fprintf(w, "# Abuse, %s\n\n", r.When.UTC().Format(time.DateOnly))
	fmt.Fprintf(w, "Sluice %s; %s: %d CPUs (%s), %d NUMA node(s), Linux %s, %s\n\n",
		r.Version, r.When.UTC().Format("2006-01-02 15:04 UTC"), len(m.CPUs), m.Model, m.Nodes, m.Kernel, m.System)
	for _, line := range r.Method {
		fmt.Fprintf(w, "- %s\n", line)
	}
	fmt.Fprintln(w)
	WriteTable(w, r.Findings)
	for _, f := range r.Findings {
		for _, fault := range f.Faults {
			fmt.Fprintf(w, "\n%s: a round failed: %s\n", f.Class, fault)
		}
	}
}

var columns = []string{
	"class", "who suffers most", "p99 calm, ms", "p99 ÷ calm", "p99 ÷ control", "≤ 2 × control", "others failed: calm, attacked, control",
	"turn: calm, attacked, µs", "CPU s/s", "memory, MiB", "connections/s", "strikes/s", "ends", "counters", "left",
}

// WriteTable writes a line for each class.
func WriteTable(w io.Writer, all []Finding) {
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for i := range all {
		fmt.Fprintf(w, "| %s |\n", strings.Join(all[i].cells(), " | "))
	}
}

func (f *Finding) cells() []string {
	if len(f.Rounds) == 0 {
		return append([]string{f.Class, "nothing was measured"}, make([]string, len(columns)-2)...)
	}
	s, a := f.Sufferers(), f.Attack()
	rate := func(n int64) string { return fmt.Sprintf("%.0f", float64(n)/max(a.Seconds, 1e-9)) }
	return []string{
		f.Class, s.Users, fmt.Sprintf("%.2f", 1e3*s.Calm), ratio(s.ToCalm), ratio(s.ToControl), s.Verdict(),
		strings.Join([]string{f.failed(ground.Calm), f.failed(ground.Attacked), f.failed(ground.Control)}, ", "),
		fmt.Sprintf("%.0f, %.0f", 1e6*f.Turn(ground.Calm), 1e6*f.Turn(ground.Attacked)), fmt.Sprintf("%.2f", f.CPU()), fmt.Sprintf("%.0f", float64(f.Memory())/(1<<20)), rate(a.Connections), rate(a.Strikes),
		ends(a), strings.Join(f.Counters(), ", "), fmt.Sprintf("%.0f", f.Left()),
	}
}

// ratio is a mean with its interval.
func ratio(i stats.Interval) string {
	if i.N < 2 {
		return fmt.Sprintf("%.2f", i.Mean)
	}
	return fmt.Sprintf("%.2f [%.2f, %.2f]", i.Mean, i.Lo, i.Hi)
}

func (f *Finding) failed(p ground.Phase) string {
	failed, all := f.Failed(p)
	if failed == 0 {
		return "0"
	}
	return fmt.Sprintf("%d of %d", failed, all)
}
