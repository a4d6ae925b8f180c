package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// Clients show certificates, over both protocols: the server and the log are told of a good
// one, and nobody comes through with a forged one or, where it is required, with none.
func TestClientCertificates(t *testing.T) {
	b := testkit.Serve(t, testkit.Answering(ok))
	dir := shortDir(t)
	ours, theirs := testkit.NewAuthority(t, "ours"), testkit.NewAuthority(t, "theirs")
	ann, mallory := ours.Issue(testkit.Wish{Subject: "ann"}), theirs.Issue(testkit.Wish{Subject: "ann"})
	annFile, malloryFile := testkit.WriteFile(t, dir, "ann.pem", ann.Both()), testkit.WriteFile(t, dir, "mallory.pem", mallory.Both())
	ca := testkit.WriteFile(t, dir, "clients.pem", ours.PEM())
	fingerprint := sha256.Sum256(ann.Leaf.Raw)
	for _, mode := range []string{"request", "require"} {
		s, lines := startTLS(t, fmt.Sprintf(", client_auth: {mode: %s, ca: %q}", mode, ca), farm(b.URL()), jsonLog), 0
		for protocol, name := range map[string]string{"--http1.1": "http/1.1", "--http2": "h2"} {
			options := []string{"--cacert", s.authority, "--ipv4", "--silent", "--show-error", "--max-time", "60", protocol, "--header", "Client-Cert: :Zm9yZ2Vk:"}
			ask := func(more ...string) testkit.Result {
				return testkit.Run(t, testkit.Tool(t, "curl"), append(append(options, more...), s.secure("/"))...)
			}
			told := func() string { return b.Request(t, len(b.Heard())-1).Get("Client-Cert") }
			if r := ask("--cert", annFile); r.Code != 0 || told() != ":"+base64.StdEncoding.EncodeToString(ann.Leaf.Raw)+":" {
				t.Errorf("%s, %s: %s, told %q", mode, protocol, r.Stderr, told())
			}
			lines++
			want := fmt.Sprintf(`"tls_alpn":%q,"tls_group":"X25519","tls_resumed":false,"tls_client_subject":"CN=ann","tls_client_fingerprint":"%x"`, name, fingerprint)
			if last := s.logLines(lines)[lines-1]; !strings.Contains(last, want) {
				t.Errorf("%s, %s: the log says %s, want %s", mode, protocol, last, want)
			}
			if r := ask("--cert", malloryFile); r.Code == 0 {
				t.Errorf("%s, %s: a forged certificate came through", mode, protocol)
			}
			r := ask()
			if mode == "request" {
				lines++
			}
			if (r.Code == 0) != (mode == "request") || r.Code == 0 && told() != "" {
				t.Errorf("%s, %s: without a certificate: %d %s, told %q", mode, protocol, r.Code, r.Stderr, told())
			}
		}
		if got := s.metrics()[`sluice_tls_handshake_failures_total{cause="certificate",node="0",worker="0"}`]; got < 2 {
			t.Errorf("%s: %v handshakes failed for their certificate", mode, got)
		}
	}
}
