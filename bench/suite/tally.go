package suite

import (
	"fmt"
	"slices"
)

// Beyond these a row carries a note.
const (
	quietStolen = 0.02 // share of the proxy's CPU that the hypervisor took
	quietOthers = 0.03 // share that processes other than the proxy used
	fullyBusy   = 0.90 // below it the proxy was not the bottleneck
)

// Tally collects the rounds of one entrant.
type Tally struct {
	rounds []Round // a failed one is zero, and has no samples
	faults []string
}

// Add takes the outcome of one round. A round in which nothing was answered has
// failed too.
func (y *Tally) Add(r Round, err error) {
	if err == nil && r.Rate() == 0 {
		err = fmt.Errorf("no request was answered")
	}
	if err != nil {
		y.faults = append(y.faults, fmt.Sprintf("round %d failed: %v", len(y.rounds)+1, err))
		r = Round{}
	}
	y.rounds = append(y.rounds, r)
}

// Good is the number of rounds that did not fail.
func (y *Tally) Good() int {
	n := 0
	for _, r := range y.rounds {
		if r.Samples != nil {
			n++
		}
	}
	return n
}

// Figures are one figure of each round; 0 for a failed one.
func (y *Tally) Figures(of func(Round) float64) []float64 {
	all := make([]float64, len(y.rounds))
	for i, r := range y.rounds {
		if r.Samples != nil {
			all[i] = of(r)
		}
	}
	return all
}

// Mean is the arithmetic mean over the good rounds.
func (y *Tally) Mean(of func(Round) float64) float64 {
	sum := 0.0
	for _, f := range y.Figures(of) {
		sum += f
	}
	return sum / float64(max(1, y.Good()))
}

// Notes say what a reader must know before the row is believed.
func (y *Tally) Notes() []string {
	notes := slices.Clone(y.faults)
	if y.Good() == 0 {
		return notes
	}
	var errors int64
	for _, r := range y.rounds {
		errors += r.Errors()
	}
	if errors > 0 {
		notes = append(notes, fmt.Sprintf("%d failed requests", errors))
	}
	busy := y.Mean(func(r Round) float64 { return r.Proxy })
	if full := y.Mean(func(r Round) float64 { return r.Load }); busy < fullyBusy && full >= fullyBusy {
		notes = append(notes, fmt.Sprintf("load generator and backend were the bottleneck (proxy %s busy)", percent(busy)))
	}
	if stolen := y.Mean(func(r Round) float64 { return r.Stolen }); stolen > quietStolen {
		notes = append(notes, "the hypervisor took "+percent(stolen)+" of the proxy's CPU")
	}
	if others := y.Mean(Round.others); others > quietOthers {
		notes = append(notes, "other processes used "+percent(others)+" of the proxy's CPU")
	}
	return notes
}
