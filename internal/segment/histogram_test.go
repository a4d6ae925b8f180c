package segment

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketEdges(t *testing.T) {
	for i := range Buckets - 1 {
		bound := uint64(BucketBound(i))
		if got := bucketOf(bound - 1); got != i {
			t.Errorf("last ns of bucket %d is in %d", i, got)
		}
		if got := bucketOf(bound); got != i+1 {
			t.Errorf("first ns after bucket %d is in %d", i, got)
		}
		if i > 0 {
			width := bound - uint64(BucketBound(i-1))
			if share := float64(width) / float64(BucketBound(i-1)); share > 0.125 {
				t.Errorf("bucket %d is %.3f of its begin wide", i, share)
			}
		}
	}
	for _, c := range []struct {
		ns   int64
		want int
	}{
		{math.MinInt64, 0}, {-1, 0}, {0, 0}, {1, 0}, {1023, 0}, {1024, 1}, {1151, 1}, {1152, 2},
		{1<<37 - 1, Buckets - 2}, {1 << 37, Buckets - 1}, {math.MaxInt64, Buckets - 1},
	} {
		var h Histogram
		h.Observe(c.ns)
		if h.Buckets[c.want] != 1 {
			t.Errorf("%d ns: not in bucket %d", c.ns, c.want)
		}
		if h.Count() != 1 || h.Sum.Load() != uint64(max(c.ns, 0)) {
			t.Errorf("%d ns: count %d, sum %d", c.ns, h.Count(), h.Sum.Load())
		}
	}
}

// The estimate must lie in the bucket of the exact order statistic, whatever the
// spread of the observations.
func TestQuantileAgainstSorted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	spreads := map[string]func() int64{
		"log-uniform": func() int64 { return int64(math.Exp2(rng.Float64() * 38)) },
		"exponential": func() int64 { return int64(rng.ExpFloat64() * 5e6) },
		"two humps":   func() int64 { return []int64{2e5, 3e9}[rng.IntN(2)] + rng.Int64N(1e5) },
		"one value":   func() int64 { return 1_234_567 },
	}
	for name, draw := range spreads {
		for _, n := range []int{1, 2, 3, 10, 999, 10_000} {
			var h Histogram
			exact := make([]int64, n)
			for i := range exact {
				exact[i] = draw()
				h.Observe(exact[i])
			}
			slices.Sort(exact)
			for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999} {
				want := exact[min(int(q*float64(n)), n-1)]
				got := h.Quantile(q)
				if bucketOf(uint64(got)) != bucketOf(uint64(want)) {
					t.Errorf("%s, %d values: quantile %g is %v, exactly %v", name, n, q, got, time.Duration(want))
				}
			}
			if got, want := h.Quantile(1), BucketBound(bucketOf(uint64(exact[n-1]))); got != want {
				t.Errorf("%s, %d values: quantile 1 is %v, want the end of the slowest's bucket %v", name, n, got, want)
			}
		}
	}
}

func TestQuantileSpreadsWithinBucket(t *testing.T) {
	var h Histogram
	for range 4 { // bucket [2048, 2304)
		h.Observe(2100)
	}
	got := []time.Duration{h.Quantile(0), h.Quantile(0.25), h.Quantile(0.5), h.Quantile(0.75)}
	if want := []time.Duration{2080, 2144, 2208, 2272}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestEmptyHistogram(t *testing.T) {
	var h Histogram
	if h.Count() != 0 || h.Mean() != 0 || h.Quantile(0.5) != 0 || h.Below(time.Hour) != 0 {
		t.Errorf("an empty histogram says %d, %v, %v, %d", h.Count(), h.Mean(), h.Quantile(0.5), h.Below(time.Hour))
	}
}

func TestBelow(t *testing.T) {
	var h Histogram
	for _, ns := range []int64{500, 1024, 2047, 2048, 1 << 30, 1 << 40} {
		h.Observe(ns)
	}
	for _, c := range []struct {
		below time.Duration
		want  uint64
	}{{-1, 0}, {0, 0}, {1024, 1}, {2048, 3}, {2049, 3}, {1 << 31, 5}, {1 << 37, 5}, {math.MaxInt64, 5}} {
		if got := h.Below(c.below); got != c.want {
			t.Errorf("below %v: %d, want %d", c.below, got, c.want)
		}
	}
	if got := h.Count(); got != 6 {
		t.Errorf("count %d, want 6", got)
	}
}

// Merging two histograms is the same as observing everything in one.
func TestMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var a, b, all Histogram
	for i := range 1000 {
		ns := rng.Int64N(1 << uint(1+rng.IntN(40)))
		all.Observe(ns)
		if i%3 == 0 {
			a.Observe(ns)
		} else {
			b.Observe(ns)
		}
	}
	a.Merge(&b)
	if a != all {
		t.Error("the merged histogram differs from the whole one")
	}
	if got, want := all.Mean(), time.Duration(all.Sum.Load()/1000); got != want {
		t.Errorf("mean %v, want %v", got, want)
	}
}

func TestWritersDoNotAllocate(t *testing.T) {
	var l LoopStats
	if n := testing.AllocsPerRun(100, func() {
		l.Requests.Inc()
		l.BytesIn.Add(100)
		l.Active.Inc()
		l.Active.Dec()
		l.Duration.Observe(123_456)
	}); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	var h Histogram
	ns := int64(1000)
	for b.Loop() {
		h.Observe(ns)
		ns = (ns*5 + 977) & (1<<30 - 1)
	}
}

func BenchmarkInc(b *testing.B) {
	var l LoopStats
	for b.Loop() {
		l.Requests.Inc()
	}
}
