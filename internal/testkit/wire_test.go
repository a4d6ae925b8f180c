package testkit

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
)

// What the reader makes of responses, and that it takes nothing for whole that is
// not: the tests of a proxy are worth what their reader is.
func TestReadResponse(t *testing.T) {
	for _, c := range []struct {
		method, wire string
		want         string // status, body, trailers; "fault": an error
	}{
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", `200 "ab" []`},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na", "fault"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "fault"},
		{"GET", "HTTP/1.1 200 OK\r\n\r\nto the end", `200 "to the end" []`},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", `200 "abc" []`},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-A: 1\r\n\r\n", `200 "" [{X-A 1}]`},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "fault"},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", "fault"},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", "fault"},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n0\r\n\r\n", "fault"},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n", "fault"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", "fault"},
		{"GET", "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", "fault"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\n", "fault"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", "fault"},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n", "fault"},
		{"GET", "HTTP/1.1 2OO OK\r\nContent-Length: 0\r\n\r\n", "fault"},
		{"GET", "HTTP/1.1 200 OK\r\nX-A: 1\r\n", "fault"},
		{"GET", "", "fault"},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", `200 "" []`},
		{"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", `304 "" []`},
		{"GET", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1", `103 "" []`},
	} {
		m, err := readResponse(bufio.NewReader(strings.NewReader(c.wire)), c.method)
		got := fmt.Sprintf("%d %q %v", m.Status(), m.Body, m.Trailers)
		if err != nil {
			got = "fault"
		}
		if got != c.want {
			t.Errorf("%s answered with %q: %s, %v; want %s", c.method, c.wire, got, err, c.want)
		}
	}
}

func TestReadRequest(t *testing.T) {
	const wire = "POST /a?b HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 3\r\n\r\nGET / HTTP/1.1\r\n\r\n"
	r := bufio.NewReader(strings.NewReader(wire))
	m, err := readRequest(r)
	if err != nil || m.Method() != "POST" || m.Target() != "/a?b" || m.Get("X-A") != "1, 2" || string(m.Body) != "abc" || m.Trailer("x-t") != "3" {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err = readRequest(r); err != nil || m.Method() != "GET" || m.Body != nil {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err = readRequest(r); err == nil {
		t.Error("a request out of nothing")
	}
}
