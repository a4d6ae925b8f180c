package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"sluice/internal/testkit"
)

// quick is a Sluice with a listener called tls for localhost that speaks HTTP/3 too,
// and what its clients trust.
type quick struct {
	*secured
	trust       *tls.Config
	certificate string // file, with its key
}

// startHTTP3 starts one; keys are further keys of the listener.
func startHTTP3(t testing.TB, keys string, sections ...string) *quick {
	t.Helper()
	dir := shortDir(t)
	a := testkit.NewAuthority(t, "test authority")
	cert := a.Issue(testkit.Wish{Names: []string{"localhost", "127.0.0.1"}})
	q := &quick{certificate: testkit.WriteFile(t, dir, "both.pem", cert.Both())}
	listeners := fmt.Sprintf("listeners:\n  - {name: tls, address: \"127.0.0.1:0\", protocols: [http1, http2, http3], tls: {certificates: [{cert: %q}]}%s}", q.certificate, keys)
	q.secured = &secured{authority: testkit.WriteFile(t, dir, "ca.pem", a.PEM())}
	q.trust = &tls.Config{RootCAs: a.Pool()}
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
	s := httptest.NewServer(siteMux())
	t.Cleanup(s.Close)
	return s.URL
}

func siteMux() *http.ServeMux {
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
		w.Header().Set("Seen-Placement", r.Header.Get("X-Sluice-Placement"))
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.Host, r.Header.Get("X-Forwarded-Proto"), r.Header.Get("Via"), strings.Join(r.Header["Cookie"], "|"))
	})
	return mux
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
	q := startHTTP3(t, "", farm(site(t)), jsonLog)
	c := q.client()
	seen := newRequest(t, "GET", q.secure("/seen"), nil)
	seen.AddCookie(&http.Cookie{Name: "a", Value: "1"})
	seen.AddCookie(&http.Cookie{Name: "b", Value: "2"})
	answer, content := query(t, c, seen)
	want := "GET " + seen.Host + " https 3.0 sluice a=1; b=2"
	if answer.StatusCode != 200 || answer.Proto != "HTTP/3.0" || content != want || answer.Header.Get("Alt-Svc") != "" {
		t.Errorf("%s %s, Alt-Svc %q: %q, want %q", answer.Proto, answer.Status, answer.Header.Get("Alt-Svc"), content, want)
	}
	if line := q.logLines(1)[0]; !strings.Contains(line, `"tls_version":"TLSv1.3","tls_cipher":"TLS_`) || !strings.Contains(line, `"tls_alpn":"h3","tls_group":"X25519MLKEM768"`) {
		t.Errorf("the log says %s", line)
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

// Servers are told of the certificate that a client has shown, and who shows none is not
// served where one is required; a session goes on with any worker.
func TestHTTP3Certificates(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	a := testkit.NewAuthority(t, "test authority")
	cert := testkit.WriteFile(t, dir, "both.pem", a.Issue(testkit.Wish{Names: []string{"localhost"}}).Both())
	authority := testkit.WriteFile(t, dir, "ca.pem", a.PEM())
	b := testkit.Serve(t, testkit.Answering(ok))
	q := &quick{secured: &secured{authority: authority}, trust: &tls.Config{RootCAs: a.Pool(), ClientSessionCache: tls.NewLRUClientSessionCache(1)}}
	q.sluice = start(t, farm(b.URL()), "workers: {per: 2, loops: 1}", fmt.Sprintf("listeners:\n  - name: tls\n    address: \"127.0.0.1:0\"\n    protocols: [http1, http3]\n"+
		"    tls: {certificates: [{cert: %q}], client_auth: {mode: require, ca: %q}}\n", cert, authority))
	if answer, err := q.client().Do(newRequest(t, "GET", q.secure("/"), nil)); err == nil {
		t.Errorf("%s for who has shown no certificate", answer.Status)
	}
	own := a.Issue(testkit.Wish{Names: []string{"client"}})
	pair, err := tls.X509KeyPair(own.Chain, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	q.trust.Certificates = []tls.Certificate{pair}
	resumed := 0
	for range 8 { // all by one worker by chance: once in 128
		l := q.connect()
		l.ask()
		if l.quic.ConnectionState().TLS.DidResume {
			resumed++
		}
		if got, want := b.Heard()[len(b.Heard())-1].Get("Client-Cert"), ":"+base64.StdEncoding.EncodeToString(pair.Certificate[0])+":"; got != want {
			t.Errorf("Client-Cert: %.60s, want %.60s", got, want)
		}
	}
	if resumed < 7 {
		t.Errorf("%d of 7 later connections went on with the session", resumed)
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

// twoWorkers is a Sluice of two workers whose answers tell who has served them.
func twoWorkers(t testing.TB) *quick {
	return startHTTP3(t, "", farm(site(t)), "workers: {per: 2, loops: 1}", "forward: {placement: true}")
}

// line is one connection of HTTP/3, which is told to move.
type line struct {
	t    testing.TB
	quic *quic.Conn
	http *http3.ClientConn
	url  string
}

// connect opens one.
func (q *quick) connect() *line {
	q.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), testkit.Patience)
	defer stop()
	trust := q.trust.Clone()
	trust.NextProtos, trust.ServerName = []string{"h3"}, "localhost"
	to, err := net.ResolveUDPAddr("udp4", q.address("tls"))
	if err != nil {
		q.t.Fatal(err)
	}
	c, err := newPort(q.t).Dial(ctx, to, trust, &quic.Config{})
	if err != nil {
		q.t.Fatal(err)
	}
	q.t.Cleanup(func() { c.CloseWithError(0x100, "") })
	return &line{t: q.t, quic: c, http: new(http3.Transport).NewClientConn(c), url: q.secure("/seen")}
}

// newPort is a port of a client, with connection IDs of its own.
func newPort(t testing.TB) *quic.Transport {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	transport := &quic.Transport{Conn: socket}
	t.Cleanup(func() {
		transport.Close()
		socket.Close()
	})
	return transport
}

// move has the connection go on from another port.
func (l *line) move() {
	l.t.Helper()
	path, err := l.quic.AddPath(newPort(l.t))
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), testkit.Patience)
	defer stop()
	if err := path.Probe(ctx); err != nil {
		l.t.Fatal(err)
	}
	if err := path.Switch(); err != nil {
		l.t.Fatal(err)
	}
}

