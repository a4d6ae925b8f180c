package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// greeting is what the server behind the clients of this file says.
var greeting = testkit.Answering(testkit.Response("200 OK", "Content-Type: text/html", "Content-Length: 20") + "<p>hello, client</p>")

// said has a server answer whatever client comes over TLS, and checks what that prints, and
// in which version of HTTP Sluice was asked.
func (s *secured) said(b *testkit.Backend, how, want, version, path string, args ...string) {
	s.t.Helper()
	before := len(b.Heard())
	r := testkit.Run(s.t, path, args...)
	if !strings.Contains(r.Stdout, want) {
		s.t.Errorf("%s: exit code %d, wants %q: %s%s", how, r.Code, want, r.Stdout, r.Stderr)
		return
	}
	heard := b.Heard()[before:]
	if len(heard) == 0 || !strings.HasPrefix(heard[0].Get("Via"), version) {
		s.t.Errorf("%s: the server heard %q, not by HTTP/%s", how, starts(heard), version)
	}
}

// Clients that Debian has besides those of other tests: over GnuTLS, NSS and OpenSSL, from
// programs, Python, Perl, Node and Java. Each trusts nobody but the test's authority.
func TestClients(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, greeting)
	s := startTLS(t, "", farm(b.URL()))
	url, dir := s.secure("/"), shortDir(t)
	_, port, _ := strings.Cut(s.address("tls"), ":")
	request := testkit.WriteFile(t, dir, "request", []byte("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))

	for _, version := range []string{"1.2", "1.3"} {
		s.said(b, "GnuTLS "+version, "hello, client", "1.1", "/bin/sh", "-c", fmt.Sprintf("%s --x509cafile %s --priority NORMAL:-VERS-ALL:+VERS-TLS%s --port %s localhost <%s",
			testkit.Tool(t, "gnutls-cli"), s.authority, version, port, request))
	}
	if r := testkit.Run(t, testkit.Tool(t, "certutil"), "-N", "-d", "sql:"+dir, "--empty-password"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	if r := testkit.Run(t, testkit.Tool(t, "certutil"), "-A", "-d", "sql:"+dir, "-n", "test", "-t", "C,,", "-i", s.authority); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	for _, version := range []string{"tls1.2", "tls1.3"} {
		s.said(b, "NSS "+version, "hello, client", "1.1", testkit.Tool(t, "tstclnt"), "-h", "localhost", "-4", "-p", port, "-d", "sql:"+dir, "-V", version+":"+version, "-A", request)
	}
	for _, c := range []struct{ client, prints, version string }{
		{"urllib", "HTTP/1.1 200 ", "1.1"}, {"requests", "HTTP/1.1 200 ", "1.1"}, {"aiohttp", "HTTP/1.1 200 ", "1.1"}, {"httpx", "HTTP/2 200 ", "2"},
		{"libcurl-gnutls.so.4", "HTTP/2 200 ", "2"}, {"libcurl-nss.so.4", "HTTP/2 200 ", "2"}, {"libcurl.so.4", "HTTP/2 200 ", "2"},
	} {
		s.said(b, c.client, c.prints+"<p>hello, client</p>", c.version, "/usr/bin/python3", filepath.Join("testdata", "get.py"), s.authority, url, c.client)
	}
	s.said(b, "Java", "HTTP_2 200 <p>hello, client</p>\nHTTP_2 200 ", "2", testkit.Tool(t, "java"), filepath.Join("testdata", "Get.java"), s.authority, url)
	s.said(b, "Perl", "LWP 200 <p>hello, client</p>\nTiny 200 <p>hello, client</p>", "1.1", testkit.Tool(t, "perl"), filepath.Join("testdata", "get.pl"), s.authority, url)
	s.said(b, "Node", "fetch 200 <p>hello, client</p>\nhttp2 200\n<p>hello, client</p>", "1.1", "/usr/bin/env", "NODE_EXTRA_CA_CERTS="+s.authority, testkit.Tool(t, "node"), filepath.Join("testdata", "get.mjs"), s.authority, url)
	s.said(b, "wget", "<p>hello, client</p>", "1.1", testkit.Tool(t, "wget"), "--quiet", "--ca-certificate="+s.authority, "--output-document=-", url)
	s.said(b, "wget2", "<p>hello, client</p>", "2", "/usr/bin/env", "HOME="+dir, testkit.Tool(t, "wget2"), "--quiet", "--ca-certificate="+s.authority, "--output-document=-", url)
}

// OpenSSL goes on with its session on another worker, in both versions, and shows a
// certificate where one is required.
func TestOpenSSLSessions(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, greeting)
	a, dir := testkit.NewAuthority(t, "test authority"), shortDir(t)
	ca := testkit.WriteFile(t, dir, "ca.pem", a.PEM())
	cert := testkit.WriteFile(t, dir, "site.pem", a.Issue(testkit.Wish{Names: []string{"localhost"}}).Both())
	own := testkit.WriteFile(t, dir, "own.pem", a.Issue(testkit.Wish{Names: []string{"client.example"}}).Both())
	s := start(t, farm(b.URL()), "workers: {per: 2}", fmt.Sprintf("listeners:\n  - {name: tls, address: \"127.0.0.1:0\", tls: {certificates: [%q]}}\n"+
		"  - {name: known, address: \"127.0.0.1:0\", tls: {certificates: [%q], client_auth: {mode: require, ca: %q}}}", cert, cert, ca))
	visit := func(listener string, args ...string) string {
		command := fmt.Sprintf("printf 'GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' | %s s_client -connect %s -CAfile %s -servername localhost -ign_eof %s",
			testkit.Tool(t, "openssl"), s.address(listener), ca, strings.Join(args, " "))
		return testkit.Run(t, "/bin/sh", "-c", command).Stdout
	}
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		session := filepath.Join(dir, "session"+version)
		if said := visit("tls", version, "-sess_out", session); !strings.Contains(said, "hello, client") || !strings.Contains(said, "New, TLS") {
			t.Errorf("%s: %s", version, said)
		}
		before := s.resumed()
		for range 20 { // each by either worker
			if said := visit("tls", version, "-sess_in", session); !strings.Contains(said, "hello, client") || !strings.Contains(said, "Reused, TLS") {
				t.Fatalf("%s: %s", version, said)
			}
			if after := s.resumed(); after[0] > before[0] && after[1] > before[1] {
				break
			}
		}
		if after := s.resumed(); after[0] == before[0] || after[1] == before[1] {
			t.Errorf("%s: the workers have gone on with %v sessions, and %v before", version, after, before)
		}
		if said := visit("known", version, "-cert", own); !strings.Contains(said, "hello, client") {
			t.Errorf("%s, with a certificate: %s", version, said)
		}
		if said := visit("known", version); strings.Contains(said, "hello, client") {
			t.Errorf("%s, without a certificate: %s", version, said)
		}
	}
	last := b.Heard()[len(b.Heard())-1]
	if last.Get("Client-Cert") == "" {
		t.Errorf("the server is not told of the certificate: %q", last.Fields)
	}
}

// resumed is how many sessions each of two workers has gone on with.
func (s *sluice) resumed() (n [2]int) {
	s.t.Helper()
	for name, value := range s.metrics() {
		if strings.HasPrefix(name, "sluice_tls_resumed_handshakes_total{") {
			n[strings.Count(name, `worker="1"`)] += int(value)
		}
	}
	return n
}
