package e2e

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// startCaddy starts Caddy, which serves a directory, and returns its URL.
func startCaddy(t testing.TB, root string) string {
	t.Helper()
	address := net.JoinHostPort("127.0.0.1", testkit.FreePort(t))
	home := t.TempDir() // where it keeps what it likes to keep
	testkit.Start(t, testkit.Command{
		Path: testkit.Tool(t, "caddy"), Args: []string{"file-server", "--root", root, "--listen", address},
		Env: []string{"HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_CONFIG_HOME=" + home},
	})
	testkit.Eventually(t, "Caddy answers", func() bool { return answers("tcp", address) })
	return "http://" + address
}

// A server of another make: Caddy's files by curl and by many connections of
// h2load, which speaks HTTP/1.1 on request.
func TestFilesFromCaddy(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for size, n := range sizes {
		if err := os.WriteFile(filepath.Join(root, size), noise(n), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, farm(startCaddy(t, root)))
	client := s.dial()
	for size, n := range sizes {
		client.Send(testkit.Request("GET", "/"+size))
		m := client.Respond("GET")
		if m.Status() != 200 || !bytes.Equal(m.Body, noise(n)) {
			t.Errorf("%s: %s, %d bytes", size, m.Start, len(m.Body))
		}
		client.Send(testkit.Request("GET", "/"+size, "If-None-Match: "+m.Get("ETag")))
		if m := client.Respond("GET"); m.Status() != 304 && n > 0 {
			t.Errorf("%s, known by the client: %s", size, m.Start)
		}
	}
	r := testkit.Run(t, testkit.Tool(t, "h2load"), "--h1", "-n", "1000", "-c", "10", s.url("/64KiB"))
	if r.Code != 0 || !strings.Contains(r.Stdout, "1000 succeeded, 0 failed, 0 errored") {
		t.Errorf("h2load: exit code %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}
