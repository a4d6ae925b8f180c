//go:build !race

package segment

// The writers' halves of Counter and Gauge: plain memory operations, see Counter.

func addWord(p *uint64, n uint64) { *p += n }
func addInt(p *int64, n int64)    { *p += n }
func setInt(p *int64, n int64)    { *p = n }
