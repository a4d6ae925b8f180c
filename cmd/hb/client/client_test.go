package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// script is a server that answers the requests of each connection with the next of
// its texts, and then closes the connection.
type script struct {
	connections [][]string
	piece       int // bytes of a write; 0: all at once
	opened      int
	got         []string // heads of the requests, as they came
}

// dial gives the client the next connection.
func (s *script) dial(context.Context, string) (net.Conn, error) {
	if s.opened == len(s.connections) {
		return nil, syscall.ECONNREFUSED
	}
	near, far := net.Pipe()
	go s.serve(far, s.connections[s.opened])
	s.opened++
	return near, nil
}

func (s *script) serve(conn net.Conn, answers []string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, answer := range answers {
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		io.Copy(io.Discard, request.Body)
		s.got = append(s.got, request.Method+" "+request.URL.Path+" "+request.Header.Get("Cookie"))
		for len(answer) > 0 {
			n := len(answer)
			if s.piece > 0 {
				n = min(n, s.piece)
			}
			if _, err := io.WriteString(conn, answer[:n]); err != nil {
				return
			}
			answer = answer[n:]
		}
	}
}

func request(t testing.TB, method, target string, body string) *Request {
	t.Helper()
	return NewRequest(method, parseURL(t, target), nil, []byte(body), true, "")
}

