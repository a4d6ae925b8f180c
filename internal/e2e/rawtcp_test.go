package e2e

import (
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testkit"
)

// Real clients reach by raw TCP the real server whose name their TLS asks for, and see
// its certificate: nobody has decrypted anything.
func TestTLSGoesThrough(t *testing.T) {
	t.Parallel()
	a := testkit.NewAuthority(t, "test authority")
	authority := testkit.WriteFile(t, shortDir(t), "ca.pem", a.PEM())
	large := noise(10 << 20)
	servers := map[string]*nginx{}
	for _, name := range []string{"a.test", "b.test"} {
		n := startSecureNginx(t, a.Issue(testkit.Wish{Names: []string{name}}), "")
		n.store(t, "who", []byte(name+" "))
		n.store(t, "large", large)
		servers[name] = n
	}
	of := func(name string) string { return strings.Replace(servers[name].url, "https://", "tcp://", 1) }
	s := start(t, fmt.Sprintf("farms:\n  a: {servers: [{url: %q}]}\n  b: {servers: [{url: %q}]}\n", of("a.test"), of("b.test")),
		"listeners: [{name: raw, address: \"127.0.0.1:0\", tcp: {routes: [{sni: a.test, farm: a}, {sni: \"*.test\", farm: b}]}}]")
	_, port, _ := net.SplitHostPort(s.address("raw"))
	for name := range servers {
		for _, version := range []string{"1.2", "1.3"} {
			url := "https://" + name + ":" + port
			options := []string{"--cacert", authority, "--tls-max", version, "--resolve", name + ":" + port + ":127.0.0.1"}
			if got := curl(t, append(options, url+"/who", url+"/who")...); got != strings.Repeat(name+" ", 2) {
				t.Errorf("TLS %s to %s: %q answers", version, name, got)
			}
			same(t, "a large file of "+name, []byte(curl(t, append(options, url+"/large")...)), large)
		}
		r := testkit.Run(t, testkit.Tool(t, "openssl"), "s_client", "-connect", s.address("raw"), "-servername", name, "-CAfile", authority, "-verify_hostname", name, "-verify_return_error")
		if said := r.Stdout + r.Stderr; r.Code != 0 || !strings.Contains(said, "Verify return code: 0 (ok)") {
			t.Errorf("openssl to %s: exit code %d: %s", name, r.Code, said)
		}
	}
	r := testkit.Run(t, testkit.Tool(t, "openssl"), "s_client", "-connect", s.address("raw"), "-servername", "none.example", "-CAfile", authority)
	if said := r.Stdout + r.Stderr; r.Code == 0 || !strings.Contains(said, "unrecognized name") {
		t.Errorf("a name that nobody has: exit code %d: %s", r.Code, said)
	}
}

// echo is a server of no protocol: it gives back what it gets.
func echo(t *testing.T) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	return "tcp://" + ln.Addr().String()
}

// A tunnel goes on over a reload that takes its listener away, and has the time of
// timeouts.drain when Sluice is to end.
func TestTunnelsOverReloadAndDrain(t *testing.T) {
	t.Parallel()
	farms := farm(echo(t))
	s := start(t, farms, "timeouts: {drain: 1m}", "listeners: [{name: raw, address: \"127.0.0.1:0\", tcp: {routes: [{farm: app}]}}]")
	conn, err := net.Dial("tcp", s.address("raw"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testkit.Patience))
	say := func(text string) {
		t.Helper()
		got := make([]byte, len(text))
		io.WriteString(conn, text)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
			t.Fatalf("said %q, heard %q, %v", text, got, err)
		}
	}
	say("before")
	s.configure(farms, "timeouts: {drain: 1m}", "listeners: [{name: other, address: \"127.0.0.2:0\", tcp: {routes: [{farm: app}]}}]")
	s.reload()
	if listens(s.address("raw")) {
		t.Error("the listener that was taken away still listens")
	}
	say("after the reload")
	if m := s.metrics(); m[`sluice_tunnels{node="0",worker="0"}`]+m[`sluice_tunnels{node="-1",worker="0"}`] != 1 {
		t.Errorf("tunnels are not counted: %v", s.page("/status"))
	}
	s.Signal(syscall.SIGTERM)
	s.Stderr.Await(t, "drain")
	say("while draining")
	conn.Close()
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
