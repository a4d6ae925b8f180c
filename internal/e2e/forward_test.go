package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// Sizes at which something changes: nothing, one byte, one read of the proxy, and
// far beyond every buffer.
var sizes = map[string]int{"empty": 0, "one": 1, "64KiB": 64 << 10, "10MiB": 10 << 20}

// noise makes bytes that no compression and no repetition would leave alike.
func noise(n int) []byte {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(p)
	return p
}

// same compares without printing megabytes.
func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, want %d of other content", what, len(got), len(want))
	}
}

// ok is a short good response.
const ok = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"

// Files of every size go both ways between curl and nginx, in every framing that
// curl knows.
func TestFilesBetweenCurlAndNginx(t *testing.T) {
	t.Parallel()
	n := startNginx(t)
	s := start(t, farm(n.url))
	dir := t.TempDir()
	for size, bytes := range sizes {
		content := noise(bytes)
		file := filepath.Join(dir, size)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		n.store(t, size, content)
		for way, options := range map[string][]string{
			"1.1": nil, "1.0": {"--http1.0"}, "close": {"--header", "Connection: close"},
		} {
			to := filepath.Join(dir, "got")
			code := curl(t, append(options, "--output", to, "--write-out", "%{http_code}", s.url("/"+size))...)
			got, err := os.ReadFile(to)
			if code != "200" || err != nil {
				t.Errorf("%s, %s: status %s, %v", size, way, code, err)
			}
			same(t, size+" by "+way, got, content)
		}
		for way, options := range map[string][]string{
			"length":        nil,
			"chunked":       {"--header", "Transfer-Encoding: chunked", "--header", "Expect:"},
			"expect":        {"--header", "Expect: 100-continue"},
			"expectChunked": {"--header", "Expect: 100-continue", "--header", "Transfer-Encoding: chunked"},
			"1.0":           {"--http1.0"},
		} {
			if bytes == 0 && way != "length" && way != "1.0" {
				continue // curl 7.88 sends nothing, not even the last chunk, to any server
			}
			name := size + "-" + way
			code := curl(t, append(options, "--upload-file", file, "--write-out", "%{http_code}", s.url("/"+name))...)
			if code != "201" {
				t.Errorf("PUT %s: status %s", name, code)
			}
			same(t, "PUT "+name, n.stored(t, name), content)
		}
	}
}

// HEAD tells what GET would, without content; the connection goes on.
func TestHeadThroughNginx(t *testing.T) {
	t.Parallel()
	n := startNginxOnUnix(t)
	n.store(t, "file", noise(1000))
	s := start(t, farm(n.url))
	c := s.dial()
	for range 2 {
		c.Send(testkit.Request("HEAD", "/file"))
		if m := c.Respond("HEAD"); m.Status() != 200 || m.Get("Content-Length") != "1000" {
			t.Errorf("HEAD: %s %q", m.Start, m.Fields)
		}
		c.Send(testkit.Request("GET", "/missing"))
		if m := c.Respond("GET"); m.Status() != 404 || !strings.Contains(m.Get("Server"), "nginx") {
			t.Errorf("GET: %s %q", m.Start, m.Fields)
		}
	}
	c.Send(testkit.Request("GET", "/file", "Range: bytes=10-19"))
	if m := c.Respond("GET"); m.Status() != 206 || !bytes.Equal(m.Body, noise(1000)[10:20]) {
		t.Errorf("a range: %s %q", m.Start, m.Body)
	}
	c.Send(testkit.Request("GET", "/file", "Accept-Encoding: gzip"))
	if m := c.Respond("GET"); m.Get("Content-Encoding") != "gzip" || m.Get("Transfer-Encoding") != "chunked" {
		t.Errorf("compressed on the fly: %s %q", m.Start, m.Fields)
	}
}

// A client of HTTP/1.0 is answered in its own terms, with and without keep-alive.
func TestApacheBench(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	s := start(t, farm(b.URL()))
	for _, options := range [][]string{nil, {"-k"}} {
		r := testkit.Run(t, testkit.Tool(t, "ab"), append(options, "-q", "-n", "200", "-c", "8", s.url("/"))...)
		if r.Code != 0 || !strings.Contains(r.Stdout, "Complete requests:      200") || !strings.Contains(r.Stdout, "Failed requests:        0") {
			t.Errorf("ab %v: exit code %d\n%s%s", options, r.Code, r.Stdout, r.Stderr)
		}
	}
	c := s.dial()
	c.Send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	m := c.Respond("GET") // its end cannot be told but by closing
	if m.Get("Transfer-Encoding") != "" || string(m.Body) != "hello" {
		t.Errorf("%s %q: %q", m.Start, m.Fields, m.Body)
	}
	c.Ended()
}

