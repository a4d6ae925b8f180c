package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/testkit"
)

const (
	// attackers attack at once, each on a connection of its own.
	attackers = 4
	// mostBlows is how often an attacker strikes before it gives up: far beyond any budget.
	mostBlows = 300_000
	// mostGrown is what a worker may need beside, in KiB, while they do.
	mostGrown = 96 << 10
)

// attack is a way to abuse a connection.
type attack struct {
	class string // that the counter names: a word or two
	code  string // that the connection ends with
	// begin comes once, strike again and again until the connection ends; n counts from 0.
	begin  func(f *framer)
	strike func(f *framer, n uint32) error
}

// attacks, by name: those of RFC 9113 10.5 and those that got a CVE.
var attacks = map[string]attack{
	"rapid reset": {"rapid_reset", calm, nothing, func(f *framer, n uint32) error {
		f.open(2*n+1, true)
		return f.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
	}},
	"rapid reset by one that knows the limit": {"rapid_reset", calm, settle, func(f *framer, n uint32) error {
		f.open(2*n+1, true)
		return f.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
	}},
	"streams above the limit": {"made_you_reset", calm, settle, func(f *framer, n uint32) error {
		f.open(2*n+1, false)
		return nil
	}},
	"streams above a limit not read": {"made_you_reset", calm, nothing, func(f *framer, n uint32) error {
		f.open(2*n+1, false)
		return nil
	}},
	"rapid reset of uploads": {"rapid_reset", calm, nothing, func(f *framer, n uint32) error {
		f.open(2*n+1, false)
		return f.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
	}},
	"made-you-reset by an update of 0": {"made_you_reset", calm, nothing, func(f *framer, n uint32) error {
		f.open(2*n+1, true)
		return f.WriteRawFrame(http2.FrameWindowUpdate, 0, 2*n+1, make([]byte, 4))
	}},
	"made-you-reset by a window too large": {"made_you_reset", calm, nothing, func(f *framer, n uint32) error {
		f.open(2*n+1, true)
		return f.WriteWindowUpdate(2*n+1, 1<<31-1)
	}},
	"made-you-reset by content behind the end": {"made_you_reset", calm, nothing, func(f *framer, n uint32) error {
		f.open(2*n+1, true)
		return f.WriteData(2*n+1, true, []byte("a"))
	}},
	"made-you-reset by a priority of its own": {"made_you_reset", calm, nothing, func(f *framer, n uint32) error {
		f.open(2*n+1, false)
		return f.WritePriority(2*n+1, http2.PriorityParam{StreamDep: 2*n + 1})
	}},
	"malformed requests": {"made_you_reset", calm, nothing, func(f *framer, n uint32) error {
		return f.blow(lastHead(2*n+1), ":method", "GET")
	}},
	"continuations": {"continuation_flood", calm, half, func(f *framer, n uint32) error {
		return f.WriteContinuation(1, false, []byte{0x82})
	}},
	"empty continuations": {"continuation_flood", calm, half, func(f *framer, n uint32) error {
		return f.WriteContinuation(1, false, nil)
	}},
	"large continuations": {"continuation_flood", calm, half, func(f *framer, n uint32) error {
		return f.WriteContinuation(1, false, make([]byte, 16<<10))
	}},
	"settings": {"settings_flood", calm, nothing, func(f *framer, n uint32) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: n % 2 * 65535})
	}},
	"settings by the thousand": {"settings_flood", calm, opened, func(f *framer, n uint32) error {
		return f.WriteSettings(slices.Repeat([]http2.Setting{{ID: http2.SettingInitialWindowSize, Val: n % 2 * 65535}}, 2700)...)
	}},
	"farewells": {"unknown_frames", calm, opened, func(f *framer, n uint32) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) }},
	"some of all": {"settings_flood ping_flood window_update_flood priority_flood empty_frames unknown_frames", calm, opened, func(f *framer, n uint32) error {
		f.WriteSettings()
		f.WritePing(true, [8]byte{})
		f.WriteWindowUpdate(0, 1)
		f.WritePriority(1, http2.PriorityParam{Weight: byte(n)})
		f.WriteData(1, false, nil)
		return f.WriteRawFrame(0xee, 0, 0, nil)
	}},
	"heads of padding": {"rapid_reset", calm, nothing, func(f *framer, n uint32) error {
		head := lastHead(2*n + 1)
		head.PadLength = 255
		f.blow(head, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a")
		return f.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
	}},
	"fields without a name": {"made_you_reset", calm, nothing, func(f *framer, n uint32) error {
		return f.blow(lastHead(2*n+1), ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a", "", "", "", "", "", "")
	}},
	"crumbs of cookies": {"head_bomb", calm, nothing, func(f *framer, n uint32) error {
		head := lastHead(2*n + 1)
		head.BlockFragment = bytes.Repeat([]byte{0xbe}, 1000)
		return f.blow(head, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a", "cookie", "a=1")
	}},
	"acknowledgements": {"settings_flood", calm, nothing, func(f *framer, n uint32) error { return f.WriteSettingsAck() }},
	"pings":            {"ping_flood unread_replies", calm, nothing, func(f *framer, n uint32) error { return f.WritePing(false, [8]byte{}) }},
	"answers to no pings": {"ping_flood", calm, nothing, func(f *framer, n uint32) error {
		return f.WritePing(true, [8]byte{})
	}},
	"updates of the connection": {"window_update_flood", calm, nothing, func(f *framer, n uint32) error { return f.WriteWindowUpdate(0, 1) }},
	"updates of a stream": {"window_update_flood", calm, opened, func(f *framer, n uint32) error {
		return f.WriteWindowUpdate(1, 1)
	}},
	"priorities": {"priority_flood", calm, nothing, func(f *framer, n uint32) error {
		return f.WritePriority(2*n+1, http2.PriorityParam{Weight: byte(n)})
	}},
	"priority updates": {"priority_flood", calm, opened, func(f *framer, n uint32) error {
		return f.WriteRawFrame(0x10, 0, 0, fmt.Appendf([]byte{0, 0, 0, 1}, "u=%d", n%8))
	}},
	"empty content": {"empty_frames", calm, opened, func(f *framer, n uint32) error { return f.WriteData(1, false, nil) }},
	"padding":       {"empty_frames", calm, opened, func(f *framer, n uint32) error { return f.WriteDataPadded(1, false, nil, make([]byte, 255)) }},
	"unknown frames": {"unknown_frames", calm, nothing, func(f *framer, n uint32) error {
		return f.WriteRawFrame(0xee, 0xff, n, []byte("grease"))
	}},
	"a bomb of references": {"head_bomb", calm, nothing, bomb},
}

const calm = "ENHANCE_YOUR_CALM"

func nothing(*framer) {}

// settle says that the limits are known.
func settle(f *framer) { f.WriteSettingsAck() }

// opened opens stream 1, which stays so.
func opened(f *framer) { f.open(1, false) }

// half begins a head that has no end.
func half(f *framer) {
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
}

// open sends a good head.
func (f *framer) open(stream uint32, last bool) {
	f.blow(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true, EndStream: last}, ":method", "POST", ":scheme", "http", ":path", "/attack", ":authority", "a")
}

// blow is send on a connection that may have ended.
func (f *framer) blow(head http2.HeadersFrameParam, fields ...string) error {
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		f.write.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	head.BlockFragment = append(f.block.Bytes(), head.BlockFragment...)
	return f.WriteHeaders(head)
}

// bomb makes 44 MB of fields of 15 KB: a byte names the entry of the table that holds
// nearly all that the table may.
func bomb(f *framer, n uint32) error {
	head := lastHead(2*n + 1)
	head.BlockFragment = bytes.Repeat([]byte{0xbe}, 11_000)
	return f.blow(head, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a", "x", strings.Repeat("a", 4000))
}

// run attacks until the connection ends, and tells the code that it ended with.
func (a attack) run(f *framer) (code string) {
	end := make(chan string)
	go func() { end <- f.toTheEnd() }()
	a.begin(f)
	for n := range uint32(mostBlows) {
		select {
		case code = <-end:
			return code
		default:
			a.strike(f, n) // of an error the reader knows more
		}
	}
	return <-end
}

// toTheEnd reads until the connection ends, and tells the code of the last GOAWAY.
func (f *framer) toTheEnd() (code string) {
	code = "none"
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			if timeout, is := err.(net.Error); is && timeout.Timeout() {
				return "the connection does not end"
			}
			return code
		}
		if parting, is := frame.(*http2.GoAwayFrame); is {
			code = parting.ErrCode.String()
		}
	}
}

