package http1

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/internal/message"
)

// writeRequest writes a request as the proxy does, less what the proxy adds.
func writeRequest(r *message.Request) []byte {
	out := AppendRequestLine(nil, r)
	if len(r.Host) > 0 {
		out = AppendField(out, "Host", r.Host)
	}
	out = AppendFields(out, r.Fields)
	out = AppendFraming(out, r.Body, r.ContentLength)
	return append(out, "\r\n"...)
}

// forwarded are a head's fields that go on, as they must arrive.
func forwarded(fs message.Fields) string {
	var s strings.Builder
	for _, f := range fs {
		if !f.Drop {
			fmt.Fprintf(&s, "%s: %s\n", f.Name, f.Value)
		}
	}
	return s.String()
}

// TestRequestRoundTrip: what is written for a request that was accepted is
// accepted, and is the same request, less what ended here.
func TestRequestRoundTrip(t *testing.T) {
	trips := 0
	for _, in := range requestCorpus() {
		var r, again message.Request
		if n, err := ParseRequest([]byte(in), usual, &r); n == 0 || err != nil {
			continue
		}
		if len(r.Host) == 0 { // HTTP/1.0; the proxy gives it one
			r.Host = []byte("given")
		}
		trips++
		out := writeRequest(&r)
		n, err := ParseRequest(out, usual, &again)
		if err != nil || n != len(out) {
			t.Errorf("%q\nis written as %q\nof which %d bytes are read: %v", in, out, n, err)
			continue
		}
		before := fmt.Sprintf("%s %s for %s, framing %d of %d\n", r.MethodName, r.Target, r.Host, r.Body, r.ContentLength) + forwarded(r.Fields)
		after := fmt.Sprintf("%s %s for %s, framing %d of %d\n", again.MethodName, again.Target, again.Host, again.Body, again.ContentLength) + forwarded(again.Fields)
		if before != after {
			t.Errorf("%q\nis written as %q\nbefore: %s\nafter:  %s", in, out, before, after)
		}
		if framings := bytes.Count(bytes.ToLower(out), []byte("\r\ncontent-length:")) + bytes.Count(bytes.ToLower(out), []byte("\r\ntransfer-encoding:")); framings > 1 {
			t.Errorf("%q\nis written with %d framings: %q", in, framings, out)
		}
	}
	if trips < 200 {
		t.Errorf("only %d requests of the corpus were accepted", trips)
	}
}

// TestResponseRoundTrip is the same for responses.
func TestResponseRoundTrip(t *testing.T) {
	trips := 0
	for _, in := range responseCorpus() {
		var r, again message.Response
		if n, err := ParseResponse([]byte(in), usual, message.GET, &r); n == 0 || err != nil {
			continue
		}
		trips++
		out := AppendStatusLine(nil, r.Status, r.Reason)
		out = AppendFields(out, r.Fields)
		out = AppendFraming(out, r.Body, r.ContentLength)
		out = append(out, "\r\n"...)
		n, err := ParseResponse(out, usual, message.GET, &again)
		if err != nil || n != len(out) {
			t.Errorf("%q\nis written as %q\nof which %d bytes are read: %v", in, out, n, err)
			continue
		}
		before := fmt.Sprintf("%d %s, framing %d\n", r.Status, r.Reason, r.Body) + forwarded(r.Fields)
		after := fmt.Sprintf("%d %s, framing %d\n", again.Status, again.Reason, again.Body) + forwarded(again.Fields)
		if before != after {
			t.Errorf("%q\nis written as %q\nbefore: %s\nafter:  %s", in, out, before, after)
		}
	}
	if trips < 50 {
		t.Errorf("only %d responses of the corpus were accepted", trips)
	}
}