// try asks, and tells which worker has answered.
func (l *line) try() (worker string, err error) {
	ctx, stop := context.WithTimeout(context.Background(), testkit.Patience)
	defer stop()
	answer, err := l.http.RoundTrip(newRequest(l.t, "GET", l.url, nil).WithContext(ctx))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	if answer.StatusCode != 200 {
		return "", errors.New(answer.Status)
	}
	_, rest, _ := strings.Cut(answer.Header.Get("Seen-Placement"), "worker=")
	worker, _, _ = strings.Cut(rest, " ")
	return worker, err
}

// ask is try that succeeds.
func (l *line) ask() string {
	l.t.Helper()
	worker, err := l.try()
	if err != nil {
		l.t.Fatal(err)
	}
	return worker
}

// Connections are spread over the workers, and the packets of each come to its own,
// also when the client's address changes.
func TestHTTP3Workers(t *testing.T) {
	t.Parallel()
	q := twoWorkers(t)
	seen := map[string]int{}
	for range 24 { // all on one side by chance: once in 2^23
		l := q.connect()
		first := l.ask()
		seen[first]++
		l.move()
		if now := l.ask(); now != first {
			t.Errorf("a connection of worker %q is served by %q after it has moved", first, now)
		}
	}
	if len(seen) != 2 {
		t.Errorf("all connections are served by one worker: %v", seen)
	}
}

