package worker

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/proxyproto"
	"sluice/internal/segment"
	"sluice/internal/spec"
	"sluice/internal/testkit"
)

// logged is a function that changes a configuration so that it logs to a file.
func logged(t *testing.T) (path string, change func(*config.Config)) {
	path = filepath.Join(t.TempDir(), "access.log")
	return path, func(c *config.Config) {
		c.Log.Access = config.AccessLog{Path: path, Format: "json", Buffer: 1 << 20, Flush: config.Duration(10 * time.Millisecond)}
	}
}

// secrets are the last of n lines of a log: what it says of TLS.
func secrets(t *testing.T, path string, n int) map[string]any {
	t.Helper()
	var lines []string
	eventually(t, "the line is there", func() bool {
		text, _ := os.ReadFile(path)
		lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		return strings.Count(string(text), "\n") == n
	})
	var all map[string]any
	if err := json.Unmarshal([]byte(lines[n-1]), &all); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(all, func(key string, _ any) bool { return !strings.HasPrefix(key, "tls_") && key != "scheme" })
	return all
}

// The log tells what was settled with a client that speaks TLS, and nothing of one that
// does not.
func TestLogTellsTLS(t *testing.T) {
	h, client := newTLSHouse(t, nil, tells(t, "a").URL)
	path, change := logged(t)
	change(h.cfg)
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	client.ServerName, client.NextProtos = "SERVER.test", []string{"http/1.1"}
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	visit := func(version uint16) {
		client.MaxVersion = version
		conn := tls.Client(dialTCP(t, h.at[0]), client)
		mustHave(t, ask(t, conn), "200 OK", "a ")
		conn.Close()
	}
	want := map[string]any{
		"scheme": "https", "tls_version": "TLSv1.3", "tls_cipher": "TLS_AES_128_GCM_SHA256", "tls_group": "X25519",
		"tls_sni": "server.test", "tls_alpn": "http/1.1", "tls_resumed": false,
	}
	for n := range 2 {
		visit(tls.VersionTLS13)
		want["tls_resumed"] = n == 1
		if got := secrets(t, path, n+1); !maps.Equal(got, want) {
			t.Errorf("line %d: %v, want %v", n, got, want)
		}
	}
	client.ClientSessionCache, client.NextProtos = nil, nil
	visit(tls.VersionTLS12)
	want["tls_version"], want["tls_cipher"], want["tls_alpn"], want["tls_resumed"] = "TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "", false
	if got := secrets(t, path, 3); !maps.Equal(got, want) {
		t.Errorf("TLS 1.2: %v, want %v", got, want)
	}
	h.cfg.Listeners[0].Name, h.cfg.Listeners[0].TCP = "listener 0", &config.TCP{Routes: toApp}
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	visit(tls.VersionTLS12)
	want["scheme"] = "tls"
	if got := secrets(t, path, 4); !maps.Equal(got, want) {
		t.Errorf("raw TCP: %v, want %v", got, want)
	}
	h.cfg.Listeners[0].TLS, h.cfg.Listeners[0].TCP = nil, nil
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	mustHave(t, ask(t, dialTCP(t, h.at[0])), "a worker=")
	if got := secrets(t, path, 5); !maps.Equal(got, map[string]any{"scheme": "http"}) {
		t.Errorf("without TLS: %v", got)
	}
}

