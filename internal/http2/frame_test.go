package http2

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	xhttp2 "golang.org/x/net/http2"
)

// TestFramesOfXNet: a frame that golang.org/x/net writes has the head that it
// says, and one that we write is read there as it was meant.
func TestFramesOfXNet(t *testing.T) {
	var b bytes.Buffer
	b.Write(appendSettings(nil, setting{settingStreams, 7}, setting{settingWindow, mostWindow}))
	b.Write(appendSettingsAck(nil))
	b.Write(appendPing(nil, ack, []byte("12345678")))
	b.Write(appendReset(nil, 3, EnhanceYourCalm))
	b.Write(appendWindowUpdate(nil, 5, 99))
	b.Write(appendGoAway(nil, streamBits, ProtocolError, "why"))
	b.Write(append(appendHead(nil, 2, frameData, endStream, streamBits), "hi"...))
	f := xhttp2.NewFramer(nil, &b)
	for _, want := range []string{
		"[FrameHeader SETTINGS len=12]", "[FrameHeader SETTINGS flags=ACK len=0]", "[FrameHeader PING flags=ACK len=8]",
		"[FrameHeader RST_STREAM stream=3 len=4]", "[FrameHeader WINDOW_UPDATE stream=5 len=4]", "[FrameHeader GOAWAY len=11]",
		"[FrameHeader DATA flags=END_STREAM stream=2147483647 len=2]",
	} {
		frame, err := f.ReadFrame()
		if err != nil || frame.Header().String() != want {
			t.Fatalf("read %v, %v; want %s", frame, err, want)
		}
		switch frame := frame.(type) {
		case *xhttp2.GoAwayFrame:
			if frame.LastStreamID != streamBits || frame.ErrCode != xhttp2.ErrCodeProtocol || string(frame.DebugData()) != "why" {
				t.Errorf("GOAWAY is read as %v", frame)
			}
		case *xhttp2.RSTStreamFrame:
			if frame.ErrCode != xhttp2.ErrCodeEnhanceYourCalm {
				t.Errorf("RST_STREAM is read as %v", frame)
			}
		case *xhttp2.WindowUpdateFrame:
			if frame.Increment != 99 {
				t.Errorf("WINDOW_UPDATE is read as %v", frame)
			}
		case *xhttp2.SettingsFrame:
			if n, _ := frame.Value(xhttp2.SettingMaxConcurrentStreams); !frame.IsAck() && n != 7 {
				t.Errorf("SETTINGS is read as %v", frame)
			}
		}
	}
}

// TestSections: a field section of any length becomes frames of at most so much.
func TestSections(t *testing.T) {
	section := bytes.Repeat([]byte("0123456789"), 40)
	for n := range len(section) {
		for _, most := range []int{1, 7, 100, 399} {
			b := append([]byte("before"), noHead[:]...)
			b = appendSection(append(b, section[:n]...), len("before"), endStream, 5, most)
			if string(b[:6]) != "before" {
				t.Fatal("what stood before is gone")
			}
			var got []byte
			count := 0
			for rest := b[6:]; len(rest) > 0; count++ {
				h := parseHead(rest)
				last := headBytes+h.length == len(rest)
				first := count == 0
				if h.stream != 5 || h.length > most || h.has(endHeaders) != last || first != (h.kind == frameHeaders) || !first && h.kind != frameContinuation || first != h.has(endStream) {
					t.Fatalf("%d bytes in frames of %d: frame %d is %+v", n, most, count, h)
				}
				got = append(got, rest[headBytes:headBytes+h.length]...)
				rest = rest[headBytes+h.length:]
			}
			if !bytes.Equal(got, section[:n]) || count != max(1, (n+most-1)/most) {
				t.Fatalf("%d bytes in frames of %d: %d frames hold %d bytes", n, most, count, len(got))
			}
		}
	}
}

