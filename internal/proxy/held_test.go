package proxy

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"
)

const (
	// heldSessions is how many are measured, and the length of the queue.
	heldSessions = 10_000
	// heldBytes is the most that a held request may cost beyond its idle connection.
	heldBytes = 4 << 10
)

// browserHead is a request as a browser sends it, of some 800 bytes.
func browserHead(path string) []byte {
	return []byte(crlf("GET " + path + " HTTP/1.1|Host: www.example|Connection: keep-alive|" +
		`sec-ch-ua: "Chromium";v="140", "Not=A?Brand";v="24"|sec-ch-ua-mobile: ?0|sec-ch-ua-platform: "Linux"|Upgrade-Insecure-Requests: 1|` +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36|" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8|Sec-Fetch-Site: none|" +
		"Sec-Fetch-Mode: navigate|Sec-Fetch-Dest: document|Accept-Encoding: gzip, deflate, br|Accept-Language: en-GB,en;q=0.9,de;q=0.8|" +
		"Cookie: session=" + strings.Repeat("0123456789abcdef", 8) + "; theme=dark||"))
}

// TestHeldSessions: ten thousand requests are held behind one. Each costs little,
// each is served once, and they leave nothing behind. In which order depends on
// how long the machine takes: a queue that has stood serves the newest first.
func TestHeldSessions(t *testing.T) {
	b := newBare(t, "off", "1")
	clients := b.idle(t, heldSessions)
	defer closeAll(clients)
	before := inUse()
	response := []byte(crlf("HTTP/1.1 204 No Content|Date: now||"))
	first := []byte(crlf("GET / HTTP/1.1|Host: www.example||"))
	if err := b.pass(b.client, first, b.backend, 1); err != nil {
		t.Fatal(err)
	}
	for i, fd := range clients {
		unix.Write(fd, browserHead(fmt.Sprintf("/%d", i)))
		b.turn()
	}
	if held := b.figures.Held.Load(); held != int64(len(clients)) {
		t.Fatalf("%d requests are held, want %d", held, len(clients))
	}
	each := (inUse() - before) / int64(len(clients))
	if t.Logf("%d bytes for each of %d held requests", each, len(clients)); each > heldBytes {
		t.Errorf("want at most %d", heldBytes)
	}
	b.on(func() {
		if spare, small := len(b.proxy.spare), len(b.proxy.buffers.small); spare != 1 || small != 1 {
			t.Errorf("%d exchanges and %d buffers were made beside those of the request that is served", spare, small)
		}
	})
	served := make([]bool, len(clients))
	at := b.client
	for range clients {
		if err := b.pass(b.backend, response, at, len(response)); err != nil {
			t.Fatal(err)
		}
		path, _, _ := strings.Cut(strings.TrimPrefix(string(b.readHead(t)), "GET /"), " ")
		i, err := strconv.Atoi(path)
		if err != nil || served[i] {
			t.Fatalf("%q is served twice, or is none", path)
		}
		served[i], at = true, clients[i]
	}
	if err := b.pass(b.backend, response, at, len(response)); err != nil {
		t.Fatal(err)
	}
	b.mustBeClear(t)
	runtime.KeepAlive(b)
}

// readHead reads a request's head at the server.
func (b *bare) readHead(t *testing.T) []byte {
	for n := 0; ; {
		m, err := unix.Read(b.backend, b.buf[n:])
		if m <= 0 {
			t.Fatalf("%d bytes of a head came: %v", n, err)
		}
		if n += m; bytes.HasSuffix(b.buf[:n], []byte("\r\n\r\n")) {
			return b.buf[:n]
		}
	}
}

// mustBeClear checks that nobody waits and no permit is out.
func (b *bare) mustBeClear(t *testing.T) {
	t.Helper()
	g, f := &b.lobby.gates[0], &b.figures
	clear := func() bool {
		return g.InFlight.Load() == 0 && g.Waiters.Load() == 0 && f.Held.Load() == 0 && f.Active.Load() == 0 && b.server.Permits.Load() == 0
	}
	if r := (&sockets{t: t, loop: b.loop}); !r.settled(clear) {
		t.Errorf("%d permits out (%d by account), workers %b wait, %d requests held, %d active",
			g.InFlight.Load(), b.server.Permits.Load(), g.Waiters.Load(), f.Held.Load(), f.Active.Load())
	}
}

// another is one more client of the loop: its session, and its own end of the
// connection, on which a Read or a Write may panic.
func (b *bare) another(t *testing.T, how brittle) (s *session, fd int) {
	near, far := socketPair(t)
	t.Cleanup(func() { unix.Close(far) })
	b.on(func() {
		conn, err := b.loop.Adopt(near, netip.AddrPort{})
		if err != nil {
			t.Error(err)
			return
		}
		how.Conn = conn
		b.serve(&how)
		s = b.proxy.sessions.prev
	})
	return s, far
}

