package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"sluice/internal/testkit"
)

// pebble is the test server of Let's Encrypt: a real authority that nobody trusts.
type pebble struct {
	t         testing.TB
	process   *testkit.Process
	directory string // URL
	ca        string // file: who signed the directory's own certificate
	root      string // URL of the certificate that signs all others
	client    http.Client
}

// startPebble starts one that looks for names at a port of this machine, by TLS or by
// HTTP, and gives certificates for so long, in seconds.
func startPebble(t testing.TB, tlsPort, httpPort string, life int) *pebble {
	t.Helper()
	dir := shortDir(t)
	a := testkit.NewAuthority(t, "of the directory")
	own := a.Issue(testkit.Wish{Names: []string{"localhost", "127.0.0.1"}})
	api, management := "127.0.0.1:"+testkit.FreePort(t), "127.0.0.1:"+testkit.FreePort(t)
	settings, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": api, "managementListenAddress": management,
		"certificate": testkit.WriteFile(t, dir, "own.crt", own.Chain), "privateKey": testkit.WriteFile(t, dir, "own.key", own.Key),
		"httpPort": json.Number(httpPort), "tlsPort": json.Number(tlsPort), "certificateValidityPeriod": life,
	}})
	if err != nil {
		t.Fatal(err)
	}
	process := testkit.Start(t, testkit.Command{
		Path: "pebble", Dir: dir, Env: []string{"PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0"},
		Args: []string{"-config", testkit.WriteFile(t, dir, "pebble.json", settings), "-dnsserver", everyName(t)},
	})
	p := &pebble{t: t, process: process, directory: "https://" + api + "/dir", ca: testkit.WriteFile(t, dir, "ca.pem", a.PEM()), root: "https://" + management + "/roots/0"}
	p.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.Pool()}, DisableKeepAlives: true}
	testkit.Eventually(t, "pebble listens", func() bool { return listens(management) && listens(api) })
	return p
}

// trust is the authority's root.
func (p *pebble) trust() *x509.CertPool {
	p.t.Helper()
	response, err := p.client.Get(p.root)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(body) {
		p.t.Fatalf("%v: %s", err, body)
	}
	return pool
}

// What a pebble is told that does without.
const (
	unused = "1"   // port
	aDay   = 86400 // seconds
)

// everyName is the address of a name server to which every host is this machine.
func everyName(t testing.TB) string {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		question := make([]byte, 1500)
		for {
			n, from, err := socket.ReadFrom(question)
			if err != nil {
				return
			}
			if answer, err := nameAnswer(question[:n]); err == nil {
				socket.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() { socket.Close(); <-ended })
	return socket.LocalAddr().String()
}

// nameAnswer answers one question: hosts have an address of IPv4, and nothing else.
func nameAnswer(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Header.Response, m.Header.RecursionAvailable = true, true
	m.Additionals = nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			})
		}
	}
	return m.Pack()
}

