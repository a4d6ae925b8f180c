package worker

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
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
	p := new(collectorPace)
	before := p.set()
	p.watch()
	return func() {
		p.over.Store(true)
		debug.SetGCPercent(before)
	}
}

// collectorPace is the pace of the collector.
type collectorPace struct {
	over    atomic.Bool
	percent int // one goroutine at a time: the start, then the runtime's for finalizers
}

// watch is told of the next collection by an object that only it knows: what nobody
// reaches is finalized.
func (p *collectorPace) watch() {
	type sentinel struct{ *collectorPace }
	runtime.SetFinalizer(&sentinel{p}, func(*sentinel) {
		if !p.over.Load() {
			p.set()
			p.watch()
		}
	})
}

// set sets the pace by what is alive now, and returns the one before.
func (p *collectorPace) set() int {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	alive := uint64(0)
	for _, s := range samples {
		alive += s.Value.Uint64()
	}
	before, percent := p.percent, paceFor(alive)
	if before == 0 || percent > before+before/8 || percent < before-before/8 { // setting it stops all threads for a moment
		p.percent = percent
		return debug.SetGCPercent(percent)
	}
	return before
}

// paceFor is GOGC for so many bytes alive: of the heap, of stacks and of globals.
func paceFor(alive uint64) int {
	const least = 4 << 20 // below it the runtime reckons with so much
	return int(max(100, slack*100/max(alive, least)))
}
