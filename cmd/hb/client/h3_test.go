package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// selfSigned is a server's TLS, with a certificate that nobody vouches for.
func selfSigned() *tls.Config {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return &tls.Config{Certificates: server.TLS.Certificates, NextProtos: []string{"h3"}}
}

// h3Peer is a server of HTTP/3, made of quic-go's streams.
type h3Peer struct {
	t       *testing.T
	answer  func(c *h3Conn, s *quic.Stream, n int) // the nth request of all connections, from 0
	config  *quic.Config
	address string
	serving sync.WaitGroup

	mu       sync.Mutex // guards what follows
	opened   int
	requests int
	heads    []string
	bodies   []int
}

// h3Conn is one of its connections.
type h3Conn struct {
	*quic.Conn
	control *quic.SendStream
}

// start serves until the test ends.
func (p *h3Peer) start(t *testing.T) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	p.t, p.address = t, socket.LocalAddr().String()
	transport := &quic.Transport{Conn: socket}
	listener, err := transport.Listen(selfSigned(), p.config)
	if err != nil {
		t.Fatal(err)
	}
	p.serving.Go(func() {
		for {
			conn, err := listener.Accept(context.Background())
			if err != nil {
				return
			}
			p.mu.Lock()
			p.opened++
			p.mu.Unlock()
			p.serving.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		transport.Close()
		socket.Close()
		p.serving.Wait()
	})
}

func (p *h3Peer) serve(conn *quic.Conn) {
	control, err := conn.OpenUniStream()
	if err != nil {
		return
	}
	control.Write([]byte{h3Control, h3Settings, 0})
	c := &h3Conn{conn, control}
	for {
		s, err := conn.AcceptStream(context.Background())
		if err != nil {
			return
		}
		n := p.note(s)
		p.serving.Go(func() { p.answer(c, s, n) })
	}
}

