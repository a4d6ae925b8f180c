package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// Responses that no client may see: against the grammar, or read by two readers
// in two ways. The marker shows if anything of them gets through.
const marker = "leaked"

// Limits of this test's configuration: see TestRefusedResponses.
const limitResponse = 1000

// reply makes a response with one more raw line, and a body.
func reply(line, body string) string {
	return "HTTP/1.1 200 OK\r\nX-M: " + marker + "\r\n" + line + "\r\n\r\n" + body
}

// chunkedReply makes a response with a raw body in the chunked coding.
func chunkedReply(body string) string { return reply("Transfer-Encoding: chunked", body) }

var refusedResponses = []struct{ response, rule string }{
	{"\r\n" + reply("Content-Length: 0", ""), "RFC 9112 4: nothing before the status line"},
	{marker, "RFC 9112 4"},
	{"<html>" + marker + "</html>", "HTTP/0.9 is over"},
	{"SSH-2.0-OpenSSH_9.2\r\n", "another protocol"},
	{"\x15\x03\x01\x00\x02\x02\x46", "a TLS alert"},
	{"HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "RFC 9112 4: a status code"},
	{"HTTP/1.1 \r\nContent-Length: 0\r\n\r\n", "RFC 9112 4: a status code"},
	{"HTTP/1.1 20\r\nContent-Length: 0\r\n\r\n", "RFC 9112 4: three digits"},
	{"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n", "RFC 9112 4: three digits"},
	{"HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n", "RFC 9112 4: three digits"},
	{"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n", "RFC 9112 4: three digits"},
	{"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", "RFC 9110 15: 100 to 599"},
	{"HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n", "RFC 9110 15: 100 to 599"},
	{"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n", "RFC 9112 4: one space"},
	{"HTTP/1.1\t200 OK\r\nContent-Length: 0\r\n\r\n", "RFC 9112 4: a space"},
	{"HTTP/1.1 200 O\x00K\r\nContent-Length: 0\r\n\r\n", "RFC 9112 4: printable"},
	{"HTTP/1.1 200 O\rK\r\nContent-Length: 0\r\n\r\n", "RFC 9112 2.2: a bare CR"},
	{"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", "RFC 9112 2.3"},
	{"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", "RFC 9112 2.3"},
	{"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "RFC 9112 2.3: case matters"},
	{"ICY 200 OK\r\nContent-Length: 0\r\n\r\n", "RFC 9112 2.3"},
	{"HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n", "RFC 9112 2.2: CR LF"},
	{"HTTP/1.1 200 OK\r\nContent-Length: 0\n\r\n", "RFC 9112 2.2: CR LF"},
	{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\n", "RFC 9112 2.2: CR LF"},
	{"HTTP/1.1 200 OK\r\n Content-Length: 0\r\n\r\n", "RFC 9112 2.2: space before the first field"},
	{reply("X-A : 1\r\nContent-Length: 0", ""), "RFC 9112 5.1"},
	{reply("Content-Length : 0", ""), "RFC 9112 5.1"},
	{reply("X-A: 1\r\n fold\r\nContent-Length: 0", ""), "RFC 9112 5.2"},
	{reply("X-A\r\nContent-Length: 0", ""), "RFC 9112 5: a colon"},
	{reply(": 1\r\nContent-Length: 0", ""), "RFC 9112 5: a name"},
	{reply("X A: 1\r\nContent-Length: 0", ""), "RFC 9110 5.1"},
	{reply("X-A: a\x00\r\nContent-Length: 0", ""), "RFC 9110 5.5"},
	{reply("X-A: a\rb\r\nContent-Length: 0", ""), "RFC 9110 5.5"},
	{reply("Set-Cookie: a=b\x07\r\nContent-Length: 0", ""), "RFC 9110 5.5"},
	{reply("Content-Length: 2\r\nTransfer-Encoding: chunked", "2\r\nab\r\n0\r\n\r\n"), "RFC 9112 6.3: not both"},
	{reply("Transfer-Encoding: chunked\r\nContent-Length: 2", "2\r\nab\r\n0\r\n\r\n"), "RFC 9112 6.3: not both"},
	{reply("Content-Length: 1\r\nContent-Length: 2", "ab"), "RFC 9112 6.3: one length"},
	{reply("Content-Length: 1, 2", "ab"), "RFC 9112 6.3: one length"},
	{reply("Content-Length: -1", ""), "RFC 9110 8.6: digits"},
	{reply("Content-Length: +1", "a"), "RFC 9110 8.6: digits"},
	{reply("Content-Length: 0x1", "a"), "RFC 9110 8.6: digits"},
	{reply("Content-Length: one", "a"), "RFC 9110 8.6: digits"},
	{reply("Content-Length:", ""), "RFC 9110 8.6: digits"},
	{reply("Content-Length: 99999999999999999999", "a"), "RFC 9110 8.6: no overflow"},
	{reply("Transfer-Encoding: gzip", marker), "RFC 9112 6.1"},
	{reply("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"), "RFC 9112 6.1"},
	{reply("Transfer-Encoding: chunked, chunked", "0\r\n\r\n"), "RFC 9112 6.1"},
	{reply("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), "RFC 9112 6.1"},
	{reply("Transfer-Encoding: identity", marker), "RFC 9112 6.1"},
	{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "RFC 9112 6.1: HTTP/1.0 has none"},
	{chunkedReply("x\r\n"), "RFC 9112 7.1"},
	{chunkedReply("-1\r\n"), "RFC 9112 7.1"},
	{chunkedReply("ffffffffffffffff\r\n"), "RFC 9112 7.1: no overflow"},
	{chunkedReply("2\nab\r\n0\r\n\r\n"), "RFC 9112 7.1: CR LF"},
	{chunkedReply("2\r\nabc\r\n0\r\n\r\n"), "RFC 9112 7.1: data longer than its size"},
	{chunkedReply("0\r\nX-A : 1\r\n\r\n"), "RFC 9112 7.1.2"},
	{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + marker, "RFC 9110 15.2.2: nobody asked"},
	{"HTTP/1.1 100 Continue\r\n\r\n" + marker, "RFC 9112 4: after an interim response"},
	{"HTTP/1.1 103 Early\r\nX-A : 1\r\n\r\n" + ok, "RFC 9112 5.1: in an interim response"},
	{reply("X-A: "+strings.Repeat("a", limitResponse), ""), "limits.response_head"},
	{strings.Repeat("HTTP/1.1 200 OK", limitResponse/10), "limits.response_head"},
	{reply(strings.Repeat("A: 1\r\n", 200)+"Content-Length: 0", ""), "limits.fields"},
}

// What is not one clear response gives 502: nothing of it reaches the client, and
// its connection is not used again. The client's own goes on.
func TestRefusedResponses(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, numbered(func(n int) string {
		if n == len(refusedResponses) {
			return ok
		}
		return refusedResponses[n].response
	}, func(*testkit.Peer) {}))
	s := start(t, farm(b.URL()), fmt.Sprintf("limits: {response_head: %d}", limitResponse))
	c := s.dial()
	for i, r := range refusedResponses {
		c.Send(testkit.Request("GET", fmt.Sprint("/", i)))
		m, err := c.TryRespond("GET")
		if err != nil || m.Status() != 502 || strings.Contains(fmt.Sprintf("%q%s", m.Fields, m.Body), marker) {
			t.Errorf("%.100q (%s): the client got %q %q %q, %v", r.response, r.rule, m.Start, m.Fields, m.Body, err)
			c = s.dial()
		}
		if n := b.Accepted(); n != i+1 {
			t.Fatalf("%.100q (%s): %d connections to the server after %d requests", r.response, r.rule, n, i+1)
		}
	}
	testkit.Eventually(t, "no connection to the server is left", func() bool { return b.Open() == 0 })
	c.Send(testkit.Request("GET", fmt.Sprint("/", len(refusedResponses))))
	if m := c.Respond("GET"); m.Status() != 200 {
		t.Errorf("a good one after all: %s", m.Start)
	}
}

// numbered is a script that answers a request for …/N with the Nth response, does
// what comes then, and waits for the proxy to close.
func numbered(response func(n int) string, then func(*testkit.Peer)) func(*testkit.Peer) {
	return func(p *testkit.Peer) {
		target := p.Request().Target()
		n, err := strconv.Atoi(target[strings.LastIndexByte(target, '/')+1:])
		if err == nil {
			p.Send(response(n))
		}
		then(p)
		p.AwaitEnd()
	}
}

// A server that says more than its response loses its connection, and what it
// said reaches nobody.
func TestSurplusBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ method, response string }{
		"after a length":       {"GET", ok + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n" + marker},
		"after no content":     {"GET", "HTTP/1.1 204 No Content\r\n\r\n" + marker},
		"after not modified":   {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\n" + marker},
		"after the last chunk": {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + marker},
		"after HEAD":           {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n" + marker},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testkit.Serve(t, testkit.Answering(c.response))
			client := start(t, farm(b.URL())).dial()
			for i := range 3 {
				client.Send(testkit.Request(c.method, "/"))
				if m := client.Respond(c.method); m.Status() >= 400 || strings.Contains(string(m.Body), marker) {
					t.Errorf("response %d: %s %q", i, m.Start, m.Body)
				}
			}
			if n := b.Accepted(); n != 3 {
				t.Errorf("%d connections for 3 requests", n)
			}
		})
	}
}

// Good responses pass, odd as they may look.
func TestOddResponses(t *testing.T) {
	t.Parallel()
	odd := []struct{ response, body string }{
		{"HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\na", "a"},
		{"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na", "a"},
		{"HTTP/1.1 200 OK\r\n\r\nup to the end", "up to the end"},
		{"HTTP/1.0 200 OK\r\n\r\nup to the end", "up to the end"},
		{"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "a"},
		{"HTTP/1.1 299 Whatever\r\nContent-Length: 1\r\n\r\na", "a"},
		{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + ok, "ok\n"},
		{"HTTP/1.1 200 OK\r\nX-A: \xe4\r\nContent-Length: 1\r\n\r\na", "a"},
		{"HTTP/1.1 200 OK\r\nX-A:\r\nContent-Length:1\r\n\r\na", "a"},
		{"HTTP/1.1 204 No Content\r\n\r\n", ""},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1 ; a = \"x;y\" ;b\r\na\r\n00\r\n\r\n", "a"},
	}
	b := testkit.Serve(t, numbered(func(n int) string { return odd[n].response }, (*testkit.Peer).CloseWrite))
	client := start(t, farm(b.URL())).dial()
	for i, o := range odd {
		client.Send(testkit.Request("GET", fmt.Sprint("/", i)))
		if m := client.Respond("GET"); m.Status() >= 300 || string(m.Body) != o.body {
			t.Errorf("%q: the client got %s %q", o.response, m.Start, m.Body)
		}
	}
}
