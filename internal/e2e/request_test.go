package e2e

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// A refused request and what it gets. Where a case shows one fault, the rest of
// the request is good.
type refusal struct {
	request string
	status  int
	rule    string // the section that forbids it
}

// after follows each refused request on its connection: it must never be read as
// a request.
const after = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

// head makes a GET with one more field line, which is raw.
func head(line string) string { return "GET / HTTP/1.1\r\nHost: a\r\n" + line + "\r\n\r\n" }

// post makes a POST with framing fields and a body, all raw.
func post(fields, body string) string {
	return "POST / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n\r\n" + body
}

// chunks makes a POST with a body in the chunked coding.
func chunks(body string) string { return post("Transfer-Encoding: chunked", body) }

// to makes a GET of a target.
func to(target string) string { return "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n" }

var refusedLines = []refusal{
	{"\n" + to("/"), 400, "RFC 9112 2.2: a bare LF is no line"},
	{"\r" + to("/"), 400, "RFC 9112 2.2: a bare CR is no line"},
	{"\r\n\r\n" + to("/"), 400, "RFC 9112 2.2: at least one empty line is passed over, not any number"},
	{" " + to("/"), 400, "RFC 9112 3"},
	{"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9112 3: one space"},
	{"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9112 3: one space"},
	{"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9112 3: a space, not a tab"},
	{"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400, "RFC 9112 3"},
	{"GET / HTTP/1.1\tx\r\nHost: a\r\n\r\n", 400, "RFC 9112 3"},
	{"GET /\r\nHost: a\r\n\r\n", 400, "HTTP/0.9 is over"},
	{"GET\r\n\r\n", 400, "RFC 9112 3"},
	{"\x00GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9110 9.1: a token"},
	{"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9110 9.1: a token"},
	{"G\xc3\x8bT / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9110 9.1: a token"},
	{"GET: / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9110 9.1: a token"},
	{"GET / HTTP/1.1\nHost: a\r\n\r\n", 400, "RFC 9112 2.2: CR LF"},
	{"GET / HTTP/1.1\r\nHost: a\n\r\n", 400, "RFC 9112 2.2: CR LF"},
	{"GET / HTTP/1.1\r\nHost: a\r\n\n", 400, "RFC 9112 2.2: CR LF"},
	{"GET / HTTP/1.1\r\rHost: a\r\n\r\n", 400, "RFC 9112 2.2: a bare CR"},
	{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "a TLS hello"},
}

var refusedVersions = []refusal{
	{"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505, "RFC 9110 15.6.6"},
	{"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505, "RFC 9110 15.6.6"},
	{"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505, "RFC 9110 15.6.6"},
	{"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, "RFC 9110 15.6.6"},
	{"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400, "RFC 9112 2.3: one digit each"},
	{"GET / HTTP/11\r\nHost: a\r\n\r\n", 400, "RFC 9112 2.3"},
	{"GET / HTTP/1.\r\nHost: a\r\n\r\n", 400, "RFC 9112 2.3"},
	{"GET / HTTP/+1.1\r\nHost: a\r\n\r\n", 400, "RFC 9112 2.3"},
	{"GET / http/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9112 2.3: case matters"},
	{"GET / HTTPS/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9112 2.3"},
	{"GET / ICY/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9112 2.3"},
}

var refusedTargets = []refusal{
	{to("path"), 400, "RFC 9112 3.2.1: begins with a slash"},
	{to("*"), 400, "RFC 9112 3.2.4: OPTIONS only"},
	{to("/a b"), 400, "RFC 9112 3.2"},
	{to("/a#fragment"), 400, "RFC 3986 3.5: stays with the client"},
	{to("/\x7f"), 400, "RFC 3986 2"},
	{to("/\x01"), 400, "RFC 3986 2"},
	{to("/\xc3\xa4"), 400, "RFC 3986 2: ASCII"},
	{to("/a\\b"), 400, "RFC 3986 2"},
	{to("/<script>"), 400, "RFC 3986 2"},
	{to("/%"), 400, "RFC 3986 2.1"},
	{to("/%4"), 400, "RFC 3986 2.1"},
	{to("/%zz"), 400, "RFC 3986 2.1"},
	{to("/?q=\x00"), 400, "RFC 3986 2"},
	{to("http://"), 400, "RFC 9110 4.2.1: no empty host"},
	{to("http:///path"), 400, "RFC 9110 4.2.1: no empty host"},
	{to("http://user@a/"), 400, "RFC 9110 4.2.4: userinfo"},
	{to("http://user:pass@a/"), 400, "RFC 9110 4.2.4: userinfo"},
	{to("http://a:99999/"), 400, "no such port"},
	{to("http://[::1/"), 400, "RFC 3986 3.2.2"},
	{to("ftp://a/"), 400, "not a scheme that is served"},
	{to("https://a/"), 421, "RFC 9110 7.4: wants TLS"},
	{to("//a/%"), 400, "RFC 3986 2.1"},
	{"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", 400, "RFC 9110 9.3.6: host and port"},
}

var refusedFields = []refusal{
	{head("X-A : 1"), 400, "RFC 9112 5.1: no space before the colon"},
	{head("X-A\t: 1"), 400, "RFC 9112 5.1: no tab before the colon"},
	{head(" X-A: 1"), 400, "RFC 9112 5.2: folded"},
	{head("X-A: 1\r\n two"), 400, "RFC 9112 5.2: folded"},
	{head("X-A: 1\r\n\ttwo"), 400, "RFC 9112 5.2: folded"},
	{"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, "RFC 9112 2.2: space before the first field"},
	{head("X-A"), 400, "RFC 9112 5: a colon"},
	{head(": 1"), 400, "RFC 9112 5: a name"},
	{head("X A: 1"), 400, "RFC 9110 5.1: a token"},
	{head("X(A): 1"), 400, "RFC 9110 5.1: a token"},
	{head("X\"A: 1"), 400, "RFC 9110 5.1: a token"},
	{head("X\xe4: 1"), 400, "RFC 9110 5.1: a token"},
	{head("X\x00A: 1"), 400, "RFC 9110 5.1: a token"},
	{head("X-A: a\x00b"), 400, "RFC 9110 5.5: NUL"},
	{head("X-A: a\rb"), 400, "RFC 9110 5.5: CR"},
	{head("X-A: a\r"), 400, "RFC 9112 2.2: a bare CR"},
	{head("X-A: a\nX-B: b"), 400, "RFC 9112 2.2: CR LF"},
	{head("X-A: a\x01b"), 400, "RFC 9110 5.5: controls"},
	{head("X-A: a\x7fb"), 400, "RFC 9110 5.5: controls"},
	{"GET / HTTP/1.1\r\n\r\n", 400, "RFC 9112 3.2: Host"},
	{"GET http://a/ HTTP/1.1\r\n\r\n", 400, "RFC 9112 3.2: Host, even then"},
	{head("Host: a"), 400, "RFC 9112 3.2: one Host"},
	{head("host: b"), 400, "RFC 9112 3.2: one Host"},
	{"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400, "RFC 9112 3.2: one Host"},
	{"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400, "RFC 9112 3.2: a valid one"},
	{"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", 400, "RFC 9112 3.2: a valid one"},
	{"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400, "RFC 9112 3.2: a valid one"},
	{"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "RFC 9112 3.2: a valid one"},
	{"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400, "RFC 9112 3.2: a valid one"},
	{"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, "RFC 9112 3.2: a valid one"},
	{"GET / HTTP/1.1\r\nHost: http://a\r\n\r\n", 400, "RFC 9112 3.2: a valid one"},
	{"OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: x\r\n\r\n", 400, "RFC 9110 7.6.2"},
}

var refusedFramings = []refusal{
	{post("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), 400, "RFC 9112 6.1: not both"},
	{post("Transfer-Encoding: chunked\r\nContent-Length: 0", "0\r\n\r\n"), 400, "RFC 9112 6.1: not both"},
	{post("Content-Length: 1\r\nContent-Length: 2", "ab"), 400, "RFC 9112 6.3: one length"},
	{post("Content-Length: 1, 2", "ab"), 400, "RFC 9112 6.3: one length"},
	{post("Content-Length: 2, 2", "ab"), 400, "one length, once"},
	{post("Content-Length: +2", "ab"), 400, "RFC 9110 8.6: digits"},
	{post("Content-Length: -2", "ab"), 400, "RFC 9110 8.6: digits"},
	{post("Content-Length: 0x2", "ab"), 400, "RFC 9110 8.6: digits"},
	{post("Content-Length: 2 0", "ab"), 400, "RFC 9110 8.6: digits"},
	{post("Content-Length: 1e1", "0123456789"), 400, "RFC 9110 8.6: digits"},
	{post("Content-Length: ", ""), 400, "RFC 9110 8.6: digits"},
	{post("Content-Length: \xd9\xa2", "ab"), 400, "RFC 9110 8.6: ASCII digits"},
	{post("Content-Length: 99999999999999999999", ""), 400, "RFC 9110 8.6: no overflow"},
	{post("Content-Length : 2", "ab"), 400, "RFC 9112 5.1"},
	{post("Content-Length: 2\r\nContent-Length:", "ab"), 400, "RFC 9110 8.6"},
	{post("Transfer-Encoding: identity", ""), 400, "RFC 9112 6.1: chunked alone"},
	{post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"), 400, "RFC 9112 6.1: chunked alone"},
	{post("Transfer-Encoding: chunked, gzip", "0\r\n\r\n"), 400, "RFC 9112 6.3: final"},
	{post("Transfer-Encoding: chunked, chunked", "0\r\n\r\n"), 400, "RFC 9112 6.1: once"},
	{post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), 400, "RFC 9112 6.1: once"},
	{post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "0\r\n\r\n"), 400, "RFC 9112 6.1: once"},
	{post("Transfer-Encoding: xchunked", "0\r\n\r\n"), 400, "RFC 9112 6.1"},
	{post("Transfer-Encoding: \"chunked\"", "0\r\n\r\n"), 400, "RFC 9112 6.1"},
	{post("Transfer-Encoding: chunked;q=1", "0\r\n\r\n"), 400, "RFC 9112 7: chunked has no parameters"},
	{post("Transfer-Encoding: \x0bchunked", "0\r\n\r\n"), 400, "RFC 9110 5.5"},
	{post("Transfer-Encoding:\xa0chunked", "0\r\n\r\n"), 400, "RFC 9112 6.1"},
	{post("Transfer-Encoding :chunked", "0\r\n\r\n"), 400, "RFC 9112 5.1"},
	{post("Transfer-Encoding:", ""), 400, "RFC 9112 6.1"},
	{"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "RFC 9112 6.1: HTTP/1.0 has none"},
	{"TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na", 400, "RFC 9110 9.3.8: no content"},
}

var refusedChunks = []refusal{
	{chunks("\r\n0\r\n\r\n"), 400, "RFC 9112 7.1: a size"},
	{chunks("x\r\n"), 400, "RFC 9112 7.1: hexadecimal"},
	{chunks("0x2\r\nab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1: hexadecimal"},
	{chunks("-2\r\nab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1: hexadecimal"},
	{chunks("+2\r\nab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1: hexadecimal"},
	{chunks(" 2\r\nab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1"},
	{chunks("2\nab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1: CR LF"},
	{chunks("2\rab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1: CR LF"},
	{chunks("2\r\nab\n0\r\n\r\n"), 400, "RFC 9112 7.1: CR LF"},
	{chunks("2\r\nabc\r\n0\r\n\r\n"), 400, "RFC 9112 7.1: data longer than its size"},
	{chunks("2\r\nab0\r\n\r\n"), 400, "RFC 9112 7.1: data without its end"},
	{chunks("2;\r\nab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1.1: a name"},
	{chunks("2;a=\r\nab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1.1: a value"},
	{chunks("2;a=\"\r\nab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1.1: an open quote"},
	{chunks("2;a\x00\r\nab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1.1"},
	{chunks("2;a\nb\r\nab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1.1: a bare LF"},
	{chunks("2 x\r\nab\r\n0\r\n\r\n"), 400, "RFC 9112 7.1.1"},
	{chunks("0\r\nX-A : 1\r\n\r\n"), 400, "RFC 9112 7.1.2: field lines"},
	{chunks("0\r\nX-A: 1\r\n fold\r\n\r\n"), 400, "RFC 9112 5.2"},
	{chunks("0\r\nX-A: 1\n\r\n"), 400, "RFC 9112 2.2"},
	{chunks("0\r\n\n"), 400, "RFC 9112 2.2"},
}

// The limits of this test's configuration: see TestRefusedRequests.
const (
	limitLine   = 200
	limitHead   = 600
	limitFields = 10
	limitBody   = 100
)

var refusedSizes = []refusal{
	{to("/" + strings.Repeat("a", limitLine)), 414, "limits.line"},
	{strings.Repeat("A", limitLine) + " / HTTP/1.1\r\nHost: a\r\n\r\n", 414, "limits.line"},
	{head("X-A: " + strings.Repeat("a", limitHead)), 431, "limits.head"},
	{head(strings.Repeat("a", limitHead)), 431, "limits.head"},
	{head(strings.Repeat("X-A: 1\r\n", limitFields-1) + "X-B: 2"), 431, "limits.fields"},
	{post(fmt.Sprint("Content-Length: ", limitBody+1), ""), 413, "limits.body"},
	{post("Content-Length: 9223372036854775807", ""), 413, "limits.body"},
	{chunks(fmt.Sprintf("%x\r\n", limitBody+1)), 413, "limits.body"},
	{chunks("1\r\na\r\n" + fmt.Sprintf("%x\r\n", limitBody)), 413, "limits.body"},
	{chunks("ffffffffffffffff\r\nab"), 413, "limits.body: no overflow"},
	{chunks("10000000000000000\r\nab"), 413, "limits.body: no overflow"},
	{chunks("0\r\n" + strings.Repeat("X-A: 1\r\n", limitFields+1) + "\r\n"), 431, "limits.fields, in trailers"},
	{chunks("0\r\nX-A: " + strings.Repeat("a", limitHead) + "\r\n\r\n"), 431, "limits.head, in trailers"},
	{chunks("1;a=" + strings.Repeat("b", 64<<10)), 400, "a chunk's line has an end"},
}

// Requests that are good but ask for what is not served here.
var refusedWishes = []refusal{
	{"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 501, "tunnels"},
	{"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: tls/1.0\r\n\r\n", 501, "upgrades"},
}

// What is not one clear request is refused, and nothing of it, nor of what
// follows it, reaches the server as a request.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()), fmt.Sprintf("limits: {line: %d, head: %d, fields: %d, body: %d}", limitLine, limitHead, limitFields, limitBody))
	for name, table := range map[string][]refusal{
		"lines": refusedLines, "versions": refusedVersions, "targets": refusedTargets, "fields": refusedFields,
		"framings": refusedFramings, "chunks": refusedChunks, "sizes": refusedSizes,
	} {
		for _, r := range table {
			c := s.dial()
			if err := c.TrySend(r.request + after); err != nil {
				t.Errorf("%s: %.80q could not be sent: %v", name, r.request, err)
			}
			m, err := c.TryRespond("GET")
			closing := m.Get("Connection") == "close" || strings.Contains(r.request, "HTTP/1.0\r\n")
			if m.Status() != r.status || err != nil || !closing {
				t.Errorf("%s: %.80q (%s): got %q, Connection: %s, %v; want %d and close", name, r.request, r.rule, m.Start, m.Get("Connection"), err, r.status)
			}
			if rest, err := c.Rest(); rest != "" || err != nil {
				t.Errorf("%s: %.80q: then %.80q, %v; want the end", name, r.request, rest, err)
			}
			c.Close()
		}
	}
	if seen := b.Heard(); len(seen) > 0 {
		t.Errorf("the server saw %d requests, first %q %q %q", len(seen), seen[0].Start, seen[0].Fields, seen[0].Body)
	}
}

// A wish that is not served is refused, and never half forwarded; what follows on
// the connection is read as what it is, or not at all.
func TestRefusedWishes(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()))
	for _, r := range refusedWishes {
		c := s.dial()
		c.Send(r.request)
		if m := c.Respond("GET"); m.Status() != r.status {
			t.Errorf("%q: got %s, want %d", r.request, m.Start, r.status)
		}
	}
	if n := b.Accepted(); n > 0 {
		t.Errorf("the server was asked, on %d connections", n)
	}
}

// At each limit a request still passes.
func TestLimitsReached(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()), fmt.Sprintf("limits: {line: %d, head: %d, fields: %d, body: %d, requests: 2}", limitLine, limitHead, limitFields, limitBody))
	line := "GET / HTTP/1.1"
	for _, request := range []string{
		to("/" + strings.Repeat("a", limitLine-len(line))),
		head("X-A: " + strings.Repeat("a", limitHead-len(head("X-A: ")))),
		head(strings.TrimSuffix(strings.Repeat("X-A: 1\r\n", limitFields-1), "\r\n")),
		post(fmt.Sprint("Content-Length: ", limitBody), strings.Repeat("a", limitBody)),
		chunks(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", limitBody, strings.Repeat("a", limitBody))),
	} {
		c := s.dial()
		c.Send(request, request)
		if m := c.Respond("GET"); m.Status() != 200 || m.Get("Connection") != "" {
			t.Errorf("%.80q: %s, Connection: %s", request, m.Start, m.Get("Connection"))
		}
		if m := c.Respond("GET"); m.Status() != 200 || m.Get("Connection") != "close" {
			t.Errorf("%.80q, the last that limits.requests allows: %s, Connection: %s", request, m.Start, m.Get("Connection"))
		}
		c.Ended()
	}
}
