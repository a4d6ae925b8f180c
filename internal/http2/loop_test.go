package http2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/sys/unix"

	"sluice/internal/message"
	"sluice/internal/reactor"
)

// patience ends tests that would otherwise hang; none takes so long.
const patience = 120 * time.Second

// site serves connections of a loop: each request is answered by a task of its own.
type site struct {
	t       testing.TB
	loop    *reactor.Loop
	server  *Server
	addr    string
	conns   map[*Conn]bool // loop only
	tasks   int            // loop only
	closing bool
}

// newSite listens on loopback until the test ends.
func newSite(t testing.TB, cfg Config) *site {
	t.Helper()
	l, err := reactor.New(reactor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go l.Run()
	t.Cleanup(l.Close)
	st := &site{t: t, loop: l, server: NewServer(l, cfg), conns: map[*Conn]bool{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	st.addr = ln.Addr().String()
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	fd := -1
	raw.Control(func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		t.Fatal(err)
	}
	st.on(func() {
		_, err = l.Listen(fd, func(c *reactor.Conn) {
			v := &visit{site: st}
			v.conn = st.server.Serve(c, nil, v)
			st.conns[v.conn] = true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// on runs f on the loop and returns when it has run.
func (st *site) on(f func()) {
	st.t.Helper()
	done := make(chan struct{})
	st.loop.Submit(func() { defer close(done); f() })
	select {
	case <-done:
	case <-time.After(patience):
		st.t.Fatal("the loop does not run what was submitted")
	}
}

// client is one of golang.org/x/net.
func (st *site) client() *http.Client {
	tr := &xhttp2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		return net.Dial(network, st.addr)
	}}
	st.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// visit is a connection's owner.
type visit struct {
	site *site
	conn *Conn
}

func (v *visit) Accept(s *Stream) { v.site.loop.Go(&echo{Stream: s, site: v.site}) }
func (v *visit) Ended()           { delete(v.site.conns, v.conn) }

// echo sends back content and trailers; /bytes/N sends N bytes; others are told their
// method and path.
type echo struct {
	*Stream
	site *site
}

func (a *echo) Run() {
	defer a.Close()
	var r message.Request
	a.Request(&r)
	out := message.Response{Status: 200, ContentLength: -1}
	if n, ok := strings.CutPrefix(string(r.Target), "/bytes/"); ok {
		out.ContentLength, _ = strconv.ParseInt(n, 10, 64)
		if a.Respond(&out, false) != nil {
			return
		}
		piece := bytes.Repeat([]byte("0123456789abcdef"), 4096)
		for left := out.ContentLength; left > 0; {
			n, err := a.Write(piece[:min(left, int64(len(piece)))])
			if err != nil {
				return
			}
			left -= int64(n)
		}
		a.End(nil)
		return
	}
	if r.Body == message.NoBody {
		text := fmt.Sprintf("%s %s", r.MethodName, r.Target)
		out.ContentLength = int64(len(text))
		a.Respond(&out, false)
		a.Write([]byte(text))
		a.End(nil)
		return
	}
	a.Respond(&out, false)
	var buf [10000]byte
	for {
		n, err := a.Read(buf[:])
		if err == io.EOF {
			break
		}
		if err != nil {
			a.Reset()
			return
		}
		if _, err := a.Write(buf[:n]); err != nil {
			return
		}
	}
	a.End(a.Trailers())
}

// TestClientOfXNet: many requests of all sizes at once, over a real loop.
func TestClientOfXNet(t *testing.T) {
	cfg := playConfig(func(c Class) { t.Errorf("counted as abuse: %v", c) })
	cfg.Streams = 20
	st := newSite(t, cfg)
	client := st.client()
	var group sync.WaitGroup
	for worker := range 12 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for i := range 15 {
				if err := oneRequest(client, random, worker*1000+i); err != nil {
					t.Errorf("worker %d, request %d: %v", worker, i, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func oneRequest(client *http.Client, random *rand.Rand, number int) error {
	switch random.IntN(3) {
	case 0:
		path := fmt.Sprintf("/path/%d", number)
		return expect(client.Get("http://example.com" + path))("GET " + path)
	case 1:
		n := random.IntN(400_000)
		return expect(client.Get(fmt.Sprintf("http://example.com/bytes/%d", n)))(strings.Repeat("0123456789abcdef", n/16+1)[:n])
	}
	content := make([]byte, random.IntN(300_000))
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	req, err := http.NewRequest("POST", "http://example.com/", io.MultiReader(bytes.NewReader(content)))
	if err != nil {
		return err
	}
	req.Trailer = http.Header{"Checksum": nil}
	req.Body = &trailing{Reader: bytes.NewReader(content), req: req}
	return expect(client.Do(req))(string(content))
}

// trailing sets a trailer at its end.
type trailing struct {
	io.Reader
	req *http.Request
}

func (b *trailing) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		b.req.Trailer.Set("Checksum", "42")
	}
	return n, err
}

func (b *trailing) Close() error { return nil }

// expect compares an answer; an echo brings its trailer back.
func expect(resp *http.Response, err error) func(want string) error {
	return func(want string) error {
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		switch {
		case err != nil:
			return err
		case string(got) != want:
			return fmt.Errorf("got %d bytes, want %d", len(got), len(want))
		case resp.Request.Method == "POST" && resp.Trailer.Get("Checksum") != "42":
			return errors.New("no trailer")
		}
		return nil
	}
}

// TestDrainWhileAsked: a client that goes on asking while its connection is
// drained loses nothing.
func TestDrainWhileAsked(t *testing.T) {
	st := newSite(t, playConfig(nil))
	client := st.client()
	for round := range 20 {
		if err := expect(client.Get(fmt.Sprintf("http://example.com/%d", round)))(fmt.Sprintf("GET /%d", round)); err != nil {
			t.Fatal(err)
		}
		st.on(func() {
			for c := range st.conns {
				c.Drain()
			}
		})
	}
}

// mirror is an owner of links.
type mirror struct{ ended, freed int }

func (m *mirror) Freed() { m.freed++ }
func (m *mirror) Ended() { m.ended++ }

// TestServerOfXNet: many calls of all sizes at once to golang.org/x/net's server,
// over a real loop.
func TestServerOfXNet(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer ln.Close()
	serving.Go(func() {
		server := &xhttp2.Server{MaxConcurrentStreams: 50}
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { server.ServeConn(c, &xhttp2.ServeConnOpts{Handler: http.HandlerFunc(sendBack)}) })
		}
	})
	st := newSite(t, playConfig(nil))
	cfg := playConfig(func(c Class) { t.Errorf("counted as abuse: %v", c) })
	cfg.Streams = 50
	done := make(chan string, 20)
	var link *Link // loop only
	defer func() { st.on(func() { link.Close() }) }()
	st.loop.Submit(func() {
		client := NewClient(st.loop, cfg)
		st.loop.Go(job(func() {
			conn, err := st.loop.Dial(reactor.Address{TCP: netip.MustParseAddrPort(ln.Addr().String())}, patience)
			if err != nil {
				done <- err.Error()
				return
			}
			link = client.Connect(conn, &mirror{})
			for worker := range 20 {
				st.loop.Go(job(func() { done <- callMany(st.loop, link, uint64(worker)) }))
			}
		}))
	})
	for range 20 {
		select {
		case fault := <-done:
			if fault != "" {
				t.Error(fault)
			}
		case <-time.After(patience):
			t.Fatal("the calls do not come to their end")
		}
	}
}

// sendBack sends content and a trailer back; of a GET, the path so many times.
func sendBack(w http.ResponseWriter, r *http.Request) {
	if r.Method == "GET" {
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		io.WriteString(w, strings.Repeat(r.URL.Path, n))
		return
	}
	w.Header().Set("Trailer", "Checksum")
	w.WriteHeader(200)
	io.Copy(w, r.Body)
	w.Header().Set("Checksum", r.Trailer.Get("Checksum"))
}

// callMany makes calls one after another; it returns what went wrong.
func callMany(l *reactor.Loop, link *Link, seed uint64) string {
	random := rand.New(rand.NewPCG(3, seed))
	for i := range 10 {
		k, err := link.Call()
		if err != nil {
			return fmt.Sprintf("call %d: %v", i, err)
		}
		if random.IntN(2) == 0 {
			err = callGet(k, fmt.Sprintf("/%d/%d", seed, i), random.IntN(50_000))
		} else {
			err = callPost(l, k, random.IntN(300_000))
		}
		k.Close()
		if err != nil {
			return fmt.Sprintf("call %d: %v", i, err)
		}
	}
	return ""
}

func callGet(k *Call, path string, n int) error {
	r := message.Request{Method: message.GET, MethodName: []byte("GET"), Scheme: []byte("http"), Host: []byte("a"), Target: fmt.Appendf(nil, "%s?n=%d", path, n), MaxForwards: -1}
	if err := k.Send(&r, true); err != nil {
		return err
	}
	return answered(k, []byte(strings.Repeat(path, n)))
}

// callPost writes in a task of its own, as a proxy does.
func callPost(l *reactor.Loop, k *Call, n int) error {
	r := message.Request{Method: message.POST, MethodName: []byte("POST"), Scheme: []byte("http"), Host: []byte("a"), Target: []byte("/"), MaxForwards: -1, Body: message.UntilClose,
		Fields: message.Fields{{Name: []byte("Trailer"), Value: []byte("Checksum"), ID: message.Trailer}}}
	if err := k.Send(&r, false); err != nil {
		return err
	}
	content := bytes.Repeat([]byte("abcdefghij"), n/10)
	over := l.NewSignal()
	l.Go(job(func() {
		if _, err := k.Write(content); err == nil {
			k.End(message.Fields{{Name: []byte("Checksum"), Value: []byte("42")}})
		}
		over.Set()
	}))
	err := answered(k, content)
	over.Wait(patience)
	if ts := k.Trailers(); err == nil && (len(ts) != 1 || string(ts[0].Value) != "42") {
		return fmt.Errorf("the trailers are %v", ts)
	}
	return err
}

// answered reads an answer and compares its content.
func answered(k *Call, want []byte) error {
	var r message.Response
	for r.Status < 200 {
		if err := k.Await(); err != nil {
			return err
		}
		if _, err := k.Answer(&r); err != nil {
			return err
		}
	}
	got, err := io.ReadAll(k)
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("status %d, %d bytes, want %d; %v", r.Status, len(got), len(want), err)
	}
	return nil
}

// TestRoom: calls that have not been sent count as well.
func TestRoom(t *testing.T) {
	e := &still{now: 1}
	owner := new(mirror)
	cfg := playConfig(nil)
	cfg.Streams = 2
	link := NewClient(e, cfg).Connect(&tape{e: e}, owner)
	one, _ := link.Call()
	two, _ := link.Call()
	if _, err := link.Call(); !errors.Is(err, ErrUnprocessed) || link.Room() != 0 || link.Open() != 2 {
		t.Fatalf("a third call of two: %v; room for %d, %d open", err, link.Room(), link.Open())
	}
	one.Close()
	if link.Room() != 1 || owner.freed != 1 {
		t.Errorf("one is given back: room for %d, told %d times", link.Room(), owner.freed)
	}
	link.Leave()
	if owner.ended != 0 {
		t.Error("the link has ended under a call")
	}
	if two.Close(); !link.over {
		t.Error("the link does not end with its last call")
	}
}

// TestResetUnprocessed: only one code says that a request may be sent again.
func TestResetUnprocessed(t *testing.T) {
	for c := NoError; c <= HTTP11Required; c++ {
		if errors.Is(ResetError(c), ErrUnprocessed) != (c == RefusedStream) {
			t.Errorf("%v says that the request may be sent again: %v", c, errors.Is(ResetError(c), ErrUnprocessed))
		}
	}
}

// TestLostBeforeSent: a call whose link is lost before it was sent has not been processed.
func TestLostBeforeSent(t *testing.T) {
	e := &still{now: 1}
	link := NewClient(e, playConfig(nil)).Connect(&tape{e: e}, new(mirror))
	call, _ := link.Call()
	link.Close()
	if _, err := call.Tunnels(); !errors.Is(err, ErrUnprocessed) {
		t.Errorf("asked whether the server takes tunnels: %v", err)
	}
	if err := call.Send(new(message.Request), true); !errors.Is(err, ErrUnprocessed) {
		t.Errorf("sent: %v", err)
	}
	if !link.Leaving() || link.Settled() {
		t.Error("the link takes calls, or has heard from its server")
	}
}
