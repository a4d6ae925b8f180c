package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"sluice/internal/testkit"
)

// keyed is a Sluice of two workers whose certificate may be exchanged.
type keyed struct {
	*sluice
	root *testkit.Authority
	cert string // file, with the key
}

// startKeyed starts one before an nginx that has a file "page".
func startKeyed(t testing.TB) *keyed {
	t.Helper()
	n := startNginx(t)
	n.store(t, "page", []byte("hello"))
	k := &keyed{root: testkit.NewAuthority(t, "test authority"), cert: filepath.Join(shortDir(t), "site.pem")}
	k.exchange(t)
	k.sluice = start(t, farm(n.url), "workers: {per: 2}",
		fmt.Sprintf("listeners: [{name: tls, address: \"127.0.0.1:0\", tls: {certificates: [%q]}}]", k.cert))
	return k
}

// exchange puts another certificate in the place of the one before, as a client of ACME
// does, and gives its number.
func (k *keyed) exchange(t testing.TB) string {
	t.Helper()
	issued := k.root.Issue(testkit.Wish{Names: []string{"localhost"}})
	draft := testkit.WriteFile(t, filepath.Dir(k.cert), "draft", issued.Both())
	if err := os.Rename(draft, k.cert); err != nil {
		t.Fatal(err)
	}
	return issued.Leaf.SerialNumber.String()
}

// visit makes a connection for one request, and tells what was settled.
func (k *keyed) visit(sessions tls.ClientSessionCache) (tls.ConnectionState, error) {
	c, err := tls.Dial("tcp", k.address("tls"), &tls.Config{ServerName: "localhost", RootCAs: k.root.Pool(), ClientSessionCache: sessions})
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer c.Close()
	return c.ConnectionState(), request(c, bufio.NewReader(c))
}

// request asks for the page on a connection that is kept.
func request(c io.Writer, in *bufio.Reader) error {
	if _, err := io.WriteString(c, "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || string(body) != "hello") {
		err = fmt.Errorf("%s %q", response.Status, body)
	}
	return err
}

// Certificates are exchanged three times while clients come and go: nobody notices, new
// connections get the new one, and a connection that was there before goes on. A file that
// is at fault changes nothing, and is counted.
func TestCertificatesAreExchangedUnderLoad(t *testing.T) {
	k := startKeyed(t)
	kept, err := tls.Dial("tcp", k.address("tls"), &tls.Config{ServerName: "localhost", RootCAs: k.root.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	in := bufio.NewReader(kept)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var visits [4]int
	for i := range visits {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := k.visit(nil); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				visits[i]++
			}
		})
	}
	for range 3 {
		serial := k.exchange(t)
		testkit.Eventually(t, "new connections get the new certificate", func() bool {
			state, err := k.visit(nil)
			return err == nil && state.PeerCertificates[0].SerialNumber.String() == serial
		})
		if err := request(kept, in); err != nil {
			t.Fatalf("a connection from before: %v", err)
		}
	}
	if err := os.WriteFile(k.cert, []byte("-----BEGIN CERTIFICATE-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.Stderr.Await(t, "certificates have changed and cannot be used")
	close(stop)
	clients.Wait()
	if _, err := k.visit(nil); err != nil {
		t.Errorf("after a file at fault: %v", err)
	}
	m := k.metrics()
	if m[`sluice_certificate_changes_total{outcome="taken"}`] != 3 || m[`sluice_certificate_changes_total{outcome="refused"}`] != 1 || m["sluice_config_generation"] != 1 {
		t.Errorf("metrics: %v", m)
	}
	for i, n := range visits {
		if n == 0 {
			t.Errorf("client %d was never served", i)
		}
	}
}

// A session goes on with any worker, after a reload, and after the death of all workers.
func TestSessionsGoOnEverywhere(t *testing.T) {
	k := startKeyed(t)
	sessions := tls.NewLRUClientSessionCache(1)
	first := true
	resumed := func(when string) {
		t.Helper()
		state, err := k.visit(sessions)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if state.DidResume == first {
			t.Errorf("%s: resumed %v", when, state.DidResume)
		}
		first = false
	}
	resumed("the first connection")
	testkit.Eventually(t, "both workers have gone on with the session", func() bool {
		resumed("another connection")
		m := k.metrics()
		n := 0
		for name, value := range m {
			if strings.HasPrefix(name, "sluice_tls_resumed_handshakes_total") && value > 0 {
				n++
			}
		}
		return n == 2
	})
	k.reload()
	resumed("after a reload")
	old := k.workers()
	for _, pid := range old {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	testkit.Eventually(t, "both workers serve anew", func() bool {
		st := k.status()
		for i, w := range st.Workers {
			if w.State != "serving" || w.PID == old[i] {
				return false
			}
		}
		return true
	})
	for range 4 {
		resumed("after the death of all workers")
	}
}

// Sluice asks the authority of a certificate whether it is good, and shows the answer to a
// real client that will not go on without.
func TestStapling(t *testing.T) {
	n := startNginx(t)
	n.store(t, "page", []byte("hello"))
	a := testkit.NewAuthority(t, "test authority")
	var issued testkit.Issued
	responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(a.Word(issued, ocsp.Good, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)))
	}))
	defer responder.Close()
	issued = a.Issue(testkit.Wish{Names: []string{"localhost"}, Responder: responder.URL})
	dir := shortDir(t)
	file := testkit.WriteFile(t, dir, "site.pem", append(issued.Both(), a.PEM()...))
	authority := testkit.WriteFile(t, dir, "ca.pem", a.PEM())
	for mode, want := range map[string]bool{"auto": true, "off": false} {
		s := &secured{authority: authority}
		s.sluice = start(t, farm(n.url), fmt.Sprintf("listeners: [{name: tls, address: \"127.0.0.1:0\", tls: {certificates: [{cert: %q, ocsp: %s}]}}]", file, mode))
		ask := func() bool {
			r := testkit.Run(t, testkit.Tool(t, "curl"), "--silent", "--cacert", authority, "--ipv4", "--cert-status", "--max-time", "60", s.secure("/page"))
			return r.Code == 0 && string(r.Stdout) == "hello"
		}
		if want {
			testkit.Eventually(t, "the certificate is shown to be good", ask)
		} else if ask() {
			t.Error("it is shown to be good, though nobody asked")
		}
	}
}
