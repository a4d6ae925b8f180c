package http1

import (
	"strings"
	"testing"

	"sluice/internal/message"
)

var connections = []wireCase{
	{"RFC 9112 9.3", "HTTP/1.1 persists", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET / 1.1 for h; stays | -Host: h"},
	{"RFC 9112 9.3", "until close", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "GET / 1.1 for h; closes | -Host: h | -Connection: close"},
	{"RFC 9112 9.3", "close in any case and place", "GET / HTTP/1.1\r\nHost: h\r\nConnection: a ,\tCLOSE\r\n\r\n", "GET / 1.1 for h; closes | -Host: h | -Connection: a ,\tCLOSE"},
	{"RFC 9112 9.3", "close in a second field", "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", "GET / 1.1 for h; closes | -Host: h | -Connection: keep-alive | -Connection: close"},
	{"RFC 9112 9.3", "close overrules keep-alive", "GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n", "GET / 1.0 for ; closes | -Connection: close, keep-alive"},
	{"RFC 9112 9.3", "HTTP/1.0 closes", "GET / HTTP/1.0\r\n\r\n", "GET / 1.0 for ; closes"},
	{"RFC 9112 9.3", "unless it asks otherwise", "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET / 1.0 for ; stays | -Connection: Keep-Alive"},
	{"RFC 9112 C.2.2", "not by Proxy-Connection", "GET / HTTP/1.0\r\nProxy-Connection: keep-alive\r\n\r\n", "GET / 1.0 for ; closes | -Proxy-Connection: keep-alive"},
	{"RFC 9112 9.3", "a word that has close in it", "GET / HTTP/1.1\r\nHost: h\r\nConnection: closed, close-notify\r\n\r\n", "GET / 1.1 for h; stays | -Host: h | -Connection: closed, close-notify"},

	{"RFC 9110 7.6.1", "named fields end here", "GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nConnection: a, B\r\nb: 2\r\nC: 3\r\n\r\n", "GET / 1.1 for h; stays | -Host: h | -A: 1 | -Connection: a, B | -b: 2 | C: 3"},
	{"RFC 9110 7.6.1", "named in the second of two fields", "GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nConnection: close\r\nConnection: ,,a,\r\n\r\n", "GET / 1.1 for h; closes | -Host: h | -A: 1 | -Connection: close | -Connection: ,,a,"},
	{"RFC 9110 7.6.1", "every line of a named field ends here", "GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nA: 2\r\nConnection: A\r\n\r\n", "GET / 1.1 for h; stays | -Host: h | -A: 1 | -A: 2 | -Connection: A"},
	{"RFC 9110 7.6.1", "known ones end here unnamed", "GET / HTTP/1.1\r\nHost: h\r\nKeep-Alive: 5\r\nTE: gzip\r\nUpgrade: a\r\nProxy-Authorization: b\r\nHTTP2-Settings: c\r\n\r\n",
		"GET / 1.1 for h; stays | -Host: h | -Keep-Alive: 5 | -TE: gzip | -Upgrade: a | -Proxy-Authorization: b | -HTTP2-Settings: c"},
	{"RFC 9110 7.6.1", "end-to-end ones stay though named", "GET / HTTP/1.1\r\nHost: h\r\nConnection: cookie, x-forwarded-for, Authorization, Cache-Control\r\nCookie: a\r\nX-Forwarded-For: b\r\nAuthorization: c\r\nCache-Control: d\r\n\r\n",
		"GET / 1.1 for h; stays | -Host: h | -Connection: cookie, x-forwarded-for, Authorization, Cache-Control | Cookie: a | X-Forwarded-For: b | Authorization: c | Cache-Control: d"},
	{"RFC 9110 7.6.1", "framing holds though named", "POST / HTTP/1.1\r\nHost: h\r\nConnection: content-length, host\r\nContent-Length: 5\r\n\r\n",
		"POST / 1.1 for h; length 5; stays | -Host: h | -Connection: content-length, host | -Content-Length: 5"},
	{"RFC 9110 7.6.1", "coding holds though named", "POST / HTTP/1.1\r\nHost: h\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST / 1.1 for h; chunked; stays | -Host: h | -Connection: transfer-encoding | -Transfer-Encoding: chunked"},
	{"RFC 9110 7.6.1", "both framings are refused though one is named", "POST / HTTP/1.1\r\nHost: h\r\nConnection: content-length\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", errBothFramings},
}

var requestSemantics = []wireCase{
	{"RFC 9110 7.6.2", "Max-Forwards of OPTIONS", "OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 3\r\n\r\n", "OPTIONS / 1.1 for h; stays; 3 hops left | -Host: h | -Max-Forwards: 3"},
	{"RFC 9110 7.6.2", "Max-Forwards of TRACE", "TRACE / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n", "TRACE / 1.1 for h; stays; 0 hops left | -Host: h | -Max-Forwards: 0"},
	{"RFC 9110 7.6.2", "ignored elsewhere", "GET / HTTP/1.1\r\nHost: h\r\nMax-Forwards: x\r\n\r\n", "GET / 1.1 for h; stays | -Host: h | Max-Forwards: x"},
	{"RFC 9110 7.6.2", "no number", "OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: x\r\n\r\n", errMaxForwards},
	{"RFC 9110 7.6.2", "empty", "OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards:\r\n\r\n", errMaxForwards},
	{"RFC 9110 7.6.2", "negative", "OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: -1\r\n\r\n", errMaxForwards},
	{"RFC 9110 7.6.2", "given twice", "OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 1\r\nMax-Forwards: 1\r\n\r\n", errMaxForwards},
	{"RFC 9110 7.6.2", "beyond 32 bits", "OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 9999999999\r\n\r\n", "OPTIONS / 1.1 for h; stays; 2147483648 hops left | -Host: h | -Max-Forwards: 9999999999"},

	{"RFC 9110 9.3.8", "TRACE with content", "TRACE / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n", errNoContent},
	{"RFC 9110 9.3.8", "TRACE with chunks", "TRACE / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", errNoContent},
	{"RFC 9110 9.3.6", "CONNECT with content", "CONNECT h:1 HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n", errNoContent},
	{"RFC 9110 9.3.6", "CONNECT with chunks", "CONNECT h:1 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", errNoContent},
	{"RFC 9110 9.3.8", "TRACE with a length of nothing", "TRACE / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "TRACE / 1.1 for h; length 0; stays | -Host: h | -Content-Length: 0"},

	{"RFC 9110 10.1.1", "100-continue", "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 5\r\n\r\n", "POST / 1.1 for h; length 5; stays; awaits 100 | -Host: h | -Expect: 100-Continue | -Content-Length: 5"},
	{"RFC 9110 10.1.1", "before chunks", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n", "POST / 1.1 for h; chunked; stays; awaits 100 | -Host: h | -Transfer-Encoding: chunked | -Expect: 100-continue"},
	{"RFC 9110 10.1.1", "not without content", "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n", "POST / 1.1 for h; length 0; stays | -Host: h | -Expect: 100-continue | -Content-Length: 0"},
	{"RFC 9110 10.1.1", "ignored from HTTP/1.0", "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", "POST / 1.0 for ; length 5; closes | -Expect: 100-continue | -Content-Length: 5"},
	{"RFC 9110 10.1.1", "others are the server's", "POST / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\nContent-Length: 5\r\n\r\n", "POST / 1.1 for h; length 5; stays | -Host: h | Expect: tea | -Content-Length: 5"},

	{"RFC 9110 10.1.4", "trailers are accepted", "GET / HTTP/1.1\r\nHost: h\r\nConnection: TE\r\nTE: gzip;q=0.5, Trailers\r\n\r\n", "GET / 1.1 for h; stays; takes trailers | -Host: h | -Connection: TE | -TE: gzip;q=0.5, Trailers"},
	{"RFC 9110 10.1.4", "in the second of three fields", "GET / HTTP/1.1\r\nHost: h\r\nTE: gzip\r\nTE: trailers\r\nTE: gzip\r\n\r\n", "GET / 1.1 for h; stays; takes trailers | -Host: h | -TE: gzip | -TE: trailers | -TE: gzip"},
	{"RFC 9110 10.1.4", "a word that has trailers in it", "GET / HTTP/1.1\r\nHost: h\r\nTE: trailersx\r\n\r\n", "GET / 1.1 for h; stays | -Host: h | -TE: trailersx"},

	{"RFC 9110 7.8", "upgrade", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "GET / 1.1 for h; stays; upgrade to websocket | -Host: h | -Connection: Upgrade | -Upgrade: websocket"},
	{"RFC 9110 7.8", "ignored unless Connection names it", "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n", "GET / 1.1 for h; stays | -Host: h | -Upgrade: websocket"},
	{"RFC 9110 7.8", "ignored from HTTP/1.0", "GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "GET / 1.0 for ; closes | -Connection: Upgrade | -Upgrade: websocket"},
	{"RFC 9113 3.1", "to h2c is ignored", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\n\r\n",
		"GET / 1.1 for h; stays | -Host: h | -Connection: Upgrade, HTTP2-Settings | -Upgrade: h2c | -HTTP2-Settings: AAM"},
	{"RFC 9110 7.8", "to h2c or another", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c, websocket\r\n\r\n",
		"GET / 1.1 for h; stays; upgrade to h2c, websocket | -Host: h | -Connection: Upgrade | -Upgrade: h2c, websocket"},
}

// TestMethods: the methods that are told apart, and that none but these are.
func TestMethods(t *testing.T) {
	known := map[string]message.Method{
		"GET": message.GET, "HEAD": message.HEAD, "POST": message.POST, "PUT": message.PUT, "DELETE": message.DELETE,
		"OPTIONS": message.OPTIONS, "TRACE": message.TRACE, "PATCH": message.PATCH,
	}
	for name, want := range known {
		for _, written := range []string{name, strings.ToLower(name), name + "X", name[1:], "X" + name} {
			var r message.Request
			if _, err := ParseRequest([]byte(written+" / HTTP/1.1\r\nHost: h\r\n\r\n"), usual, &r); err != nil {
				t.Fatal(written, err)
			}
			wanted := message.Other
			if written == name {
				wanted = want
			}
			if r.Method != wanted || string(r.MethodName) != written {
				t.Errorf("%s is read as method %d, %s; want %d", written, r.Method, r.MethodName, wanted)
			}
		}
	}
}
