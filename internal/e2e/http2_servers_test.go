package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"

	"sluice/internal/testkit"
)

// Files go both ways between curl, in either protocol, and an nginx that is spoken to
// in HTTP/2; what a farm does not ask for is HTTP/1.1.
func TestHTTP2ToNginx(t *testing.T) {
	t.Parallel()
	authority := testkit.NewAuthority(t, "test authority")
	n := startSecureNginx(t, authority.Issue(testkit.Wish{Names: []string{"127.0.0.1"}}), "add_header X-Protocol $server_protocol always;")
	dir := t.TempDir()
	ca := testkit.WriteFile(t, dir, "ca.pem", authority.PEM())
	content := noise(10 << 20)
	n.store(t, "large", content)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ protocol, spoken string }{{"http1", "HTTP/1.1"}, {"http2", "HTTP/2.0"}, {"auto", "HTTP/2.0"}} {
		t.Run(c.protocol, func(t *testing.T) {
			s := start(t, farm(n.url, "protocol: "+c.protocol, fmt.Sprintf("tls: {ca: %q}", ca)))
			for _, way := range []string{"--http1.1", "--http2-prior-knowledge"} {
				to := filepath.Join(dir, "got"+c.protocol+way)
				if said := curl(t, way, "--output", to, "--write-out", "%{http_code} %header{x-protocol}", s.url("/large")); said != "200 "+c.spoken {
					t.Errorf("%s: GET is answered by %s", way, said)
				}
				got, _ := os.ReadFile(to)
				same(t, "GET by "+way, got, content)
				name := "put-" + c.protocol + way
				if code := curl(t, way, "--upload-file", file, "--write-out", "%{http_code}", s.url("/"+name)); code != "201" {
					t.Errorf("%s: PUT is answered by %s", way, code)
				}
				same(t, "PUT by "+way, n.stored(t, name), content)
				if code := curl(t, way, "--head", "--output", os.DevNull, "--write-out", "%{http_code}", s.url("/large")); code != "200" {
					t.Errorf("%s: HEAD is answered by %s", way, code)
				}
				if code := curl(t, way, "--output", os.DevNull, "--write-out", "%{http_code}", s.url("/none")); code != "404" {
					t.Errorf("%s: what is not there is answered by %s", way, code)
				}
			}
		})
	}
}

// A server of HTTP/2 without TLS: trailers go both ways, interim answers come first,
// what it resets is a fault of its, and many requests share one connection.
func TestHTTP2ToGo(t *testing.T) {
	t.Parallel()
	var connections sync.Map
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections.Store(r.RemoteAddr, true)
		switch r.URL.Path {
		case "/trailers":
			w.Header().Set("Trailer", "X-Sum")
			w.Header().Set("Link", "</a.css>")
			w.WriteHeader(http.StatusEarlyHints)
			body, _ := io.ReadAll(r.Body)
			w.Write(bytes.ToUpper(body))
			w.Header().Set("X-Sum", "of "+r.Trailer.Get("X-Client"))
		case "/reset":
			panic(http.ErrAbortHandler)
		default:
			fmt.Fprint(w, r.Proto, " ", r.Host)
		}
	})
	b := httptest.NewServer(h2c.NewHandler(handler, &http2.Server{}))
	defer b.Close()
	s := start(t, farm(strings.Replace(b.URL, "http://", "h2://", 1)))
	if got := curl(t, s.url("/")); got != "HTTP/2.0 "+s.web() {
		t.Errorf("the server says %q", got)
	}
	request, _ := http.NewRequest("POST", s.url("/trailers"), io.NopCloser(strings.NewReader("content")))
	request.Trailer = http.Header{"X-Client": {"client"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "CONTENT" || response.Trailer.Get("X-Sum") != "of client" {
		t.Errorf("got %q, trailers %v, %v", body, response.Trailer, err)
	}
	if code := curl(t, "--output", os.DevNull, "--write-out", "%{http_code}", s.url("/reset")); code != "502" {
		t.Errorf("a reset is answered by %s", code)
	}
	for range 30 {
		curl(t, "--silent", "--parallel", s.url("/1"), s.url("/2"), s.url("/3"))
	}
	n := 0
	connections.Range(func(any, any) bool { n++; return true })
	if most := 2 * runtime.NumCPU(); n > most { // each loop has one, and another while the first was being opened
		t.Errorf("%d connections for all these requests", n)
	}
}
