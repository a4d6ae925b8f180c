package e2e

import (
	"net"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// h2spec holds a server of HTTP/2 against RFC 9113 and RFC 7541, frame by frame. All
// that it knows passes, over TLS and without.
func TestH2Spec(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(testkit.Response("200 OK", "Content-Length: 10")+"0123456789")) // a window is tried with it
	overTLS := startTLS(t, "", farm(b.URL()))
	plain := start(t, farm(b.URL()), "listeners: [{name: web, address: \"127.0.0.1:0\", protocols: [http2]}]")
	for name, c := range map[string]struct {
		address string
		args    []string
	}{
		"TLS":     {overTLS.address("tls"), []string{"--tls", "--insecure"}},
		"plain":   {plain.web(), nil},
		"besides": {overTLS.web(), []string{"generic", "hpack"}}, // where HTTP/1.1 is spoken too
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, port, _ := net.SplitHostPort(c.address)
			// Without --strict it leaves out what RFC 9113 says SHOULD be.
			args := append(c.args, "--strict", "--timeout", "20", "--host", host, "--port", port)
			r := testkit.Run(t, testkit.Tool(t, "h2spec"), args...)
			if r.Code != 0 || !strings.Contains(r.Stdout, " 0 skipped, 0 failed") || strings.Contains(r.Stdout, "\n0 tests") {
				t.Errorf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
			}
		})
	}
}