// grown is the most memory that a process has ever had, in KiB (proc(5), VmHWM).
func grown(t *testing.T, pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// grownBy checks that a process has not grown by much.
func grownBy(t *testing.T, pid, before int) {
	t.Helper()
	most := mostGrown
	if raceDetector {
		most *= 8 // its shadow
	}
	n := grown(t, pid) - before
	t.Logf("the worker has grown from %d by %d KiB", before, n)
	if n > most {
		t.Errorf("it may by %d", most)
	}
}

// Whoever abuses a connection of HTTP/2 loses it, by the code that says why, and the
// counter of its class says so to the operator. Memory stays as it was, but for little,
// and nobody else notices.
func TestAbusesOfHTTP2(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()), oneWorker)
	load := testkit.StartLoad(t, s.web(), testkit.Request("GET", "/"), 2)
	load.AwaitMore(t, 200)
	worker := s.workers()[0]
	before := grown(t, worker)
	for name, a := range attacks {
		counted := s.abuses(a.class)
		var all sync.WaitGroup
		for range attackers {
			f := dialHTTP2(t, s.web())
			all.Go(func() {
				if code := a.run(f); code != a.code {
					t.Errorf("%s: the connection ends with %s, want %s", name, code, a.code)
				}
			})
		}
		all.Wait()
		if n := s.abuses(a.class) - counted; n < attackers {
			t.Errorf("%s: %d of %d are counted as %s", name, n, attackers, a.class)
		}
		load.AwaitMore(t, 20)
	}
	if tally := load.Stop(); len(tally.Failures) > 0 {
		t.Errorf("of others' %d requests %d failed, first: %s", tally.Good, len(tally.Failures), tally.Failures[0])
	}
	grownBy(t, worker, before)
	testkit.Eventually(t, "nothing of it is left", func() bool { return s.connections() == 0 })
}