// What a header from a trusted address tells of the client's TLS holds for servers, for
// targets and for the log; the same from a header that says nothing of TLS does not.
func TestProxyHeaderTellsTLS(t *testing.T) {
	path, log := logged(t)
	h := greeted(t, "127.0.0.0/8", func(c *config.Config) {
		log(c)
		c.Forward.Forwarded = true
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-Port"), r.Header.Get("Forwarded"))
	}))
	t.Cleanup(server.Close)
	h.cfg.Farms = config.Farms{config.NewFarm("app", server.URL)}
	h.cfg.Listeners[0].Redirect = "https"
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	header := &proxyproto.Header{
		Version: 2, Source: netip.MustParseAddrPort("203.0.113.7:4000"), Destination: netip.MustParseAddrPort("10.9.9.9:443"),
		ALPN: []byte("http/1.1"), Authority: []byte("Shop.test"),
		TLS: proxyproto.TLS{On: true, Version: []byte("TLSv1.3"), Cipher: []byte("TLS_AES_256_GCM_SHA384"),
			CertConn: true, CertSess: true, Verified: true, CommonName: []byte("ann, of sales")},
	}
	say := func(h2 *house, header *proxyproto.Header, target string) (status int, body string) {
		conn := h2.connect(0)
		defer conn.Close()
		fmt.Fprintf(conn, "%sGET %s HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n", proxyproto.Append(nil, header), target)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	for i, target := range []string{"/", "https://shop.test/"} {
		status, body := say(h, header, target)
		if want := `https 443 for=203.0.113.7;proto=https;host="shop.test"`; status != 200 || body != want {
			t.Errorf("%s: %d, %q, want %q", target, status, body, want)
		}
		want := map[string]any{
			"scheme": "https", "tls_version": "TLSv1.3", "tls_cipher": "TLS_AES_256_GCM_SHA384", "tls_sni": "shop.test",
			"tls_alpn": "http/1.1", "tls_told": true, "tls_client_subject": `CN=ann\, of sales`,
		}
		if got := secrets(t, path, i+1); !maps.Equal(got, want) {
			t.Errorf("the log has %v, want %v", got, want)
		}
	}
	unverified := *header
	unverified.TLS.Verified = false
	say(h, &unverified, "/")
	if got := secrets(t, path, 3); got["tls_client_subject"] != nil {
		t.Errorf("a certificate that was not found good is told: %v", got)
	}
	header.TLS = proxyproto.TLS{}
	if status, _ := say(h, header, "/"); status != 308 { // by http, which is sent to https
		t.Errorf("without TLS: %d", status)
	}
	if got := secrets(t, path, 4); !maps.Equal(got, map[string]any{"scheme": "http"}) {
		t.Errorf("without TLS: %v", got)
	}
}

// Over TLS HTTP/2 is spoken only by who has chosen it (RFC 9113 3.2): to others its
// preface is a request of a version that is not spoken, and where nothing else is spoken
// they are not served.
func TestHTTP2NeedsALPN(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	h, client := newTLSHouse(t, nil, tells(t, "a").URL)
	for _, protocols := range [][]string{{config.HTTP1, config.HTTP2}, {config.HTTP2}} {
		h.cfg.Listeners[0].Name, h.cfg.Listeners[0].Protocols = "listener 0", protocols
		if err := h.apply(); err != nil {
			t.Fatal(err)
		}
		for _, chosen := range []string{"", "http/1.1", "h2"} {
			if len(protocols) == 1 && chosen == "http/1.1" {
				continue // the handshake fails
			}
			client.NextProtos = nil
			if chosen != "" {
				client.NextProtos = []string{chosen}
			}
			conn := tls.Client(dialTCP(t, h.at[0]), client)
			if err := conn.Handshake(); err != nil {
				t.Fatal(err)
			}
			io.WriteString(conn, preface)
			start := make([]byte, 12)
			n, _ := io.ReadFull(conn, start)
			got := string(start[:n])
			switch {
			case chosen == "h2" && (n < 9 || got[3] != 4): // SETTINGS
				t.Errorf("%v, h2: %q", protocols, got)
			case chosen != "h2" && len(protocols) == 2 && got != "HTTP/1.1 505":
				t.Errorf("%v, %q: %q", protocols, chosen, got)
			case chosen != "h2" && len(protocols) == 1 && n > 0:
				t.Errorf("%v, %q: %q", protocols, chosen, got)
			}
			conn.Close()
		}
	}
	if n := h.figures().Shunned[segment.ShunProtocol].Load(); n != 1 {
		t.Errorf("%d clients without ALPN were turned away, want 1", n)
	}
}