// When a worker dies its clients soon learn that their connections are gone, from its
// successor. Those of others notice nothing.
func TestHTTP3KilledWorker(t *testing.T) {
	t.Parallel()
	q := twoWorkers(t)
	lines := map[string][]*line{}
	for len(lines) < 2 {
		l := q.connect()
		worker := l.ask()
		lines[worker] = append(lines[worker], l)
	}
	pid := q.workers()[0]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "another worker serves", func() bool {
		w := q.status().Workers[0]
		return w.State == "serving" && w.PID != pid
	})
	var reset *quic.StatelessResetError
	if _, err := lines["0"][0].try(); !errors.As(err, &reset) {
		t.Errorf("a connection of the worker that died: %v, want a stateless reset", err)
	}
	if worker := lines["1"][0].ask(); worker != "1" {
		t.Errorf("a connection of the other worker is served by worker %q", worker)
	}
	again := map[string]bool{}
	testkit.Eventually(t, "both workers serve new connections", func() bool {
		again[q.connect().ask()] = true
		return len(again) == 2
	})
}

// A reload keeps connections, and gives new ones the certificate that there is now. A
// listener that no longer speaks HTTP/3 lets the requests end that it has.
func TestHTTP3Reload(t *testing.T) {
	t.Parallel()
	q := startHTTP3(t, "", farm(site(t)))
	old := q.connect()
	old.ask()
	renewed := testkit.NewAuthority(t, "another authority")
	cert := renewed.Issue(testkit.Wish{Names: []string{"localhost"}})
	if err := os.WriteFile(q.certificate, cert.Both(), 0o600); err != nil {
		t.Fatal(err)
	}
	q.reload()
	old.ask()
	before := q.trust
	q.trust = &tls.Config{RootCAs: renewed.Pool()}
	q.connect().ask()
	old.ask()
	if n := q.metrics()[`sluice_http3_connections_total{node="0",worker="0"}`]; n != 2 {
		t.Errorf("%v connections, want the first and the one after the reload", n)
	}
	q.trust = before
	text, err := os.ReadFile(q.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(q.file, bytes.Replace(text, []byte(", http3]"), []byte("]"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	q.reload()
	testkit.Eventually(t, "connections end where HTTP/3 is no longer spoken", func() bool { return old.quic.Context().Err() != nil })
	var closed *quic.ApplicationError
	if err := context.Cause(old.quic.Context()); !errors.As(err, &closed) || closed.ErrorCode != 0x100 {
		t.Errorf("the connection's end: %v, want H3_NO_ERROR", err)
	}
}

// HTTP/3 that a reload takes from a listener, and the next gives back at once: the socket
// is the same, a request that was under way all the time has its answer, and new
// connections are served.
func TestHTTP3TakenAndGivenBack(t *testing.T) {
	t.Parallel()
	asked, goOn := make(chan struct{}), make(chan struct{})
	var count atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if count.Add(1) == 1 {
			close(asked)
			<-goOn
		}
	}))
	t.Cleanup(server.Close)
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	q := startHTTP3(t, "", farm(server.URL))
	with, err := os.ReadFile(q.file)
	if err != nil {
		t.Fatal(err)
	}
	busy, result := q.connect(), make(chan error, 1)
	go func() {
		_, err := busy.try()
		result <- err
	}()
	<-asked
	for _, text := range [][]byte{bytes.Replace(with, []byte(", http3]"), []byte("]"), 1), with} {
		if err := os.WriteFile(q.file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		q.reload()
	}
	q.connect().ask()
	release()
	if err := <-result; err != nil {
		t.Errorf("the request that was under way: %v", err)
	}
	q.connect().ask()
}

// SIGTERM: requests that are under way come to their end.
func TestHTTP3Drain(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	b := testkit.Serve(t, func(p *testkit.Peer) {
		for {
			p.Request()
			<-answer
			p.Send(ok)
		}
	})
	q := startHTTP3(t, "", farm(b.URL()))
	busy := q.connect()
	result := make(chan error, 1)
	go func() {
		_, err := busy.try()
		result <- err
	}()
	testkit.Eventually(t, "the request has reached the server", func() bool { return len(b.Heard()) == 1 })
	q.Signal(syscall.SIGTERM)
	testkit.Eventually(t, "nobody can connect", func() bool { return !listens(q.address("tls")) })
	close(answer)
	if err := <-result; err != nil {
		t.Error(err)
	}
	if code := q.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	q.AwaitAllGone()
}

// Clients that ask without a pause lose nothing to a drain: every request that has
// reached the server has its answer.
func TestHTTP3DrainUnderLoad(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		io.WriteString(w, "done")
	}))
	t.Cleanup(s.Close)
	q := startHTTP3(t, "", farm(s.URL))
	var answered atomic.Int64
	var clients sync.WaitGroup
	for range 4 {
		l := q.connect()
		for range 4 {
			clients.Go(func() {
				for {
					if _, err := l.try(); err != nil {
						return
					}
					answered.Add(1)
				}
			})
		}
	}
	testkit.Eventually(t, "the load is on", func() bool { return answered.Load() > 500 })
	q.Signal(syscall.SIGTERM)
	clients.Wait()
	if code := q.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if reached.Load() != answered.Load() {
		t.Errorf("%d requests have reached the server, and %d answers their clients", reached.Load(), answered.Load())
	}
}

