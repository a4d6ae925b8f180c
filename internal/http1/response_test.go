package http1

import (
	"testing"

	"sluice/internal/message"
)

func TestResponses(t *testing.T) {
	for _, table := range [][]wireCase{statusLines, responseFields, responseFramings} {
		for _, c := range table {
			t.Run(c.title(), func(t *testing.T) { c.hold(t, readAsResponse(message.GET, c.in)) })
		}
	}
}

func TestResponsesToHEAD(t *testing.T) {
	for _, c := range responsesToHEAD {
		t.Run(c.title(), func(t *testing.T) { c.hold(t, readAsResponse(message.HEAD, c.in)) })
	}
}

var statusLines = []wireCase{
	{"RFC 9112 4", "version, status, reason", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "200 OK 1.1; length 0; stays | -Content-Length: 0"},
	{"RFC 9112 4", "not all there", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", "incomplete"},
	{"RFC 9112 4", "nothing there", "", "incomplete"},
	{"RFC 9112 4", "a body behind", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", `200 OK 1.1; length 1; stays | -Content-Length: 1 | then "a"`},
	{"RFC 9112 4", "reason of several words, not all ASCII", "HTTP/1.1 404 Nicht gef\xfcnden\tda\r\nContent-Length: 0\r\n\r\n", "404 Nicht gef\xfcnden\tda 1.1; length 0; stays | -Content-Length: 0"},
	{"RFC 9112 4", "empty reason", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200  1.1; length 0; stays | -Content-Length: 0"},
	{"RFC 9112 4", "empty reason without its space, as some send it", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "200  1.1; length 0; stays | -Content-Length: 0"},
	{"RFC 9112 4", "no status", "HTTP/1.1\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "two digits", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "two digits alone", "HTTP/1.1 20\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "letters", "HTTP/1.1 2OO OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "plus", "HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "minus", "HTTP/1.1 -20 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "fraction", "HTTP/1.1 200.1 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9110 15", "least", "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9110 15", "beyond the last class", "HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9110 15", "last of the last class", "HTTP/1.1 599 OK\r\nContent-Length: 0\r\n\r\n", "599 OK 1.1; length 0; stays | -Content-Length: 0"},
	{"RFC 9110 15", "000", "HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "two spaces before the status", "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "two spaces before the reason", "HTTP/1.1 200  OK\r\nContent-Length: 0\r\n\r\n", "200  OK 1.1; length 0; stays | -Content-Length: 0"},
	{"RFC 9112 4", "tab for a space", "HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "tab before the reason", "HTTP/1.1 200\tOK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "NUL in the reason", "HTTP/1.1 200 O\x00K\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "bare CR in the reason", "HTTP/1.1 200 O\rSet-Cookie: a\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 2.3", "HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "200 OK 1.0; length 0; closes | -Content-Length: 0"},
	{"RFC 9110 15.6.6", "HTTP/2.0", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", errVersion},
	{"RFC 9110 15.6.6", "HTTP/1.2", "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", errVersion},
	{"RFC 9112 2.3", "two digits of a version", "HTTP/1.10 200 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 2.3", "one part of a version", "HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 2.3", "lower case", "http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", errStatusLine},
	{"RFC 9112 2.3", "mixed case", "Http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", errVersionSyntax},
	{"RFC 9112 2.3", "another protocol", "ICY 200 OK\r\n\r\n", errStatusLine},
	{"RFC 9112 4", "HTTP/0.9: a page without a head", "<html>", errStatusLine},
	{"RFC 9112 4", "a TLS alert", "\x15\x03\x01\x00\x02", errStatusLine},
	{"RFC 9112 4", "a request", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", errStatusLine},
	{"RFC 9112 2.2", "an empty line before", "\r\nHTTP/1.1 200 OK\r\n\r\n", errStatusLine},
	{"RFC 9112 2.2", "space before", " HTTP/1.1 200 OK\r\n\r\n", errStatusLine},
	{"RFC 9112 2.2", "status line ends with LF alone", "HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", errBareLF},
	{"RFC 9112 2.2", "status line ends with CR CR LF", "HTTP/1.1 200 OK\r\r\nContent-Length: 0\r\n\r\n", errStatusLine},
}

var responseFields = []wireCase{
	{"RFC 9112 2.2", "field line ends with LF alone", "HTTP/1.1 200 OK\r\nContent-Length: 0\n\r\n", errBareLF},
	{"RFC 9112 2.2", "head ends with LF alone", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\n", errBareLF},
	{"RFC 9112 2.2", "head ends with CR CR LF", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\r\n", errBareCR},
	{"RFC 9112 2.2", "space before the first field", "HTTP/1.1 200 OK\r\n Content-Length: 0\r\n\r\n", errFold},
	{"RFC 9112 5.1", "space before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", errName},
	{"RFC 9112 5.2", "folded", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", errFold},
	{"RFC 9110 5.1", "no colon", "HTTP/1.1 200 OK\r\nContent-Length 0\r\n\r\n", errName},
	{"RFC 9110 5.5", "NUL", "HTTP/1.1 200 OK\r\nA: \x00\r\nContent-Length: 0\r\n\r\n", errValue},
	{"RFC 9110 5.5", "a field split by a bare CR", "HTTP/1.1 200 OK\r\nLocation: /a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n", errBareCR},
	{"RFC 9110 7.6.1", "what is the connection's ends here", "HTTP/1.1 200 OK\r\nConnection: a, keep-alive\r\nKeep-Alive: timeout=5\r\nA: b\r\nProxy-Connection: c\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n",
		"200 OK 1.1; length 0; stays | -Connection: a, keep-alive | -Keep-Alive: timeout=5 | -A: b | -Proxy-Connection: c | -Upgrade: h2c | -Content-Length: 0"},
	{"RFC 9110 7.6.1", "end-to-end ones stay though named", "HTTP/1.1 200 OK\r\nConnection: set-cookie, location\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
		"200 OK 1.1; length 0; stays | -Connection: set-cookie, location | Set-Cookie: a | Set-Cookie: b | Location: / | -Content-Length: 0"},
	{"RFC 9110 6.6.1", "Date", "HTTP/1.1 200 OK\r\ndate: now\r\nContent-Length: 0\r\n\r\n", "200 OK 1.1; length 0; stays; dated | date: now | -Content-Length: 0"},
	{"RFC 9112 9.3", "close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "200 OK 1.1; length 0; closes | -Connection: close | -Content-Length: 0"},
	{"RFC 9112 9.3", "HTTP/1.0 that keeps the connection", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", "200 OK 1.0; length 0; stays | -Connection: keep-alive | -Content-Length: 0"},
}

var responseFramings = []wireCase{
	{"RFC 9112 6.3", "1: 100", "HTTP/1.1 100 Continue\r\n\r\nHTTP", `100 Continue 1.1; stays | then "HTTP"`},
	{"RFC 9112 6.3", "1: 103 with fields", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "103 Early Hints 1.1; stays | Link: </a>"},
	{"RFC 9112 6.3", "1: 204", "HTTP/1.1 204 No Content\r\n\r\n", "204 No Content 1.1; stays"},
	{"RFC 9110 8.6", "204 with a length of nothing, as many send it", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "204 No Content 1.1; stays | -Content-Length: 0"},
	{"RFC 9110 8.6", "204 with a length: whether content follows is unsure", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", "204 No Content 1.1; closes | -Content-Length: 5"},
	{"RFC 9112 6.1", "204 with a coding: the same", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "204 No Content 1.1; closes | -Transfer-Encoding: chunked"},
	{"RFC 9110 8.6", "100 with a length: the same", "HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\n", "100 Continue 1.1; closes | -Content-Length: 5"},
	{"RFC 9112 6.3", "204 with a faulty length", "HTTP/1.1 204 No Content\r\nContent-Length: x\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "1: 304", "HTTP/1.1 304 Not Modified\r\n\r\n", "304 Not Modified 1.1; stays"},
	{"RFC 9110 8.6", "304 may say how long 200 would be", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "304 Not Modified 1.1; 5 declared; stays | -Content-Length: 5"},
	{"RFC 9112 6.1", "304 may say how 200 would be coded", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "304 Not Modified 1.1; stays | -Transfer-Encoding: chunked"},
	{"RFC 9112 6.3", "205 may have content", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", "205 Reset Content 1.1; length 0; stays | -Content-Length: 0"},
	{"RFC 9112 6.3", "3: both framings", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", errBothFramings},
	{"RFC 9112 6.3", "4: chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 OK 1.1; chunked; stays | -Transfer-Encoding: chunked"},
	{"RFC 9112 6.3", "4: another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", errCoding},
	{"RFC 9112 6.3", "4: identity", "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", errCoding},
	{"RFC 9112 6.3", "4: empty coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n", errCoding},
	{"RFC 9112 6.3", "4: chunked twice", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "chunked from HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", errCodingVersion},
	{"RFC 9112 6.3", "5: lengths that differ", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "5: a list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "5: lengths that agree", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", "200 OK 1.1; length 5; stays | -Content-Length: 5 | -Content-Length: 5"},
	{"RFC 9112 6.3", "5: negative", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "5: plus", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "5: empty", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "5: beyond 63 bits", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "6: length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "200 OK 1.1; length 5; stays | -Content-Length: 5"},
	{"RFC 9112 6.3", "8: until close", "HTTP/1.1 200 OK\r\n\r\n", "200 OK 1.1; until close; closes"},
	{"RFC 9112 6.3", "8: until close, whatever Connection says", "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n", "200 OK 1.1; until close; closes | -Connection: keep-alive"},
	{"RFC 9112 6.3", "8: from HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\n", "200 OK 1.0; until close; closes"},
	{"RFC 9112 6.3", "8: an underscored length is none", "HTTP/1.1 200 OK\r\nContent_Length: 5\r\n\r\n", "200 OK 1.1; until close; closes | Content_Length: 5"},
}

var responsesToHEAD = []wireCase{
	{"RFC 9112 6.3", "1: no content, whatever is declared", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "200 OK 1.1; 5 declared; stays | -Content-Length: 5"},
	{"RFC 9112 6.3", "1: nothing declared", "HTTP/1.1 200 OK\r\n\r\n", "200 OK 1.1; stays"},
	{"RFC 9112 6.3", "1: chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 OK 1.1; stays | -Transfer-Encoding: chunked"},
	{"RFC 9112 6.3", "3: both framings are refused all the same", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", errBothFramings},
	{"RFC 9112 6.3", "5: lengths that differ", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", errLengths},
	{"RFC 9112 9.3", "HTTP/1.0 closes", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", "200 OK 1.0; 5 declared; closes | -Content-Length: 5"},
}
