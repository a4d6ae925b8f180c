// Package report holds the results of a benchmark and writes them: as a text table,
// as Markdown, as JSON and as a picture.
package report

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sluice/bench/proc"
	"sluice/bench/stats"
)

// Results are those of one run of the benchmark.
type Results struct {
	When     time.Time    `json:"when"`
	Machine  proc.Machine `json:"machine"`
	Versions []Version    `json:"versions"`
	Method   []string     `json:"method"` // how it was measured, a sentence each
	Tables   []Table      `json:"tables"`
}

// Version is that of one program; or why it was not measured.
type Version struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Missing string `json:"missing,omitempty"`
}

// Table is one workload under one metric.
type Table struct {
	ID     string   `json:"id"` // W1, W6-64KiB, …
	Title  string   `json:"title"`
	Metric string   `json:"metric"` // with its unit; less is better
	Extras []string `json:"extras"` // names of Row.Extra
	Rows   []Row    `json:"rows"`
	Notes  []string `json:"notes"`
}

// Row is one entrant.
type Row struct {
	Name   string         `json:"name"`
	Value  stats.Interval `json:"value"`           // geometric mean of the rounds
	Ratio  stats.Interval `json:"ratio"`           // base ÷ this, round by round: below 1, the base costs less
	Base   string         `json:"base,omitempty"`  // the row that Ratio compares with this one
	Goal   *Goal          `json:"goal,omitempty"`  // what is wanted
	Extra  []string       `json:"extra,omitempty"` // further figures, named by the table
	Rounds []float64      `json:"rounds"`          // 0: the round failed
	Notes  []string       `json:"notes,omitempty"` // what to know before the row is believed

	Latency *hdrhistogram.Histogram `json:"-"` // of all rounds, ns; written to a file of its own; may be nil
}

// Goal is the greatest figure that is good enough.
type Goal struct {
	Max   float64 `json:"max"`
	Value bool    `json:"value"` // of the row's own value, not of its ratio
}

// Verdict says what the rounds allow to claim about the goal: "met" and "missed"
// only when the whole interval is on that side.
func (r Row) Verdict() string {
	if r.Goal == nil {
		return ""
	}
	i := r.Ratio
	if r.Goal.Value {
		i = r.Value
	}
	switch {
	case i.N == 0:
		return ""
	case i.Hi <= r.Goal.Max:
		return "met"
	case i.Lo > r.Goal.Max:
		return "missed"
	}
	return "open"
}

// Compare fills in the values and ratios of the rows from their rounds.
func (t *Table) Compare() {
	rounds := map[string][]float64{}
	for _, r := range t.Rows {
		rounds[r.Name] = r.Rounds
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		r.Value = stats.GeoMean(r.Rounds)
		r.Ratio = stats.Interval{Mean: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
		if r.Base != "" && r.Base != r.Name {
			r.Ratio = stats.GeoMean(stats.Ratios(rounds[r.Base], r.Rounds))
		}
	}
}
