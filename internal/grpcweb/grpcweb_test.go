package grpcweb

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"testing"

	"sluice/internal/message"
)

func TestOf(t *testing.T) {
	for in, want := range map[string]struct {
		kind Kind
		rest string
	}{
		"application/grpc-web":                          {Binary, ""},
		"application/grpc-web+proto":                    {Binary, "+proto"},
		"application/grpc-web;charset=utf-8":            {Binary, ";charset=utf-8"},
		"application/grpc-web-text":                     {Text, ""},
		"application/grpc-web-text+proto":               {Text, "+proto"},
		"application/grpc-web-texts":                    {None, ""},
		"application/grpc-website":                      {None, ""},
		"application/grpc":                              {None, ""},
		"application/grpc+proto":                        {None, ""},
		"text/plain; x=application/grpc-web":            {None, ""},
		"application/grpc-web-text; q=application/grpc": {Text, "; q=application/grpc"},
	} {
		kind, rest := Of([]byte(in))
		if kind != want.kind || string(rest) != want.rest {
			t.Errorf("%s: %d %q, want %d %q", in, kind, rest, want.kind, want.rest)
		}
	}
	if got := string(Text.AppendType(nil, []byte("+proto"))); got != "application/grpc-web-text+proto" {
		t.Error(got)
	}
	if got := string(AppendGRPC(nil, []byte("+proto"))); got != "application/grpc+proto" {
		t.Error(got)
	}
}

func TestTrailers(t *testing.T) {
	got := AppendTrailers([]byte("before"), message.Fields{
		{Name: []byte("Grpc-Status"), Value: []byte("0")}, {Name: []byte("gone"), Value: []byte("x"), Drop: true}, {Name: []byte("a"), Value: []byte("b c")},
	})
	if want := "before\x80\x00\x00\x00\x18grpc-status: 0\r\na: b c\r\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := AppendTrailers(nil, nil); string(got) != "\x80\x00\x00\x00\x00" {
		t.Errorf("none: %q", got)
	}
}

// TestText: what is written piece by piece, cut anywhere, reads as it was.
func TestText(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		var want, text []byte
		for range 1 + random.IntN(4) {
			piece := make([]byte, random.IntN(9))
			for i := range piece {
				piece[i] = byte(random.Uint32())
			}
			want = append(want, piece...)
			text = Text.AppendContent(text, piece)
		}
		var d Decoder
		var got []byte
		for rest := text; len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			var err error
			if got, err = d.Append(got, rest[:n]); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			rest = rest[n:]
		}
		if d.End() != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q reads as %x, want %x", text, got, want)
		}
	}
}

func TestTextThatIsNone(t *testing.T) {
	for _, in := range []string{"AAA", "A===", "AA=A", "A!AA", "====", "AAAAA", "AB=="} {
		var d Decoder
		_, err := d.Append(nil, []byte(in))
		if err == nil {
			err = d.End()
		}
		if err != ErrText {
			t.Errorf("%q: %v", in, err)
		}
	}
	var d Decoder
	if got, err := d.Append(nil, []byte("QUJD\r\nRA==")); err != nil || string(got) != "ABCD" {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("QUJDRA=="), 3)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		cut = max(0, min(cut, len(in)))
		var whole, parts Decoder
		a, errA := whole.Append(nil, in)
		b, errB := parts.Append(nil, in[:cut])
		if errB == nil {
			b, errB = parts.Append(b, in[cut:])
		}
		if (errA == nil) != (errB == nil) || errA == nil && !bytes.Equal(a, b) {
			t.Fatalf("cut at %d: %x %v, whole %x %v", cut, b, errB, a, errA)
		}
		if errA == nil && whole.End() == nil && bytes.IndexByte(in, '=') < 0 && bytes.IndexAny(in, "\r\n") < 0 {
			if want, err := base64.StdEncoding.DecodeString(string(in)); err != nil || !bytes.Equal(a, want) {
				t.Fatalf("%x, encoding/base64 says %x, %v", a, want, err)
			}
		}
	})
}
