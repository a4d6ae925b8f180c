package proxy

import (
	"bytes"
	"testing"

	"sluice/internal/http1"
	"sluice/internal/message"
)

// A full buffer must be a fault: a read without room returns at once and for
// ever, and takes the whole loop with it.
func TestFullBufferIsTooLong(t *testing.T) {
	for _, longest := range []int{1 << 10, largeBytes, largeBytes + 1, 1 << 20} {
		limits := http1.Limits{Head: longest, Line: longest, Fields: 128}
		var spare buffers
		spare.fit(longest)
		fill := func(start string, from int) []byte {
			f := spare.getLarge()
			f.r, f.w = from, from
			f.w += copy(f.room(), start)
			f.w += copy(f.room(), bytes.Repeat([]byte("x"), len(f.b)))
			return f.unread()
		}
		for _, start := range []string{"GET /", "\r\nGET /", "GET / HTTP/1.1\r\nX: ", "\r\nGET / HTTP/1.1\r\nX: "} {
			var r message.Request
			if n, err := http1.ParseRequest(fill(start, headroom), &limits, &r); n != 0 || err == nil {
				t.Errorf("limit %d, request %q: %d, %v", longest, start, n, err)
			}
		}
		for _, start := range []string{"HTTP/1.1 200 ", "HTTP/1.1 200 OK\r\nX: "} {
			var r message.Response
			if n, err := http1.ParseResponse(fill(start, headroom+1), &limits, message.GET, &r); n != 0 || err == nil {
				t.Errorf("limit %d, response %q: %d, %v", longest, start, n, err)
			}
		}
	}
}
