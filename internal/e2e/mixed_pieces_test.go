package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"sluice/internal/testkit"
)

// pieces is a connection that sends each byte by itself.
type pieces struct{ net.Conn }

// Write implements io.Writer.
func (c pieces) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		_, err = c.Conn.Write(p[n : n+1])
		n++
	}
	return n, err
}

// startProxied is a mixed one that also has listeners whose clients begin with a PROXY header.
func startProxied(t *testing.T, url string) *mixed {
	t.Helper()
	m := &mixed{authority: testkit.NewAuthority(t, "test authority")}
	cert := testkit.WriteFile(t, shortDir(t), "both.pem", m.authority.Issue(testkit.Wish{Names: []string{"localhost"}}).Both())
	m.sluice = start(t, farm(url), "trust: [127.0.0.1]", fmt.Sprintf("listeners:\n  - {name: web, address: \"127.0.0.1:0\"}\n"+
		"  - {name: tls, address: \"127.0.0.1:0\", tls: {certificates: [%q]}}\n"+
		"  - {name: told, address: \"127.0.0.1:0\", proxy_protocol: on}\n"+
		"  - {name: told-tls, address: \"127.0.0.1:0\", proxy_protocol: on, tls: {certificates: [%q]}}", cert, cert))
	return m
}

// PROXY headers of a client at 192.0.2.7.
const (
	proxyV1 = "PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n"
	proxyV2 = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\xc0\x00\x02\x01\x12\x67\x01\xbb"
)

// arrivals are the ways to speak on a port: what comes before, and in TLS or not.
var arrivals = []struct{ name, listener, before, client string }{
	{"plain", "web", "", "127.0.0.1"},
	{"plain, PROXY 1", "told", proxyV1, "192.0.2.7"},
	{"plain, PROXY 2", "told", proxyV2, "192.0.2.7"},
	{"TLS", "tls", "", "127.0.0.1"},
	{"TLS, PROXY 1", "told-tls", proxyV1, "192.0.2.7"},
	{"TLS, PROXY 2", "told-tls", proxyV2, "192.0.2.7"},
}

// speech is what a client offers, and what it then speaks.
type speech struct {
	offers  []string
	version string
}

// Each port serves HTTP/1.1, and HTTP/2 to those who agree upon it or, without TLS, know
// before; also when all that they send comes in single bytes: PROXY header, ClientHello, preface.
func TestMixedInSingleBytes(t *testing.T) {
	t.Parallel()
	m := startProxied(t, told(t))
	for _, a := range arrivals {
		scheme, ways := "http", []speech{{nil, "HTTP/1.1"}, {nil, "HTTP/2"}}
		if strings.HasPrefix(a.name, "TLS") {
			scheme, ways = "https", []speech{{nil, "HTTP/1.1"}, {[]string{"http/1.1"}, "HTTP/1.1"}, {[]string{"h2"}, "HTTP/2"}}
		}
		for _, w := range ways {
			conn := m.arrive(t, pieces{plain(t, m.address(a.listener))}, a.before, scheme == "https", w.offers)
			if got, want := clientTold(t, conn, w.version), a.client+" "+scheme+"\n"; got != want {
				t.Errorf("%s, %q, %s: the server is told of %q, want %q", a.name, w.offers, w.version, got, want)
			}
		}
	}
}

// arrive sends what comes before, and shakes hands.
func (m *mixed) arrive(t *testing.T, conn net.Conn, before string, secure bool, offers []string) net.Conn {
	t.Helper()
	conn.SetDeadline(time.Now().Add(testkit.Patience))
	io.WriteString(conn, before)
	if !secure {
		return conn
	}
	ctx, stop := context.WithTimeout(context.Background(), testkit.Patience)
	defer stop()
	over := tls.Client(conn, &tls.Config{ServerName: "localhost", RootCAs: m.authority.Pool(), NextProtos: offers})
	if err := over.HandshakeContext(ctx); err != nil {
		t.Fatal(err)
	}
	return over
}

// clientTold asks a server that answers with what it was told of the client.
func clientTold(t *testing.T, conn net.Conn, version string) string {
	t.Helper()
	if version == "HTTP/1.1" {
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		all, _ := io.ReadAll(conn)
		_, content, _ := strings.Cut(string(all), "\r\n\r\n")
		return content
	}
	f := frameOn(t, conn)
	f.send(lastHead(1), ":method", "GET", ":scheme", "https", ":path", "/", ":authority", "localhost")
	for {
		switch frame := f.next().(type) {
		case *http2.DataFrame:
			return string(frame.Data())
		case *http2.RSTStreamFrame:
			return frame.ErrCode.String()
		}
	}
}

