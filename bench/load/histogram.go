package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram is latencies as the generator counts them, in ascending order: each
// bucket is its greatest latency in nanoseconds and how many requests had it.
type Histogram [][2]int64

// longest is the greatest latency that is told apart; a run is far shorter.
const longest = time.Hour

// Merge is the histograms of several generators or rounds as one HDR histogram, in
// nanoseconds, to three significant digits.
func Merge(all ...Histogram) *hdrhistogram.Histogram {
	sum := hdrhistogram.New(1, longest.Nanoseconds(), 3)
	for _, h := range all {
		for _, bucket := range h {
			// Within range, so it cannot fail.
			_ = sum.RecordValues(min(bucket[0], longest.Nanoseconds()), bucket[1])
		}
	}
	return sum
}
