package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/bench/load"
	"sluice/bench/secure"
	"sluice/bench/toolchain"
)

// secured is a server over TLS that answers GET /N with N bytes, and counts handshakes.
type secured struct {
	*httptest.Server
	port          int
	full, resumed atomic.Int64
}

func startSecured(t *testing.T, pair tls.Certificate, change func(*tls.Config)) *secured {
	s := &secured{Server: httptest.NewUnstartedServer(http.HandlerFunc(answer))}
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, GetConfigForClient: agreed, VerifyConnection: s.count}
	change(s.TLS)
	s.StartTLS()
	t.Cleanup(s.Close)
	s.port = s.Listener.Addr().(*net.TCPAddr).Port
	return s
}

func answer(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil || r.Host != secure.Host {
		http.Error(w, "not for "+r.Host+r.URL.Path, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(n))
	w.Write(make([]byte, n))
}

// agreed refuses a client that offers more for TLS 1.3 than is agreed upon.
func agreed(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	ciphers := slices.DeleteFunc(slices.Clone(hello.CipherSuites), func(c uint16) bool {
		return c>>8 != tls.TLS_AES_128_GCM_SHA256>>8 // those of other versions
	})
	if !slices.Equal(ciphers, []uint16{tls.TLS_AES_128_GCM_SHA256}) || !slices.Equal(hello.SupportedCurves, []tls.CurveID{tls.X25519}) ||
		hello.ServerName != secure.Host {
		return nil, fmt.Errorf("%s is asked with the ciphers %x and the groups %v", hello.ServerName, ciphers, hello.SupportedCurves)
	}
	return nil, nil
}

// count counts handshakes; only those of TLS 1.3 are to be.
func (s *secured) count(c tls.ConnectionState) error {
	if c.Version != tls.VersionTLS13 {
		return errors.New("this is not TLS 1.3")
	}
	if c.DidResume {
		s.resumed.Add(1)
	} else {
		s.full.Add(1)
	}
	return nil
}

// clients are the load generators over TLS, and a certificate for servers.
func clients(t *testing.T) (load.Generator, tls.Certificate) {
	dir := t.TempDir()
	path, err := toolchain.C(t.Context(), dir, "load-tls", load.Source, load.FlagsTLS...)
	if err != nil {
		t.Fatal(err)
	}
	h2load, err := exec.LookPath("h2load")
	if err != nil {
		t.Fatalf("%v: make deps installs it", err)
	}
	all, err := secure.Make(dir)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(all[secure.P256].Cert, all[secure.P256].Key)
	if err != nil {
		t.Fatal(err)
	}
	return load.Generator{TLS: path, H2Load: h2load, Log: filepath.Join(dir, "load.log")}, pair
}

// TestSecure loads servers over TLS by programs that are compiled once.
func TestSecure(t *testing.T) {
	g, pair := clients(t)
	t.Run("loads", func(t *testing.T) { testLoads(t, g, pair) })
	t.Run("refusals", func(t *testing.T) { testRefusals(t, g, pair) })
	t.Run("idle connections", func(t *testing.T) { testHold(t, g, pair) })
}

// testLoads: every load over TLS gets whole answers, counts them right, and shakes
// hands as it is told.
func testLoads(t *testing.T, g load.Generator, pair tls.Certificate) {
	const conns = 4
	for _, c := range []struct {
		name  string
		job   load.Job
		bytes int64
		most  int64 // full handshakes; -1: one for each request
	}{
		{"kept alive", load.Job{Protocol: secure.HTTP1, Target: "/53"}, 53, conns},
		{"large body", load.Job{Protocol: secure.HTTP1, Target: "/1000000"}, 1_000_000, conns},
		{"a connection for each", load.Job{Protocol: secure.HTTP1, Target: "/53", PerRequest: true}, 53, -1},
		{"open loop", load.Job{Protocol: secure.HTTP1, Target: "/53", Rate: 200}, 53, conns},
		{"full handshakes", load.Job{Protocol: secure.HTTP1, Target: "/0", Handshakes: load.Full}, 0, -1},
		{"resumed handshakes", load.Job{Protocol: secure.HTTP1, Target: "/0", Handshakes: load.Resumed}, 0, 1},
		{"HTTP/2", load.Job{Protocol: secure.HTTP2, Streams: 3, Target: "/53"}, 0, conns},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := startSecured(t, pair, func(*tls.Config) {})
			c.job.Port, c.job.Conns, c.job.Measure = s.port, conns, time.Second
			order := ""
			got, err := g.Run(t.Context(), c.job, func() { order += "begin " }, func() { order += "end" })
			if err != nil || order != "begin end" {
				t.Fatalf("%v, in the order %q", err, order)
			}
			inFlight := conns * c.bytes
			if got.Requests == 0 || got.Errors != 0 || got.ElapsedNS == 0 || got.Bytes < got.Requests*c.bytes || got.Bytes > got.Requests*c.bytes+inFlight {
				t.Errorf("%d requests, %d errors, %d bytes in %d ns", got.Requests, got.Errors, got.Bytes, got.ElapsedNS)
			}
			s.check(t, c.most, c.job.Handshakes == load.Resumed, got.Requests)
		})
	}
}

