package worker

import (
	"testing"
	"time"
)

// TestSounding: a loop's lag is known to others while it answers, while it does not, and
// no longer than it counts.
func TestSounding(t *testing.T) {
	const ms = int64(time.Millisecond)
	now, lag, asked := int64(1), int64(0), []func(){}
	s := sounding{clock: func() int64 { return now }, lag: func() int64 { return lag }, submit: func(f func()) { asked = append(asked, f) }}
	for i, step := range []struct {
		at, lag int64 // ms: of the clock, and what the loop would say
		answers bool  // the loop turns before
		want    int64
		asks    int // that the loop has not answered then
	}{
		{10, 7, false, 0, 1}, // nothing is known, and the loop is asked
		{14, 7, false, 4, 1}, // once
		{50, 7, false, 40, 1},
		{51, 7, true, 7, 1}, // it has said 7, and is asked again
		{55, 7, false, 7, 1},
		{60, 7, false, 9, 1}, // it owes an answer for longer
		{61, 0, true, 0, 1},
		{62, 600, true, 600, 1},
		{63, 600, true, 600, 1},
		{1062, 0, false, 999, 1},
		{1063, 600, true, 600, 1},
		{1064, 600, true, 600, 1},
		{3000, 600, false, 1936, 1},
		{3000, 1, true, 1, 1},
	} {
		now, lag = step.at*ms, step.lag*ms
		if step.answers {
			asked[0]()
			asked = asked[1:]
		}
		if got := int64(s.Lag()); got != step.want*ms || len(asked) != step.asks {
			t.Errorf("step %d: %v, %d questions; want %d ms, %d", i, time.Duration(got), len(asked), step.want, step.asks)
		}
	}
	asked[0]() // and then nobody wants to know for long
	if now += staleAfter; s.Lag() != 0 {
		t.Error("an old answer counts")
	}
}