// Who gives a request up ends it at the server as well; uploads that are cut off are
// not taken for whole.
func TestHTTP3Reset(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, silent)
	q := startHTTP3(t, "", farm(b.URL()))
	ctx, giveUp := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		_, err := q.client().Do(newRequest(t, "GET", q.secure("/"), nil).WithContext(ctx))
		failed <- err
	}()
	testkit.Eventually(t, "the request has reached the server", func() bool { return len(b.Heard()) == 1 })
	giveUp()
	if err := <-failed; err == nil {
		t.Error("an answer came")
	}
	testkit.Eventually(t, "the server's connection ends", func() bool { return b.Open() == 0 })
	testkit.Eventually(t, "the reset is counted", func() bool {
		return q.metrics()[`sluice_http3_events_total{class="reset_request",node="0",worker="0"}`] == 1
	})
	var ends atomic.Int64
	whole := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			ends.Add(1)
		}
	}))
	t.Cleanup(whole.Close)
	q = startHTTP3(t, "", farm(whole.URL))
	read, write := io.Pipe()
	go func() {
		write.Write(make([]byte, 100_000))
		write.CloseWithError(errors.New("cut off"))
	}()
	if answer, err := q.client().Do(newRequest(t, "POST", q.secure("/"), read)); err == nil {
		t.Errorf("%s for a request that was cut off", answer.Status)
	}
	query(t, q.client(), newRequest(t, "POST", q.secure("/"), strings.NewReader("whole")))
	if ends.Load() != 1 {
		t.Errorf("the server has taken %d requests for whole, want the last", ends.Load())
	}
}

// A WebSocket comes by an extended CONNECT (RFC 9220), and is one of HTTP/1.1 for the
// server.
func TestWebSocketOverHTTP3(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, webSocketEcho)
	q := startHTTP3(t, "", farm(b.URL()))
	ctx, stop := context.WithTimeout(context.Background(), testkit.Patience)
	defer stop()
	s, err := q.connect().http.OpenRequestStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := newRequest(t, http.MethodConnect, q.secure("/chat"), nil)
	r.Proto = "websocket"
	r.Header.Set("Sec-WebSocket-Version", "13")
	if err := s.SendRequestHeader(r); err != nil {
		t.Fatal(err)
	}
	answer, err := s.ReadResponse()
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != 200 {
		t.Fatalf("%s", answer.Status)
	}
	if _, err := io.WriteString(s, "hello"); err != nil {
		t.Fatal(err)
	}
	echo := make([]byte, len("hello"))
	if _, err := io.ReadFull(s, echo); err != nil || string(echo) != "hello" {
		t.Fatalf("%q came back, %v", echo, err)
	}
	s.Close()
	if rest, err := io.ReadAll(s); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v at the end", rest, err)
	}
	testkit.Eventually(t, "the server's connection ends", func() bool { return b.Open() == 0 })
}