// check compares the handshakes of the server with those that the load tells; some may be
// on their way when it ends.
func (s *secured) check(t *testing.T, most int64, resumed bool, requests int64) {
	full := s.full.Load()
	if full == 0 || most < 0 && full < requests || most >= 0 && full > most {
		t.Errorf("%d full handshakes for %d requests, want at most %d", full, requests, most)
	}
	if resumed && s.resumed.Load() < requests || !resumed && s.resumed.Load() != 0 {
		t.Errorf("%d resumed handshakes for %d requests", s.resumed.Load(), requests)
	}
}

// testRefusals: a server that does not do what is agreed upon is a fault, and the
// error says which.
func testRefusals(t *testing.T, g load.Generator, pair tls.Certificate) {
	for _, c := range []struct {
		name   string
		change func(*tls.Config)
		job    load.Job
		want   string
	}{
		{"no tickets", func(c *tls.Config) { c.SessionTicketsDisabled = true }, load.Job{Protocol: secure.HTTP1, Handshakes: load.Resumed}, "gave no ticket"},
		{"another group", func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} }, load.Job{Protocol: secure.HTTP1, Handshakes: load.Resumed}, "handshake failure"},
		{"no HTTP/2", func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }, load.Job{Protocol: secure.HTTP2, Streams: 1}, "did not agree"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := startSecured(t, pair, c.change)
			c.job.Port, c.job.Conns, c.job.Target, c.job.Measure = s.port, 1, "/1", 100*time.Millisecond
			none := func() {}
			_, err := g.Run(t.Context(), c.job, none, none)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// testHold: idle connections over TLS are there while they are held.
func testHold(t *testing.T, g load.Generator, pair tls.Certificate) {
	s := startSecured(t, pair, func(*tls.Config) {})
	job := load.Job{Protocol: secure.HTTP1, Port: s.port, Conns: 20, Target: "/53"}
	open := int64(0)
	err := g.Hold(t.Context(), job, func() error { open = s.full.Load(); return nil })
	if err != nil || open != 20 {
		t.Errorf("%d are held, %v", open, err)
	}
	none := func() error { return nil }
	strict := startSecured(t, pair, func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} })
	job.Port = strict.port
	if err := g.Hold(t.Context(), job, none); err == nil || !strings.Contains(err.Error(), "failed, or ended") {
		t.Errorf("handshakes that fail were held: %v", err)
	}
	job.Port = s.port
	if err := g.Hold(t.Context(), job, func() error { s.CloseClientConnections(); return nil }); err == nil {
		t.Error("connections that the server has closed were held")
	}
}