// TestPanicWhileHeld: a fault of ours that meets a held request ends its
// connection; it leaves the line, its permit comes back and serves the next.
func TestPanicWhileHeld(t *testing.T) {
	get := crlf("GET / HTTP/1.1|Host: x||")
	answer := []byte(crlf("HTTP/1.1 204 No Content|Date: now||"))
	for _, c := range []struct {
		name   string
		client brittle
		fault  func(*session) // while it is held, on the loop; nil: the connection is
		called bool           // it gets its permit, and then meets the fault
		reach  bool           // its request is sent before
	}{
		{"as its head is read again", brittle{}, func(s *session) { s.held.snap = nil }, true, false},
		{"as its answer is sent", brittle{writes: 1}, func(*session) {}, true, true},
		{"as it is refused", brittle{writes: 1}, func(s *session) {
			s.held.until = 1
			s.conn.SetReadTimeout(1)
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBare(t, "off", "1")
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			must(b.pass(b.client, []byte(get), b.backend, 1))
			s, ill := b.another(t, c.client)
			unix.Write(ill, []byte(get))
			b.turn()
			_, well := b.another(t, brittle{})
			unix.Write(well, []byte(get))
			b.turn()
			if held := b.figures.Held.Load(); held != 2 {
				t.Fatalf("%d requests are held", held)
			}
			b.on(func() { c.fault(s) })
			if c.called {
				must(b.pass(b.backend, answer, b.client, len(answer)))
			}
			if c.reach {
				b.readHead(t)
				unix.Write(b.backend, answer)
			}
			if got := b.readSome(ill); got != "" {
				t.Errorf("the client gets %q", got)
			}
			if !c.called {
				must(b.pass(b.backend, answer, b.client, len(answer)))
			}
			if c.reach { // its connection to the server is closed, and there is no other
				if got := b.readSome(well); !strings.HasPrefix(got, "HTTP/1.1 502 ") {
					t.Errorf("the next gets %q", got)
				}
			} else {
				b.readHead(t)
				must(b.pass(b.backend, answer, well, len(answer)))
			}
			b.mustBeClear(t)
			if f := &b.figures; f.Panics.Load() != 1 || f.Connections.Load() != 2 {
				t.Errorf("%d panics, %d connections", f.Panics.Load(), f.Connections.Load())
			}
		})
	}
}

// TestClosedLoop: a loop that is closed ends the connections of those that it
// holds, with a task or without; nothing hangs, and no goroutine is left
// (main_test.go). A permit that was on its way to one of them stays out: its
// worker is about to end, and the supervisor gives back what it held.
func TestClosedLoop(t *testing.T) {
	for _, name := range []string{"parked", "in place"} {
		t.Run(name, func(t *testing.T) {
			r := newSockets(t)
			s := newStage(t, r, &script{servers: 2, farm: []string{"admission: 1", "retries: 1"}})
			defer s.close()
			get := crlf("GET / HTTP/1.1|Host: x||")
			for _, client := range []string{"c", "d", "e"} {
				s.mustTake(step{party: client, does: "sends", text: get})
				if client != "e" {
					s.mustTake(step{party: map[string]string{"c": "a1", "d": "b1"}[client], does: "gets", text: get})
				}
			}
			s.mustTake(step{does: "counts", text: "held=1"})
			if name == "in place" { // c waits for the other server
				s.mustTake(step{party: "a1", does: "sends event", text: "close"})
				s.mustTake(step{party: "a2", does: "gets", text: get})
				s.mustTake(step{party: "b", does: "counts", text: "waiting=1"})
			}
			r.loop.Close()
			for _, client := range []string{"c", "d", "e"} {
				if !r.settled(func() bool { _, ended := s.parties[client].received(); return ended != "" }) {
					t.Errorf("the connection of client %s is open", client)
				}
			}
		})
	}
}

// TestGoneWhenCalled: a client leaves while a permit is on its way to its request:
// the permit comes back, and no server hears of it.
func TestGoneWhenCalled(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newVirtual()
			s := newStage(t, r, &script{servers: 1, farm: []string{"admission: {limit: 1, timeout: 5s}"}})
			defer r.finish()
			defer s.close()
			get := crlf("GET / HTTP/1.1|Host: x||")
			s.mustTake(step{party: "c", does: "sends", text: get})
			s.mustTake(step{party: "a1", does: "gets", text: get})
			s.mustTake(step{party: "d", does: "sends", text: get})
			s.mustTake(step{does: "counts", text: "held=1"})
			h := s.proxy.sessions.prev.held
			r.on(func() {
				s.lobby.limit('a', "2", r.Now())
				if late { // not gone: its time is over, but it was called before
					h.until = r.Now()
				}
				h.s.conn.Watch(nil)
				h.Run()
			})
			answer := crlf("HTTP/1.1 204 No Content|Date: now||")
			if late {
				s.mustTake(step{party: "a2", does: "gets", text: get})
				s.mustTake(step{party: "a2", does: "sends", text: answer})
				s.mustTake(step{party: "d", does: "gets", text: answer})
				s.mustTake(step{does: "counts", text: "held=0 left=0"})
			} else {
				s.mustTake(step{party: "d", does: "gets event", text: "end"})
				s.mustTake(step{does: "counts", text: "held=0 left=1"})
				s.mustTake(step{party: "a", does: "counts", text: "ignored=1"})
			}
			s.mustTake(step{party: "a1", does: "sends", text: answer})
			s.mustTake(step{party: "c", does: "gets", text: answer})
			s.end()
		})
	}
}

func (s *stage) mustTake(st step) {
	s.t.Helper()
	if err := s.take(st); err != nil {
		s.t.Fatalf("%+v: %v", st, err)
	}
}
