package e2e

import (
	"bytes"
	"fmt"
	"io"
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
