package segment

import "sync/atomic"

// Counter is a figure that only grows. It has one writer, who calls Inc and Add;
// anyone may Load.
//
// The writer's side is a plain add: an atomic one would cost 5 ns or more for each
// of some ten figures of a request. It is safe because an aligned 64-bit store
// never tears on the 64-bit machines that Sluice is built for.
type Counter uint64

// Inc adds one. Writer only.
func (c *Counter) Inc() { addWord((*uint64)(c), 1) }

// Add adds n. Writer only.
func (c *Counter) Add(n uint64) { addWord((*uint64)(c), n) }

// Load reads the counter.
func (c *Counter) Load() uint64 { return atomic.LoadUint64((*uint64)(c)) }

// Gauge is a figure that rises and falls. It has one writer, as a Counter.
type Gauge int64

// Inc adds one. Writer only.
func (g *Gauge) Inc() { addInt((*int64)(g), 1) }

// Dec takes one away. Writer only.
func (g *Gauge) Dec() { addInt((*int64)(g), -1) }

// Add adds n, which may be negative. Writer only.
func (g *Gauge) Add(n int64) { addInt((*int64)(g), n) }

// Set replaces the figure. Writer only.
func (g *Gauge) Set(n int64) { setInt((*int64)(g), n) }

// Load reads the gauge.
func (g *Gauge) Load() int64 { return atomic.LoadInt64((*int64)(g)) }