// slownesses are ways to hold a connection and what belongs to it for ever, and the code
// that each ends with. drop, if there is one, comes again and again.
var slownesses = map[string]struct {
	code  string
	begin func(f *framer)
	drop  func(f *framer)
}{
	"a head without end": {"PROTOCOL_ERROR", func(f *framer) { settle(f); half(f) }, nothing},
	"a head by drops":    {"PROTOCOL_ERROR", func(f *framer) { settle(f); half(f) }, func(f *framer) { f.WriteContinuation(1, false, []byte{0x82}) }},
	"half a frame":       {"PROTOCOL_ERROR", func(f *framer) { settle(f); f.wire.Write([]byte{0, 0, 8, 6}) }, nothing},
	"a frame by drops":   {"PROTOCOL_ERROR", func(f *framer) { settle(f); f.wire.Write([]byte{0, 0, 99, 1, 4, 0, 0, 0, 1}) }, func(f *framer) { f.wire.Write([]byte{0}) }},
	"unsettled":          {"SETTINGS_TIMEOUT", nothing, nothing},
	"unsettled, busy":    {"SETTINGS_TIMEOUT", opened, func(f *framer) { f.WriteData(1, false, []byte("a")) }},
	"nothing at all":     {"NO_ERROR", settle, nothing},
}

