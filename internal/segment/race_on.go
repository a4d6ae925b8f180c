//go:build race

package segment

import "sync/atomic"

// Under the race detector the writers' halves are atomic too. The detector works
// by the language's memory model, where a plain write beside an atomic read is a
// race; the machines that Sluice runs on promise more. So tests that read the
// figures of a running loop stay clean, and a real race stays visible elsewhere.

func addWord(p *uint64, n uint64) { atomic.AddUint64(p, n) }
func addInt(p *int64, n int64)    { atomic.AddInt64(p, n) }
func setInt(p *int64, n int64)    { atomic.StoreInt64(p, n) }
