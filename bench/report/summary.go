package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteSummary writes one Markdown table of all workloads for a README: what
// Sluice costs, and its cost as a multiple of each peer's. A ratio whose interval
// does not exclude 1 is no difference and says so by "~".
func WriteSummary(w io.Writer, r Results) {
	var peers []string
	for _, t := range r.Tables {
		for _, row := range t.Rows {
			if row.compared() && !slices.Contains(peers, row.Name) {
				peers = append(peers, row.Name)
			}
		}
	}
	cells := [][]string{append([]string{"", "Sluice"}, prefixed("÷ ", peers)...)}
	for _, t := range r.Tables {
		if row, ok := t.summary(peers); ok {
			cells = append(cells, row)
		}
	}
	if len(cells) > 1 {
		writePiped(w, dropEmpty(cells))
	}
}

// compared says whether a row is a program of others that is measured beside Sluice.
func (r Row) compared() bool {
	return r.Base == sluiceRow && !strings.HasPrefix(r.Name, sluiceRow)
}

// sluiceRow is the name of the row that summaries are about.
const sluiceRow = "sluice"

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// summary is the table in one line, if Sluice was measured.
func (t Table) summary(peers []string) ([]string, bool) {
	cells := make([]string, len(peers)+2)
	cells[0] = t.ID + ": " + t.Title + "; " + t.Metric
	measured := false
	for _, row := range t.Rows {
		if row.Name == sluiceRow && row.Value.N > 0 {
			cells[1], measured = number(row.Value.Mean), true
		}
		if i := slices.Index(peers, row.Name); i >= 0 && row.Ratio.N > 0 {
			cells[i+2] = row.ratio()
		}
	}
	return cells, measured
}

// ratio is the row's ratio with its interval.
func (r Row) ratio() string {
	if r.Ratio.N < 2 {
		return number(r.Ratio.Mean)
	}
	sign := ""
	if !r.Ratio.Excludes(1) {
		sign = "~"
	}
	return fmt.Sprintf("%s%.2f [%.2f, %.2f]", sign, r.Ratio.Mean, r.Ratio.Lo, r.Ratio.Hi)
}
