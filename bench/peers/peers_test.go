package peers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/bench/configs"
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
	once := s
	once.PerRequest = true
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
	var p Ports
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
