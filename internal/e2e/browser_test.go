package e2e

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit"
)

// browsed is a server of testdata/browser.html; steps are what the page tells.
func browsed(t *testing.T) (url string, steps chan string) {
	steps = make(chan string, 16)
	mux := siteMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join("testdata", "browser.html"))
	})
	mux.HandleFunc("POST /said", func(w http.ResponseWriter, r *http.Request) {
		if said, err := io.ReadAll(r.Body); err == nil {
			steps <- string(said)
		}
	})
	mux.HandleFunc("GET /echo", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.RawQuery) })
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			fmt.Fprintf(w, "data: %s\n\n", r.Header.Get("Via"))
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done() // the client has heard enough
	})
	mux.HandleFunc("GET /socket", socketEcho)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, steps
}

// socketEcho is a WebSocket that tells how it was asked for and then sends back each
// frame (RFC 6455 5.2), with as many bytes of length, until one says that it closes.
func socketEcho(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	via := r.Header.Get("Via")
	fmt.Fprintf(conn, "\x81%c%s", len(via), via)
	for returnFrame(conn, buffered.Reader) {
	}
}

// returnFrame is false when that was the last.
func returnFrame(to net.Conn, from *bufio.Reader) bool {
	head, err := from.Peek(2)
	if err != nil {
		return false
	}
	opcode, length := head[0]&0xf, uint64(head[1]&0x7f)
	more := map[uint64]int{126: 2, 127: 8}[length]
	if head, err = from.Peek(2 + more); err != nil {
		return false
	}
	answer := bytes.Clone(head)
	answer[1] &= 0x7f // what a server says is not masked
	if more > 0 {
		length = 0
	}
	for _, b := range head[2:] {
		length = length<<8 | uint64(b)
	}
	from.Discard(len(head))
	masked := make([]byte, 4+length)
	if _, err := io.ReadFull(from, masked); err != nil {
		return false
	}
	for i, b := range masked[4:] {
		answer = append(answer, b^masked[i%4])
	}
	_, err = to.Write(answer)
	return err == nil && opcode != 8
}

// browser is a home directory whose user believes the test's authority.
func (q *quick) browser() (home, store string) {
	q.t.Helper()
	home = shortDir(q.t)
	store = filepath.Join(home, ".pki", "nssdb") // where Chromium looks
	if err := os.MkdirAll(store, 0o700); err != nil {
		q.t.Fatal(err)
	}
	for _, args := range [][]string{{"-N", "--empty-password"}, {"-A", "-n", "test", "-t", "C,,", "-i", q.authority}} {
		if r := testkit.Run(q.t, testkit.Tool(q.t, "certutil"), append(args, "-d", "sql:"+store)...); r.Code != 0 {
			q.t.Fatal(r.Stderr)
		}
	}
	return home, store
}

// browserPatience is how long a step may take: on a machine that all tests share a
// browser needs half a minute until it shows its first page.
const browserPatience = 3 * testkit.Patience

// tells runs a browser and compares what its page tells of each step.
func tells(t *testing.T, steps chan string, browser testkit.Command, want []string) {
	t.Helper()
	testkit.Start(t, browser)
	for _, want := range want {
		select {
		case said := <-steps:
			if said != want {
				t.Errorf("the page says %q, want %q", said, want)
			}
		case <-time.After(browserPatience):
			t.Fatalf("the page does not come to %q", want)
		}
	}
}

// stepsBy is what a page tells that gets all by a protocol, and its WebSocket by a
// version of HTTP.
func stepsBy(protocol, version, socket, streamed string) []string {
	sum := sha256.Sum256(bytes.Repeat([]byte("0123456789abcdef"), largeBytes/16))
	uploaded := fmt.Sprintf("%s %d %x <nil> trailer %q", protocol, largeBytes, sum, "")
	if streamed == "" {
		streamed = uploaded
	}
	return []string{
		fmt.Sprintf("download: %s %d %x", protocol, largeBytes, sum),
		"upload: " + uploaded,
		"streamed: " + streamed,
		"many: 200 by " + protocol,
		"events: " + strings.Join([]string{version, version, version}, ","),
		"socket: " + socket + ",hello,1048576, closed with 1000",
		"abandoned: AbortError, then still by " + protocol,
		"WebTransport: refused, then here by " + protocol,
	}
}

// Chromium gets all by one connection of HTTP/2, its WebSocket too (RFC 8441); told to
// speak HTTP/3, all by that (RFC 9220).
func TestChromium(t *testing.T) {
	t.Parallel()
	for protocol, c := range map[string]struct{ version, socket string }{
		"h2": {"2.0 sluice", "2.0 sluice"},
		"h3": {"3.0 sluice", "3.0 sluice"},
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			url, steps := browsed(t)
			q := startHTTP3(t, "", farm(url))
			home, _ := q.browser()
			args := []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
				"--user-data-dir=" + filepath.Join(home, "profile"), "--host-resolver-rules=MAP localhost 127.0.0.1, MAP * ~NOTFOUND"} // it asks nobody else
			if protocol == "h3" { // by QUIC it believes no authority of the user's, but keys that it is told
				_, port, _ := strings.Cut(q.address("tls"), ":")
				args = append(args, "--enable-features=EnableWebsocketsOverHttp3", "--origin-to-force-quic-on=localhost:"+port, "--ignore-certificate-errors-spki-list="+q.pin())
			}
			tells(t, steps, testkit.Command{Path: testkit.Tool(t, "chromium"), Args: append(args, q.secure("/")), Env: []string{"HOME=" + home}},
				append([]string{"page: " + protocol}, stepsBy(protocol, c.version, c.socket, "")...))
		})
	}
}

// pin is the hash of the public key in the certificate, Base64.
func (q *quick) pin() string {
	q.t.Helper()
	text, err := os.ReadFile(q.certificate)
	if err != nil {
		q.t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		q.t.Fatal(err)
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// preferences have Firefox ask nobody but the server (whatever is not localhost goes to a
// proxy that is not there), take HTTP/3 with an authority of the user's, and not go back
// to HTTP/2 because the machine is slow.
const preferences = `
user_pref("app.normandy.enabled", false);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.dns.disableIPv6", true);
user_pref("network.http.http3.disable_when_third_party_roots_found", false);
user_pref("network.http.http3.parallel_fallback_conn_limit", 0);
user_pref("network.proxy.ssl", "127.0.0.1");
user_pref("network.proxy.ssl_port", 9);
user_pref("network.proxy.type", 1);
user_pref("termsofuse.bypassNotification", true);
user_pref("toolkit.telemetry.enabled", false);
`

// Firefox comes by HTTP/2, follows Alt-Svc to HTTP/3, and gets all by that; its WebSocket
// by the connection of HTTP/2.
func TestFirefox(t *testing.T) {
	t.Parallel()
	url, steps := browsed(t)
	q := startHTTP3(t, "", farm(url))
	home, profile := q.browser()
	testkit.WriteFile(t, profile, "user.js", []byte(preferences))
	tells(t, steps, testkit.Command{Path: testkit.Tool(t, "firefox-esr"), Args: []string{"--headless", "--no-remote", "--profile", profile, q.secure("/#alt-svc")}, Env: []string{"HOME=" + home}},
		append([]string{"page: h2", "Alt-Svc: h3"}, stepsBy("h3", "3.0 sluice", "2.0 sluice", "not by this browser")...))
}
