package e2e

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit"
)

// secured is a Sluice with a listener called tls for localhost beside web.
type secured struct {
	*sluice
	authority string // file, PEM
}

// startTLS starts one; keys are further keys of the listener's tls.
func startTLS(t testing.TB, keys string, sections ...string) *secured {
	t.Helper()
	dir := shortDir(t)
	a := testkit.NewAuthority(t, "test authority")
	cert := a.Issue(testkit.Wish{Names: []string{"localhost", "127.0.0.1"}})
	listeners := fmt.Sprintf("listeners:\n  - {name: web, address: \"127.0.0.1:0\"}\n"+
		"  - {name: tls, address: \"127.0.0.1:0\", tls: {certificates: [{cert: %q}]%s}}", testkit.WriteFile(t, dir, "both.pem", cert.Both()), keys)
	s := &secured{authority: testkit.WriteFile(t, dir, "ca.pem", a.PEM())}
	s.sluice = start(t, append(sections, listeners)...)
	return s
}

// secure is a URL on the listener tls.
func (s *secured) secure(path string) string {
	_, port, _ := strings.Cut(s.address("tls"), ":")
	return "https://localhost:" + port + path
}

// curl asks with curl, which trusts the authority.
func (s *secured) curl(args ...string) string {
	s.t.Helper()
	return curl(s.t, append([]string{"--cacert", s.authority, "--ipv4"}, args...)...)
}

// Real clients over both versions: small answers on one kept connection, and large
// content both ways.
func TestCurlOverTLS(t *testing.T) {
	n := startNginx(t)
	s := startTLS(t, "", farm(n.url))
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	n.store(t, "large", large)
	n.store(t, "small", []byte("small"))
	for _, version := range []string{"1.2", "1.3"} {
		said := s.curl("--tls-max", version, "--write-out", " %{http_code} %{num_connects}\n", s.secure("/small"), s.secure("/small"))
		if said != "small 200 1\nsmall 200 0\n" {
			t.Errorf("TLS %s: %s", version, said)
		}
		got := filepath.Join(shortDir(t), "got")
		s.curl("--tls-max", version, "--output", got, s.secure("/large"))
		if content, err := os.ReadFile(got); err != nil || !bytes.Equal(content, large) {
			t.Errorf("TLS %s: %d bytes came of %d, %v", version, len(content), len(large), err)
		}
		s.curl("--tls-max", version, "--upload-file", got, s.secure("/stored"+version))
		if !bytes.Equal(n.stored(t, "stored"+version), large) {
			t.Errorf("TLS %s: what was sent is not what nginx has", version)
		}
	}
	refusal := curl(t, "http://"+s.address("tls")+"/small")
	if !strings.Contains(refusal, "speaks HTTPS") {
		t.Errorf("plain HTTP is answered with %q", refusal)
	}
}

// openssl asks for new keys in the middle of a connection, and for a renegotiation,
// which TLS 1.2 has and Sluice refuses.
func TestOpenSSL(t *testing.T) {
	n := startNginx(t)
	n.store(t, "small", []byte("small"))
	s := startTLS(t, "", farm(n.url))
	for _, tc := range []struct {
		name, version, command string
		answered               bool
	}{
		{"TLS 1.3", "-tls1_3", "", true},
		{"TLS 1.2", "-tls1_2", "", true},
		{"KeyUpdate", "-tls1_3", "k\n", true},
		{"KeyUpdate, both ways", "-tls1_3", "K\n", true},
		{"renegotiation", "-tls1_2", "R\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			said := s.openssl(tc.version, tc.command, "GET /small HTTP/1.1\nHost: a\n\n")
			if !strings.Contains(said, "Verify return code: 0 (ok)") || strings.Contains(said, "200 OK") != tc.answered {
				t.Errorf("an answer came: want %v:\n%s", tc.answered, said)
			}
		})
	}
}

// openssl connects with s_client, to which it says these words one after the other,
// and returns all that it prints until the answer is there or the connection ends.
func (s *secured) openssl(version string, words ...string) string {
	s.t.Helper()
	cmd := exec.Command(testkit.Tool(s.t, "openssl"), "s_client", "-connect", s.address("tls"), "-CAfile", s.authority,
		"-servername", "localhost", "-crlf", version)
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	over := time.AfterFunc(testkit.Patience, func() { cmd.Process.Kill() })
	defer over.Stop()
	defer cmd.Wait()
	defer in.Close()
	var said strings.Builder
	await := func(text string) {
		p := make([]byte, 4096)
		for !strings.Contains(said.String(), text) {
			n, err := out.Read(p)
			if said.Write(p[:n]); err != nil {
				return
			}
		}
	}
	await("Verify return code")
	for _, w := range words {
		io.WriteString(in, w)
		switch w {
		case "R\n":
			await("RENEGOTIATING")
		case "k\n", "K\n":
			await("KEYUPDATE")
		}
	}
	await("small")
	return said.String()
}

