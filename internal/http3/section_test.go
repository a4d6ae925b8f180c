package http3

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/quic-go/qpack"

	"sluice/internal/message"
)

// plain decodes a section with quic-go's decoder alone.
func plain(t *testing.T, block []byte) string {
	t.Helper()
	next, text := qpack.NewDecoder().Decode(block), ""
	for {
		f, err := next()
		if err != nil {
			if err.Error() != "EOF" {
				t.Fatalf("after %q: %v", text, err)
			}
			return text
		}
		text += f.Name + "=" + f.Value + ";"
	}
}

// Heads are read by quic-go's decoder as they were meant, whatever entry of the static
// table stands for a name or a status; names become lower case.
func TestAppendHead(t *testing.T) {
	for status := 100; status < 600; status++ {
		b := appendHead(nil, &message.Response{Status: status, ContentLength: -1})
		if got, want := plain(t, b[3:]), fmt.Sprintf(":status=%d;", status); got != want {
			t.Errorf("status %d: %s", status, got)
		}
	}
	for name := range nameIndex {
		f := message.Field{Name: []byte(strings.ToUpper(name)), Value: []byte("value of " + name)}
		if got := plain(t, appendField(openSection(nil), &f)); got != name+"=value of "+name+";" {
			t.Errorf("%s: %s", name, got)
		}
	}
	long := strings.Repeat("v", 20_000) // the frame's length takes four bytes
	r := &message.Response{Status: 200, ContentLength: 7, Fields: message.Fields{
		{Name: []byte("X-Long"), Value: []byte(long)},
		{Name: []byte("Gone"), Value: []byte("1"), Drop: true},
		{Name: []byte("Connection"), Value: []byte("close"), ID: message.Connection},
		{Name: []byte("Set-Cookie"), Value: []byte("secret"), NeverIndexed: true},
		{Name: []byte("Other"), Value: []byte("secret"), NeverIndexed: true},
	}}
	b := appendHead([]byte("before"), r)[len("before"):]
	s := newSource(bytes.NewReader(b))
	h, err := s.frame()
	if err != nil || h.kind != frameHeaders || h.length > int64(len(b)) {
		t.Fatalf("%v, %v", h, err)
	}
	block, err := s.whole(int(h.length))
	if err != nil || !s.have(1) && s.err.Error() != "EOF" {
		t.Fatal(err)
	}
	if got, want := plain(t, block), ":status=200;x-long="+long+";set-cookie=secret;other=secret;content-length=7;"; got != want {
		t.Errorf("got %.80s… of %d bytes, want %d", got, len(got), len(want))
	}
	never := []byte{lineNamed | lineNeverIndexed | 14}
	if !bytes.Contains(block, never) || !bytes.Contains(block, []byte{lineLiteral | lineNeverLiteral | 5, 'o', 't'}) {
		t.Errorf("a field that nobody may index is not marked: %q", block[len(block)-60:])
	}
}

// A section is read up to its limits, at n and n+1.
func TestDecodeLimits(t *testing.T) {
	var block bytes.Buffer
	e := qpack.NewEncoder(&block)
	for i := range 3 {
		e.WriteField(qpack.HeaderField{Name: fmt.Sprint("name", i), Value: "value"})
	}
	size := 3 * (len("name0value") + fieldCost)
	for _, tc := range []struct {
		head, most int
		long       bool
		fields     int
	}{{size, 3, false, 3}, {size - 1, 3, true, 2}, {size, 2, true, 2}} {
		var s section
		long, f := s.decode(block.Bytes(), tc.head, tc.most)
		if f != nil || long != tc.long || len(s.fields) != tc.fields {
			t.Errorf("%+v: %v, %d fields, %v", tc, long, len(s.fields), f)
		}
	}
	for _, bad := range [][]byte{nil, {0}, {1, 0}, {0, 0x80, 0xd1}, {0, 0xff, 0x80}, {0xff, 0, 0}, {0, 0, 0x80}, {0, 0, 0xff, 0xff}, {0, 0, 0x10}, {0, 0, 0x51}, {0, 0, 0x27, 0x80}} {
		var s section
		if _, f := s.decode(bad, 1000, 10); f != errSection {
			t.Errorf("% x: %v", bad, f)
		}
	}
}

// A frame takes memory as it comes: who only says that it is long, has nothing reserved.
func TestSaidLength(t *testing.T) {
	const said, sent = 1 << 30, 5000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := newSource(bytes.NewReader(make([]byte, sent))).whole(said)
	runtime.ReadMemStats(&after)
	if err != errFrame || b != nil {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > said/100 {
		t.Errorf("%d bytes of memory for %d", n, sent)
	}
	for _, n := range []int{0, 1, sourceBytes, sourceBytes + 1, sent} {
		text := randomBytes(rand.New(rand.NewPCG(1, 1)), 1<<20)[:n]
		b, err := newSource(&dribble{slices.Clone(text)}).whole(n)
		if err != nil || !bytes.Equal(b, text) {
			t.Errorf("%d bytes, by drops: %d, %v", n, len(b), err)
		}
	}
}

// Numbers of all lengths come back, at the borders of each.
func TestVarints(t *testing.T) {
	for _, n := range []uint64{0, 63, 64, 1<<14 - 1, 1 << 14, 1<<30 - 1, 1 << 30, maxVarint} {
		b := appendVarint(nil, n)
		if v, used := readVarint(append(b, 7)); v != n || used != len(b) {
			t.Errorf("%d: % x gives %d of %d bytes", n, b, v, used)
		}
		if _, used := readVarint(b[:len(b)-1]); used != 0 {
			t.Errorf("%d: % x cut short gives a number", n, b)
		}
		s := newSource(&dribble{b})
		if v, err := s.varint(); v != n || err != nil {
			t.Errorf("%d, a byte at a time: %d, %v", n, v, err)
		}
	}
}

// dribble gives its bytes one by one.
type dribble struct{ b []byte }

func (d *dribble) Read(p []byte) (int, error) {
	if len(d.b) == 0 {
		return 0, errIncomplete
	}
	p[0], d.b = d.b[0], d.b[1:]
	return 1, nil
}