// Wherever the preface of HTTP/2 is cut: the client is served once the rest has come; without
// the rest it is no request, and none of it reaches a server.
func TestPrefaceCut(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	m := startMixed(t, farm(b.URL()), "timeouts: {header: 1s}")
	var begun, cut, silent [len(http2.ClientPreface)]net.Conn
	begin := func(i int) net.Conn {
		conn := plain(t, m.web())
		conn.SetDeadline(time.Now().Add(testkit.Patience))
		io.WriteString(conn, http2.ClientPreface[:i])
		return conn
	}
	for i := 1; i < len(begun); i++ {
		begun[i], cut[i] = begin(i), begin(i)
		cut[i].(*net.TCPConn).CloseWrite()
	}
	for i := 1; i < len(begun); i++ {
		answer, _ := io.ReadAll(cut[i])
		if bytes.HasPrefix(answer, []byte("HTTP/1.1 2")) {
			t.Errorf("%d bytes of the preface are answered by %q", i, answer)
		}
		io.WriteString(begun[i], http2.ClientPreface[i:])
		f := speakOn(t, begun[i])
		f.send(lastHead(1), ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "localhost")
		if got := f.outcome(1); got != "200" {
			t.Errorf("cut after %d bytes: %s", i, got)
		}
		silent[i] = begin(i)
	}
	if n := len(b.Heard()); n != len(begun)-1 {
		t.Errorf("the server was asked %d times", n)
	}
	for i := 1; i < len(silent); i++ {
		answer, err := io.ReadAll(silent[i])
		if !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) || err != nil {
			t.Errorf("silent after %d bytes: %q, %v", i, answer, err)
		}
	}
}

// A request of HTTP/1.1 that begins as the preface does is what it says; what calls itself
// HTTP/2 and is not is refused.
func TestAlmostThePreface(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	m := startMixed(t, farm(b.URL()))
	for _, c := range []struct{ listener, request, answer string }{
		{"web", "PRI / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 "},
		{"web", "PRIVATE /x HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 "},
		{"web", "P / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 "},
		{"web", "PRI * HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 400 "}, // only OPTIONS may ask for * (RFC 9112 3.2.4)
		{"web", "PRI * HTTP/2.0\r\nHost: a\r\n\r\n", "HTTP/1.1 505 "},
		{"web", "PRI * HTTP/2.0\r\n\r\nMS\r\n\r\n", "HTTP/1.1 505 "},
		{"web", "pri * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 505 "},
		{"web", "\r\n" + http2.ClientPreface, "HTTP/1.1 505 "},
		{"old", http2.ClientPreface, "HTTP/1.1 505 "},
	} {
		for _, whole := range []bool{true, false} {
			conn := plain(t, m.address(c.listener))
			if !whole {
				conn = pieces{conn}
			}
			if c.listener == "old" {
				conn = m.arrive(t, conn, "", true, nil)
			}
			conn.SetDeadline(time.Now().Add(testkit.Patience))
			io.WriteString(conn, c.request)
			answer := make([]byte, len(c.answer))
			if _, err := io.ReadFull(conn, answer); string(answer) != c.answer {
				t.Errorf("%s, %q, whole is %v: %q, %v, want %q", c.listener, c.request, whole, answer, err, c.answer)
			}
		}
	}
	if n := len(b.Heard()); n != 6 {
		t.Errorf("the server was asked %d times, want twice for each of three", n)
	}
	// After the first request the preface is none: a connection has one protocol.
	conn := plain(t, m.web())
	conn.SetDeadline(time.Now().Add(testkit.Patience))
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+http2.ClientPreface)
	if answers, _ := io.ReadAll(conn); strings.Count(string(answers), "HTTP/1.1 200 ") != 1 || strings.Count(string(answers), "HTTP/1.1 505 ") != 1 {
		t.Errorf("a request and then the preface: %q", answers)
	}
}

// A ClientHello where no TLS is spoken is no request, and is told so in what the port speaks.
func TestClientHelloWithoutTLS(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	m := startProxied(t, b.URL())
	for listener, before := range map[string]string{"web": "", "told": proxyV1} {
		hello, far := net.Pipe()
		go tls.Client(far, &tls.Config{ServerName: "localhost"}).Handshake()
		first := make([]byte, 4096)
		n, _ := hello.Read(first)
		hello.Close()
		for _, whole := range []bool{true, false} {
			conn := plain(t, m.address(listener))
			if !whole {
				conn = pieces{conn}
			}
			conn.SetDeadline(time.Now().Add(testkit.Patience))
			io.WriteString(conn, before+string(first[:n]))
			answer := make([]byte, len("HTTP/1.1 400 "))
			if _, err := io.ReadFull(conn, answer); string(answer) != "HTTP/1.1 400 " {
				t.Errorf("%s, whole is %v: %q, %v", listener, whole, answer, err)
			}
		}
	}
	if n := len(b.Heard()); n > 0 {
		t.Errorf("the server was asked %d times", n)
	}
}