// A connection stays, or not, as both sides have said (RFC 9112 9.3).
func TestPersistence(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()))
	for _, c := range []struct {
		request, connection string // of the response
		stays               bool
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", true},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", "", true},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "close", false},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", "close", false},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nConnection: close\r\n\r\n", "close", false},
		{"GET / HTTP/1.0\r\n\r\n", "", false},
		{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive", true},
		{"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "", false},
	} {
		client := s.dial()
		client.Send(c.request)
		if m := client.Respond("GET"); m.Status() != 200 || m.Get("Connection") != c.connection {
			t.Errorf("%q: %s, Connection: %q", c.request, m.Start, m.Get("Connection"))
		}
		if !c.stays {
			client.Ended()
			continue
		}
		client.Send(c.request)
		client.Respond("GET")
	}
}

// Requests that are sent at once are answered one after another, in order, bodies
// of either framing between them.
func TestPipelining(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, func(p *testkit.Peer) {
		for {
			m := p.Request()
			body := m.Target() + " " + string(m.Body)
			p.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		}
	})
	s := start(t, farm(b.URL()))
	const rounds = 20
	var all strings.Builder
	var want []string
	for i := range rounds {
		get, length, chunked := fmt.Sprintf("/get/%d", i), fmt.Sprintf("/length/%d", i), fmt.Sprintf("/chunked/%d", i)
		all.WriteString(testkit.Request("GET", get))
		all.WriteString(testkit.Request("POST", length, "Content-Length: 5") + "five!")
		all.WriteString(testkit.Request("PUT", chunked, "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n")
		want = append(want, get+" ", length+" five!", chunked+" abc")
	}
	whole := s.dial()
	whole.Send(all.String())
	split := s.dial()
	go func() {
		for _, part := range slices.Collect(slices.Chunk([]byte(all.String()), 7)) {
			if split.TrySend(string(part)) != nil {
				return
			}
		}
	}()
	for _, c := range []*testkit.Client{whole, split} {
		for _, body := range want {
			if m := c.Respond("GET"); string(m.Body) != body {
				t.Fatalf("got %q where %q was due", m.Body, body)
			}
		}
	}
}

// Chunks and trailers pass both ways; TE is ours to say.
func TestTrailers(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, func(p *testkit.Peer) {
		for {
			p.Request()
			p.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n4;ext=1\r\nback\r\n0\r\nX-Sum: 8\r\nContent-Length: 9\r\n\r\n")
		}
	})
	s := start(t, farm(b.URL()))
	c := s.dial()
	c.Send(testkit.Request("POST", "/", "Transfer-Encoding: chunked", "TE: trailers", "Connection: TE", "Trailer: X-Check"),
		"2\r\nab\r\n1;a=b\r\nc\r\n0\r\nX-Check: 7\r\nHost: evil\r\n\r\n")
	m := c.Respond("POST")
	if string(m.Body) != "back" || m.Trailer("X-Sum") != "8" || m.Trailer("Content-Length") != "" || m.Get("Trailer") != "X-Sum" {
		t.Errorf("the client got %q %q, trailers %q", m.Fields, m.Body, m.Trailers)
	}
	seen := b.Request(t, 0)
	if string(seen.Body) != "abc" || seen.Trailer("X-Check") != "7" || seen.Trailer("Host") != "" || seen.Get("TE") != "trailers" {
		t.Errorf("the server got %q %q, trailers %q", seen.Fields, seen.Body, seen.Trailers)
	}
}

