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
const patience = 60 * time.Second

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

func (v *visit) Accept(s *Stream) { v.site.loop.Go(&answer{Stream: s, site: v.site}) }
func (v *visit) Ended()           { delete(v.site.conns, v.conn) }

// answer echoes content and trailers; /bytes/N sends N bytes; others are told their
// method and path.
type answer struct {
	*Stream
	site *site
}

func (a *answer) Run() {
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
	for worker := range 20 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for i := range 30 {
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
