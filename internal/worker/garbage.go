package worker

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// The runtime collects when as much has been allocated as is alive (GOGC=100, Go's "Guide
// to the Garbage Collector"). A worker keeps a few MiB alive, so TLS handshakes, at some
// 60 KiB of garbage each, had it collect 40 times a second: a seventh of their CPU time.
// Where collections come often, more is allocated between them; where they do not, memory
// is worth more.
const (
	often     = 100 * time.Millisecond // between collections: room for garbage doubles
	seldom    = time.Second            // it halves
	leastRoom = 4 << 20                // bytes of room that there always is: below so much alive the runtime reckons with it
	mostRoom  = 24 << 20               // bytes of room at most
)

// collectLess sets the pace of the collector after each collection until stop is called.
// An operator who sets GOGC is obeyed. Limits of memory (GOMEMLIMIT) go before both.
func collectLess() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	return pace(aliveNow, time.Now)
}

// pace does it by what alive and clock tell.
func pace(alive func() uint64, clock func() time.Time) (stop func()) {
	p := &collectorPace{alive: alive, clock: clock, at: clock(), room: leastRoom, percent: 100}
	before := debug.SetGCPercent(p.percent)
	p.watch()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.over = true
		debug.SetGCPercent(before)
	}
}

// collectorPace is the pace of the collector.
type collectorPace struct {
	alive func() uint64 // bytes that live; immutable
	clock func() time.Time

	mu      sync.Mutex
	over    bool      // guarded by mu
	at      time.Time // of the last collection; guarded by mu
	room    uint64    // for garbage, bytes; guarded by mu
	percent int       // guarded by mu
}

// watch is told of the next collection by an object that only it knows: what nobody
// reaches is finalized.
func (p *collectorPace) watch() {
	type sentinel struct{ *collectorPace }
	runtime.SetFinalizer(&sentinel{p}, func(*sentinel) {
		if p.collected() {
			p.watch()
		}
	})
}

// collected sets the pace after a collection. on: it is not over.
func (p *collectorPace) collected() (on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	now := p.clock()
	p.room = roomAfter(p.room, now.Sub(p.at))
	p.at = now
	percent := paceFor(p.alive(), p.room)
	if percent > p.percent+p.percent/8 || percent < p.percent-p.percent/8 { // to set it stops all threads for a moment
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	return true
}

// roomAfter is the room for garbage after a collection that came so long after the last.
func roomAfter(room uint64, since time.Duration) uint64 {
	switch {
	case since < often:
		return min(2*room, mostRoom)
	case since > seldom:
		return max(room/2, leastRoom)
	}
	return room
}

// aliveNow is what the last collection found: of the heap, of stacks and of globals.
func aliveNow() (bytes uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		bytes += s.Value.Uint64()
	}
	return bytes
}

// paceFor is GOGC for so many bytes alive and so much room for garbage.
func paceFor(alive, room uint64) int { return int(max(100, room*100/max(alive, leastRoom))) }