// What the server is told about the client, by whom it comes from.
func TestForwardingFields(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	claims := []string{
		"X-Forwarded-For: 203.0.113.9, 127.0.0.2", "X-Forwarded-Proto: https", "X-Forwarded-Host: shop.example",
		"X-Forwarded-Port: 443", "Forwarded: for=203.0.113.9", "X-Request-Id: abc-1", "X-Sluice-Placement: forged",
		"Via: 1.0 fred",
	}
	names := []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "Forwarded", "X-Sluice-Placement", "Via"}
	for _, c := range []struct {
		name     string
		sections []string
		fields   []string
		want     string // the fields that the server sees, PORT for ours
		id       string // X-Request-Id; empty: ours
	}{
		{"says nothing", nil, nil, "127.0.0.1|http|test|PORT|||1.1 sluice", ""},
		{"untrusted", nil, claims, "127.0.0.1|http|test|PORT|||1.0 fred, 1.1 sluice", ""},
		{"trusted", []string{"trust: [127.0.0.0/8]"}, claims,
			"203.0.113.9, 127.0.0.2, 127.0.0.1|https|shop.example|443|for=203.0.113.9||1.0 fred, 1.1 sluice", "abc-1"},
		{"trusted others", []string{"trust: [10.0.0.0/8]"}, claims, "127.0.0.1|http|test|PORT|||1.0 fred, 1.1 sluice", ""},
		{"trusted, says nothing", []string{"trust: [127.0.0.1]"}, nil, "127.0.0.1|http|test|PORT|||1.1 sluice", ""},
		{"Forwarded", []string{"forward: {x_forwarded: false, forwarded: true, via: \"off\"}"}, claims,
			`||||for=127.0.0.1;proto=http;host="test"||1.0 fred`, ""},
		{"Forwarded, trusted", []string{"forward: {forwarded: true, via: me}", "trust: [127.0.0.1]"}, claims[4:5],
			`127.0.0.1|http|test|PORT|for=203.0.113.9, for=127.0.0.1;proto=http;host="test"||1.1 me`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, append(c.sections, farm(b.URL()))...)
			client := s.dial()
			before := len(b.Heard())
			client.Send(testkit.Request("GET", "/", c.fields...))
			if m := client.Respond("GET"); m.Status() != 200 {
				t.Fatalf("%s %s", m.Start, m.Body)
			}
			seen := b.Request(t, before)
			var got []string
			for _, name := range names {
				got = append(got, seen.Get(name))
			}
			_, port, _ := strings.Cut(s.web(), ":")
			if want := strings.Replace(c.want, "PORT", port, 1); strings.Join(got, "|") != want {
				t.Errorf("the server sees\n%s\nwant\n%s", strings.Join(got, "|"), want)
			}
			if id := seen.Get("X-Request-Id"); id == "" || c.id != "" && id != c.id || c.id == "" && id == "abc-1" {
				t.Errorf("X-Request-Id: %q", id)
			}
		})
	}
}

// The fields of a connection end with it, and only those.
func TestConnectionFields(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-End: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n"))
	s := start(t, farm(b.URL()))
	c := s.dial()
	c.Send(testkit.Request("POST", "/?q=%20a&b", "Connection: keep-alive, X-Mine, Host, Content-Length, Cookie, Authorization",
		"X-Mine: 1", "Keep-Alive: 5", "Proxy-Connection: close", "Upgrade: h2c", "HTTP2-Settings: AAA", "Content-Length: 2",
		"Cookie: c=1", "Authorization: basic x", "X-End: one", "X-End: two", "Accept: */*"), "hi")
	m := c.Respond("POST")
	seen := b.Request(t, 0)
	for _, name := range []string{"X-Mine", "Keep-Alive", "Proxy-Connection", "Upgrade", "HTTP2-Settings", "Connection"} {
		if v := seen.All(name); v != nil {
			t.Errorf("the server sees %s: %q", name, v)
		}
	}
	if seen.Start != "POST /?q=%20a&b HTTP/1.1" || seen.Get("Host") != "test" || seen.Get("Cookie") != "c=1" || seen.Get("Authorization") != "basic x" ||
		string(seen.Body) != "hi" || !slices.Equal(seen.All("X-End"), []string{"one", "two"}) {
		t.Errorf("the server sees %s %q %q", seen.Start, seen.Fields, seen.Body)
	}
	if m.Get("X-Hop")+m.Get("Keep-Alive")+m.Get("Connection") != "" || m.Get("X-End") != "2" || !slices.Equal(m.All("Set-Cookie"), []string{"a=1", "b=2"}) {
		t.Errorf("the client sees %q", m.Fields)
	}
}

