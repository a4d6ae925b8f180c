package suite

import (
	"context"
	"fmt"
	"time"

	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/report"
)

const (
	openConns = 64
	calibrate = 2 * time.Second // of closed-loop load, for the capacity

	// calibrations is how often each is tried; the best counts, since noise only takes.
	calibrations = 3

	// ownRateBelow: an entrant whose capacity is less than this multiple of the
	// common rate would be measured near its limit; it gets half of its own.
	ownRateBelow = 4.0 / 3
)

var quantiles = []struct {
	name    string
	percent float64
}{{"p50", 50}, {"p99", 99}, {"p99.9", 99.9}}

// open is W8: latency at a fixed rate, which is half of what the slower one of
// Sluice and nginx can do. Every entrant has the same arrivals.
func open(ctx context.Context, r *Rig) ([]report.Table, error) {
	entrants := r.entrants(map[string]float64{peers.Nginx: 1})
	capacity, err := r.capacities(ctx, entrants)
	if err != nil {
		return nil, err
	}
	rates := openRates(entrants, capacity)
	tallies := make([]Tally, len(entrants))
	err = Interleave(ctx, Turns[Entrant]{"W8", entrants, r.Rounds, r.Progress},
		func(ctx context.Context, e Entrant) (Round, error) {
			job := load.Job{Conns: openConns, Target: "/53", Warm: r.Warm, Measure: r.Measure, Rate: rates[e.Name]}
			return r.run(ctx, e, job)
		},
		func(i int, round Round, err error) { tallies[i].Add(round, err) })
	if err != nil {
		return nil, err
	}
	return openTables(entrants, tallies, rates), nil
}

// capacities are requests per second in closed loop, by the entrant's name; one
// that failed has none.
func (r *Rig) capacities(ctx context.Context, entrants []Entrant) (map[string]float64, error) {
	all := map[string]float64{}
	err := Interleave(ctx, Turns[Entrant]{"W8 capacity", entrants, calibrations, r.Progress},
		func(ctx context.Context, e Entrant) (Round, error) {
			return r.run(ctx, e, load.Job{Conns: openConns, Target: "/53", Warm: r.Warm, Measure: calibrate})
		},
		func(i int, round Round, err error) {
			if name := entrants[i].Name; err == nil {
				all[name] = max(all[name], round.Rate())
			}
		})
	return all, err
}

// openRates are the requests per second that each entrant is offered.
func openRates(entrants []Entrant, capacity map[string]float64) map[string]float64 {
	common := 0.0
	for _, e := range entrants {
		c := capacity[e.Name]
		if leads := e.Name == peers.Sluice || e.Name == peers.Nginx; leads && c > 0 && (common == 0 || c/2 < common) {
			common = c / 2
		}
	}
	rates := map[string]float64{}
	for _, e := range entrants {
		rates[e.Name] = common
		if c := capacity[e.Name]; c > 0 && (common == 0 || c < ownRateBelow*common) {
			rates[e.Name] = c / 2
		}
	}
	return rates
}

func openTables(entrants []Entrant, tallies []Tally, rates map[string]float64) []report.Table {
	var all []report.Table
	for k, q := range quantiles {
		t := report.Table{
			ID: "W8-" + q.name, Title: "open loop at half of capacity, latency " + q.name,
			Metric: "from the time that a request was due to its last byte, µs",
			Extras: []string{"added over direct", "offered/s"},
		}
		for i, e := range entrants {
			row := report.Row{Name: e.Name, Base: e.Base, Goal: e.Goal, Notes: tallies[i].openNotes(rates[e.Name])}
			row.Rounds = tallies[i].Figures(func(r Round) float64 {
				return float64(load.Merge(r.latencies()...).ValueAtQuantile(q.percent)) / 1e3
			})
			if k == 0 {
				row.Latency = load.Merge(tallies[i].latencies()...)
			}
			t.Rows = append(t.Rows, row)
		}
		t.Compare()
		addOver(&t, rates)
		t.Notes = append(t.Notes, Detection(t, again)...)
		all = append(all, t)
	}
	return all
}

func (r Round) latencies() []load.Histogram {
	var all []load.Histogram
	for _, s := range r.Samples {
		all = append(all, s.Latency)
	}
	return all
}

func (y *Tally) latencies() []load.Histogram {
	var all []load.Histogram
	for _, r := range y.rounds {
		all = append(all, r.latencies()...)
	}
	return all
}

// addOver fills in what each row has more than the direct way.
func addOver(t *report.Table, rates map[string]float64) {
	var direct float64
	for _, row := range t.Rows {
		if row.Name == peers.Direct && row.Value.N > 0 {
			direct = row.Value.Mean
		}
	}
	for i := range t.Rows {
		row, added := &t.Rows[i], ""
		if direct > 0 && row.Value.N > 0 && row.Name != peers.Direct {
			added = fmt.Sprintf("%.1f", row.Value.Mean-direct)
		}
		row.Extra = []string{added, fmt.Sprintf("%.0f", rates[row.Name])}
	}
}

// openNotes: faults, and what the entrant could not carry. That its CPU was not
// busy all the time is what an open loop is for.
func (y *Tally) openNotes(rate float64) []string {
	var unfinished, errors int64
	for _, r := range y.rounds {
		for _, s := range r.Samples {
			unfinished += s.Unfinished
			errors += s.Errors
		}
	}
	notes := y.faults
	if unfinished > 0 {
		notes = append(notes, fmt.Sprintf("%d requests unanswered at the end of their round, at %.0f/s", unfinished, rate))
	}
	if errors > 0 {
		notes = append(notes, fmt.Sprintf("%d failed requests", errors))
	}
	return notes
}
