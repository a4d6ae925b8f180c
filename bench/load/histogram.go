package load

import (
	"math"
	"time"
)

// Bucket is a latency, the greatest of its bucket in nanoseconds, and how many
// requests had it. In JSON it is an array of the two.
type Bucket [2]int64

// Histogram is buckets in ascending order.
type Histogram []Bucket

// Count is the number of requests in it.
func (h Histogram) Count() int64 {
	var n int64
	for _, b := range h {
		n += b[1]
	}
	return n
}

// Quantile is the latency that a share q of the requests did not exceed; 0 if
// there were none.
func (h Histogram) Quantile(q float64) time.Duration {
	want := int64(math.Ceil(q * float64(h.Count())))
	for _, b := range h {
		if want -= b[1]; want <= 0 {
			return time.Duration(b[0])
		}
	}
	return 0
}
