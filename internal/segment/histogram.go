package segment

import (
	"math/bits"
	"time"
)

// The buckets are log-linear: each power of two from 2^10 ns (about 1 µs) to
// 2^37 ns (137 s) is cut into 8 equal parts, so that a bucket is at most 12.5 %
// wide. The first bucket holds all that is faster, the last all that is slower.
const (
	subBits = 3
	minExp  = 10 // 2^10 ns: nothing that crosses a network is faster
	maxExp  = 37 // 2^37 ns: longer than any timeout of a request that is not a stream

	// Buckets is the number of buckets of a Histogram.
	Buckets = (maxExp-minExp)<<subBits + 2

	belowMin = 1<<minExp - 1 // the last nanosecond of the first bucket
	aboveMax = 1 << maxExp   // the first nanosecond of the last bucket
)

// Histogram counts durations. It has one writer, who calls Observe. Readers take a
// copy by Totals or ServerTotals and ask that.
//
// There is no field for the number of observations: it is the sum of the buckets,
// so that the two never disagree, whenever a reader looks.
type Histogram struct {
	Sum     Counter // ns
	Buckets [Buckets]Counter
}

// Observe counts one duration in ns. A negative one counts as 0: a clock that
// stepped back is no reason to fail a request. Writer only.
func (h *Histogram) Observe(ns int64) {
	ns = max(ns, 0)
	h.Sum.Add(uint64(ns))
	h.Buckets[bucketOf(uint64(ns))].Inc()
}

// bucketOf finds the bucket of a duration. The value is first held within the
// range, by branches that nearly always go the same way; after that one formula
// serves all of it: the exponent picks the octave, the next three bits the part of
// it. The subtraction makes bucket 0 of the last part of the octave below 2^10,
// where belowMin lies.
func bucketOf(ns uint64) int {
	v := min(max(ns, belowMin), aboveMax)
	exp := bits.Len64(v) - 1
	part := int(v>>(uint(exp-subBits)&63)) & (1<<subBits - 1)
	return (exp-minExp+1)<<subBits + part - (1<<subBits - 1)
}

// BucketBound is the duration at which bucket i ends and bucket i+1 begins. It
// belongs to i+1. The last bucket has no end; its bound is its begin.
func BucketBound(i int) time.Duration {
	if i >= Buckets-1 {
		return aboveMax
	}
	octave, part := i>>subBits, i&(1<<subBits-1)
	return time.Duration(1<<subBits+part) << (octave + minExp - subBits)
}

// Count is the number of observations.
func (h *Histogram) Count() uint64 {
	var n uint64
	for i := range h.Buckets {
		n += h.Buckets[i].Load()
	}
	return n
}

// Mean is the average duration, 0 if nothing was observed.
func (h *Histogram) Mean() time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	return time.Duration(h.Sum.Load() / n)
}

// Below is the number of observations shorter than d. It is exact if d is a
// BucketBound, as every power of two of ns from 2^10 to 2^37 is; within a bucket
// all of the bucket's observations count as not below.
func (h *Histogram) Below(d time.Duration) uint64 {
	var n uint64
	for i := range h.Buckets[:bucketOf(uint64(max(d, 0)))] {
		n += h.Buckets[i].Load()
	}
	return n
}

// Quantile estimates the duration that a share q of the observations does not
// exceed, for q from 0 to 1. The true value lies in the same bucket, hence within
// 12.5 %; in it the observations are taken as spread evenly. The answer is 0 if
// nothing was observed, and 137 s for all that was slower.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(min(max(q, 0), 1) * float64(h.Count()))
	var seen uint64
	last := 0
	for i := range h.Buckets {
		n := h.Buckets[i].Load()
		if n == 0 {
			continue
		}
		last = i
		if rank < seen+n {
			return within(i, float64(rank-seen)+0.5, float64(n))
		}
		seen += n
	}
	if seen == 0 {
		return 0
	}
	return BucketBound(last)
}

// within is the point of bucket i that a share part/n of its observations is below.
func within(i int, part, n float64) time.Duration {
	end := BucketBound(i)
	begin := end
	switch {
	case i == 0:
		begin = 0
	case i < Buckets-1:
		begin = BucketBound(i - 1)
	}
	return begin + time.Duration(float64(end-begin)*part/n)
}

// Merge adds the observations of o. It is for copies, not for a histogram that
// another goroutine writes.
func (h *Histogram) Merge(o *Histogram) { addWords(h, o) }
