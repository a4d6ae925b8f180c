package proxy

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"sluice/internal/http2"
	"sluice/internal/message"
	"sluice/internal/segment"
)

// post sends content in pieces, a pause after each, and reads the answer. In a task.
func (v *visitor) post(g *ground, path string, pieces int, piece string, pause time.Duration) (a reply) {
	call, err := v.Call()
	if err != nil {
		return reply{err: err}
	}
	defer call.Close()
	r := request(message.POST, path)
	r.Body = message.UntilClose
	if err := call.Send(r, false); err != nil {
		return reply{err: err}
	}
	for range pieces {
		if _, err := call.Write([]byte(piece)); err != nil {
			break // the answer tells why
		}
		g.sleep(pause)
	}
	call.End(nil)
	return hear(call)
}

// echo answers with the content.
func echo(a ask) {
	content, err := io.ReadAll(a)
	if err != nil {
		return
	}
	r := message.Response{Status: 200, ContentLength: -1}
	a.Respond(&r, false)
	a.Write(content)
	a.End(nil)
}

// TestResetWhileUploading: a server resets a request whose content is still coming, and
// whose client takes no answer meanwhile: what comes of it then never gets into another
// request on the same connection.
func TestResetWhileUploading(t *testing.T) {
	app := func(_ *ground, a ask) {
		if a.path() == "/reset" {
			a.Read(make([]byte, 10))
			a.Reset()
			return
		}
		echo(a)
	}
	onGround(t, nil, app, func(g *ground, s *stage) {
		ill := g.client(s).(*actor)
		ill.c.in.window = 0
		ill.send(crlf("POST /reset HTTP/1.1|Host: x|Content-Length: 1000||"))
		ill.send("first")
		g.wait(time.Millisecond)
		v := g.visit(s)
		g.Submit(func() {
			want := strings.Repeat("right", 5)
			if got := v.post(g, "/whole", 5, "right", time.Millisecond); got.err != nil || got.content != want {
				t.Errorf("got %+v", got)
			}
		})
		for range 5 {
			ill.send("wrong")
			g.wait(time.Millisecond)
		}
		g.wait(time.Second)
		g.on(func() { v.Close() })
		ill.event("reset")
	})
}

// TestResetAtOnce: requests that come together with their reset reach no server; and what
// comes after them does.
func TestResetAtOnce(t *testing.T) {
	const resets = 40
	asked := map[string]int{}
	app := func(_ *ground, a ask) {
		asked[a.path()]++
		plain(a)
	}
	onGround(t, nil, app, func(g *ground, s *stage) {
		v := g.visit(s)
		g.Submit(func() {
			for range resets {
				k, err := v.Call()
				if err != nil {
					t.Error(err)
					return
				}
				k.Send(request(message.GET, "/reset"), true)
				k.Reset()
				k.Close()
			}
			if got := v.get("/wanted"); got.content != "/wanted" {
				t.Errorf("got %+v", got)
			}
		})
		g.wait(time.Second)
		g.on(func() { v.Close() })
	})
	if asked["/reset"] > 0 || asked["/wanted"] != 1 {
		t.Errorf("of %d resets servers were asked for %v", resets, asked)
	}
}

// TestResetWhileHeld: a request that is reset while it waits for a permit leaves none of
// it behind: those after it are served.
func TestResetWhileHeld(t *testing.T) {
	app := func(g *ground, a ask) {
		g.sleep(time.Second)
		plain(a)
	}
	onGround(t, []string{"admission: {limit: 1, timeout: 30s}"}, app, func(g *ground, s *stage) {
		v, served := g.visit(s), 0
		get := func() {
			if got := v.get("/served"); got.content != "/served" {
				t.Errorf("got %+v", got)
			}
			served++
		}
		g.Submit(get)
		g.wait(100 * time.Millisecond)
		for range 5 {
			g.Submit(func() {
				k, err := v.Call()
				if err != nil {
					t.Error(err)
					return
				}
				k.Send(request(message.GET, "/reset"), true)
				g.sleep(100 * time.Millisecond)
				k.Reset()
				k.Close()
			})
		}
		g.Submit(get)
		g.wait(5 * time.Second)
		g.on(func() {
			if served != 2 {
				t.Errorf("%d of 2 are served", served)
			}
			v.Close()
		})
	})
}

// TestAwaySaidTooLate: a request that meets the server's GOAWAY is asked again on another
// connection, also where there is no other server.
func TestAwaySaidTooLate(t *testing.T) {
	asked := map[*http2.Conn]int{}
	app := func(g *ground, a ask) {
		asked[a.Conn()]++
		plain(a)
	}
	onGround(t, []string{"retries: 0"}, app, func(g *ground, s *stage) {
		v := g.visit(s)
		ask := func(path string) {
			g.Submit(func() {
				if got := v.get(path); got.content != path {
					t.Errorf("got %+v", got)
				}
			})
		}
		ask("/first")
		g.wait(time.Second)
		g.on(func() {
			for _, far := range g.served { // what the proxy asks now meets a server that has gone away up to the first
				far.in.window = 0
			}
		})
		ask("/second")
		g.wait(time.Second)
		g.on(func() {
			for _, far := range g.served {
				far.out.sent = append(far.out.sent, "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"...)
			}
		})
		g.wait(5 * time.Second)
		g.on(func() {
			if len(asked) != 2 {
				t.Errorf("%d connections were asked", len(asked))
			}
			v.Close()
		})
	})
}