// A real nginx over TLS as server: small and large content both ways over kept
// connections, and a certificate of ours that it asks for.
func TestServerOverTLS(t *testing.T) {
	a := testkit.NewAuthority(t, "test authority")
	dir := shortDir(t)
	ca := testkit.WriteFile(t, dir, "ca.pem", a.PEM())
	own := testkit.WriteFile(t, dir, "own.pem", a.Issue(testkit.Wish{Names: []string{"sluice.test"}}).Both())
	n := startSecureNginx(t, a.Issue(testkit.Wish{Names: []string{"app.test"}}),
		fmt.Sprintf("ssl_client_certificate %s; ssl_verify_client on; add_header X-Facts \"$ssl_client_s_dn $ssl_server_name $ssl_session_reused\";", ca))
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	n.store(t, "small", []byte("small"))
	n.store(t, "large", large)
	s := start(t, farm(n.url, fmt.Sprintf("tls: {ca: %q, name: app.test, cert: %q}", ca, own)))
	said := curl(t, "--include", s.url("/small"))
	if !strings.Contains(said, "X-Facts: CN=sluice.test app.test .") || !strings.HasSuffix(said, "small") {
		t.Errorf("the answer is\n%s", said)
	}
	got := filepath.Join(dir, "got")
	curl(t, "--output", got, s.url("/large"))
	if content, err := os.ReadFile(got); err != nil || !bytes.Equal(content, large) {
		t.Errorf("%d bytes came of %d, %v", len(content), len(large), err)
	}
	curl(t, "--upload-file", got, s.url("/stored"))
	if !bytes.Equal(n.stored(t, "stored"), large) {
		t.Error("what was sent is not what nginx has")
	}
	server := s.status().Farms[0].Servers[0]
	if server.Requests != 3 || server.Failures != 0 {
		t.Errorf("%+v", server)
	}
}

// A server whose certificate is not good gets no request; the client gets a 502, and the
// log says which server, and why. Pins alone do where the operator says so.
func TestServerThatIsNotTrusted(t *testing.T) {
	a := testkit.NewAuthority(t, "test authority")
	ca := testkit.WriteFile(t, shortDir(t), "ca.pem", a.PEM())
	cert := a.Issue(testkit.Wish{Names: []string{"app.test"}})
	digest := sha256.Sum256(cert.Leaf.RawSubjectPublicKeyInfo)
	pin := "sha256/" + base64.StdEncoding.EncodeToString(digest[:])
	const otherPin = "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	n := startSecureNginx(t, cert, "")
	n.store(t, "small", []byte("small"))
	for _, tc := range []struct{ wish, words string }{
		{"", "cannot validate certificate for 127.0.0.1"},
		{"tls: {name: app.test}", "certificate signed by unknown authority"},
		{fmt.Sprintf("tls: {ca: %q, name: app.test, pins: [%s]}", ca, otherPin), "none of its keys is in tls.pins: it has " + pin},
		{fmt.Sprintf("tls: {insecure: true, pins: [%s]}", otherPin), "none of its keys is in tls.pins"},
		{fmt.Sprintf("tls: {ca: %q, name: app.test, pins: [%s]}", ca, pin), ""},
		{fmt.Sprintf("tls: {insecure: true, pins: [%s]}", pin), ""},
		{"tls: {insecure: true}", ""},
	} {
		s := start(t, farm(n.url, tc.wish))
		said := curl(t, "--write-out", " %{http_code}", s.url("/small"))
		switch {
		case tc.words == "" && said != "small 200":
			t.Errorf("%s: %s", tc.wish, said)
		case tc.words != "":
			if !strings.HasSuffix(said, " 502") || !strings.Contains(said, "No secure connection") {
				t.Errorf("%s: %s", tc.wish, said)
			}
			s.Stderr.Await(t, tc.words)
			s.Stderr.Await(t, "server="+n.url)
		}
	}
}

// Content that ends with its connection, and was cut short, does not end as if it were
// whole.
func TestCutOverTLS(t *testing.T) {
	b := testkit.Serve(t, func(p *testkit.Peer) {
		p.Request()
		p.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
		p.Reset()
	})
	s := startTLS(t, "", farm(b.URL()))
	conn, err := tls.Dial("tcp", s.address("tls"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testkit.Patience))
	io.WriteString(conn, "GET / HTTP/1.0\r\nHost: a\r\n\r\n")
	if all, err := io.ReadAll(conn); err == nil {
		t.Errorf("the client takes this for the whole:\n%s", all)
	}
}

// A server that wants a certificate which nobody has given to Sluice says so only after
// the handshake, in TLS 1.3: the log has its word.
func TestServerThatWantsACertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	s := start(t, farm(server.URL, "tls: {insecure: true}"))
	if said := curl(t, "--write-out", " %{http_code}", s.url("/")); !strings.HasSuffix(said, " 502") || !strings.Contains(said, "No secure connection") {
		t.Error(said)
	}
	s.Stderr.Await(t, "certificate required")
	s.Stderr.Await(t, "server="+server.URL)
}