// Of a handshake that fails the address and the name are kept for the log.
func TestFailedHandshakeIsNoted(t *testing.T) {
	h, client := newTLSHouse(t, nil, tells(t, "a").URL)
	stranger := testkit.NewAuthority(t, "another")
	client.RootCAs = stranger.Pool()
	conn := dialTCP(t, h.at[0])
	if tls.Client(conn, client).Handshake() == nil {
		t.Fatal("a certificate is believed that nobody trusts")
	}
	testkit.Eventually(t, "it is counted", func() bool { return h.figures().Shunned[segment.ShunRefused].Load() == 1 })
	last := h.traffic.shedder.doorkeeper.shunned[segment.ShunRefused].latest.Load()
	if last == nil || last.name != "server.test" || last.peer.String() != conn.LocalAddr().String() || last.listener != "listener 0" || last.why == nil {
		t.Errorf("noted is %+v", last)
	}
}

// An authority that asks by HTTP is answered on every loop, though others are sent to
// https, until its question is over; over TLS nobody is.
func TestProofByHTTP(t *testing.T) {
	h, client := newTLSHouse(t, nil, tells(t, "a").URL)
	tlsAddress := h.at[0]
	h.at = h.open()
	h.cfg.Listeners = append(h.cfg.Listeners, config.Listener{Name: "listener 1", Protocols: []string{config.HTTP1}, Redirect: "https"})
	h.keys.Listeners = append(h.keys.Listeners, spec.ListenerKeys{})
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	const path = "/.well-known/acme-challenge/token"
	fetch := func(conn net.Conn) string {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n", path)
		answer, _ := io.ReadAll(conn)
		status, body, _ := strings.Cut(string(answer), "\r\n\r\n")
		return strings.Fields(status)[1] + " " + body
	}
	keys := *h.keys
	keys.Challenges = []spec.Challenge{{Name: "a.test", Path: path, Answer: "token.print"}}
	renew := func(keys *spec.Keys) {
		if err := h.traffic.Renew(keys); err != nil {
			t.Fatal(err)
		}
	}
	all := func(want string) {
		t.Helper()
		for loop := range loops {
			if got := fetch(dialTCP(t, h.at[loop])); got != want {
				t.Errorf("loop %d answers %q, want %q", loop, got, want)
			}
		}
	}
	all("308 ")
	renew(&keys)
	all("200 token.print")
	if got := fetch(tls.Client(dialTCP(t, tlsAddress), client)); !strings.HasPrefix(got, "200 a ") {
		t.Errorf("over TLS the answer is %q", got)
	}
	h.keys = &keys // a reload meanwhile
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	all("200 token.print")
	keys.Challenges = nil
	renew(&keys)
	all("308 ")
}

// Raw TCP whose TLS has ended before goes by the name that the PROXY header tells: there
// is no ClientHello to be read any more.
func TestRawTCPByToldName(t *testing.T) {
	path, log := logged(t)
	h := newRawHouse(t, []config.TCPRoute{{SNI: "a.test", Farm: "app"}}, func(c *config.Config) {
		log(c)
		c.Trust = []config.Prefix{config.Prefix(netip.MustParsePrefix("127.0.0.0/8"))}
		c.Listeners[0].ProxyProtocol = config.ProxyOn
	}, echoes(t, "a", nil, false).url)
	header := &proxyproto.Header{
		Version: 2, Source: netip.MustParseAddrPort("203.0.113.7:4000"), Destination: netip.MustParseAddrPort("10.9.9.9:443"),
		Authority: []byte("A.test"), TLS: proxyproto.TLS{On: true, Version: []byte("TLSv1.2")},
	}
	conn := dialTCP(t, h.at[0])
	conn.Write(proxyproto.Append(nil, header))
	hears(t, conn, "a") // which speaks first: nothing else has come
	conn.Close()
	if got := secrets(t, path, 1); got["scheme"] != "tls" || got["tls_sni"] != "a.test" || got["tls_version"] != "TLSv1.2" {
		t.Errorf("the log says %v", got)
	}
	header.Authority = []byte("b.test")
	conn = dialTCP(t, h.at[0])
	conn.Write(proxyproto.Append(nil, header))
	ends(t, conn)
}
