package limit

import (
	"math"
	"time"
)

const (
	slotSeconds = 0.3  // the shortest slot; all others are this times a power of two
	slotDoubles = 5    // the longest slot: 9.6 s
	slotOver    = 1.15 // a slot shorter by this factor than wanted, or
	slotUnder   = 0.4  // longer, stays: proxies with slightly other figures agree on it
	slotPerTime = 3    // a slot lasts this many length-biased response times
	settlePart  = 0.3  // of that, not measured: the server still fills or empties
	settleLeast = 0.04 // s, not measured at least
	jumpSeconds = 0.1  // the wall clock moved by this much more or less than time passed
	timesMost   = 500  // completions that the smoothed moments of response times remember
)

// times are the smoothed first and second moment of response times.
type times struct {
	mean, square float64
	counted      float64 // completions; the first ones weigh more
}

// add takes k response times at once. Each has the weight that it would have had
// alone.
func (t *times) add(k int64, sum, squares float64) {
	if k <= 0 {
		return
	}
	n := float64(k)
	t.counted = min(t.counted+n, timesMost)
	weight := n / max(n, t.counted)
	t.mean += weight * (sum/n - t.mean)
	t.square += weight * (squares/n - t.square)
}

// biased is E[R²]/E[R]: the mean response time of a request that is met in flight.
// With fast and slow requests mixed it is far above the mean, and it is how long
// the mix of requests in flight takes to follow a change of the limit.
func (t times) biased() float64 {
	if t.mean == 0 {
		return 0
	}
	return clamp(t.square/t.mean, t.mean, 30*t.mean)
}

// measure is what happened in the measured part of a slot.
type measure struct {
	seconds, good, held, bound float64
	peak                       float64 // most in flight, as far as a step every 50 ms shows it
}

func (m *measure) add(s Sample) {
	m.seconds += s.Span
	m.good += float64(s.Good)
	m.held += s.Held
	m.bound += s.Bound
	m.peak = max(m.peak, float64(s.InFlight), s.Held/s.Span)
}

func (m measure) rate() float64     { return m.good / m.seconds }
func (m measure) inFlight() float64 { return m.held / m.seconds }
func (m measure) bind() float64     { return m.bound / m.seconds }

// slot is a stretch of time with one limit. Its index is the wall clock over its
// length, so that proxies before one server that agree on the length probe in
// step, without a message: each then sees the true elasticity, and not what it
// gains from the others.
type slot struct {
	length float64 // s
	skip   float64 // s of it that are not measured
	index  int64
	half   Half
	age    float64 // s since it began, here
	measure
}

// slotLength is the length for a wanted one: a power of two steps above, and kept
// while it is not far off.
func slotLength(now, want float64) float64 {
	if now > 0 && want <= slotOver*now && want > slotUnder*now {
		return now
	}
	doubles := math.Ceil(math.Log2(max(1, want/slotSeconds)))
	return slotSeconds * math.Exp2(min(doubles, slotDoubles))
}

// slotIndex counts slots of a length since 1970. Whole nanoseconds, since a float
// of that many seconds would be too coarse on some day.
func slotIndex(wall time.Time, length float64) int64 {
	step := int64(length * 1e9)
	ns := wall.UnixNano()
	index := ns / step
	if ns%step < 0 {
		index--
	}
	return index
}

// pairHalf is the half that slot index is. The order in a pair is drawn by a hash:
// a load that swings with a fixed period must not look like an effect of ours.
func pairHalf(index int64) Half {
	first := Down
	if mix(uint64(index>>1))&1 == 1 {
		first = Up
	}
	if index&1 == 0 {
		return first
	}
	return -first
}

// mix is the finalizer of SplitMix64 (Steele, Lea, Flood 2014): each bit of x
// changes about half of the result's.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// add counts a sample, unless it began before the server had settled.
func (s *slot) add(sample Sample) {
	if s.age >= s.skip {
		s.measure.add(sample)
	}
	s.age += sample.Span
}

// whole reports whether enough of the slot was measured to say something.
func (s *slot) whole() bool { return s.seconds > 0.3*s.length }
