package segment

import (
	"reflect"
	"sync/atomic"
	"unsafe"
)

// Totals adds up the loops of a worker, at one moment more or less: the writers do
// not stop for readers. The result is a copy that belongs to the caller.
func (s *Segment) Totals(worker int) LoopStats {
	var sum LoopStats
	for l := range s.LoopsOf(worker) {
		sum.Merge(s.Loop(worker, l))
	}
	return sum
}

// ServerTotals adds up what the loops of a worker did with one server.
func (s *Segment) ServerTotals(worker, slot int) ServerStats {
	var sum ServerStats
	for l := range s.LoopsOf(worker) {
		sum.Merge(s.Server(worker, l, slot))
	}
	return sum
}

// LoopsOf is how many loops of a worker ever counted. Readers go no further: a read
// of an untouched page would fill it with memory.
func (s *Segment) LoopsOf(worker int) int {
	return min(int(s.Worker(worker).Loops.Load()), s.shape.Loops)
}

// Merge adds the figures of o to a copy.
func (l *LoopStats) Merge(o *LoopStats) { addWords(l, o) }

// Merge adds the figures of o to a copy.
func (t *ServerStats) Merge(o *ServerStats) { addWords(t, o) }

// ResetGauges sets the gauges of a worker to 0, as its connections and requests
// ended with it. Counters stay. The supervisor calls it when the worker is dead.
func (s *Segment) ResetGauges(worker int) {
	slots := s.Slots()
	for l := range s.LoopsOf(worker) {
		resetGauges(s.Loop(worker, l), loopGauges)
		for slot := range slots {
			resetGauges(s.Server(worker, l, slot), serverGauges)
		}
	}
	if s.LoopsOf(worker) > 0 {
		for slot := range slots {
			resetGauges(s.Line(worker, slot), lineGauges)
		}
	}
}

// Slots is how many server slots were ever given out: those from there on were
// never touched. It is for the supervisor's process.
func (s *Segment) Slots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.header().Slots)
}

// A block is nothing but 64-bit figures, which a test assures. So sums and resets
// go over words, and a new field cannot be forgotten in them.
type block interface {
	LoopStats | ServerStats | LineStats | Histogram
}

func words[B block](b *B) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(b)), unsafe.Sizeof(*b)/8)
}

// addWords adds src to dst. Gauges may be added as unsigned words: the sum wraps to
// the right signed value.
func addWords[B block](dst, src *B) {
	to, from := words(dst), words(src)
	for i := range to {
		to[i] += atomic.LoadUint64(&from[i])
	}
}

func zero[B block](b *B) {
	to := words(b)
	for i := range to {
		atomic.StoreUint64(&to[i], 0)
	}
}

// Where the gauges of a block stand, as indexes of words.
var (
	loopGauges   = gaugesOf(reflect.TypeFor[LoopStats]())
	serverGauges = gaugesOf(reflect.TypeFor[ServerStats]())
	lineGauges   = gaugesOf(reflect.TypeFor[LineStats]())
)

func gaugesOf(t reflect.Type) []int {
	var at []int
	for i := range t.NumField() {
		if f := t.Field(i); f.Type == reflect.TypeFor[Gauge]() {
			at = append(at, int(f.Offset/8))
		}
	}
	return at
}

func resetGauges[B block](b *B, gauges []int) {
	w := words(b)
	for _, i := range gauges {
		atomic.StoreUint64(&w[i], 0)
	}
}
