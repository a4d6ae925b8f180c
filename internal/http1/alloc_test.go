package http1

import (
	"testing"

	"sluice/internal/message"
)

// TestNoAllocations: what is parsed once must not allocate when it is parsed
// again: not for an accepted message, and not for a refused one.
func TestNoAllocations(t *testing.T) {
	var request message.Request
	var response message.Response
	var body Body
	out := make([]byte, 0, 4<<10)
	for _, table := range [][]wireCase{requestLines, targets, hosts, fieldLines, connections, requestSemantics, framings} {
		for _, c := range table {
			in := []byte(c.in)
			holdNoAllocations(t, c.title(), func() {
				if n, err := ParseRequest(in, usual, &request); n > 0 && err == nil {
					out = AppendRequestLine(out[:0], &request)
					out = AppendFields(out, request.Fields)
					out = AppendFraming(out, request.Body, request.ContentLength)
				}
			})
		}
	}
	for _, table := range [][]wireCase{statusLines, responseFields, responseFramings} {
		for _, c := range table {
			in := []byte(c.in)
			holdNoAllocations(t, c.title(), func() {
				if n, err := ParseResponse(in, usual, message.GET, &response); n > 0 && err == nil {
					out = AppendStatusLine(out[:0], response.Status, response.Reason)
					out = AppendFields(out, response.Fields)
				}
			})
		}
	}
	for _, c := range chunkedBodies {
		in := []byte(c.in)
		holdNoAllocations(t, c.title(), func() {
			if err := body.Start(message.Chunked, 0, 1<<20, usual); err != nil {
				t.Fatal(err)
			}
			for rest := in; !body.Done(); {
				data, used, err := body.Next(rest)
				if err != nil || used == 0 {
					break
				}
				out = AppendChunkHead(out[:0], len(data))
				rest = rest[used:]
			}
			out = AppendLastChunk(out, body.Trailers())
		})
	}
}

func holdNoAllocations(t *testing.T, title string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(10, f); n != 0 {
		t.Errorf("%s: %v allocations", title, n)
	}
}

// TestUsualHeads: the heads that speed is measured with are read whole and right.
func TestUsualHeads(t *testing.T) {
	for _, c := range []struct {
		head   []byte
		fields int
	}{{wrkHead, 3}, {curlHead, 3}, {chromeHead, 15}} {
		var r message.Request
		n, err := ParseRequest(c.head, usual, &r)
		if err != nil || n != len(c.head) || len(r.Fields) != c.fields || !r.KeepAlive {
			t.Errorf("%q: %d bytes, %d fields, %v", c.head, n, len(r.Fields), err)
		}
	}
	for _, c := range []struct {
		head []byte
		body message.Framing
	}{{nginxHead, message.Length}, {tomcatHead, message.Chunked}} {
		var r message.Response
		n, err := ParseResponse(c.head, usual, message.GET, &r)
		if err != nil || n != len(c.head) || r.Body != c.body || !r.HasDate || !r.KeepAlive {
			t.Errorf("%q: %d bytes, framing %d, %v", c.head, n, r.Body, err)
		}
	}
}