func parseURL(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// limit is both time-outs. Only tests in virtual time come to it: a slow machine
// verifies a certificate in seconds.
const limit = time.Minute

func options(dial DialFunc) *Options {
	return &Options{Dial: dial, Timeout: limit, ConnectTimeout: limit, KeepAlive: true, Cookies: true, Open: &Gauge{}}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// answers are what one server sends for one request, and what becomes of it.
var answers = []struct {
	name, method, text string
	status             int
	kind               Kind // if status is 0
	keep               bool
}{
	{"length", "GET", ok, 200, 0, true},
	{"no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, 0, true},
	{"bare LF", "GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, 0, true},
	{"error", "GET", "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", 503, 0, true},
	{"close", "GET", "HTTP/1.1 200 OK\r\nConnection: Foo, Close\r\nContent-Length: 0\r\n\r\n", 200, 0, false},
	{"1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, 0, false},
	{"1.0 kept", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 200, 0, true},
	{"until close", "GET", "HTTP/1.1 200 OK\r\n\r\nsome", 200, 0, false},
	{"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nT: v\r\n\r\n", 200, 0, true},
	{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, 0, true},
	{"204", "GET", "HTTP/1.1 204 No\r\n\r\n", 204, 0, true},
	{"304", "GET", "HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", 304, 0, true},
	{"interim", "GET", "HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + ok, 200, 0, true},
	{"unasked", "GET", ok + "HTTP", 200, 0, false},
	{"same length twice", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", 200, 0, true},

	{"nothing", "GET", "", 0, Closed, false},
	{"half a head", "GET", ok[:20], 0, Closed, false},
	{"half a body", "GET", ok[:len(ok)-1], 0, Closed, false},
	{"other protocol", "GET", "SSH-2.0-OpenSSH_9.9\r\n", 0, BadResponse, false},
	{"HTTP/2", "GET", "HTTP/2.0 200 OK\r\n\r\n", 0, BadResponse, false},
	{"status of letters", "GET", "HTTP/1.1 2x0 OK\r\n\r\n", 0, BadResponse, false},
	{"long status", "GET", "HTTP/1.1 2000\r\n\r\n", 0, BadResponse, false},
	{"small status", "GET", "HTTP/1.1 099 OK\r\n\r\n", 0, BadResponse, false},
	{"great status", "GET", "HTTP/1.1 600 OK\r\n\r\n", 0, BadResponse, false},
	{"switched", "GET", "HTTP/1.1 101 Go\r\n\r\n", 0, BadResponse, false},
	{"no name", "GET", "HTTP/1.1 200 OK\r\n: x\r\n\r\n", 0, BadResponse, false},
	{"no colon", "GET", "HTTP/1.1 200 OK\r\nx\r\n\r\n", 0, BadResponse, false},
	{"bad length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 0, BadResponse, false},
	{"two lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 0, BadResponse, false},
	{"other coding", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", 0, BadResponse, false},
	{"bad chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 0, BadResponse, false},
	{"huge chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\n", 0, BadResponse, false},
	{"long chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 0, BadResponse, false},
	{"longest line", "GET", "HTTP/1.1 204 " + strings.Repeat("x", bufferBytes-15) + "\r\n\r\n", 204, 0, true},
	{"longer line", "GET", "HTTP/1.1 204 " + strings.Repeat("x", bufferBytes-14) + "\r\n\r\n", 0, BadResponse, false},
}

func TestAnswers(t *testing.T) {
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			step := 1 + len(a.text)/200 // every split of a short text, some of a long one
			for piece := 0; piece <= len(a.text); piece += step {
				s := &script{connections: [][]string{{a.text}}, piece: piece}
				got, kept, err := once(t, s, a.method)
				var failure *Failure
				if errors.As(err, &failure) && (got.Status != 0 || failure.Kind != a.kind) || err == nil && a.status == 0 || got.Status != a.status {
					t.Fatalf("in pieces of %d: status %d, %v; want %d, %v", piece, got.Status, err, a.status, a.kind)
				}
				// What comes in a piece of its own, after the answer, is not seen.
				if kept != a.keep && (piece == 0 || a.name != "unasked") {
					t.Fatalf("in pieces of %d: kept %v", piece, kept)
				}
			}
		})
	}
}

// once sends one request, and says whether the connection is kept.
func once(t *testing.T, s *script, method string) (a Answer, kept bool, err error) {
	opts := options(s.dial)
	c := New(context.Background(), opts)
	defer c.Close()
	err = c.Do(request(t, method, "http://a/", ""), &a)
	return a, opts.Open.Now() == 1, err
}

func TestAnswerCounts(t *testing.T) {
	s := &script{connections: [][]string{{ok, ok}}}
	opts := options(s.dial)
	c := New(context.Background(), opts)
	r := request(t, "POST", "http://a/", "body")
	var first, second Answer
	if err := errors.Join(c.Do(r, &first), c.Do(r, &second)); err != nil {
		t.Fatal(err)
	}
	if first.Connects != 1 || second.Connects != 0 || second.Reopened {
		t.Errorf("connects %d, %d", first.Connects, second.Connects)
	}
	if want := int64(len(r.whole)); first.Sent != want || second.Sent != want || first.Received != int64(len(ok)) {
		t.Errorf("sent %d, %d, want %d; received %d", first.Sent, second.Sent, want, first.Received)
	}
	for _, a := range []Answer{first, second} {
		if a.First.Before(a.Begin) || a.End.Before(a.First) {
			t.Errorf("times out of order: %+v", a)
		}
	}
	c.Close()
	if opts.Open.Now() != 0 || opts.Open.Peak() != 1 {
		t.Errorf("open %d, at most %d", opts.Open.Now(), opts.Open.Peak())
	}
}

// A server that closed the kept connection is asked again once, but not if it
// closes a new one, nor if it had begun to answer.
func TestReopen(t *testing.T) {
	for _, c := range []struct {
		name        string
		connections [][]string
		reopened    bool
		kind        Kind
		good        bool
	}{
		{"closed while idle", [][]string{{ok}, {ok}}, true, 0, true},
		{"and again", [][]string{{ok}, {}}, true, Closed, false},
		{"and gone", [][]string{{ok}}, true, Refused, false},
		{"after a byte", [][]string{{ok, "H"}, {ok}}, false, Closed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{connections: c.connections}
			cl := New(context.Background(), options(s.dial))
			defer cl.Close()
			var a Answer
			r := request(t, "GET", "http://a/", "")
			if err := cl.Do(r, &a); err != nil {
				t.Fatal(err)
			}
			err := cl.Do(r, &a)
			var failure *Failure
			if errors.As(err, &failure) && failure.Kind != c.kind || (err == nil) != c.good || a.Reopened != c.reopened {
				t.Errorf("%v, reopened %v", err, a.Reopened)
			}
		})
	}
}

func TestNoKeepAlive(t *testing.T) {
	s := &script{connections: [][]string{{ok, ok}, {ok, ok}}}
	opts := options(s.dial)
	opts.KeepAlive = false
	c := New(context.Background(), opts)
	defer c.Close()
	for range 2 {
		var a Answer
		if err := c.Do(request(t, "GET", "http://a/", ""), &a); err != nil || a.Connects != 1 || opts.Open.Now() != 0 {
			t.Errorf("%v, %d connects, %d open", err, a.Connects, opts.Open.Now())
		}
	}
}

func TestCookies(t *testing.T) {
	with := func(cookies ...string) string {
		return "HTTP/1.1 204 No\r\nSet-Cookie: " + strings.Join(cookies, "\r\nSet-Cookie: ") + "\r\n\r\n"
	}
	s := &script{connections: [][]string{
		{with("a=1; Path=/", "b = 2"), with("a=3; Max-Age=9"), with("a=3", "nonsense", "=x"), with("a=; max-age=0", "c=; Max-Age=-1"), with("b=; Max-Age=0"), ok},
		{with("z=1")},
	}}
	c := New(context.Background(), options(s.dial))
	defer c.Close()
	var a Answer
	for range 6 {
		if err := c.Do(request(t, "GET", "http://a/", ""), &a); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Do(request(t, "GET", "http://b/other", ""), &a); err != nil {
		t.Fatal(err)
	}
	want := "GET / |GET / a=1; b=2|GET / a=3; b=2|GET / a=3; b=2|GET / b=2|GET / |GET /other "
	if got := strings.Join(s.got, "|"); got != want {
		t.Errorf("sent %s\nwant %s", got, want)
	}
}

// silentDial opens connections whose server reads all and says nothing.
func silentDial(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	go io.Copy(io.Discard, far)
	return near, nil
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(context.Background(), options(silentDial))
		var a Answer
		err := c.Do(request(t, "GET", "http://a/", ""), &a)
		var failure *Failure
		if took := a.End.Sub(a.Begin); !errors.As(err, &failure) || failure.Kind != TimedOut || took < limit || took > limit+limit/4 {
			t.Errorf("%v after %v", err, took)
		}
		c.Close()
	})
}

func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		for _, target := range []string{"http://a/", "https://a/"} {
			opts := options(never)
			if target == "https://a/" {
				opts.Dial, opts.TLS = silentDial, &tls.Config{}
			}
			c := New(context.Background(), opts)
			var a Answer
			err := c.Do(request(t, "GET", target, ""), &a)
			var failure *Failure
			if took := a.End.Sub(a.Begin); !errors.As(err, &failure) || failure.Kind != TimedOut || took != limit {
				t.Errorf("%s: %v after %v", target, err, took)
			}
			c.Close()
		}
	})
}

func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		c := New(ctx, options(silentDial))
		defer c.Close()
		var a Answer
		for range 2 { // under way, and afterwards
			var failure *Failure
			if err := c.Do(request(t, "GET", "http://a/", ""), &a); !errors.As(err, &failure) || failure.Kind != Stopped {
				t.Errorf("error %v", err)
			}
		}
	})
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "refused"},
		{&net.OpError{Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "reset"},
		{&net.OpError{Err: os.NewSyscallError("write", syscall.EPIPE)}, "reset"},
		{&net.OpError{Err: os.NewSyscallError("socket", syscall.EMFILE)}, "exhausted"},
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}, "exhausted"},
		{&net.OpError{Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}, "timed out"},
		{&handshakeError{context.DeadlineExceeded}, "timed out"},
		{&handshakeError{io.EOF}, "TLS"},
		{io.ErrUnexpectedEOF, "closed"},
		{os.ErrInvalid, "other"},
	} {
		if got := classify(c.err); got.Kind.String() != c.want || !errors.Is(got, c.err) {
			t.Errorf("%v: %v, want %s", c.err, got, c.want)
		}
	}
}

