package proxy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/internal/http1"
	"sluice/internal/message"
	"sluice/internal/reactor"
)

// sink is a Stream that keeps what is written.
type sink struct {
	reactor.Stream
	written []byte
	writes  int
}

func (s *sink) Write(p []byte) (int, error) {
	s.written = append(s.written, p...)
	s.writes++
	return len(p), nil
}

// usual are the limits of trailer sections here.
var usual = http1.Limits{Head: 64 << 10, Line: 16 << 10, Fields: 128}

// decode reads a body back: its content and trailers, and whether it is whole.
func decode(t *testing.T, f message.Framing, length int64, wire []byte) (content []byte, trailers message.Fields, whole bool) {
	t.Helper()
	var body http1.Body
	if err := body.Start(f, length, 0, &usual); err != nil {
		t.Fatal(err)
	}
	for len(wire) > 0 {
		data, used, err := body.Next(wire)
		if err != nil || used == 0 {
			t.Fatalf("%d bytes are left, error %v: %q", len(wire), err, wire)
		}
		content = append(content, data...)
		wire = wire[used:]
	}
	return content, body.Trailers(), body.Done()
}

// TestOutlet puts random content out in random pieces: what arrives decodes to
// it, and the buffer behind each piece is as it was.
func TestOutlet(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var spare buffers
	spare.fit(0)
	noise := make([]byte, spare.largeSize)
	for i := range noise {
		noise[i] = byte(random.IntN(256))
	}
	for round := range 2000 {
		framing := []message.Framing{message.Length, message.Chunked, message.UntilClose, message.NoBody}[random.IntN(4)]
		out := &sink{}
		prefix := bytes.Repeat([]byte("p"), []int{0, 1, 300, headroom + 100}[random.IntN(4)])
		trailers := message.Fields{
			{Name: []byte("X-Sum"), Value: []byte("1")},
			{Name: []byte("Content-Length"), Value: []byte("1"), Drop: true},
		}[:2*random.IntN(2)]
		var sent []byte
		pieces := 1 + random.IntN(4)
		for i := range pieces {
			f := spare.getLarge()
			copy(f.b, noise[random.IntN(99):])
			f.r += random.IntN(3000)
			f.w = f.r + []int{0, 1, 15, 16, 4096, len(f.b) - tailroom - f.r}[random.IntN(6)]
			content := f.unread()
			behind := slices.Clone(f.b[f.w:])
			sent = append(sent, content...)
			n, err := outlet{to: out, framing: framing}.put(prefix, f, content, i == pieces-1, trailers)
			if err != nil || n == 0 && len(content)+len(prefix) > 0 && framing != message.NoBody {
				t.Fatalf("round %d: wrote %d, %v", round, n, err)
			}
			if !bytes.Equal(f.b[f.w:], behind) {
				t.Fatalf("round %d: the bytes behind the content have changed", round)
			}
			if i == 0 {
				if !bytes.HasPrefix(out.written, prefix) {
					t.Fatalf("round %d: the prefix is not at the start", round)
				}
				out.written = out.written[len(prefix):]
				prefix = nil
			}
		}
		if err := checkOutlet(t, framing, out.written, sent, trailers); err != nil {
			t.Fatalf("round %d, framing %d, %d pieces: %v", round, framing, pieces, err)
		}
	}
}

func checkOutlet(t *testing.T, framing message.Framing, written, sent []byte, trailers message.Fields) error {
	if framing == message.NoBody {
		if len(written) != 0 {
			return fmt.Errorf("%d bytes of no body", len(written))
		}
		return nil
	}
	content, got, whole := decode(t, framing, int64(len(sent)), written)
	switch {
	case !bytes.Equal(content, sent):
		return fmt.Errorf("the content differs")
	case !whole && framing != message.UntilClose && len(sent) > 0:
		return fmt.Errorf("it does not end")
	case framing == message.Chunked && len(got) != len(trailers)/2:
		return fmt.Errorf("%d trailers, want those that are not dropped of %d", len(got), len(trailers))
	}
	return nil
}

// TestOutletWrites: head, size line, content and end go out in one write.
func TestOutletWrites(t *testing.T) {
	var spare buffers
	spare.fit(0)
	for _, framing := range []message.Framing{message.Length, message.Chunked, message.UntilClose} {
		f, out := spare.getLarge(), &sink{}
		f.w += 1000
		if _, err := (outlet{to: out, framing: framing}).put(make([]byte, 500), f, f.unread(), true, nil); err != nil || out.writes != 1 {
			t.Errorf("framing %d: %d writes, %v", framing, out.writes, err)
		}
	}
}

// TestGather cuts chunked bodies into random reads: the content is found whole,
// and what is behind the body is left.
func TestGather(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var spare buffers
	spare.fit(0)
	for round := range 2000 {
		wire, content := randomChunks(random)
		const next = "GET / HTTP/1.1\r\n"
		wire = append(wire, next...)
		f := spare.getLarge()
		var body http1.Body
		body.Start(message.Chunked, 0, 0, &usual)
		var got []byte
		for !body.Done() {
			if len(wire) == 0 {
				t.Fatalf("round %d: all is read and the body is not done", round)
			}
			n := copy(f.room(), wire[:1+random.IntN(len(wire))])
			f.w += n
			wire = wire[n:]
			data, err := f.gather(&body)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			got = append(got, data...)
			if f.r == f.w {
				f.r, f.w = headroom, headroom
			} else {
				f.compact(headroom)
			}
		}
		if !bytes.Equal(got, content) {
			t.Fatalf("round %d: the content differs: %q, want %q", round, got, content)
		}
		if rest := string(f.unread()) + string(wire); rest != next {
			t.Fatalf("round %d: what is left is %q", round, rest)
		}
	}
}

// randomChunks is a chunked body with and without extensions and trailers.
func randomChunks(random *rand.Rand) (wire, content []byte) {
	for range random.IntN(6) {
		data := make([]byte, 1+random.IntN(40))
		for i := range data {
			data[i] = "ab\r\n0;"[random.IntN(6)]
		}
		content = append(content, data...)
		wire = fmt.Appendf(wire, "%x%s\r\n%s\r\n", len(data), []string{"", ";a", ` ; a="b;\"c"`}[random.IntN(3)], data)
	}
	return append(wire, []string{"0\r\n\r\n", "000;x=y\r\n\r\n", "0\r\nX-A: b\r\nX-C: d\r\n\r\n"}[random.IntN(3)]...), content
}