// TestSlowReadersAside: clients that take nothing of what they have asked for, on as many
// requests as a connection to a server carries but one, hold up none but themselves, and
// what is held for each of them is bounded.
func TestSlowReadersAside(t *testing.T) {
	const slow, long = mostCalls - 1, 300_000
	app := func(_ *ground, a ask) {
		r := message.Response{Status: 200, ContentLength: -1}
		a.Respond(&r, false)
		if a.path() == "/long" {
			n, _ := a.Write(make([]byte, long))
			if n > callWindow+largeBytes+overrun {
				t.Errorf("%d bytes are taken of an answer that nobody reads", n)
			}
			return
		}
		a.Write([]byte(a.path()))
		a.End(nil)
	}
	onGround(t, nil, app, func(g *ground, s *stage) {
		well := g.visit(s)
		g.peer.Streams = mostCalls
		g.Submit(func() { well.get("/first") })
		g.wait(time.Second)
		g.peer.Window = 2
		var ill []*visitor
		for range 5 {
			ill = append(ill, g.visit(s))
		}
		for i := range slow {
			g.Submit(func() {
				call, err := ill[i%len(ill)].Call()
				if err != nil {
					t.Fatal(err)
				}
				call.Send(request(message.GET, "/long"), true)
			})
		}
		g.wait(time.Second)
		served := false
		g.Submit(func() { served = well.get("/short").content == "/short" })
		g.wait(time.Second)
		g.on(func() {
			if n := s.figures[0].InFlight.Load(); n != slow || len(g.served) != 1 || !served {
				t.Errorf("%d are under way on %d connections; the other is served: %v", n, len(g.served), served)
			}
			if n := s.proxy.buffers.lent; n != 2*slow {
				t.Errorf("%d buffers for %d requests", n, slow)
			}
			for _, v := range append(ill, well) {
				v.Close()
			}
		})
	})
}

// TestSlowUploadsAside: uploads that their server does not read, as many as a client may
// have but one, hold up none but themselves, and what is held of each is bounded.
func TestSlowUploadsAside(t *testing.T) {
	const slow, long = 99, 400_000
	app := func(g *ground, a ask) {
		if a.path() == "/slow" {
			g.sleep(time.Minute)
			return
		}
		echo(a)
	}
	onGround(t, nil, app, func(g *ground, s *stage) {
		g.peer.ConnWindow = 0 // a server that does not hold up others either
		v, sent, held := g.visit(s), 0, 0
		for range slow {
			g.Submit(func() {
				call, err := v.Call()
				if err != nil {
					t.Error(err)
					return
				}
				defer call.Close()
				r := request(message.POST, "/slow")
				r.Body = message.UntilClose
				call.Send(r, false)
				sent++
				call.SetWriteTimeout(30 * time.Second)
				n, _ := call.Write(make([]byte, long))
				held = max(held, n)
			})
		}
		g.wait(10 * time.Second)
		var got reply
		g.Submit(func() { got = v.post(g, "/quick", 8, strings.Repeat("a", 50_000), 0) })
		g.wait(10 * time.Second)
		g.on(func() {
			if got.err != nil || len(got.content) != long || sent != slow {
				t.Errorf("beside %d uploads another is echoed with %d bytes: %v", sent, len(got.content), got.err)
			}
		})
		g.wait(20 * time.Second)
		g.on(func() {
			if most := UploadWindow + 2*largeBytes + 2*overrun + g.peer.Window; held == 0 || held > most {
				t.Errorf("%d bytes are taken of an upload that nobody reads, want %d at most", held, most)
			}
			v.Close()
		})
	})
}

// TestDribbleOfWindows: a client that opens the window of its stream byte by byte, one in
// each second, loses the stream as one of HTTP/1.1 that reads so loses its connection: when
// timeouts.write is over and what timeouts.rate allows for a buffer.
func TestDribbleOfWindows(t *testing.T) {
	app := func(_ *ground, a ask) {
		r := message.Response{Status: 200, ContentLength: -1}
		a.Respond(&r, false)
		a.Write(make([]byte, 300_000))
	}
	onGround(t, nil, app, func(g *ground, s *stage) {
		g.peer.Window = 1
		v, read, failed := g.visit(s), 0, error(nil)
		g.Submit(func() {
			call, _ := v.Call()
			defer call.Close()
			call.Send(request(message.GET, "/"), true)
			if _, failed = heads(call); failed != nil {
				return
			}
			for b := make([]byte, 1); failed == nil; g.sleep(time.Second) {
				if _, failed = call.Read(b); failed == nil {
					read++
				}
			}
		})
		g.wait(60 * time.Second)
		g.on(func() {
			if failed != nil || read < 58 {
				t.Errorf("%d bytes are read, then %v", read, failed)
			}
		})
		snap := s.proxy.snapshot
		g.wait(snap.sendWithin(largeBytes))
		g.on(func() {
			var reset http2.ResetError
			if !errors.As(failed, &reset) || s.proxy.stats.Abuses[http2.Stalls].Load() != 1 || s.figures[0].InFlight.Load() != 0 {
				t.Errorf("%d bytes are read, then %v; counted %d times", read, failed, s.proxy.stats.Abuses[http2.Stalls].Load())
			}
			v.Close()
		})
	})
}

// TestFaultsOfStreams: what is wrong with a message is its sender's fault, in whichever
// protocol of streams.
func TestFaultsOfStreams(t *testing.T) {
	type code string // of another protocol than HTTP/2
	for _, err := range []error{http2.Single(http2.ProtocolError, "a", "b"), http2.Single(code("x"), "a", "b"), http2.Whole(code("x"), "a", "b")} {
		if f := ofClient(err, ReadingBody); f.Reason != segment.BadRequest || f.Party != Client {
			t.Errorf("%T is %v", err, f)
		}
	}
}