func TestTLS(t *testing.T) {
	var name atomic.Value
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name.Store(r.TLS.ServerName)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	for _, insecure := range []bool{true, false} {
		opts := options(dial)
		opts.TLS = &tls.Config{InsecureSkipVerify: insecure}
		c := New(context.Background(), opts)
		var a Answer
		err := c.Do(request(t, "GET", "https://somewhere.example/", ""), &a)
		var failure *Failure
		if insecure && (err != nil || a.Status != 200 || name.Load() != "somewhere.example") {
			t.Errorf("%v, status %d, name %v", err, a.Status, name.Load())
		}
		if !insecure && (!errors.As(err, &failure) || failure.Kind != BadTLS) {
			t.Errorf("a certificate of nobody: %v", err)
		}
		c.Close()
	}
}

// A server may refuse a body before it has read it.
func TestEarlyAnswer(t *testing.T) {
	dial := func(context.Context, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			far.Read(make([]byte, 10))
		}()
		return &answered{Conn: near}, nil
	}
	c := New(context.Background(), options(dial))
	defer c.Close()
	var a Answer
	if err := c.Do(request(t, "POST", "http://a/", "a long body"), &a); err != nil || a.Status != 413 {
		t.Errorf("%v, %d", err, a.Status)
	}
}

// answered is a connection whose answer has come before the write failed.
type answered struct {
	net.Conn
	read bool
}