// The one Host that the server sees.
func TestHost(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	for _, c := range []struct{ host, request, target, want string }{
		{"preserve", "GET /a HTTP/1.1\r\nHost: Shop.example:81\r\n\r\n", "/a", "Shop.example:81"},
		{"preserve", "GET http://real.example/b?c HTTP/1.1\r\nHost: other.example\r\n\r\n", "/b?c", "real.example"},
		{"preserve", "GET http://real.example HTTP/1.1\r\nHost: other.example\r\n\r\n", "/", "real.example"},
		{"preserve", "OPTIONS http://real.example:8080 HTTP/1.1\r\nHost: x\r\n\r\n", "*", "real.example:8080"},
		{"preserve", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "*", "a"},
		{"preserve", "GET / HTTP/1.0\r\n\r\n", "/", b.Address()},
		{"preserve", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "/", "[::1]:80"},
		{"server", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "/", b.Address()},
		{"fixed.example", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "/", "fixed.example"},
	} {
		s := start(t, farm(b.URL(), "host: "+c.host))
		client := s.dial()
		before := len(b.Heard())
		client.Send(c.request)
		if m := client.Respond("GET"); m.Status() != 200 {
			t.Fatalf("%s %s", m.Start, m.Body)
		}
		seen := b.Request(t, before)
		if seen.Target() != c.target || !slices.Equal(seen.All("Host"), []string{c.want}) {
			t.Errorf("%q with %s: the server sees %q, Host %q", c.request, c.host, seen.Start, seen.All("Host"))
		}
	}
}

// OPTIONS and TRACE count their hops; at zero Sluice itself answers
// (RFC 9110 7.6.2).
func TestMaxForwards(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()))
	c := s.dial()
	c.Send(testkit.Request("OPTIONS", "*", "Max-Forwards: 0"))
	if m := c.Respond("OPTIONS"); m.Status() != 200 || m.Get("Allow") == "" {
		t.Errorf("OPTIONS: %s %q", m.Start, m.Fields)
	}
	c.Send(testkit.Request("TRACE", "/t", "Max-Forwards: 0", "Cookie: secret", "X-Seen: yes"))
	m := c.Respond("TRACE")
	if body := string(m.Body); m.Get("Content-Type") != "message/http" || !strings.HasPrefix(body, "TRACE /t HTTP/1.1\r\n") ||
		!strings.Contains(body, "X-Seen: yes\r\n") || strings.Contains(body, "secret") {
		t.Errorf("TRACE: %s %q", m.Start, m.Body)
	}
	if b.Accepted() > 0 {
		t.Error("the server was asked")
	}
	c.Send(testkit.Request("OPTIONS", "/", "Max-Forwards: 3"), testkit.Request("GET", "/", "Max-Forwards: 0"))
	c.Respond("OPTIONS")
	c.Respond("GET")
	if first, second := b.Request(t, 0), b.Request(t, 1); first.Get("Max-Forwards") != "2" || second.Get("Max-Forwards") != "0" {
		t.Errorf("the server sees %q and %q", first.Fields, second.Fields)
	}
}

// Listeners and servers of every kind of address.
func TestAddresses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "backend")
	v4, v6 := testkit.Serve(t, testkit.Answering(ok)), testkit.Listen(t, "tcp", "[::1]:0", testkit.Answering(ok))
	unix := testkit.Listen(t, "unix", path, testkit.Answering(ok))
	for name, c := range map[string]struct{ listen, to, host string }{
		"IPv4":        {"127.0.0.1:0", v4.URL(), v4.Address()},
		"IPv6":        {"[::1]:0", v6.URL(), v6.Address()},
		"any to Unix": {":0", unix.URL(), "localhost"},
		"by name":     {"localhost:0", "http://localhost:" + v4.Port(), "localhost:" + v4.Port()},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, farm(c.to, "host: server"), fmt.Sprintf("listeners: [{name: web, address: %q}]", c.listen))
			address := strings.Replace(s.web(), "[::]:", "127.0.0.1:", 1)
			if body := curl(t, "--globoff", "http://"+address+"/"); body != "ok\n" {
				t.Errorf("the answer: %q", body)
			}
		})
	}
	if seen := v6.Request(t, 0); seen.Get("X-Forwarded-For") != "::1" || seen.Get("Host") != v6.Address() {
		t.Errorf("the server on IPv6 sees %q", seen.Fields)
	}
	if seen := unix.Request(t, 0); seen.Get("X-Forwarded-For") != "127.0.0.1" || seen.Get("Host") != "localhost" {
		t.Errorf("the server on a Unix socket sees %q", seen.Fields)
	}
}
