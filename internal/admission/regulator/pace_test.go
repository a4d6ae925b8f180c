package regulator

import (
	"testing"
	"time"

	"sluice/internal/admission/gate"
)

// How long a server takes is told where workers see it, follows a change within
// seconds, is left alone while it hardly moves, and is forgotten when nothing comes
// any more: what is refused for it must not keep it up.
func TestServerPace(t *testing.T) {
	r := newRig(t, "")
	_, s := r.scripted()
	told := &r.shared.Gate(s.Slot).Pace
	// Five requests at a time, for some seconds.
	serve := func(took, long time.Duration) (writes int) {
		for was := told.Load(); long > 0; long -= took {
			var permits [5]gate.Permit
			for i := range permits {
				permits[i] = r.claim(0, 0, s.Slot)
			}
			r.steps(int(took / step))
			for i := range permits {
				r.end(&permits[i], 0, 0, s.Slot, gate.Good)
			}
			if now := told.Load(); now != was {
				was = now
				writes++
			}
		}
		r.steps(1)
		return writes
	}
	near := func(want time.Duration) {
		t.Helper()
		if got := time.Duration(told.Load()); got < want*7/8 || got > want*9/8 {
			t.Errorf("%v is told, want about %v", got, want)
		}
	}
	near(0)
	serve(200*time.Millisecond, 10*time.Second)
	near(200 * time.Millisecond)
	if n := serve(200*time.Millisecond, 10*time.Second); n > 0 {
		t.Errorf("written %d times while nothing changed", n)
	}
	serve(400*time.Millisecond, 10*time.Second)
	near(400 * time.Millisecond)
	r.steps(200) // 10 s
	near(0)
}
