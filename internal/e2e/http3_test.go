package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quic-go/quic-go/http3"

	"sluice/internal/testkit"
)

// quick is a Sluice with a listener called tls for localhost that speaks HTTP/3 too,
// and what its clients trust.
type quick struct {
	*secured
	trust *tls.Config
}

// startHTTP3 starts one; keys are further keys of the listener.
func startHTTP3(t testing.TB, keys string, sections ...string) *quick {
	t.Helper()
	dir := shortDir(t)
	a := testkit.NewAuthority(t, "test authority")
	cert := a.Issue(testkit.Wish{Names: []string{"localhost", "127.0.0.1"}})
	listeners := fmt.Sprintf("listeners:\n  - {name: tls, address: \"127.0.0.1:0\", protocols: [http1, http2, http3], tls: {certificates: [{cert: %q}]}%s}",
		testkit.WriteFile(t, dir, "both.pem", cert.Both()), keys)
	q := &quick{secured: &secured{authority: testkit.WriteFile(t, dir, "ca.pem", a.PEM())}, trust: &tls.Config{RootCAs: a.Pool()}}
	q.sluice = start(t, append(sections, listeners)...)
	return q
}

// client is one that speaks HTTP/3 over a connection of its own.
func (q *quick) client() *http.Client {
	transport := &http3.Transport{TLSClientConfig: q.trust.Clone()}
	q.t.Cleanup(func() { transport.Close() })
	return &http.Client{Transport: transport, Timeout: testkit.Patience}
}

// site is a server that tells what it was sent: its length and hash, its trailers;
// or that sends as much as is asked for.
func site(t testing.TB) string {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sum", func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		n, err := io.Copy(hash, r.Body)
		fmt.Fprintf(w, "%d %x %v trailer %q", n, hash.Sum(nil), err, r.Trailer.Get("Check"))
	})
	mux.HandleFunc("GET /large", func(w http.ResponseWriter, r *http.Request) {
		w.Write(bytes.Repeat([]byte("0123456789abcdef"), largeBytes/16))
	})
	mux.HandleFunc("GET /trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Check")
		io.WriteString(w, "content")
		w.Header().Set("Check", "done")
	})
	mux.HandleFunc("GET /seen", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.Host, r.Header.Get("X-Forwarded-Proto"), r.Header.Get("Via"), strings.Join(r.Header["Cookie"], "|"))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// largeBytes is more than any queue or window holds.
const largeBytes = 10 << 20

// query sends a request and returns its answer's content.
func query(t testing.TB, c *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%d bytes, then %v", len(content), err)
	}
	return answer, string(content)
}

func newRequest(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Small and large content both ways, known and unknown length, trailers both ways.
func TestHTTP3(t *testing.T) {
	t.Parallel()
	q := startHTTP3(t, "", farm(site(t)))
	c := q.client()
	seen := newRequest(t, "GET", q.secure("/seen"), nil)
	seen.AddCookie(&http.Cookie{Name: "a", Value: "1"})
	seen.AddCookie(&http.Cookie{Name: "b", Value: "2"})
	answer, content := query(t, c, seen)
	want := "GET " + seen.Host + " https 3.0 sluice a=1; b=2"
	if answer.StatusCode != 200 || answer.Proto != "HTTP/3.0" || content != want || answer.Header.Get("Alt-Svc") != "" {
		t.Errorf("%s %s, Alt-Svc %q: %q, want %q", answer.Proto, answer.Status, answer.Header.Get("Alt-Svc"), content, want)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), largeBytes/16)
	if _, content := query(t, c, newRequest(t, "GET", q.secure("/large"), nil)); content != string(large) {
		t.Errorf("%d bytes came, or others than the %d", len(content), len(large))
	}
	sum := sha256.Sum256(large)
	for _, tc := range []struct {
		name    string
		body    io.Reader // of known length or not
		trailer string
		want    string
	}{
		{"large", bytes.NewReader(large), "", fmt.Sprintf("%d %s <nil> trailer %q", len(large), hex.EncodeToString(sum[:]), "")},
		{"large of unknown length, with a trailer", io.MultiReader(bytes.NewReader(large)), "good", fmt.Sprintf("%d %s <nil> trailer %q", len(large), hex.EncodeToString(sum[:]), "good")},
		{"empty of unknown length", io.MultiReader(strings.NewReader("")), "", fmt.Sprintf("0 %x <nil> trailer %q", sha256.Sum256(nil), "")},
	} {
		r := newRequest(t, "POST", q.secure("/sum"), tc.body)
		if tc.trailer != "" {
			r.Trailer = http.Header{"Check": {tc.trailer}}
		}
		if _, content := query(t, c, r); content != tc.want {
			t.Errorf("%s: the server has seen %q, want %q", tc.name, content, tc.want)
		}
	}
	answer, content = query(t, c, newRequest(t, "GET", q.secure("/trailers"), nil))
	if content != "content" || answer.Trailer.Get("Check") != "done" {
		t.Errorf("%q, trailers %v", content, answer.Trailer)
	}
	if head, _ := query(t, c, newRequest(t, "HEAD", q.secure("/large"), nil)); head.StatusCode != 200 {
		t.Errorf("HEAD: %s", head.Status)
	}
	if missing, _ := query(t, c, newRequest(t, "GET", q.secure("/nothing"), nil)); missing.StatusCode != 404 {
		t.Errorf("%s, want 404", missing.Status)
	}
}

// Clients that come by TCP are told of HTTP/3, and can go there.
func TestAltSvc(t *testing.T) {
	t.Parallel()
	q := startHTTP3(t, ", alt_svc: 1h", farm(site(t)))
	_, port, _ := strings.Cut(q.address("tls"), ":")
	for _, version := range []string{"--http1.1", "--http2"} {
		said := q.curl(version, "--output", "/dev/null", "--write-out", "%header{alt-svc}", q.secure("/seen"))
		if want := `h3=":` + port + `"; ma=3600`; said != want {
			t.Errorf("%s: Alt-Svc is %q, want %q", version, said, want)
		}
	}
}