// TestCheckAgainstXNet: a frame's head that is accepted here has a payload that
// golang.org/x/net can parse, and the other way round, flags and padding aside.
func TestCheckAgainstXNet(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 20_000 {
		k := kind(random.IntN(10))
		if k == framePush || k == frameContinuation {
			continue // faults of order, and of a role
		}
		h := frameHead{length: []int{0, 1, 3, 4, 5, 6, 7, 8, 9, 12, 100}[random.IntN(11)], kind: k, flags: flags(random.IntN(2)), stream: uint32(random.IntN(3))}
		payload := make([]byte, h.length)
		for i := range payload {
			payload[i] = 1 // no zero update, no setting out of its bounds
		}
		b := append(appendHead(nil, h.length, h.kind, h.flags, h.stream), payload...)
		_, err := xhttp2.NewFramer(nil, bytes.NewReader(b)).ReadFrame()
		if f := h.check(); (f == nil) != (err == nil) {
			t.Fatalf("%+v: %v here, %v there", h, f, err)
		}
	}
}

// TestRecent holds the memory of streams against a map.
func TestRecent(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range 40 {
		var table streams
		used, cut := map[uint32]bool{}, map[uint32]bool{}
		id := uint32(random.IntN(5))*2 + 1
		for range 300 {
			table.begin(id)
			used[id] = true
			if random.IntN(3) == 0 {
				table.noteCut(id)
				cut[id] = true
			}
			for back := uint32(0); back < 255 && 2*back < id; back++ {
				old := id - 2*back
				if table.wasUsed(old) != used[old] || table.wasCut(old) != cut[old] {
					t.Fatalf("stream %d of %d: used %v, cut %v", old, id, table.wasUsed(old), table.wasCut(old))
				}
			}
			step := []uint32{2, 2, 2, 4, 6, 100, 128, 130, 600}[random.IntN(9)]
			id += step
		}
	}
}

// TestTable holds the table of streams against a map.
func TestTable(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	var table streams
	naive := map[uint32]*stream{}
	for range 20_000 {
		id := uint32(random.IntN(200))*2 + 1
		if s := naive[id]; s != table.find(id) {
			t.Fatalf("stream %d is %v, want %v", id, table.find(id), s)
		} else if s == nil {
			s = &stream{id: id}
			table.add(s)
			naive[id] = s
		} else {
			table.remove(s)
			delete(naive, id)
		}
		seen := 0
		for range table.all {
			seen++
		}
		if seen != len(naive) || table.open != seen {
			t.Fatalf("%d streams seen, %d counted, want %d", seen, table.open, len(naive))
		}
	}
}

// TestQueue holds a queue against a buffer.
func TestQueue(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	var p pool
	var q queue
	var naive bytes.Buffer
	next := uint32(0)
	for range 5_000 {
		if random.IntN(2) == 0 && naive.Len() < 1<<16 {
			b := make([]byte, random.IntN(3*blockBytes)+4)
			for i := 0; i+4 <= len(b); i += 4 {
				binary.BigEndian.PutUint32(b[i:], next)
				next++
			}
			q.put(&p, b)
			naive.Write(b)
		} else {
			b := make([]byte, random.IntN(3*blockBytes))
			n := q.take(&p, b)
			if want := naive.Next(len(b)); !bytes.Equal(b[:n], want) {
				t.Fatalf("took %d bytes, want %d", n, len(want))
			}
		}
		if q.n != naive.Len() {
			t.Fatalf("%d bytes, want %d", q.n, naive.Len())
		}
		if random.IntN(1000) == 0 {
			if n := q.clear(&p); n != naive.Len() || q.first != nil || q.n != 0 {
				t.Fatalf("cleared %d bytes, want %d", n, naive.Len())
			}
			naive.Reset()
		}
	}
	q.clear(&p)
	if len(p.blocks) == 0 || len(p.blocks) > 4*keptBufs {
		t.Errorf("%d blocks are kept", len(p.blocks))
	}
}
