package peers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/bench/configs"
	"sluice/bench/secure"
)

func TestVersionIn(t *testing.T) {
	for _, c := range []struct{ said, path, want string }{
		{"nginx version: nginx/1.22.1\n", "/usr/sbin/nginx", "1.22.1"},
		{"HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/\n", "/usr/sbin/haproxy", "2.6.12-1+deb12u4"},
		{"\n/opt/3.11.7/envoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL\n", "/opt/3.11.7/envoy", "1.40.0"},
		{"v2.6.2 h1:abc=\n", "/usr/bin/caddy", "2.6.2"},
		{"go version go1.26.8 linux/amd64\n", "/built", "1.26.8"},
		{"sluice 8b5c0e4-dirty (go1.26.0, linux/amd64)\n", "/here/sluice", "8b5c0e4-dirty"},
		{"sluice unknown (go1.26.0, linux/amd64)\n", "/here/sluice", "unknown"},
		{"development\nbuilt by hand\n", "/x", "development"},
	} {
		if got := versionIn(c.said, filepath.Base(c.path), c.path); got != c.want {
			t.Errorf("%q: %q, want %q", c.said, got, c.want)
		}
	}
}

func TestArgs(t *testing.T) {
	s := Setup{Setup: configs.Setup{Dir: "/d", Port: 21001, Backends: []int{21002, 21003}, Threads: 2}}
	once, two := s, s
	once.PerRequest = true
	two.Protocol, two.Certificate = secure.HTTP2, secure.Certificate{Cert: "/c", Key: "/k"}
	for _, c := range []struct {
		name  string
		setup Setup
		want  string
	}{
		{Sluice, s, "run --config /d/c"},
		{Nginx, s, "-p /d -c /d/c -e stderr"},
		{HAProxy, s, "-db -q -f /d/c"},
		{Envoy, s, "-c /d/c --concurrency 2 --use-dynamic-base-id -l error --disable-hot-restart"},
		{Caddy, s, "run --config /d/c --adapter caddyfile"},
		{GoProxy, s, "-listen 127.0.0.1:21001 -to http://127.0.0.1:21002,http://127.0.0.1:21003"},
		{GoProxy, two, "-listen 127.0.0.1:21001 -to http://127.0.0.1:21002,http://127.0.0.1:21003 -cert /c -key /k -protocol http2"},
		{Floor, s, "px 21001 21002"},
		{Floor, once, "px 21001 21002 close"},
	} {
		k, ok := kindOf(c.name)
		if !ok {
			t.Fatalf("no peer %s", c.name)
		}
		if got := strings.Join(k.args("/d/c", c.setup), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestFind(t *testing.T) {
	none := filepath.Join(t.TempDir(), "sluice")
	all, err := Find(t.Context(), []string{Direct, Sluice, Floor}, Tools{Sluice: none, Floor: "/built/floor"})
	if err != nil {
		t.Fatal(err)
	}
	if all[0].Missing != "" || !strings.Contains(all[1].Missing, "make build") {
		t.Errorf("direct %+v, sluice %+v", all[0], all[1])
	}
	if all[2].Path != "/built/floor" || !strings.HasPrefix(all[2].Version, "cc ") {
		t.Errorf("floor %+v", all[2])
	}
	if _, err := Find(t.Context(), []string{"apache"}, Tools{}); err == nil {
		t.Error("a peer that is not was found")
	}
}

// TestLacks: who takes part in what.
func TestLacks(t *testing.T) {
	all, err := Find(t.Context(), []string{Direct, Floor, GoProxy, Sluice}, Tools{Sluice: "/none", Floor: "/built/floor", ReverseProxy: "/built/proxy"})
	if err != nil {
		t.Fatal(err)
	}
	speak := map[string][]secure.Protocol{
		Direct: {""}, Floor: {""}, GoProxy: {"", secure.HTTP1, secure.HTTP2}, Sluice: {"", secure.HTTP1, secure.HTTP2, secure.HTTP3},
	}
	for _, p := range all {
		for _, protocol := range []secure.Protocol{"", secure.HTTP1, secure.HTTP2, secure.HTTP3} {
			if lacks := p.Lacks(protocol); (lacks == "") != slices.Contains(speak[p.Name], protocol) {
				t.Errorf("%s, %s: %q", p.Name, protocol.Words(), lacks)
			}
		}
	}
}

// TestCheck: what a peer says against its configuration is the error; one that cannot
// tell is not asked.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	script := "#!/bin/sh\n[ $1 = check ] && ! grep -q http2 $2 || { echo \"$2:14: not supported\"; exit 1; }\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	asked, _ := kindOf(Sluice)
	silent, _ := kindOf(Floor)
	for _, c := range []struct {
		kind     kind
		protocol secure.Protocol
		want     string
	}{
		{asked, secure.HTTP1, ""},
		{asked, secure.HTTP2, "refuses its configuration for HTTP/2 over TLS"},
		{asked, secure.HTTP2, "sluice.yaml:14: not supported"},
		{silent, secure.HTTP2, ""},
	} {
		p := Peer{Name: c.kind.name, Path: program, kind: c.kind}
		err := p.Check(t.Context(), configs.Setup{Dir: dir, Protocol: c.protocol})
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %q", c.kind.name, c.protocol, err, c.want)
		}
	}
}

func TestIsELF(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if !isELF(self) || isELF(script) || isELF(script+"-gone") {
		t.Errorf("self %v, script %v, nothing %v", isELF(self), isELF(script), isELF(script+"-gone"))
	}
}

func TestPorts(t *testing.T) {
	p := Ports{last: firstPort}
	a, err := p.Next()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := p.Next(); err != nil || b <= a || a < firstPort || b >= lastPort {
		t.Errorf("ports %d, %d, %v", a, b, err)
	}
	p.last = lastPort - 1
	if c, err := p.Next(); err != nil || c < firstPort || c >= lastPort {
		t.Errorf("after the last comes %d, %v", c, err)
	}
}

func TestLastLine(t *testing.T) {
	if got := lastLine([]byte("one\ntwo\n\n")); got != "two" {
		t.Errorf("got %q", got)
	}
}
