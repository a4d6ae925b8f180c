package worker

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/testkit"
)

// TestPace: there is room for as much as is alive, or for what collections that come often
// have asked for.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		alive, room uint64
		want        int
	}{
		{0, 4 << 20, 100}, {1 << 20, 24 << 20, 600}, {4 << 20, 24 << 20, 600}, {12 << 20, 24 << 20, 200}, {24 << 20, 24 << 20, 100},
		{8 << 20, 16 << 20, 200}, {1 << 30, 24 << 20, 100},
	} {
		if got := paceFor(c.alive, c.room); got != c.want {
			t.Errorf("%d bytes alive, room for %d: GOGC=%d, want %d", c.alive, c.room, got, c.want)
		}
	}
}

// TestCollectLess: the pace follows what is alive and how often there is a collection, and
// in the end is as it was.
func TestCollectLess(t *testing.T) {
	var alive, gap, now atomic.Int64
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	alive.Store(4 << 20)
	stop := pace(
		func() uint64 { return uint64(alive.Load()) },
		func() time.Time { return time.Unix(0, now.Add(gap.Load())) },
	)
	for _, c := range []struct {
		alive int64
		gap   time.Duration
		want  uint64
	}{
		{4 << 20, 500 * time.Millisecond, 100}, // neither often nor seldom
		{4 << 20, 10 * time.Millisecond, 600},
		{12 << 20, 500 * time.Millisecond, 200},
		{64 << 20, 10 * time.Millisecond, 100},
		{6 << 20, 500 * time.Millisecond, 400},
		{6 << 20, 2 * time.Second, 100},
	} {
		alive.Store(c.alive)
		gap.Store(int64(c.gap))
		collectUntil(t, c.want)
	}
	gap.Store(int64(time.Millisecond))
	stop()
	for range 5 {
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
