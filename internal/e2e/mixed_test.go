package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"sluice/internal/testkit"
)

// mixed is a Sluice whose listeners speak whatever a client does: tls, and web without.
type mixed struct {
	*sluice
	authority *testkit.Authority
}

func startMixed(t *testing.T, sections ...string) *mixed {
	m := &mixed{authority: testkit.NewAuthority(t, "test authority")}
	cert := testkit.WriteFile(t, shortDir(t), "both.pem", m.authority.Issue(testkit.Wish{Names: []string{"localhost"}}).Both())
	m.sluice = start(t, append(sections, fmt.Sprintf("listeners:\n  - {name: web, address: \"127.0.0.1:0\"}\n"+
		"  - {name: tls, address: \"127.0.0.1:0\", tls: {certificates: [%q]}}\n"+
		"  - {name: old, address: \"127.0.0.1:0\", protocols: [http1], tls: {certificates: [%q]}}", cert, cert))...)
	return m
}

// secure shakes hands on a listener with these protocols on offer, the best first.
func (m *mixed) secure(listener string, protocols ...string) (*tls.Conn, error) {
	conn, err := tls.Dial("tcp", m.address(listener), &tls.Config{ServerName: "localhost", RootCAs: m.authority.Pool(), NextProtos: protocols})
	if err == nil {
		m.t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// ofHTTP1 is the status that a GET of HTTP/1.1 gets on a connection, or why there is none.
func ofHTTP1(conn net.Conn) string {
	conn.SetDeadline(time.Now().Add(testkit.Patience))
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "no answer"
	}
	answer.Body.Close()
	return fmt.Sprint(answer.StatusCode)
}

// ofHTTP2 is the same with a GET of HTTP/2, to whose preface HTTP/1.1 may be the answer.
func ofHTTP2(t *testing.T, conn net.Conn) string {
	f := frameOn(t, conn)
	f.send(lastHead(1), ":method", "GET", ":scheme", "https", ":path", "/", ":authority", "localhost")
	return f.outcome(1)
}

// On one port each client is served in what it speaks, agreed upon or known before; what
// was not offered is refused in words that the client understands.
func TestMixedProtocols(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	m := startMixed(t, farm(b.URL()))
	for _, c := range []struct {
		listener string
		offers   []string
		agreed   string
		http1    string
		http2    string
	}{
		{"tls", nil, "", "200", "no HTTP/2"}, // prior knowledge is for those without TLS (RFC 9113 3.3)
		{"tls", []string{"http/1.1"}, "http/1.1", "200", "no HTTP/2"},
		{"tls", []string{"h2"}, "h2", "no answer", "200"},
		{"tls", []string{"h2", "http/1.1"}, "h2", "no answer", "200"},
		{"tls", []string{"http/1.1", "h2"}, "h2", "no answer", "200"}, // we choose
		{"tls", []string{"spdy/3", "h2", "h3"}, "h2", "no answer", "200"},
		{"tls", []string{"acme-tls/1"}, "refused", "", ""},
		{"tls", []string{"spdy/3"}, "refused", "", ""},
		{"old", nil, "", "200", "no HTTP/2"},
		{"old", []string{"h2", "http/1.1"}, "http/1.1", "200", "no HTTP/2"},
		{"old", []string{"h2"}, "refused", "", ""},
	} {
		conn, err := m.secure(c.listener, c.offers...)
		switch {
		case c.agreed == "refused":
			if err == nil || !strings.Contains(err.Error(), "no application protocol") {
				t.Errorf("%s, %q: %v, want a refusal", c.listener, c.offers, err)
			}
			continue
		case err != nil:
			t.Errorf("%s, %q: %v", c.listener, c.offers, err)
			continue
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != c.agreed {
			t.Errorf("%s, %q: agreed on %q, want %q", c.listener, c.offers, got, c.agreed)
		}
		if got := ofHTTP1(conn); got != c.http1 {
			t.Errorf("%s, %q, HTTP/1.1: %s, want %s", c.listener, c.offers, got, c.http1)
		}
		conn, err = m.secure(c.listener, c.offers...)
		if err != nil {
			t.Fatal(err)
		}
		if got := ofHTTP2(t, conn); got != c.http2 && !(c.http2 == "no HTTP/2" && !strings.HasPrefix(got, "2")) {
			t.Errorf("%s, %q, HTTP/2: %s, want %s", c.listener, c.offers, got, c.http2)
		}
	}
}

// Without TLS on the port for it, and with TLS on the one without: each says what it speaks.
func TestMixedWithoutTLS(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	m := startMixed(t, farm(b.URL()))
	for _, c := range []struct{ listener, http1, http2 string }{{"web", "200", "200"}, {"tls", "400", "no answer"}} {
		if got := ofHTTP1(plain(t, m.address(c.listener))); got != c.http1 {
			t.Errorf("%s, HTTP/1.1: %s, want %s", c.listener, got, c.http1)
		}
		got := ofHTTP2(t, plain(t, m.address(c.listener)))
		if got != c.http2 && !(c.http2 == "no answer" && !strings.HasPrefix(got, "2")) {
			t.Errorf("%s, HTTP/2: %s, want %s", c.listener, got, c.http2)
		}
	}
	if _, err := m.secure("web"); err == nil {
		t.Error("TLS is spoken where it is not configured")
	}
	// Clients that offer to go over to HTTP/2 are served in HTTP/1.1 (RFC 9113 3.1).
	c := m.dial()
	c.Send(testkit.Request("GET", "/", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"))
	if got := c.Respond("GET"); got.Status() != 200 {
		t.Errorf("an offer of h2c is answered by %s", got.Start)
	}
}

// plain is a connection without TLS.
func plain(t *testing.T, address string) net.Conn {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// lastHead is a head that no content follows.
func lastHead(stream uint32) http2.HeadersFrameParam {
	return http2.HeadersFrameParam{StreamID: stream, EndHeaders: true, EndStream: true}
}
