package report

import (
	"fmt"
	"io"
	"time"

	"sluice/cmd/hb/engine"
	"sluice/cmd/hb/measure"
)

// clearLine goes to the begin of a terminal's line and empties it (ECMA-48, EL).
const clearLine = "\r\x1b[K"

// Progress writes a line about the last second over the one before.
type Progress struct {
	w       io.Writer
	stages  int
	columns int
}

// NewProgress makes one for a plan of so many stages and a terminal of so many
// columns.
func NewProgress(w io.Writer, stages, columns int) *Progress {
	return &Progress{w, stages, columns}
}

// Show writes the line, cut to the terminal's width: one that wraps could not be
// emptied.
func (p *Progress) Show(t engine.Tick) {
	line := p.line(t)
	fmt.Fprint(p.w, clearLine+line[:min(len(line), p.columns-1)])
}

// End empties the line, so that the report begins on it.
func (p *Progress) End() { fmt.Fprint(p.w, clearLine) }

func (p *Progress) line(t engine.Tick) string {
	where := "warm-up"
	if t.Stage >= 0 {
		where = fmt.Sprintf("%d/%d", t.Stage+1, p.stages)
	}
	clock := t.Elapsed.Truncate(time.Second).String()
	if t.Load.For > 0 {
		clock += " of " + t.Load.For.String()
	}
	rate := float64(t.Last.Good()) / max(t.Span.Seconds(), 1e-9)
	return fmt.Sprintf("%s, %s: %d users, %s req/s, %d errors, p50 %s ms, p99 %s ms, %d open", where, clock, t.Load.Users,
		figure(rate), t.Last.Errors(), millis(measure.Quantile(t.Last.Response, 50)), millis(measure.Quantile(t.Last.Response, 99)), t.Open)
}