func (a *answered) Read(b []byte) (int, error) {
	if a.read {
		return 0, io.EOF
	}
	a.read = true
	return copy(b, "HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n"), nil
}

func TestRequestBytes(t *testing.T) {
	for _, c := range []struct {
		method, url string
		fields      []Field
		body        string
		keep        bool
		want        string
	}{
		{"GET", "http://a:81/x?y=z", nil, "", true, "GET /x?y=z HTTP/1.1\nHost: a:81\nUser-Agent: hb\nAccept: */*\n\n"},
		{"GET", "http://a", nil, "", false, "GET / HTTP/1.1\nHost: a\nUser-Agent: hb\nAccept: */*\nConnection: close\n\n"},
		{"PUT", "http://a/", nil, "", true, "PUT / HTTP/1.1\nHost: a\nUser-Agent: hb\nAccept: */*\nContent-Length: 0\n\n"},
		{"POST", "http://a/", []Field{{"host", "b"}, BasicAuth("u:p")}, "xy", true,
			"POST / HTTP/1.1\nUser-Agent: hb\nAccept: */*\nContent-Length: 2\nhost: b\nAuthorization: Basic dTpw\n\nxy"},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		got := string(NewRequest(c.method, u, c.fields, []byte(c.body), c.keep, "").whole)
		if got = strings.ReplaceAll(got, "\r\n", "\n"); got != c.want {
			t.Errorf("got\n%s\nwant\n%s", got, c.want)
		}
	}
}

func TestAddressOf(t *testing.T) {
	for text, want := range map[string]string{
		"http://a/": "a:80", "https://a/": "a:443", "http://[::1]/": "[::1]:80", "https://a:1/": "a:1",
	} {
		u, _ := url.Parse(text)
		if got := AddressOf(u); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// loop is a connection that answers each write with the same text.
type loop struct {
	net.Conn
	text    string
	pending string
}

func (l *loop) Write(b []byte) (int, error) { l.pending = l.text; return len(b), nil }
func (l *loop) SetDeadline(time.Time) error { return nil }
func (l *loop) Close() error                { return nil }
func (l *loop) Read(b []byte) (n int, _ error) {
	n = copy(b, l.pending)
	l.pending = l.pending[n:]
	return n, nil
}

// A warm exchange allocates nothing, with cookies and chunks too.
func TestAllocations(t *testing.T) {
	text := "HTTP/1.1 200 OK\r\nSet-Cookie: s=1\r\nTransfer-Encoding: chunked\r\nX-Other: y\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	c := New(context.Background(), options(func(context.Context, string) (net.Conn, error) { return &loop{text: text}, nil }))
	defer c.Close()
	r := request(t, "GET", "http://a/", "")
	var a Answer
	exchange := func() {
		if err := c.Do(r, &a); err != nil || a.Status != 200 {
			t.Fatal(err, a.Status)
		}
	}
	exchange()
	if n := testing.AllocsPerRun(1000, exchange); n != 0 {
		t.Errorf("%v allocations in an exchange", n)
	}
}
