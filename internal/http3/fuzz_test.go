package http3

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"sluice/internal/http2"
)

// FuzzCritical: whatever comes on a stream that carries no request, in one piece or byte by
// byte, it ends in the same way: with the stream, or by a fault.
func FuzzCritical(f *testing.F) {
	for _, seed := range []string{
		"\x04\x00\x07\x01\x00\x0d\x01\x05\x0d\x01\x05\x21\x00", "\x04\x04\x06\x01\x06\x01", "\x04\x02\x02\x01", "\x04\x00\x03\x01\x00",
		"\x04\x00\x04\x00", "\x04\x00\x80\x0f\x07\x00\x04\x00u=1", "\x20\x20", "\x3f\xe1\x1f", "\x41a\x01b", "\x40\x7f\x01", "\x80", "\x00",
	} {
		for _, kind := range []uint64{streamControl, streamEncoder, streamDecoder} {
			f.Add(kind, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint64, b []byte) {
		end := func(from io.Reader) error {
			c := &Conn{cfg: config(), began: time.Now(), calm: http2.NewCalm(0)}
			return c.readCritical(kind%4, newSource(from))
		}
		whole := end(bytes.NewReader(b))
		var fault *Fault
		if kind%4 != streamPush && !errors.As(whole, &fault) {
			t.Errorf("the stream ends with %v", whole)
		}
		if cut := end(&drops{b}); cut != whole {
			t.Errorf("in one piece %v, by bytes %v", whole, cut)
		}
	})
}

// drops gives its bytes one by one, and then io.EOF.
type drops struct{ b []byte }

func (d *drops) Read(p []byte) (int, error) {
	if len(d.b) == 0 {
		return 0, io.EOF
	}
	p[0], d.b = d.b[0], d.b[1:]
	return 1, nil
}
