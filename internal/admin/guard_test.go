package admin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		listen string
		method string
		fields []string
		status int
	}{
		// Names that no foreign zone can claim.
		{"127.0.0.1:9900", "POST", []string{"Host", "127.0.0.1:9900"}, 200},
		{"127.0.0.1:9900", "POST", []string{"Host", "localhost:9900"}, 200},
		{"127.0.0.1:9900", "POST", []string{"Host", "LOCALHOST"}, 200},
		{"127.0.0.1:9900", "POST", []string{"Host", "[::1]:9900"}, 200},
		{"127.0.0.1:9900", "POST", []string{"Host", "[::1]"}, 200},
		{"127.0.0.1:9900", "POST", []string{"Host", "10.1.2.3:9900"}, 200},
		{"127.0.0.1:9900", "POST", []string{"Host", machine + ":9900"}, 200},
		{"127.0.0.1:9900", "POST", []string{"Host", ""}, 200}, // HTTP/1.0; no browser
		{"ops.example:9900", "POST", []string{"Host", "ops.example:9900"}, 200},

		// DNS rebinding: an attacker's name that leads here.
		{"127.0.0.1:9900", "POST", []string{"Host", "evil.example:9900"}, 403},
		{"127.0.0.1:9900", "GET", []string{"Host", "evil.example"}, 403},
		{"127.0.0.1:9900", "GET", []string{"Host", "127.0.0.1.evil.example"}, 403},
		{"127.0.0.1:9900", "GET", []string{"Host", "localhost.evil.example"}, 403},
		{":9900", "GET", []string{"Host", "evil.example:9900"}, 403},
		{"ops.example:9900", "GET", []string{"Host", "evil.example:9900"}, 403},

		// A page of another site.
		{"127.0.0.1:9900", "POST", []string{"Origin", "http://127.0.0.1:9900"}, 200},
		{"127.0.0.1:9900", "POST", []string{"Origin", "http://127.0.0.1:8080"}, 403},
		{"127.0.0.1:9900", "POST", []string{"Origin", "https://evil.example"}, 403},
		{"127.0.0.1:9900", "POST", []string{"Origin", "null"}, 403},
		{"127.0.0.1:9900", "POST", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"127.0.0.1:9900", "POST", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"127.0.0.1:9900", "POST", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"127.0.0.1:9900", "POST", []string{"Sec-Fetch-Site", "none"}, 200},
	} {
		v := newFakeView(t)
		v.config.Admin.Listen = c.listen
		path := "/reload"
		if c.method == "GET" {
			path = "/healthz"
		}
		got := request(v, c.method, path, c.fields...)
		if got.Code != c.status {
			t.Errorf("%s on %s with %q: %d %s, want %d", c.method, c.listen, c.fields, got.Code, got.Body, c.status)
		}
		if c.status != 200 && v.reloads > 0 {
			t.Errorf("%s with %q was refused and reloaded nevertheless", c.method, c.fields)
		}
	}
}

// A refusal shows the name, but never more of it than a person needs.
func TestGuardShortensWhatItShows(t *testing.T) {
	got := request(newFakeView(t), "GET", "/", "Host", strings.Repeat("x", 4000)+"\xff")
	if got.Code != 403 || got.Body.Len() > 300 {
		t.Errorf("%d, %d bytes", got.Code, got.Body.Len())
	}
}

// No browser speaks over a Unix socket, so any name will do there.
func TestGuardTrustsUnixSockets(t *testing.T) {
	v := newFakeView(t)
	r := httptest.NewRequest("GET", "http://whatever/healthz", nil)
	local := &net.UnixAddr{Name: "/run/sluice/admin.sock", Net: "unix"}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
	w := httptest.NewRecorder()
	handler(v, newSampler(v)).ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