// note takes down a request, and gives its number.
func (p *h3Peer) note(s *quic.Stream) int {
	r := quicvarint.NewReader(s)
	var head []string
	body := 0
	for {
		kind, err := quicvarint.Read(r)
		if err != nil {
			break
		}
		length, _ := quicvarint.Read(r)
		payload := make([]byte, length)
		io.ReadFull(r, payload)
		if kind == h3Data {
			body += len(payload)
			continue
		}
		next := qpack.NewDecoder().Decode(payload)
		for f, err := next(); err == nil; f, err = next() {
			head = append(head, f.Name+"="+f.Value)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heads, p.bodies = append(p.heads, strings.Join(head, " ")), append(p.bodies, body)
	p.requests++
	return p.requests - 1
}

// count is how many connections were opened.
func (p *h3Peer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

// h3Frame is a frame's bytes.
func h3Frame(kind uint64, payload []byte) []byte {
	b := quicvarint.Append(nil, kind)
	return append(quicvarint.Append(b, uint64(len(payload))), payload...)
}

// h3Fields is a frame of "name: value" lines.
func h3Fields(lines ...string) []byte {
	var block bytes.Buffer
	encoder := qpack.NewEncoder(&block)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		encoder.WriteField(qpack.HeaderField{Name: name, Value: value})
	}
	return h3Frame(h3Headers, block.Bytes())
}

var (
	h3Small = append(h3Fields(":status: 200", "content-length: 2", "server: test"), h3Frame(h3Data, []byte("ok"))...)
	h3Plain = h3Fields(":status: 200")
)

// join is all texts in a row.
func join(texts ...[]byte) []byte { return bytes.Join(texts, nil) }

func h3Options() *Options {
	opts := options(nil)
	opts.Protocol = HTTP3
	opts.TLS = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}
	return opts
}

// h3Answers are what a server sends on a request's stream, up to its end.
var h3Answers = []struct {
	name   string
	method string
	text   []byte
	status int
	kind   Kind // if status is 0
}{
	{"length", "GET", h3Small, 200, 0},
	{"head alone", "GET", h3Fields(":status: 204"), 204, 0},
	{"error", "GET", h3Fields(":status: 503", "content-length: 0"), 503, 0},
	{"no length", "GET", join(h3Plain, h3Frame(h3Data, []byte("some")), h3Frame(h3Data, nil), h3Frame(h3Data, []byte("more"))), 200, 0},
	{"trailers", "GET", join(h3Small, h3Fields("grpc-status: 0")), 200, 0},
	{"interim", "GET", join(h3Fields(":status: 103", "link: x"), h3Small), 200, 0},
	{"HEAD", "HEAD", h3Fields(":status: 200", "content-length: 9"), 200, 0},
	{"304", "GET", h3Fields(":status: 304", "content-length: 9"), 304, 0},
	{"unknown frames", "GET", join(h3Frame(0x21, []byte("grease")), h3Small, h3Frame(0x40, nil)), 200, 0},
	{"long content", "GET", join(h3Plain, h3Frame(h3Data, make([]byte, 100_000))), 200, 0},

	{"nothing", "GET", nil, 0, Closed},
	{"half a head", "GET", h3Small[:3], 0, Closed},
	{"half a frame's head", "GET", join(h3Plain, []byte{h3Data}), 0, Closed},
	{"half a number", "GET", join(h3Plain, []byte{h3Data, 0x40}), 0, Closed},
	{"half a type", "GET", join(h3Plain, []byte{0x40}), 0, Closed},
	{"half a body", "GET", h3Small[:len(h3Small)-1], 0, Closed},
	{"interim alone", "GET", h3Fields(":status: 100"), 0, Closed},
	{"too short", "GET", join(h3Fields(":status: 200", "content-length: 3"), h3Frame(h3Data, []byte("ok"))), 0, BadResponse},
	{"too long", "GET", join(h3Fields(":status: 200", "content-length: 1"), h3Frame(h3Data, []byte("ok"))), 0, BadResponse},
	{"bad length", "GET", h3Fields(":status: 200", "content-length: x"), 0, BadResponse},
	{"no status", "GET", h3Fields("server: x"), 0, BadResponse},
	{"switched", "GET", h3Fields(":status: 101"), 0, BadResponse},
	{"content first", "GET", h3Frame(h3Data, []byte("x")), 0, BadResponse},
	{"content after trailers", "GET", join(h3Small, h3Fields("a: b"), h3Frame(h3Data, nil)), 0, BadResponse},
	{"trailers twice", "GET", join(h3Small, h3Fields("a: b"), h3Fields("a: b")), 0, BadResponse},
	{"status in trailers", "GET", join(h3Small, h3Plain), 0, BadResponse},
	{"settings", "GET", h3Frame(h3Settings, nil), 0, BadResponse},
	{"goaway", "GET", h3Frame(h3GoAway, []byte{0}), 0, BadResponse},
	{"push", "GET", h3Frame(h3PushPromise, []byte{0}), 0, BadResponse},
	{"of HTTP/2", "GET", h3Frame(0x6, make([]byte, 8)), 0, BadResponse},
	{"bad fields", "GET", h3Frame(h3Headers, []byte{0, 0, 0x80}), 0, BadResponse},
	{"endless fields", "GET", quicvarint.Append([]byte{h3Headers}, h3BlockBytes+1), 0, BadResponse},
}

func TestH3Answers(t *testing.T) {
	p := &h3Peer{answer: func(_ *h3Conn, s *quic.Stream, n int) {
		text := h3Answers[n/2].text
		for at := range text {
			if n%2 == 1 { // each byte in a frame of its own
				s.Write(text[at : at+1])
			}
		}
		if n%2 == 0 {
			s.Write(text)
		}
		s.Close()
	}}
	p.start(t)
	opts := h3Options()
	c := New(t.Context(), opts)
	defer c.Close()
	for _, a := range h3Answers {
		for range 2 {
			var got Answer
			err := c.Do(request(t, a.method, "https://"+p.address+"/", ""), &got)
			var failure *Failure
			if errors.As(err, &failure) && (got.Status != 0 || failure.Kind != a.kind) || err == nil && a.status == 0 || got.Status != a.status {
				t.Errorf("%s: status %d, %v; want %d, %v", a.name, got.Status, err, a.status, a.kind)
			}
			if err == nil && (got.First.Before(got.Begin) || got.End.Before(got.First) || got.Received != int64(len(a.text))) {
				t.Errorf("%s: %+v", a.name, got)
			}
		}
	}
	if peak := opts.Open.Peak(); peak != 1 {
		t.Errorf("%d connections: a bad answer shall end its stream alone", peak)
	}
}

// What a server does to streams and connections, and what becomes of two requests.
func TestH3Ends(t *testing.T) {
	ok := func(s *quic.Stream) {
		s.Write(h3Small)
		s.Close()
	}
	reset := func(code http3.ErrCode) func(*h3Conn, *quic.Stream) {
		return func(_ *h3Conn, s *quic.Stream) { s.CancelWrite(quic.StreamErrorCode(code)) }
	}
	closed := func(code http3.ErrCode) func(*h3Conn, *quic.Stream) {
		return func(c *h3Conn, _ *quic.Stream) { c.CloseWithError(quic.ApplicationErrorCode(code), "") }
	}
	for _, c := range []struct {
		name     string
		second   func(*h3Conn, *quic.Stream)
		status   int
		kind     Kind // if status is 0
		opened   int  // connections, after a third request
		reopened bool
	}{
		{"reset", reset(http3.ErrCodeInternalError), 0, StreamReset, 1, false},
		{"refused", reset(http3.ErrCodeRequestRejected), 0, StreamRefused, 1, false},
		{"closed", closed(http3.ErrCodeNoError), 0, Closed, 2, false},
		{"closed with an error", closed(http3.ErrCodeExcessiveLoad), 0, GoneAway, 2, false},
		{"goaway, not begun", func(c *h3Conn, s *quic.Stream) {
			c.control.Write(h3Frame(h3GoAway, quicvarint.Append(nil, uint64(s.StreamID()))))
			<-c.Context().Done() // the client has nothing else on it
		}, 200, 0, 2, true},
		{"goaway, then the answer", func(c *h3Conn, s *quic.Stream) {
			c.control.Write(h3Frame(h3GoAway, quicvarint.Append(nil, uint64(s.StreamID()+4))))
			ok(s)
			<-c.Context().Done()
		}, 200, 0, 2, false},
		{"push", func(c *h3Conn, s *quic.Stream) {
			push, _ := c.OpenUniStream()
			push.Write([]byte{h3Push, 0})
		}, 0, BadResponse, 2, false},
		{"a stream of no known type", func(c *h3Conn, s *quic.Stream) {
			other, _ := c.OpenUniStream()
			other.Write([]byte{0x21, 0})
			ok(s)
		}, 200, 0, 1, false},
		{"settings twice", func(c *h3Conn, s *quic.Stream) { c.control.Write([]byte{h3Settings, 0}) }, 0, BadResponse, 2, false},
		{"a request's frame on the control stream", func(c *h3Conn, s *quic.Stream) { c.control.Write([]byte{h3Data, 0}) }, 0, BadResponse, 2, false},
		{"no control stream any more", func(c *h3Conn, s *quic.Stream) { c.control.Close() }, 0, Closed, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &h3Peer{answer: func(conn *h3Conn, s *quic.Stream, n int) {
				if n == 1 {
					c.second(conn, s)
				} else {
					ok(s)
				}
			}}
			p.start(t)
			opts := h3Options()
			cl := New(t.Context(), opts)
			r := request(t, "GET", "https://"+p.address+"/", "")
			var answers [3]Answer
			var failure *Failure
			for i := range answers {
				err := cl.Do(r, &answers[i])
				if i == 1 {
					errors.As(err, &failure)
				} else if err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}
			a, opened := answers[1], p.count()
			races := c.name == "goaway, then the answer" // two streams: the third request may be out before the client has read of it
			if failure != nil && failure.Kind != c.kind || a.Status != c.status || a.Reopened != c.reopened || opened != c.opened && !(races && opened == 1) {
				t.Errorf("%v, status %d, reopened %v, %d connections", failure, a.Status, a.Reopened, opened)
			}
			cl.Close()
			if open := opts.Open.Now(); open != 0 {
				t.Errorf("%d open", open)
			}
		})
	}
}

