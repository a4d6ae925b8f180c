package worker

import (
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/segment"
)

const none = segment.ShedCount // no cause

// usual is a worker with a tenth of its memory in use.
var usual = reading{needed: 100 << 20, limit: 1000 << 20, descriptors: 1000}

// TestExceeded: which connections are turned away, and why.
func TestExceeded(t *testing.T) {
	const mib = 1 << 20
	wish := config.Overload{Latency: config.Duration(500 * time.Millisecond), Memory: 95, Descriptors: 90}
	unbounded := reading{needed: math.MaxInt64, limit: math.MaxInt64, descriptors: math.MaxInt64}
	few := usual
	few.descriptors = 7
	needs := func(n uint64) reading { return reading{needed: n, limit: usual.limit, descriptors: usual.descriptors} }
	for _, tc := range []struct {
		name       string
		wish       config.Overload
		has        reading
		crowded    bool // until now
		lag        time.Duration
		descriptor int
		want       segment.Shed
	}{
		{"nothing to do", wish, usual, false, 0, 10, none},
		{"a turn as long as may be", wish, usual, false, 500 * time.Millisecond, 10, none},
		{"a longer one", wish, usual, false, 500*time.Millisecond + 1, 10, segment.ShedLatency},
		{"a longer one, if that may be", config.Overload{Memory: 95, Descriptors: 90}, usual, false, time.Hour, 10, none},
		{"memory below the bound", wish, needs(950*mib - 1), false, 0, 10, none},
		{"memory at the bound", wish, needs(950 * mib), false, 0, 10, segment.ShedMemory},
		{"memory that falls", wish, needs(903 * mib), true, 0, 10, segment.ShedMemory},
		{"memory that has fallen by a twentieth", wish, needs(902 * mib), true, 0, 10, none},
		{"memory at the bound, if that may be", config.Overload{Descriptors: 90}, needs(950 * mib), true, 0, 10, none},
		{"memory at 100 %", config.Overload{Memory: 100}, needs(1000 * mib), false, 0, 10, segment.ShedMemory},
		{"the last descriptor for clients", wish, usual, false, 0, 899, none},
		{"the first that is kept back", wish, usual, false, 0, 900, segment.ShedDescriptors},
		{"the first that is kept back, if that may be", config.Overload{Latency: wish.Latency}, usual, false, 0, 900, none},
		{"none kept back", config.Overload{Descriptors: 100}, usual, false, 0, 999, none},
		{"few descriptors", wish, few, false, 0, 5, none},
		{"the last of few", wish, few, false, 0, 6, segment.ShedDescriptors},
		{"no limits at all", wish, unbounded, false, 0, 1 << 30, none},
		{"all at once", wish, needs(2000 * mib), false, time.Hour, 999, segment.ShedDescriptors},
		{"memory and turns", wish, needs(2000 * mib), false, time.Hour, 10, segment.ShedMemory},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := boundsFor(tc.wish, tc.has, tc.crowded)
			got, over := b.exceeded(tc.lag, tc.descriptor)
			if over != (tc.want != none) || over && got != tc.want {
				t.Errorf("cause %d, %v; want %d", got, over, tc.want)
			}
		})
	}
}

// TestHurry: who is turned away keeps no descriptor of the reserve's upper half.
func TestHurry(t *testing.T) {
	b := boundsFor(config.Overload{Descriptors: 90}, usual, false)
	if b.reserve != 900 || b.hurry != 950 {
		t.Errorf("of 1000 descriptors, reserved from %d and in a hurry from %d; want 900 and 950", b.reserve, b.hurry)
	}
	if b := boundsFor(config.Overload{}, usual, false); b.hurry != math.MaxInt {
		t.Errorf("with no reserve, in a hurry from %d", b.hurry)
	}
}

// TestTold is a transcript: seconds, connections that were turned away until then,
// and what the log says.
func TestTold(t *testing.T) {
	told := told{shed: 1000} // by a worker before this
	for _, step := range []struct {
		second, shed uint64
		news         news
		n            uint64
	}{
		{0, 1000, nothing, 0},
		{1, 1003, shedding, 3},
		{2, 1050, nothing, 0},
		{10, 1100, nothing, 0},
		{11, 1100, shedding, 97},
		{20, 1101, nothing, 0},
		{21, 1101, shedding, 1},
		{30, 1101, nothing, 0},
		{31, 1101, ended, 101},
		{40, 1101, nothing, 0},
		{60, 1101, nothing, 0},
		{60, 1102, shedding, 1},
		{70, 1102, ended, 1},
		{71, 1109, nothing, 0}, // it begins again, and is not told at once
		{80, 1109, shedding, 7},
	} {
		news, n := told.hear(time.Duration(step.second)*time.Second, step.shed)
		if news != step.news || n != step.n {
			t.Errorf("second %d: news %d of %d, want %d of %d", step.second, news, n, step.news, step.n)
		}
	}
}

// TestCollector is a transcript: tenths of a second, whether memory is short, the
// collections until then, and whether one is due.
func TestCollector(t *testing.T) {
	var c collector
	for _, step := range []struct {
		tenth       int
		crowded     bool
		collections uint64
		due         bool
	}{
		{1, false, 5, false},
		{100, false, 5, false},
		{101, true, 5, false},
		{119, true, 5, false},
		{120, true, 5, true},
		{121, true, 6, false}, // it has been made
		{140, true, 7, false}, // another, by the runtime itself
		{159, true, 7, false},
		{160, true, 7, true},
		{161, false, 8, false},
		{300, false, 8, false},
	} {
		if due := c.due(time.Duration(step.tenth)*100*time.Millisecond, step.crowded, step.collections); due != step.due {
			t.Errorf("after %d tenths: due %v", step.tenth, due)
		}
	}
}

