package proxy

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/http2/hpack"
	"sluice/internal/message"
)

// greeting is what a client of HTTP/2 begins with: SETTINGS of its own, and that it has
// taken ours.
const greeting = preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x00\x04\x01\x00\x00\x00\x00"

// headers is a HEADERS frame of a short request; last says that no content follows.
func headers(stream byte, m message.Method, method, path string, last bool) string {
	block := hpack.AppendMethod(nil, m, []byte(method))
	block = hpack.AppendScheme(block, []byte("http"))
	block = hpack.AppendPath(block, []byte(path))
	block = hpack.AppendAuthority(block, []byte("www.example"))
	if path == "*" {
		block = hpack.AppendField(block, message.MaxForwards, []byte("max-forwards"), []byte("0"))
	}
	const endHeaders, endStream = 4, 1
	flags := byte(endHeaders)
	if last {
		flags |= endStream
	}
	return string(append([]byte{0, 0, byte(len(block)), 1, flags, 0, 0, 0, stream}, block...))
}

// TestStreamPanic: a fault of ours that is met on a stream ends that stream, and one that
// is met by HTTP/2 itself its connection; all others go on.
func TestStreamPanic(t *testing.T) {
	get := headers(1, message.GET, "GET", "/", true)
	for _, c := range []struct {
		name           string
		client, server brittle
		request, rest  string
		want           string // of the frames that the client gets
		goesOn         bool   // the connection does
	}{
		{"writing the request", brittle{}, brittle{writes: 1}, get, "", "\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x02", true}, // RST_STREAM(INTERNAL_ERROR)
		{"writing content, in the upload's task", brittle{}, brittle{writes: 2}, headers(1, message.POST, "POST", "/", false),
			"\x00\x00\x05\x00\x00\x00\x00\x00\x01hello", "<title>500 ", true},
		{"reading frames", brittle{reads: 2}, brittle{}, get, headers(3, message.GET, "GET", "/", true), "", false},
		{"writing frames", brittle{writes: 1}, brittle{}, get, "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBare(t, "off", "off")
			near, far := socketPair(t)
			b.meet(t, near, &c.client, &c.server)
			unix.Write(far, []byte(greeting+c.request))
			b.turn()
			unix.Write(far, []byte(c.rest))
			got := ""
			for !strings.Contains(got, c.want) || !c.goesOn {
				piece := b.readSome(far)
				if got += piece; piece == "" || piece == unix.EAGAIN.Error() {
					break // the end, or nothing came for too long
				}
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("the client gets %q, want %q", got, c.want)
			}
			if c.goesOn {
				unix.Write(far, []byte(headers(5, message.OPTIONS, "OPTIONS", "*", true)))
				if got := b.readSome(far); !strings.Contains(got, "\x00\x00\x00\x05") {
					t.Errorf("the next request gets %q", got)
				}
			}
			unix.Close(far)
			b.mustBeWell(t)
		})
	}
}
