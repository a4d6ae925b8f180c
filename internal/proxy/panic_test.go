package proxy

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/reactor"
)

// brittle is a connection on which the nth Read, or the nth Write, panics.
type brittle struct {
	*reactor.Conn
	reads, writes int // that are left; 0: never
}

func (b *brittle) Read(p []byte) (int, error) {
	if b.reads--; b.reads == 0 {
		panic("this Read panics")
	}
	return b.Conn.Read(p)
}

func (b *brittle) Write(p []byte) (int, error) {
	if b.writes--; b.writes == 0 {
		panic("this Write panics")
	}
	return b.Conn.Write(p)
}

// meet has a client's connection served, and a connection to a server opened, that are
// brittle.
func (b *bare) meet(t *testing.T, near int, client, server *brittle) {
	b.on(func() {
		conn, err := b.loop.Adopt(near, netip.AddrPort{})
		if err != nil {
			t.Error(err)
			return
		}
		client.Conn = conn
		b.wrap = func(conn *reactor.Conn) reactor.Stream {
			server.Conn = conn
			return server
		}
		b.serve(client)
	})
}

// TestPanic: a fault of ours ends the connection that it was met on, and nothing
// else: the figures are right and the loop serves the next request.
func TestPanic(t *testing.T) {
	get := crlf("GET / HTTP/1.1|Host: x||")
	for _, c := range []struct {
		name    string
		client  brittle
		server  brittle
		request string
		rest    string // of the request, sent when the loop has had the first part
		answer  string // what the server answers, if it comes to that
		gets    string // how the client's answer begins; empty: it gets none
		limit   config.Limit
	}{
		{"reading the head", brittle{reads: 1}, brittle{}, get, "", "", "", "off"},
		{"reading a second part of the head", brittle{reads: 2}, brittle{}, "GET /", " HTTP/1.1\r\n", "", "", "off"},
		{"writing the answer", brittle{writes: 1}, brittle{}, get, "", crlf("HTTP/1.1 204 No Content||"), "", "off"},
		{"writing the request", brittle{}, brittle{writes: 1}, get, "", "", "", "off"},
		{"reading the answer", brittle{}, brittle{reads: 1}, get, "", crlf("HTTP/1.1 204 No Content||"), "", "off"},
		{"reading more of the answer", brittle{}, brittle{reads: 2}, get, "", crlf("HTTP/1.1 200 OK|Content-Length: 9||more"), "HTTP/1.1 200 OK\r\n", "off"},
		{"reading the body, in the upload's task", brittle{reads: 2}, brittle{}, crlf("POST / HTTP/1.1|Host: x|Content-Length: 10||"), "hello", "", "HTTP/1.1 500 ", "off"},
		{"writing the body, in the upload's task", brittle{}, brittle{writes: 2}, crlf("POST / HTTP/1.1|Host: x|Content-Length: 10||"), "hello", "", "HTTP/1.1 500 ", "off"},
		{"reading a body that is awaited", brittle{reads: 2}, brittle{}, crlf("POST / HTTP/1.1|Host: x|Content-Length: 10||"), "hello", "", "", "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBare(t, "off", c.limit)
			near, far := socketPair(t)
			defer unix.Close(far)
			b.meet(t, near, &c.client, &c.server)
			unix.Write(far, []byte(c.request))
			b.turn()
			unix.Write(far, []byte(c.rest))
			if c.answer != "" {
				b.readSome(b.backend)
				unix.Write(b.backend, []byte(c.answer))
			}
			if got := b.readSome(far); len(got) < len(c.gets) || got[:len(c.gets)] != c.gets || c.gets == "" && got != "" {
				t.Errorf("the client gets %q, want %q", got, c.gets)
			}
			b.mustBeWell(t)
		})
	}
}

// turn returns when the loop has dealt with what was sent before: the first
// function may run before the loop has polled, the second only after.
func (b *bare) turn() {
	b.on(func() {})
	b.on(func() {})
}

// readSome reads what comes first; nothing at the end.
func (b *bare) readSome(fd int) string {
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience / time.Second)})
	n, err := unix.Read(fd, b.buf[:])
	if err != nil && !errors.Is(err, unix.ECONNRESET) {
		return err.Error()
	}
	return string(b.buf[:max(n, 0)])
}

// mustBeWell checks the figures after a panic, and that the other client of the
// loop is served.
func (b *bare) mustBeWell(t *testing.T) {
	t.Helper()
	f, s := &b.figures, b.server
	r := &sockets{t: t, loop: b.loop}
	well := func() bool {
		return f.Panics.Load() == 1 && f.Connections.Load() == 1 && f.Idle.Load() == 1 && f.Active.Load() == 0 &&
			s.InFlight.Load() == 0 && s.Open.Load() == s.Idle.Load()
	}
	if !r.settled(well) {
		t.Errorf("panics %d, connections %d, idle %d, active %d; server: in flight %d, open %d, idle %d",
			f.Panics.Load(), f.Connections.Load(), f.Idle.Load(), f.Active.Load(), s.InFlight.Load(), s.Open.Load(), s.Idle.Load())
	}
	if err := b.pass(b.client, []byte(crlf("OPTIONS * HTTP/1.1|Host: x|Max-Forwards: 0||")), b.client, 1); err != nil {
		t.Errorf("the next client: %v", err)
	}
}