func TestH3Requests(t *testing.T) {
	p := &h3Peer{answer: func(_ *h3Conn, s *quic.Stream, n int) {
		s.Write(h3Fields(":status: 200", fmt.Sprintf("set-cookie: n=%d", n)))
		s.Close()
	}}
	p.start(t)
	cl := New(t.Context(), h3Options())
	defer cl.Close()
	get := NewRequest("GET", parseURL(t, "https://a:81/x?y=z"), []Field{{"X-One", "1"}}, nil, true, p.address)
	post := NewRequest("POST", parseURL(t, "https://a:81/"), []Field{{"Host", "b"}}, []byte("xy"), true, p.address)
	for _, r := range []*Request{get, post, get} {
		var a Answer
		if err := cl.Do(r, &a); err != nil || a.Sent == 0 {
			t.Fatal(err, a.Sent)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, want := range []string{
		":method=GET :scheme=https :authority=a:81 :path=/x?y=z user-agent=hb accept=*/* x-one=1",
		":method=POST :scheme=https :authority=b :path=/ user-agent=hb accept=*/* content-length=2 cookie=n=0",
		":method=GET :scheme=https :authority=a:81 :path=/x?y=z user-agent=hb accept=*/* x-one=1 cookie=n=1",
	} {
		if p.heads[i] != want || p.bodies[i] != len("xy")*(i%2) {
			t.Errorf("request %d:\ngot  %s, %d bytes\nwant %s", i, p.heads[i], p.bodies[i], want)
		}
	}
}

// More requests than the server allows at once wait for each other.
func TestH3Streams(t *testing.T) {
	var mu sync.Mutex
	now, peak := 0, 0
	var open func()
	count := func(more int) {
		mu.Lock()
		defer mu.Unlock()
		now += more
		peak = max(peak, now)
		if now == 3 {
			open() // all go on
		}
	}
	gate := make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	p := &h3Peer{config: &quic.Config{MaxIncomingStreams: 3}}
	p.answer = func(_ *h3Conn, s *quic.Stream, _ int) {
		count(1)
		<-gate
		count(-1)
		s.Write(h3Small)
		s.Close()
	}
	p.start(t)
	cl := New(t.Context(), h3Options())
	defer cl.Close()
	_, failures := together(cl, request(t, "GET", "https://"+p.address+"/", ""), 20)
	for _, failure := range failures {
		if failure != nil {
			t.Error(failure)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if p.count() != 1 || peak != 3 {
		t.Errorf("%d connections, %d requests at once", p.count(), peak)
	}
}

// A request without an answer times out; at the end of the run it is dropped.
func TestH3Silence(t *testing.T) {
	p := &h3Peer{answer: func(*h3Conn, *quic.Stream, int) {}}
	p.start(t)
	opts := h3Options()
	opts.Timeout = 50 * time.Millisecond
	cl := New(t.Context(), opts)
	r := request(t, "GET", "https://"+p.address+"/", "")
	var a Answer
	var failure *Failure
	if err := cl.Do(r, &a); !errors.As(err, &failure) || failure.Kind != TimedOut || a.End.Sub(a.Begin) < opts.Timeout {
		t.Errorf("%v after %v", err, a.End.Sub(a.Begin))
	}
	cl.Close()

	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{}, 1)
	p2 := &h3Peer{answer: func(*h3Conn, *quic.Stream, int) { asked <- struct{}{} }}
	p2.start(t)
	cl = New(ctx, h3Options())
	go func() {
		<-asked
		cancel()
	}()
	if err := cl.Do(request(t, "GET", "https://"+p2.address+"/", ""), &a); !errors.As(err, &failure) || failure.Kind != Stopped {
		t.Errorf("%v", err)
	}
	cl.Close()
}

// A certificate of nobody, a server that speaks something else, and none at all.
func TestH3CannotConnect(t *testing.T) {
	p := &h3Peer{}
	p.start(t)
	silent, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, c := range []struct {
		name, address string
		config        *tls.Config
		kind          Kind
	}{
		{"certificate", p.address, &tls.Config{NextProtos: []string{"h3"}}, BadTLS},
		{"protocol", p.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"doq"}}, BadTLS},
		{"nobody", silent.LocalAddr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, TimedOut},
	} {
		opts := h3Options()
		if opts.TLS = c.config; c.kind == TimedOut {
			opts.ConnectTimeout = 50 * time.Millisecond
		}
		cl := New(t.Context(), opts)
		var a Answer
		var failure *Failure
		if err := cl.Do(request(t, "GET", "https://"+c.address+"/", ""), &a); !errors.As(err, &failure) || failure.Kind != c.kind {
			t.Errorf("%s: %v", c.name, err)
		}
		cl.Close()
	}
}

// quic-go's own server: content both ways, trailers, resumed sessions, its shutdown.
func TestH3Server(t *testing.T) {
	const bytes = 1 << 20
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	server := &http3.Server{TLSConfig: selfSigned(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, _ := io.Copy(io.Discard, r.Body); n != bytes {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Trailer", "X-Sum")
		for range bytes / 1024 {
			w.Write(make([]byte, 1024))
		}
		w.Header().Set("X-Sum", "1")
	})}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(socket) })
	for _, keep := range []bool{true, false} {
		opts := h3Options()
		opts.KeepAlive, opts.Resume = keep, true
		cl := New(t.Context(), opts)
		r := NewRequest("POST", parseURL(t, "https://"+socket.LocalAddr().String()+"/"), nil, make([]byte, bytes), keep, "")
		for round := range 2 {
			at := 3 // at once
			if !keep {
				at = 1
			}
			answers, failures := together(cl, r, at)
			for i, failure := range failures {
				a := answers[i]
				if failure != nil || a.Status != 200 || a.Sent < bytes || a.Received < bytes {
					t.Errorf("keep %v: %v, %+v", keep, failure, a)
				}
				if a.Connects > 0 && (a.Handshake <= 0 || a.Terms.Version != tls.VersionTLS13 || a.Terms.Resumed != (round > 0)) {
					t.Errorf("keep %v, round %d: %+v", keep, round, a.Terms)
				}
			}
		}
		if cl.Close(); opts.Open.Now() != 0 || keep && opts.Open.Peak() != 1 {
			t.Errorf("%d open, at most %d", opts.Open.Now(), opts.Open.Peak())
		}
	}
	server.Close()
	serving.Wait()
}
