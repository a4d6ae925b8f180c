package worker

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// slack is how many bytes are allocated, at the least, between two collections of
// garbage.
//
// The runtime collects when as much has been allocated as is alive (GOGC=100, Go's "Guide
// to the Garbage Collector"). A worker keeps a few MiB alive, so TLS handshakes, at some
// 60 KiB of garbage each, had it collect 40 times a second: a seventh of their CPU time.
const slack = 24 << 20

// collectLess sets the pace of the collector after each collection, until stop is called.
// An operator who sets GOGC is obeyed. Limits of memory (GOMEMLIMIT) go before both.
func collectLess() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	return pace(aliveNow)
}

// pace does it by what alive tells.
func pace(alive func() uint64) (stop func()) {
	p := &collectorPace{alive: alive}
	before, _ := p.set()
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

	mu      sync.Mutex
	over    bool // guarded by mu
	percent int  // guarded by mu
}

// watch is told of the next collection by an object that only it knows: what nobody
// reaches is finalized.
func (p *collectorPace) watch() {
	type sentinel struct{ *collectorPace }
	runtime.SetFinalizer(&sentinel{p}, func(*sentinel) {
		if _, on := p.set(); on {
			p.watch()
		}
	})
}

// set sets the pace by what is alive now, and returns the one before; on: it is not over.
func (p *collectorPace) set() (before int, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, percent := p.percent, paceFor(p.alive())
	if !p.over && (before == 0 || percent > before+before/8 || percent < before-before/8) { // to set it stops all threads for a moment
		p.percent = percent
		before = debug.SetGCPercent(percent)
	}
	return before, !p.over
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

// paceFor is GOGC for so many bytes alive.
func paceFor(alive uint64) int {
	const least = 4 << 20 // below it the runtime reckons with so much
	return int(max(100, slack*100/max(alive, least)))
}
