package worker

import (
	"runtime"
	"testing"
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

// TestCollectLess: much garbage beside little that lives is collected each time when it is
// slack, not each few MiB, and afterwards it is as it was.
func TestCollectLess(t *testing.T) {
	t.Setenv("GOGC", "")
	calm, usual := collectionsWith(collectLess), collectionsWith(func() func() { return func() {} })
	if most := uint32(garbage/slack) * 2; calm > most || calm == 0 {
		t.Errorf("%d collections for %d MiB of garbage, want 1 to %d", calm, garbage>>20, most)
	}
	if usual < 2*calm {
		t.Errorf("%d collections without it, and %d with it: it has no effect, or it stays", usual, calm)
	}
}

// TestCollectAsSaid: an operator's GOGC stays.
func TestCollectAsSaid(t *testing.T) {
	t.Setenv("GOGC", "100")
	as := collectionsWith(collectLess)
	t.Setenv("GOGC", "")
	if calm := collectionsWith(collectLess); as < 2*calm {
		t.Errorf("%d collections with GOGC=100, and %d without it", as, calm)
	}
}

const garbage = 480 << 20

var sink []byte

func collectionsWith(start func() func()) uint32 {
	stop := start()
	defer stop()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range garbage / (16 << 10) {
		sink = make([]byte, 16<<10)
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}