// A Sluice that has no certificate asks for two, proves the names by all of its workers,
// and serves; another start finds them where they were put.
func TestACME(t *testing.T) {
	n := startNginx(t)
	n.store(t, "page", []byte("hello"))
	port := testkit.FreePort(t)
	p := startPebble(t, port, unused, aDay)
	cache := filepath.Join(shortDir(t), "acme")
	sections := []string{
		farm(n.url), "workers: {per: 2}",
		fmt.Sprintf("listeners: [{name: tls, address: \"127.0.0.1:%s\", tls: {}}]", port),
		fmt.Sprintf("tls: {acme: {names: [one.example, two.example], cache: %q, directory: %q, ca: %q, email: me@one.example}}", cache, p.directory, p.ca),
	}
	s := start(t, sections...)
	client := func(name string) (*tls.Conn, error) {
		return tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{ServerName: name, RootCAs: p.trust()})
	}
	serial := map[string]string{}
	for _, name := range []string{"one.example", "two.example"} {
		testkit.Eventually(t, name+" has a certificate", func() bool {
			c, err := client(name)
			if err != nil {
				return false
			}
			defer c.Close()
			serial[name] = c.ConnectionState().PeerCertificates[0].SerialNumber.String()
			fmt.Fprintf(c, "GET /page HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name)
			answer, err := io.ReadAll(c)
			return err == nil && strings.HasPrefix(string(answer), "HTTP/1.1 200") && strings.HasSuffix(string(answer), "hello")
		})
	}
	for _, file := range []string{"account.key", "one.example.pem"} {
		if info, err := os.Stat(filepath.Join(cache, file)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	// Nobody sees the proof any more.
	if c, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{ServerName: "one.example", NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true}); err == nil {
		c.Close()
		t.Error("a proof is shown that nobody asked for")
	}
	s.Signal(syscall.SIGTERM)
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}

	start(t, sections...)
	for name, want := range serial {
		c, err := client(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().PeerCertificates[0].SerialNumber.String(); got != want {
			t.Errorf("%s: another certificate after a new start", name)
		}
		c.Close()
	}
}

// A certificate that two thirds of its life are over of is asked for anew, and the new one
// comes into use without a request lost; when the authority is gone the last one stays,
// and log, metrics and status say what is wrong.
func TestACMERenewal(t *testing.T) {
	t.Parallel()
	n := startNginx(t)
	n.store(t, "page", []byte("hello"))
	port := testkit.FreePort(t)
	p := startPebble(t, port, unused, 6)
	cache := filepath.Join(shortDir(t), "acme")
	s := start(t,
		farm(n.url),
		fmt.Sprintf("listeners: [{name: tls, address: \"127.0.0.1:%s\", tls: {}}]", port),
		fmt.Sprintf("tls: {acme: {names: [one.example], cache: %q, directory: %q, ca: %q}}", cache, p.directory, p.ca),
	)
	visit := func() (serial string, err error) {
		c, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{ServerName: "one.example", InsecureSkipVerify: true})
		if err != nil {
			return "", err
		}
		defer c.Close()
		fmt.Fprint(c, "GET /page HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\n\r\n")
		answer, err := io.ReadAll(c)
		if err == nil && !strings.HasSuffix(string(answer), "hello") {
			err = fmt.Errorf("answered %q", answer)
		}
		return c.ConnectionState().PeerCertificates[0].SerialNumber.String(), err
	}
	var first string
	testkit.Eventually(t, "there is a certificate", func() (there bool) {
		var err error
		first, err = visit()
		return err == nil
	})
	testkit.Eventually(t, "it is renewed", func() bool {
		serial, err := visit()
		if err != nil {
			t.Fatal(err)
		}
		return serial != first
	})
	p.process.Signal(syscall.SIGKILL)
	s.Stderr.Await(t, "no certificate was issued")
	last, err := tls.LoadX509KeyPair(filepath.Join(cache, "one.example.pem"), filepath.Join(cache, "one.example.pem"))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the last one is in use", func() bool {
		serial, err := visit()
		return err == nil && serial == last.Leaf.SerialNumber.String()
	})
	testkit.Eventually(t, "the failure is counted", func() bool { return s.metrics()["sluice_certificate_orders_total{outcome=\"failed\"}"] == 1 })
	if m := s.metrics(); m["sluice_certificate_orders_total{outcome=\"issued\"}"] < 2 {
		t.Errorf("issued %v times", m["sluice_certificate_orders_total{outcome=\"issued\"}"])
	}
	r := s.command("status")
	for _, want := range []string{"one.example.pem", "one.example: no certificate was issued, 1 time"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("status does not say %q:\n%s", want, r.Stdout)
		}
	}
}

// An authority that looks for names by HTTP is answered by every worker, before the
// redirect to https; nobody else finds anything there.
func TestACMEByHTTP(t *testing.T) {
	t.Parallel()
	port := testkit.FreePort(t)
	p := startPebble(t, unused, port, aDay)
	s := start(t,
		farm("http://127.0.0.1:9"), "workers: {per: 2}",
		fmt.Sprintf("listeners: [{name: web, address: \"127.0.0.1:%s\", redirect: https}, {name: tls, address: \"127.0.0.1:0\", tls: {}}]", port),
		fmt.Sprintf("tls: {acme: {names: [one.example, two.example], cache: %q, directory: %q, ca: %q, proof: http-01}}", filepath.Join(shortDir(t), "acme"), p.directory, p.ca),
	)
	for _, name := range []string{"one.example", "two.example"} {
		testkit.Eventually(t, name+" has a certificate", func() bool {
			c, err := tls.Dial("tcp", s.address("tls"), &tls.Config{ServerName: name, RootCAs: p.trust()})
			if err != nil {
				return false
			}
			return c.Close() == nil
		})
	}
	answer := curl(t, "--output", os.DevNull, "--write-out", "%{http_code}", "http://127.0.0.1:"+port+"/.well-known/acme-challenge/x")
	if answer != "308" {
		t.Errorf("a proof that nobody asked for is answered by %s", answer)
	}
}
