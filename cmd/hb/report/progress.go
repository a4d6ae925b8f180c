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
	w      io.Writer
	stages int
}

// NewProgress makes one for a terminal, and a plan of so many stages.
func NewProgress(w io.Writer, stages int) *Progress { return &Progress{w, stages} }

// Show writes the line.
func (p *Progress) Show(t engine.Tick) {
	fmt.Fprint(p.w, clearLine+p.line(t))
}

// End empties the line, so that the report begins on it.
func (p *Progress) End() { fmt.Fprint(p.w, clearLine) }

func (p *Progress) line(t engine.Tick) string {
	where := "warm-up"
	if t.Stage >= 0 {
		where = fmt.Sprintf("stage %d/%d", t.Stage+1, p.stages)
	}
	clock := t.Elapsed.Truncate(time.Second).String()
	if t.Load.For > 0 {
		clock += " of " + t.Load.For.String()
	}
	rate := float64(t.Last.Good()) / max(t.Span.Seconds(), 1e-9)
	return fmt.Sprintf("%s, %s: %d users, %d open, %s req/s, p50 %s ms, p99 %s ms, %d errors", where, clock, t.Load.Users,
		t.Open, figure(rate), millis(measure.Quantile(t.Last.Response, 50)), millis(measure.Quantile(t.Last.Response, 99)), t.Last.Errors())
}