// TestReadProcess: what is in use counts, and what is garbage does not.
func TestReadProcess(t *testing.T) {
	const size, slack = 64 << 20, 8 << 20
	runtime.GC()
	before := readProcess()
	if before.needed == 0 || before.limit < before.needed || before.descriptors == 0 {
		t.Fatalf("%+v", before)
	}
	block := make([]byte, size)
	runtime.GC()
	with := readProcess()
	runtime.KeepAlive(block)
	runtime.GC()
	after := readProcess()
	if grown := with.needed - before.needed; grown < size-slack || grown > size+slack {
		t.Errorf("%d bytes more are needed for a block of %d", grown, size)
	}
	if after.needed > before.needed+slack {
		t.Errorf("%d bytes are needed, %d before there was a block that is gone", after.needed, before.needed)
	}
	if with.collections <= before.collections || after.collections <= with.collections {
		t.Errorf("collections: %d, %d, %d", before.collections, with.collections, after.collections)
	}
}

// allow makes o what the worker may have; what it has is usual.
func (h *house) allow(o config.Overload) {
	h.t.Helper()
	s := h.traffic.shedder
	s.mu.Lock()
	s.read = func() reading { return usual }
	s.mu.Unlock()
	h.cfg.Overload = o
	if err := h.apply(); err != nil {
		h.t.Fatal(err)
	}
}

// door is a connection to loop 0.
func (h *house) door() net.Conn {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.at[0])
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	return conn
}

// turnedAway checks that a new connection is: with an answer, and then the end.
func (h *house) turnedAway() {
	h.t.Helper()
	conn := h.door()
	mustHave(h.t, ask(h.t, conn), "HTTP/1.1 503 ", "\r\nRetry-After: 1\r\n", "\r\nConnection: close\r\n", "\r\n\r\n"+refusalText)
	if rest, err := io.ReadAll(conn); len(rest) > 0 || err != nil {
		h.t.Errorf("then %q, %v", rest, err)
	}
}

// TestShed: a worker that is has too little of something turns new connections away, and
// goes on with those that it has.
func TestShed(t *testing.T) {
	h := newHouse(t, nil, tells(t, "a").URL)
	kept := h.door()
	mustHave(t, ask(t, kept), "a ")
	stats := h.shared.Loop(0, 0)
	for cause, little := range map[segment.Shed]config.Overload{
		segment.ShedMemory:      {Memory: 10},
		segment.ShedDescriptors: {Descriptors: 1}, // whatever number is next, it is above 10
	} {
		h.allow(little)
		requests, accepted := stats.Requests.Load(), stats.Accepted.Load()
		for range 3 {
			h.turnedAway()
		}
		if n := stats.Requests.Load() - requests; n != 0 {
			t.Errorf("%s: %d requests are counted", segment.ShedNames[cause], n)
		}
		if n := stats.Accepted.Load() - accepted; n != 3 || stats.Shed[cause].Load() != 3 {
			t.Errorf("%s: %d connections are counted as accepted, %d as turned away", segment.ShedNames[cause], n, stats.Shed[cause].Load())
		}
		mustHave(t, ask(t, kept), "a ")
		h.allow(config.Overload{})
		mustHave(t, ask(t, h.door()), "a ")
	}
	if n := stats.Connections.Load(); n != 3 {
		t.Errorf("%d connections are counted as open, want those 3 that are served", n)
	}
}

// TestShedLatency: while the turns of a loop take too long it turns connections
// away.
func TestShedLatency(t *testing.T) {
	h := newHouse(t, func(c *config.Config) { c.Overload.Latency = config.Duration(time.Millisecond) }, tells(t, "a").URL)
	loop := h.traffic.lanes[0].loop
	stop, turns := false, 0 // loop only
	long, ended := make(chan struct{}), make(chan struct{})
	var work func()
	work = func() {
		for until := loop.Clock() + int64(4*time.Millisecond); loop.Clock() < until; {
		}
		if turns++; turns == 20 {
			close(long)
		}
		if stop {
			close(ended)
			return
		}
		loop.Submit(work)
	}
	loop.Submit(work)
	<-long
	h.turnedAway()
	loop.Submit(func() { stop = true })
	<-ended
	eventually(t, "the loop serves again", func() bool { return strings.Contains(ask(t, h.door()), "a ") })
	if n := h.shared.Loop(0, 0).Shed[segment.ShedLatency].Load(); n == 0 {
		t.Error("nobody is counted as turned away")
	}
}

// Who would not understand an answer of HTTP gets none.
func TestShedWithoutHTTP(t *testing.T) {
	secure, _ := newTLSHouse(t, nil, tells(t, "a").URL)
	for _, h := range []*house{secure, newRawHouse(t, toApp, nil, echoes(t, "a", nil, false).url)} {
		h.allow(config.Overload{Memory: 10})
		conn := dialTCP(t, h.at[0])
		io.WriteString(conn, "hello")
		ends(t, conn)
		if n := h.figures().Shed[segment.ShedMemory].Load(); n != 1 {
			t.Errorf("%d connections are counted as turned away", n)
		}
	}
}
