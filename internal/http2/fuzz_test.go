package http2

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"

	"sluice/internal/http1"
	"sluice/internal/message"
)

// hoarder takes requests and never answers them.
type hoarder struct {
	said    []string
	streams []*Stream
}

func (h *hoarder) Ended() { h.said = append(h.said, "ended") }

func (h *hoarder) Accept(s *Stream) {
	var r message.Request
	s.Request(&r)
	h.said = append(h.said, fmt.Sprint(s.ID(), " ", said(&r)))
	h.streams = append(h.streams, s)
}

// fed is what came of a connection: what its owner saw, why it ended, and what it
// sent.
type fed struct {
	said []string
	why  error
	sent []byte
}

// feed has a new connection take b, in pieces that end where cuts says.
func feed(t *testing.T, b []byte, cuts uint64) fed {
	e := &still{now: 1}
	w := &recorder{tape: tape{e: e}}
	h := &hoarder{}
	cfg := playConfig(nil)
	cfg.Streams = 1000
	c := NewServer(e, cfg).Serve(w, nil, h)
	e.run()
	for len(b) > 0 && w.idle != nil {
		n := len(b)
		if cuts != 0 {
			n = min(n, 1+int(cuts%40))
			cuts = cuts*6364136223846793005 + 1442695040888963407
		}
		w.play(b[:n:n])
		b = b[n:]
	}
	out := fed{why: c.why, sent: w.all}
	for _, s := range h.streams {
		content := make([]byte, s.queue.n)
		s.queue.take(c.pool, content)
		out.said = append(out.said, fmt.Sprintf("%d %q %v %v", s.id, content, s.ended, s.Fault()))
	}
	out.said = append(h.said, out.said...)
	return out
}

// recorder keeps all that is written.
type recorder struct {
	tape
	all []byte
}

func (w *recorder) Write(p []byte) (int, error) {
	w.all = append(w.all, p...)
	return len(p), nil
}

// FuzzConnection: whatever a client sends, the connection answers in well-formed
// frames, holds no more than its limits, and does the same however the bytes are
// cut.
func FuzzConnection(f *testing.F) {
	for _, b := range recorded(f) {
		f.Add(b, uint64(0))
		f.Add(b, uint64(1))
		f.Add(b, uint64(12345))
	}
	f.Fuzz(func(t *testing.T, b []byte, cuts uint64) {
		b = append([]byte(preface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"), b...)
		compare(t, feed(t, b, 0), feed(t, b, cuts|1))
	})
}

// compare holds what came of bytes in one piece against what came of them in many,
// and what was sent against another's parser.
func compare(t *testing.T, whole, cut fed) {
	t.Helper()
	if whole.why != cut.why || strings.Join(whole.said, "\n") != strings.Join(cut.said, "\n") {
		t.Errorf("in one piece: %q, %v\nin pieces:    %q, %v", whole.said, whole.why, cut.said, cut.why)
	}
	fr := xhttp2.NewFramer(io.Discard, bytes.NewReader(whole.sent))
	for {
		if _, err := fr.ReadFrame(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("what was sent is not well-formed: %v\n%x", err, whole.sent)
		}
	}
}

// feedLink has a new connection to a server, on which three calls were made, take
// b; in pieces as feed has it.
func feedLink(t *testing.T, b []byte, cuts uint64) fed {
	e := &still{now: 1}
	w := &recorder{tape: tape{e: e}}
	link := NewClient(e, playConfig(nil)).Connect(w, new(mirror))
	var calls []*Call
	for _, method := range []string{"GET", "HEAD", "CONNECT"} {
		k, err := link.Call()
		if err != nil {
			t.Fatal(err)
		}
		r := message.Request{Method: http1.MethodOf([]byte(method)), MethodName: []byte(method), Scheme: []byte("https"), Host: []byte("a:1"), Target: []byte("/"), MaxForwards: -1}
		k.Send(&r, method != "CONNECT")
		calls = append(calls, k)
	}
	e.run()
	for len(b) > 0 && w.idle != nil {
		n := len(b)
		if cuts != 0 {
			n = min(n, 1+int(cuts%40))
			cuts = cuts*6364136223846793005 + 1442695040888963407
		}
		w.play(b[:n:n])
		b = b[n:]
	}
	out := fed{why: link.why, sent: bytes.TrimPrefix(w.all, []byte(preface))}
	for _, k := range calls {
		var r message.Response
		for {
			ok, err := k.Answer(&r)
			if out.said = append(out.said, fmt.Sprintf("%d %v %v %+v", k.id, ok, err, r)); !ok {
				break
			}
		}
		content := make([]byte, k.queue.n)
		k.queue.take(k.c.pool, content)
		out.said = append(out.said, fmt.Sprintf("%q %v %v %v", content, k.stream.ended, k.Fault(), k.Trailers()))
	}
	return out
}

// FuzzLink: the same for whatever a server sends.
func FuzzLink(f *testing.F) {
	for _, b := range recorded(f) {
		f.Add(b, uint64(1))
		f.Add(b, uint64(12345))
	}
	f.Fuzz(func(t *testing.T, b []byte, cuts uint64) {
		b = append([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"), b...)
		compare(t, feedLink(t, b, 0), feedLink(t, b, cuts|1))
	})
}

// recorded are the bytes that peers send in the transcripts behind the preface and
// SETTINGS.
func recorded(tb testing.TB) (all [][]byte) {
	for _, name := range []string{"requests", "faults", "flow", "abuse", "calls"} {
		text, err := os.ReadFile("testdata/" + name + ".txt")
		if err != nil {
			tb.Fatal(err)
		}
		for part := range strings.SplitSeq(string(text), "\n== ") {
			p := newScribe(tb)
			var b []byte
			for line := range strings.SplitSeq(part, "\n") {
				if rest, ok := strings.CutPrefix(line, "< "); ok && rest != "PREFACE" {
					b = append(b, p.frame(rest)...)
				}
			}
			if len(b) < 1<<15 {
				all = append(all, b)
			}
		}
	}
	return all
}