// TestWrittenBytes shows what the writing functions write.
func TestWrittenBytes(t *testing.T) {
	fields := message.Fields{
		{Name: []byte("A"), Value: []byte("1")}, {Name: []byte("B"), Value: []byte("2"), Drop: true}, {Name: []byte("c"), Value: nil},
	}
	request := &message.Request{MethodName: []byte("OPTIONS"), Target: []byte("*")}
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"request line", AppendRequestLine(nil, request), "OPTIONS * HTTP/1.1\r\n"},
		{"status line", AppendStatusLine(nil, 404, []byte("Not Found")), "HTTP/1.1 404 Not Found\r\n"},
		{"status line without a reason keeps its space", AppendStatusLine(nil, 599, nil), "HTTP/1.1 599 \r\n"},
		{"fields", AppendFields(nil, fields), "A: 1\r\nc: \r\n"},
		{"field", AppendField(nil, "Via", []byte("1.1 s")), "Via: 1.1 s\r\n"},
		{"no framing", AppendFraming(nil, message.NoBody, 5), ""},
		{"framing until close", AppendFraming(nil, message.UntilClose, 5), ""},
		{"framing by length", AppendFraming(nil, message.Length, 1<<62), "Content-Length: 4611686018427387904\r\n"},
		{"framing by chunks", AppendFraming(nil, message.Chunked, 5), "Transfer-Encoding: chunked\r\n"},
		{"chunk head", AppendChunkHead(nil, 0xabc), "abc\r\n"},
		{"chunk", AppendChunk(nil, []byte("hello")), "5\r\nhello\r\n"},
		{"last chunk", AppendLastChunk(nil, nil), "0\r\n\r\n"},
		{"last chunk with trailers", AppendLastChunk(nil, fields), "0\r\nA: 1\r\nc: \r\n\r\n"},
		{"behind what is there", AppendLastChunk([]byte("x"), nil), "x0\r\n\r\n"},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
	if n := len(AppendChunkHead(nil, 1<<63-1)); n > ChunkHeadBytes {
		t.Errorf("a chunk head takes %d bytes, ChunkHeadBytes is %d", n, ChunkHeadBytes)
	}
}

// TestChunkRoundTrip encodes random pieces and trailers, puts extensions in, cuts
// the result anywhere, and decodes it.
func TestChunkRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	for range 3000 {
		var wire, content []byte
		for range random.IntN(6) {
			piece := make([]byte, 1+random.IntN(1<<random.IntN(13)))
			for i := range piece {
				piece[i] = byte(random.IntN(256))
			}
			content = append(content, piece...)
			head := bytes.TrimSuffix(AppendChunkHead(nil, len(piece)), []byte("\r\n"))
			wire = append(append(append(wire, head...), randomExtensions(random)...), "\r\n"...)
			wire = append(append(wire, piece...), "\r\n"...)
		}
		trailers := randomTrailers(random)
		wire = AppendLastChunk(wire, trailers)
		length := len(wire)
		wire = append(wire, "next"[:random.IntN(5)]...)

		var d decoding
		if err := d.body.Start(message.Chunked, 0, int64(len(content)), usual); err != nil {
			t.Fatal(err)
		}
		for rest := wire; len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			if err := d.feed(rest[:n]); err != nil {
				t.Fatalf("%q: %v", wire, err)
			}
			rest = rest[n:]
		}
		switch {
		case !d.body.Done() || d.used != length:
			t.Fatalf("%q: %d bytes used of %d, done %v", wire, d.used, length, d.body.Done())
		case !bytes.Equal(d.content, content):
			t.Fatalf("%q: content %q, want %q", wire, d.content, content)
		case forwarded(d.body.Trailers()) != forwarded(trailers):
			t.Fatalf("%q: trailers\n%s\nwant\n%s", wire, forwarded(d.body.Trailers()), forwarded(trailers))
		}
	}
}

// randomExtensions are up to three chunk extensions with white space where it
// may stand.
func randomExtensions(random *rand.Rand) string {
	values := []string{"", "=b", " = b1", "=\"\"", "=\"b;c\\\"\"", "\t=\t\"\\\\\xff\""}
	spaces := []string{"", " ", "\t "}
	var s strings.Builder
	for range random.IntN(4) {
		fmt.Fprintf(&s, "%s;%sa%d%s", spaces[random.IntN(3)], spaces[random.IntN(3)], random.IntN(10), values[random.IntN(len(values))])
	}
	return s.String()
}

func randomTrailers(random *rand.Rand) (fs message.Fields) {
	for range random.IntN(3) {
		fs = append(fs, message.Field{
			Name:  fmt.Appendf(nil, "X-Sum-%d", random.IntN(100)),
			Value: []byte("abc \t\xff~"[:random.IntN(4)]),
		})
	}
	return fs
}
