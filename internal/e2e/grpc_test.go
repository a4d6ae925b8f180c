package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// interopCases are the cases of gRPC's interoperability tests that need no cloud.
var interopCases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
	"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response", "status_code_and_message",
	"special_status_message", "custom_metadata", "unimplemented_method", "unimplemented_service",
}

// gRPC's own client and server meet through Sluice as they meet each other, without TLS
// and with TLS on both sides.
func TestGRPC(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	program := filepath.Join(dir, "interop")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, ".")
	build.Dir = filepath.Join("testdata", "interop") // a module of its own: Sluice itself needs no gRPC
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", build.Dir, err, output)
	}
	authority := testkit.NewAuthority(t, "test authority")
	cert := authority.Issue(testkit.Wish{Names: []string{"127.0.0.1"}})
	files := []string{testkit.WriteFile(t, dir, "server.crt", cert.Chain), testkit.WriteFile(t, dir, "server.key", cert.Key)}
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		s := start(t, farm("h2://"+serveGRPC(t, program)))
		callGRPC(t, program, s.web())
	})
	t.Run("TLS", func(t *testing.T) {
		t.Parallel()
		ca := testkit.WriteFile(t, dir, "ca.pem", authority.PEM())
		s := startTLS(t, "", farm("https://"+serveGRPC(t, program, files...), "protocol: auto", fmt.Sprintf("tls: {ca: %q}", ca)))
		callGRPC(t, program, s.address("tls"), s.authority)
	})
}

// serveGRPC starts gRPC's server; it returns the address.
func serveGRPC(t *testing.T, program string, files ...string) string {
	t.Helper()
	p := testkit.Start(t, testkit.Command{Path: program, Args: append([]string{"serve"}, files...)})
	p.Stdout.Await(t, "listening 127.0.0.1:")
	testkit.Eventually(t, "the line is whole", func() bool { return len(p.Stdout.Lines()) > 0 })
	return strings.TrimPrefix(p.Stdout.Lines()[0], "listening ")
}

// callGRPC runs gRPC's client, for which every case must pass.
func callGRPC(t *testing.T, program, address string, ca ...string) {
	t.Helper()
	r := testkit.Run(t, program, append([]string{"call", address}, ca...)...)
	want := "passed " + strings.Join(interopCases, "\npassed ") + "\n"
	if r.Code != 0 || r.Stdout != want {
		t.Errorf("exit code %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
}
