package segment

import (
	"fmt"
	"hash/fnv"
	"io"
	"reflect"
	"unsafe"
)

// A 64-bit machine is required: plain 64-bit stores must not tear. On another
// this array has a negative length, and the package does not build.
var _ [unsafe.Sizeof(uintptr(0)) - 8]byte

// Shape is how many places a segment has. It is fixed when the segment is made: a
// full cross product of the maxima would take 16 GiB of addresses.
type Shape struct {
	Workers int // processes
	Loops   int // per worker
	Servers int // slots over all farms, those of removed servers included
}

// check reports the first count that is out of range.
func (s Shape) check() error {
	for _, c := range []struct {
		name   string
		n, max int
	}{
		{"workers", s.Workers, MaxWorkers},
		{"loops per worker", s.Loops, MaxLoops},
		{"servers", s.Servers, MaxServers},
	} {
		if c.n < 1 || c.n > c.max {
			return fmt.Errorf("segment: %d %s: must be from 1 to %d", c.n, c.name, c.max)
		}
	}
	return nil
}

// offsets say where the parts of a segment begin, in bytes. They follow from the
// shape alone, so every process computes the same.
type offsets struct {
	workers   int
	gates     int
	homes     int
	learned   int
	directory int
	lines     int
	line      int // bytes of one worker's LineStats
	loops     int
	loop      int // bytes of one loop's LoopStats and ServerStats
	size      int
}

// The distance from one block to the next: whole cache lines, save for a Home.
var (
	loopStride   = roundUp(int(unsafe.Sizeof(LoopStats{})), cacheLine)
	serverStride = roundUp(int(unsafe.Sizeof(ServerStats{})), cacheLine)
	workerStride = roundUp(int(unsafe.Sizeof(WorkerStats{})), cacheLine)
	gateStride   = roundUp(int(unsafe.Sizeof(Gate{})), cacheLine)
	homeStride   = int(unsafe.Sizeof(Home{}))
	learnStride  = roundUp(int(unsafe.Sizeof(Learned{})), cacheLine)
	lineStride   = roundUp(int(unsafe.Sizeof(LineStats{})), cacheLine)
	entryStride  = roundUp(int(unsafe.Sizeof(serverEntry{})), cacheLine)
)

// offsets lays the parts out one after the other, each from a new page.
func (s Shape) offsets() offsets {
	var o offsets
	o.workers = page
	o.gates = o.workers + roundUp(s.Workers*workerStride, page)
	o.homes = o.gates + roundUp(s.Servers*gateStride, page)
	o.learned = o.homes + roundUp(s.Servers*homeStride, page)
	o.directory = o.learned + roundUp(s.Servers*learnStride, page)
	o.lines = o.directory + roundUp(s.Servers*entryStride, page)
	o.line = roundUp(s.Servers*lineStride, page)
	o.loops = o.lines + s.Workers*o.line
	o.loop = roundUp(loopStride+s.Servers*serverStride, page)
	o.size = o.loops + s.Workers*s.Loops*o.loop
	return o
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// layoutHash stands for everything that two programs must agree on to share a
// segment of one shape: names, places and types of all fields, and the meaning of
// the numbers in them. It guards against a binary that was built from other
// sources and still says the same Version.
func layoutHash() uint64 {
	return hashOf(
		reflect.TypeFor[header](), reflect.TypeFor[WorkerStats](), reflect.TypeFor[Gate](), reflect.TypeFor[Home](),
		reflect.TypeFor[LineStats](), reflect.TypeFor[serverEntry](), reflect.TypeFor[LoopStats](), reflect.TypeFor[ServerStats](),
	)
}

func hashOf(types ...reflect.Type) uint64 {
	h := fnv.New64a()
	for _, t := range types {
		describe(h, t)
	}
	fmt.Fprintln(h, subBits, minExp, maxExp, ReasonNames, ShedNames, TLSNames, ShunNames, AbuseNames, stateNames, LearnedWords, cacheLine, page)
	return h.Sum64()
}

// describe writes one line per field of t, and of the structs in it.
func describe(w io.Writer, t reflect.Type) {
	fmt.Fprintln(w, t.Name(), t.Size())
	for i := range t.NumField() {
		f := t.Field(i)
		fmt.Fprintln(w, f.Name, f.Offset, f.Type)
		if f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == t.PkgPath() {
			describe(w, f.Type)
		}
	}
}
