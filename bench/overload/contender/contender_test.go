package contender

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"sluice/bench/peers"
	"sluice/internal/config"
)

var setup = Setup{Dir: "/somewhere", Port: 20001, Backend: 20002}

func render(t *testing.T, c Contender, s Setup) string {
	t.Helper()
	out, err := c.render(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestPorts: every configuration says where to listen and whom to ask.
func TestPorts(t *testing.T) {
	for _, c := range []Contender{Learning, Fixed(51), HAProxy(51), HAProxy(0), Envoy()} {
		for _, want := range []string{"20001", "20002"} {
			if !strings.Contains(render(t, c, setup), want) {
				t.Errorf("%s lacks %s", c.Name, want)
			}
		}
	}
}

// TestSluice: Sluice itself takes its file, which asks for what is said here and
// leaves all else as it comes.
func TestSluice(t *testing.T) {
	for _, c := range []struct {
		contender Contender
		asks      Asks
		limit     string
		queue     int
		timeout   time.Duration
	}{
		{Learning, Asks{}, "adaptive", 1000, 30 * time.Second},
		{Fixed(51), Asks{}, "51", 1000, 30 * time.Second},
		{Learning, Asks{Queue: 250, Timeout: 2 * time.Second, Failures: "X-Status: degraded"}, "adaptive", 250, 2 * time.Second},
	} {
		s := setup
		s.Asks = c.asks
		text := render(t, c.contender, s)
		parsed, err := config.Parse("sluice.yaml", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		a := parsed.Farms[0].Admission
		if string(a.Limit) != c.limit || a.Queue != c.queue || time.Duration(a.Timeout) != c.timeout {
			t.Errorf("%s: limit %s, queue %d, timeout %v", c.contender.Name, a.Limit, a.Queue, a.Timeout)
		}
		if strings.Contains(strings.Join(a.Failures, " "), "X-Status") != (c.asks.Failures != "") {
			t.Errorf("%s: failures %v", c.contender.Name, a.Failures)
		}
		if parsed.State != "off" {
			t.Errorf("%s: what it has learned is kept: %q", c.contender.Name, parsed.State)
		}
	}
}

func TestHAProxyLimit(t *testing.T) {
	if text := render(t, HAProxy(51), setup); !strings.Contains(text, "127.0.0.1:20002 maxconn 51\n") {
		t.Errorf("no limit in\n%s", text)
	}
	if text := render(t, HAProxy(0), setup); !strings.Contains(text, "127.0.0.1:20002\n") {
		t.Errorf("a limit in\n%s", text)
	}
}

func TestEnvoyYAML(t *testing.T) {
	var any map[string]any
	if err := yaml.Unmarshal([]byte(render(t, Envoy(), setup)), &any); err != nil {
		t.Error(err)
	}
}

// backend is a server, and its port.
func backend(t *testing.T, status int) int {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

// TestStart: HAProxy passes on, and is gone after Stop.
func TestStart(t *testing.T) {
	found, err := peers.Find(t.Context(), []string{peers.HAProxy}, peers.Tools{})
	if err != nil || found[0].Missing != "" {
		t.Fatal(err, found)
	}
	var ports peers.Ports
	port, err := ports.Next()
	if err != nil {
		t.Fatal(err)
	}
	s := Setup{Dir: t.TempDir(), Port: port, Backend: backend(t, http.StatusOK)}
	r, err := HAProxy(5).Start(t.Context(), found[0].Path, s)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Get(URL(r.Port))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", response, err)
	}
	r.Stop()
	if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
		c.Close()
		t.Error("it listens after its end")
	}
}

func TestStartDirect(t *testing.T) {
	port := backend(t, http.StatusOK)
	r, err := Straight.Start(t.Context(), "", Setup{Backend: port})
	if err != nil || r.Port != port {
		t.Errorf("port %d, %v", r.Port, err)
	}
	r.Stop()
}

// TestStartFails: the error has the program's last words.
func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "haproxy")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho first; echo no such option; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := HAProxy(5).Start(t.Context(), path, Setup{Dir: dir, Port: 1, Backend: 2})
	if err == nil || !strings.Contains(err.Error(), "no such option") || strings.Contains(err.Error(), "first") {
		t.Errorf("the error is %v", err)
	}
}
