package admin

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"sluice/internal/config"
)

// serve starts the real thing on the address of v.
func serve(t *testing.T, v *fakeView) *Server {
	t.Helper()
	s, err := Serve(v)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// listenOn is a configuration with another admin address.
func listenOn(address string) *config.Config {
	c := config.Default()
	c.Admin.Listen = address
	return c
}

// fetch asks over a connection of its own.
func fetch(method string, address net.Addr, path string) (int, string, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, address.Network(), address.String())
		},
	}
	r, err := http.NewRequest(method, "http://localhost"+path, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

func lives(t *testing.T, address net.Addr) {
	t.Helper()
	if code, _, err := fetch("GET", address, "/healthz"); err != nil || code != 200 {
		t.Errorf("%s: %d, %v", address, code, err)
	}
}

func refuses(t *testing.T, address net.Addr) {
	t.Helper()
	if _, _, err := fetch("GET", address, "/healthz"); !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ENOENT) {
		t.Errorf("%s is still open: %v", address, err)
	}
}

func apply(t *testing.T, s *Server, address string) {
	t.Helper()
	if err := s.Apply(listenOn(address)); err != nil {
		t.Fatal(err)
	}
}

func TestServerFollowsTheAddress(t *testing.T) {
	s := serve(t, newFakeView(t))
	first := s.Addr()
	lives(t, first)

	apply(t, s, "127.0.0.1:0") // as configured before: stays
	if s.Addr().String() != first.String() {
		t.Errorf("moved from %s to %s without a reason", first, s.Addr())
	}
	apply(t, s, "[::1]:0")
	second := s.Addr()
	lives(t, second)
	refuses(t, first)

	apply(t, s, "unix:"+filepath.Join(t.TempDir(), "admin.sock"))
	third := s.Addr()
	lives(t, third)
	refuses(t, second)

	apply(t, s, "off")
	if s.Addr() != nil {
		t.Errorf("off, and still on %s", s.Addr())
	}
	refuses(t, third)

	apply(t, s, first.String())
	lives(t, s.Addr())
	s.Close()
	refuses(t, first)
}

func TestServerKeepsTheOldAddressIfTheNewOneIsTaken(t *testing.T) {
	s := serve(t, newFakeView(t))
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	err = s.Apply(listenOn(other.Addr().String()))
	if err == nil || !strings.Contains(err.Error(), other.Addr().String()) || !strings.Contains(err.Error(), "--admin") {
		t.Errorf("the error names neither address nor cure: %v", err)
	}
	lives(t, s.Addr())
}

// 127.0.0.1:P and :P cannot be open together, so the old one has to go first.
func TestServerMovesToAnAddressThatHoldsTheOldOne(t *testing.T) {
	s := serve(t, newFakeView(t))
	_, port, _ := net.SplitHostPort(s.Addr().String())
	apply(t, s, ":"+port)
	lives(t, s.Addr())
	if host, _, _ := net.SplitHostPort(s.Addr().String()); host != "::" && host != "0.0.0.0" {
		t.Errorf("is on %s", s.Addr())
	}
}

func TestServeRefusesATakenAddress(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	v := newFakeView(t)
	v.config = listenOn(other.Addr().String())
	if s, err := Serve(v); err == nil {
		s.Close()
		t.Error("two programs on one address")
	}
}

// The request for a reload is answered on the address that the reload leaves.
func TestReloadMayMoveTheAddressThatAsked(t *testing.T) {
	v := newFakeView(t)
	s := serve(t, v)
	first := s.Addr()
	v.reload = func() error { return s.Apply(listenOn("[::1]:0")) }
	code, body, err := fetch("POST", first, "/reload")
	if err != nil || code != 200 {
		t.Errorf("%d %q, %v", code, body, err)
	}
	lives(t, s.Addr())
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	v := newFakeView(t)
	v.config = listenOn("unix:" + path)

	// What a killed process leaves: a socket that nobody listens on.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()

	s := serve(t, v)
	lives(t, s.Addr())
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("mode %o: others may reload", mode)
	}
	if second, err := Serve(v); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("took a socket that is in use: %v, %v", second, err)
	}
	lives(t, s.Addr())
}

func TestUnixSocketDoesNotReplaceAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	v := newFakeView(t)
	v.config = listenOn("unix:" + path)
	if s, err := Serve(v); err == nil {
		s.Close()
		t.Error("a file was replaced by a socket")
	}
	if data, _ := os.ReadFile(path); string(data) != "data" {
		t.Errorf("the file holds %q", data)
	}
}

// endless accepts as many connections as are asked for.
type endless struct{ net.Listener }

func (endless) Accept() (net.Conn, error) {
	c, _ := net.Pipe()
	return c, nil
}

func TestConnectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &boundedListener{Listener: endless{}, free: make(chan struct{}, maxConnections)}
		var last net.Conn
		for range maxConnections {
			last, _ = l.Accept()
		}
		accepted := false
		go func() {
			l.Accept()
			accepted = true
		}()
		synctest.Wait()
		if accepted {
			t.Fatalf("%d connections are open, the limit is %d", maxConnections+1, maxConnections)
		}
		last.Close()
		last.Close() // twice gives back one place
		synctest.Wait()
		if !accepted {
			t.Error("a connection was closed, and none was accepted for it")
		}
		if len(l.free) != maxConnections {
			t.Errorf("%d places are taken, want %d", len(l.free), maxConnections)
		}
	})
}
