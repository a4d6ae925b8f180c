package worker

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"

	"sluice/internal/testkit"
)

// TestPace: at least slack is allocated between collections, and as much as is alive.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		alive uint64
		want  int
	}{
		{0, 600}, {4 << 20, 600}, {12 << 20, 200}, {24 << 20, 100}, {1 << 30, 100},
	} {
		if got := paceFor(c.alive); got != c.want {
			t.Errorf("%d bytes alive: GOGC=%d, want %d", c.alive, got, c.want)
		}
	}
}

// TestCollectLess: the pace follows what is alive, collection by collection, and in the end
// is as it was.
func TestCollectLess(t *testing.T) {
	var alive atomic.Uint64
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	alive.Store(4 << 20)
	stop := pace(alive.Load)
	for _, c := range []struct {
		alive uint64
		want  uint64
	}{{4 << 20, 600}, {8 << 20, 300}, {64 << 20, 100}, {6 << 20, 400}} {
		alive.Store(c.alive)
		collectUntil(t, c.want)
	}
	stop()
	alive.Store(12 << 20)
	for range 3 {
		runtime.GC()
	}
	if got := gogc(); got != 100 {
		t.Errorf("GOGC is %d after the end, want 100 as before", got)
	}
}

// TestCollectAsSaid: an operator's GOGC stays.
func TestCollectAsSaid(t *testing.T) {
	t.Setenv("GOGC", "150")
	defer debug.SetGCPercent(debug.SetGCPercent(150))
	defer collectLess()()
	if got := gogc(); got != 150 {
		t.Errorf("GOGC is %d, want the operator's 150", got)
	}
}

// TestAlive: what is kept is alive.
func TestAlive(t *testing.T) {
	runtime.GC()
	before := aliveNow()
	kept := make([]byte, 256<<20)
	runtime.GC()
	if more := aliveNow() - before; before == 0 || more < 200<<20 || more > 300<<20 {
		t.Errorf("%d bytes were alive, and %d more with 256 MiB that are kept", before, more)
	}
	runtime.KeepAlive(kept)
}

// gogc is the runtime's pace.
func gogc() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// collectUntil collects until the pace is as wanted: who sets it hears of a collection a
// little later.
func collectUntil(t *testing.T, want uint64) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("GOGC is %d", want), func() bool { runtime.GC(); return gogc() == want })
}