// Who is slow with what must come soon loses the connection in time, by drops as well.
func TestSlownessOfHTTP2(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()), "timeouts: {header: 1s, idle: 2s}")
	var all sync.WaitGroup
	for name, c := range slownesses {
		f := dialHTTP2(t, s.web())
		all.Go(func() {
			end := make(chan string)
			go func() { end <- f.toTheEnd() }()
			c.begin(f)
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case code := <-end:
					if code != c.code {
						t.Errorf("%s: the connection ends with %s, want %s", name, code, c.code)
					}
					return
				case <-tick.C:
					c.drop(f)
				}
			}
		})
	}
	all.Wait()
	testkit.Eventually(t, "four are counted as slow", func() bool { return s.abuses("slow_frames") == 4 })
	testkit.Eventually(t, "nothing of it is left", func() bool { return s.connections() == 0 })
}

// Who asks for much and takes nothing of it has it buffered nowhere, and gives servers back
// in time: each of its streams is reset.
func TestStalledStreams(t *testing.T) {
	t.Parallel()
	const streams, length = 90, 4 << 20
	content := strings.Repeat("a", length)
	b := testkit.Serve(t, testkit.Answering(testkit.Response("200 OK", fmt.Sprint("Content-Length: ", length))+content))
	s := start(t, farm(b.URL(), "admission: off"), oneWorker, "timeouts: {write: 1s}")
	worker := s.workers()[0]
	before := grown(t, worker)
	f := dialHTTP2(t, s.web())
	f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	f.WriteSettingsAck()
	for i := range uint32(streams) {
		f.send(lastHead(2*i+1), ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a")
	}
	for reset := 0; reset < streams; {
		switch frame := f.next().(type) {
		case *http2.RSTStreamFrame:
			reset++
		case *http2.DataFrame:
			t.Fatalf("%d bytes come through a window of 0", frame.Length)
		}
	}
	if n := s.abuses("stalled_stream"); n != streams {
		t.Errorf("%d streams of %d are counted as stalled", n, streams)
	}
	testkit.Eventually(t, "the server is free", func() bool { return s.status().Farms[0].Servers[0].In_flight == 0 })
	grownBy(t, worker, before)
}

// Heads within the limits that few bytes stand for, of requests whose answers are not
// taken, hold no more than the limits say (CVE-2026-49975).
func TestHeldHeads(t *testing.T) {
	t.Parallel()
	const conns, streams, length = 5, 100, 1 << 20
	b := testkit.Serve(t, testkit.Answering(testkit.Response("200 OK", fmt.Sprint("Content-Length: ", length))+strings.Repeat("a", length)))
	s := start(t, farm(b.URL(), "admission: off"), oneWorker)
	worker := s.workers()[0]
	before := grown(t, worker)
	for range conns {
		f := dialHTTP2(t, s.web())
		f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		f.WriteSettingsAck()
		for i := range uint32(streams) {
			head := lastHead(2*i + 1)
			if head.BlockFragment = bytes.Repeat([]byte{0xbe}, 14); i > 0 {
				head.BlockFragment = head.BlockFragment[:13]
			}
			f.blow(head, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a", "x", strings.Repeat("a", 4000))
		}
		held, refused := 0, 0
		for held+refused < streams {
			switch frame := f.next().(type) {
			case *http2.MetaHeadersFrame:
				held++
			case *http2.RSTStreamFrame:
				if refused++; frame.ErrCode != http2.ErrCodeRefusedStream {
					t.Errorf("stream %d is reset with %s", frame.StreamID, frame.ErrCode)
				}
			}
		}
		if held < 16 || held > 20 {
			t.Errorf("%d heads of 56 KB are held", held)
		}
	}
	if n := s.abuses("head_bomb"); n == 0 {
		t.Error("no bomb of heads was counted")
	}
	grownBy(t, worker, before)
}
