package segment

import (
	"reflect"
	"testing"
	"unsafe"
)

// The layout in numbers. A change here means that segments of older programs
// cannot be taken over in a binary upgrade: Open refuses them.
func TestLayoutGolden(t *testing.T) {
	var (
		h header
		w WorkerStats
		l LoopStats
		s ServerStats
		e serverEntry
	)
	o := Shape{Workers: 2, Loops: 4, Servers: 256}.offsets()
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"header", int(unsafe.Sizeof(h)), 64},
		{"WorkerStats", workerStride, 128},
		{"WorkerStats.State", int(unsafe.Offsetof(w.State)), 64},
		{"WorkerStats.Away", int(unsafe.Offsetof(w.Away)), 96},
		{"Gate", gateStride, 64},
		{"serverEntry", entryStride, 256},
		{"serverEntry.Name", int(unsafe.Offsetof(e.Name)), 16},
		{"Home", homeStride, 8},
		{"Learned", learnStride, 128},
		{"LineStats", lineStride, 64},
		{"LoopStats", loopStride, 4352},
		{"LoopStats.Duration", int(unsafe.Offsetof(l.Duration)), 672},
		{"ServerStats", serverStride, 3712},
		{"ServerStats.Response", int(unsafe.Offsetof(s.Response)), 88},
		{"buckets", Buckets, 218},
		{"reasons", int(ReasonCount), 23},
		{"workers at", o.workers, 4096},
		{"gates at", o.gates, 8192},
		{"homes at", o.homes, 24576},
		{"learned at", o.learned, 28672},
		{"directory at", o.directory, 61440},
		{"lines at", o.lines, 126976},
		{"line", o.line, 16384},
		{"loops at", o.loops, 159744},
		{"loop", o.loop, 958464},
		{"whole segment", o.size, 159744 + 8*958464},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
}

// Every block of every shape starts on its own cache line, none overlaps another,
// and each loop has its pages for itself.
func TestBlocksDoNotMeet(t *testing.T) {
	for _, shape := range []Shape{
		{1, 1, 1}, {1, 2, 3}, {2, 3, 4}, {3, 1, 65}, {1, 1, MaxServers}, {MaxWorkers, 1, 2}, {1, MaxLoops, 2},
	} {
		s, err := Create(shape)
		if err != nil {
			t.Fatal(err)
		}
		end := uintptr(unsafe.Pointer(&s.mem[0])) // end of the block before
		claim := func(what string, p unsafe.Pointer, size, unit uintptr) {
			if uintptr(p)%unit != 0 || uintptr(p) < end {
				t.Errorf("%+v: %s at %#x: overlaps or is not on a boundary of %d", shape, what, p, unit)
			}
			end = uintptr(p) + size
		}
		claim("header", unsafe.Pointer(s.header()), unsafe.Sizeof(header{}), page)
		for w := range shape.Workers {
			claim("worker", unsafe.Pointer(s.Worker(w)), unsafe.Sizeof(WorkerStats{}), cacheLine)
		}
		for i := range shape.Servers {
			claim("gate", unsafe.Pointer(s.Gate(i)), unsafe.Sizeof(Gate{}), cacheLine)
		}
		for i := range shape.Servers {
			claim("home", unsafe.Pointer(s.Home(i)), unsafe.Sizeof(Home{}), 8)
		}
		for i := range shape.Servers {
			claim("learned", unsafe.Pointer(s.Learned(i)), unsafe.Sizeof(Learned{}), cacheLine)
		}
		for i := range shape.Servers {
			claim("entry", unsafe.Pointer(s.entry(i)), unsafe.Sizeof(serverEntry{}), cacheLine)
		}
		for w := range shape.Workers {
			for i := range shape.Servers {
				claim("line", unsafe.Pointer(s.Line(w, i)), unsafe.Sizeof(LineStats{}), cacheLine)
			}
		}
		for w := range shape.Workers {
			for l := range shape.Loops {
				claim("loop", unsafe.Pointer(s.Loop(w, l)), unsafe.Sizeof(LoopStats{}), page)
				for i := range shape.Servers {
					claim("server", unsafe.Pointer(s.Server(w, l, i)), unsafe.Sizeof(ServerStats{}), cacheLine)
				}
			}
		}
		if start := uintptr(unsafe.Pointer(&s.mem[0])); end > start+uintptr(s.at.size) {
			t.Errorf("%+v: the blocks end %d bytes beyond the segment", shape, end-start-uintptr(s.at.size))
		}
		s.Close()
	}
}

// The two writers of a WorkerStats have a line each.
func TestWorkerStatsLines(t *testing.T) {
	var w WorkerStats
	if a, b := unsafe.Offsetof(w.Loops)/cacheLine, unsafe.Offsetof(w.State)/cacheLine; a == b {
		t.Errorf("the supervisor and the worker both write line %d", a)
	}
	if unsafe.Sizeof(w)%cacheLine != 0 {
		t.Errorf("%d bytes are not whole cache lines", unsafe.Sizeof(w))
	}
}

// Sums and resets go over words, so a block may hold nothing but Counters and
// Gauges, and structs of these.
func TestBlocksAreWords(t *testing.T) {
	var walk func(at string, typ reflect.Type)
	walk = func(at string, typ reflect.Type) {
		switch {
		case typ == reflect.TypeFor[Counter](), typ == reflect.TypeFor[Gauge]():
		case typ.Kind() == reflect.Array:
			walk(at+"[]", typ.Elem())
		case typ.Kind() == reflect.Struct:
			for i := range typ.NumField() {
				if f := typ.Field(i); f.Type == reflect.TypeFor[Gauge]() && typ == reflect.TypeFor[Histogram]() {
					t.Errorf("%s.%s: gaugesOf does not look into a Histogram", at, f.Name)
				}
				walk(at+"."+typ.Field(i).Name, typ.Field(i).Type)
			}
		default:
			t.Errorf("%s is a %s: only Counter and Gauge may be in a block", at, typ)
		}
	}
	walk("LoopStats", reflect.TypeFor[LoopStats]())
	walk("ServerStats", reflect.TypeFor[ServerStats]())
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for i, name := range ReasonNames {
		if name == "" || seen[name] {
			t.Errorf("reason %d: %q is empty or taken", i, name)
		}
		seen[name] = true
	}
	for s, want := range map[WorkerState]string{
		Starting: "starting", Serving: "serving", Draining: "draining", Restarting: "restarting",
		stateCount: "unknown", -1: "unknown",
	} {
		if got := s.String(); got != want {
			t.Errorf("state %d: %q, want %q", int(s), got, want)
		}
	}
}

func TestLayoutHashSeesFields(t *testing.T) {
	hashes := map[uint64]string{}
	for what, typ := range map[string]reflect.Type{ // all have the name block and two words
		"plain":   func() reflect.Type { type block struct{ A, B Counter }; return reflect.TypeFor[block]() }(),
		"renamed": func() reflect.Type { type block struct{ A, C Counter }; return reflect.TypeFor[block]() }(),
		"swapped": func() reflect.Type { type block struct{ B, A Counter }; return reflect.TypeFor[block]() }(),
		"retyped": func() reflect.Type {
			type block struct {
				A Counter
				B Gauge
			}
			return reflect.TypeFor[block]()
		}(),
	} {
		h := hashOf(typ)
		if other, taken := hashes[h]; taken {
			t.Errorf("%s and %s have the same hash", other, what)
		}
		hashes[h] = what
	}
	if layoutHash() != layoutHash() {
		t.Error("two hashes of one layout differ")
	}
}
