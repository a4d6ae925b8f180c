package proxy

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/http2"
	"sluice/internal/message"
	"sluice/internal/reactor"
)

// ground is a rig whose clients and servers also speak HTTP/2, each by the package's own
// other end over a simulated connection.
type ground struct {
	*virtual
	speaks map[byte]bool            // servers of HTTP/2
	peer   http2.Config             // of both kinds of other ends
	app    func(ask)                // serves a request, in a task
	http1  func(*simConn)           // serves a connection of HTTP/1.1, in a task; nil: the test does
	served map[*http2.Conn]*simConn // connections of HTTP/2
	far    time.Duration            // it takes to connect to a server
}

// ask is a request as a server of HTTP/2 sees it.
type ask struct {
	*http2.Stream
	req message.Request
}

// path is what it asks for.
func (a *ask) path() string { return string(a.req.Target) }

// jobFunc makes a Job of a function.
type jobFunc func()

func (f jobFunc) Run() { f() }

// newGround has the servers in letters speak HTTP/2.
func newGround(letters string, app func(ask)) *ground {
	g := &ground{virtual: newVirtual(), speaks: map[byte]bool{}, app: app, served: map[*http2.Conn]*simConn{}}
	g.peer = http2.Config{
		Streams: 100, Head: 32 << 10, Line: 8 << 10, Fields: 100, Window: 64 << 10, ConnWindow: 1 << 20,
		Settled: time.Minute, Partial: time.Minute, Idle: time.Hour, Stall: time.Hour, Parting: time.Second, ExtendedConnect: true,
	}
	for _, l := range []byte(letters) {
		g.speaks[l] = true
	}
	return g
}

func (g *ground) urls(n int) (urls []string) {
	for i, url := range g.virtual.urls(n) {
		if g.speaks[byte('a'+i)] {
			url = "h2" + url[len("http"):]
		}
		urls = append(urls, url)
	}
	return urls
}

// dial opens a connection to a server; one of HTTP/2 begins to serve it.
func (g *ground) dial(a reactor.Address, timeout time.Duration) (reactor.Stream, error) {
	g.sleep(g.far)
	near, err := g.virtual.dial(a, timeout)
	if err != nil {
		return nil, err
	}
	letter := a.TCP.Addr().As4()[3] - 1 + 'a'
	conns := g.conns[letter]
	switch far := conns[len(conns)-1]; {
	case !g.speaks[letter] && g.http1 != nil:
		g.Submit(func() { g.http1(far) })
	case g.speaks[letter]:
		h := &host{g: g}
		h.conn = http2.NewServer(g.sim, g.peer).Serve(far, nil, h)
		g.served[h.conn] = far
	}
	return near, nil
}

// host has a connection of a server of HTTP/2 served.
type host struct {
	g    *ground
	conn *http2.Conn
}

// Accept implements http2.Owner.
func (h *host) Accept(s *http2.Stream) {
	a := ask{Stream: s}
	h.g.Go(jobFunc(func() {
		a.Request(&a.req)
		h.g.app(a)
		a.Close()
	}))
}

// Ended implements http2.Owner.
func (h *host) Ended() { delete(h.g.served, h.conn) }

// visitor is a client's connection of HTTP/2.
type visitor struct {
	*http2.Link
	wire *simConn
}

// Freed implements http2.LinkOwner.
func (v *visitor) Freed() {}

// Ended implements http2.LinkOwner.
func (v *visitor) Ended() {}

// visit connects a client that speaks HTTP/2. Not in a task.
func (g *ground) visit(s *stage) *visitor {
	g.on(func() { s.script.listener.HTTP2 = true })
	v := &visitor{wire: g.client(s).(*actor).c}
	g.on(func() { v.Link = http2.NewClient(g.sim, g.peer).Connect(v.wire, v) })
	return v
}

// reply is what a client was answered: an error says why it is not whole.
type reply struct {
	status   int
	content  string
	trailers int
	err      error
}

// get asks for a path and reads the answer. In a task.
func (v *visitor) get(path string) (a reply) {
	call, err := v.Call()
	if err != nil {
		return reply{err: err}
	}
	defer call.Close()
	r := request(message.GET, path)
	if err := call.Send(r, true); err != nil {
		return reply{err: err}
	}
	return hear(call)
}

// request is the head of one.
func request(m message.Method, path string) *message.Request {
	name := map[message.Method]string{message.GET: "GET", message.POST: "POST", message.PUT: "PUT", message.CONNECT: "CONNECT"}[m]
	return &message.Request{
		Method: m, MethodName: []byte(name), Scheme: []byte("http"), Host: []byte("x"), Target: []byte(path),
		MaxForwards: -1, ContentLength: -1,
	}
}

// hear reads an answer to its end.
func hear(call *http2.Call) (a reply) {
	if a.status, a.err = heads(call); a.err != nil {
		return a
	}
	b := make([]byte, 4<<10)
	for {
		n, err := call.Read(b)
		a.content += string(b[:n])
		if err == io.EOF {
			a.trailers = len(call.Trailers())
			return a
		}
		if err != nil {
			a.err = err
			return a
		}
	}
}

// heads reads heads up to the final one.
func heads(call *http2.Call) (status int, err error) {
	var r message.Response
	for {
		if err := call.Await(); err != nil {
			return 0, err
		}
		switch ok, err := call.Answer(&r); {
		case err != nil:
			return 0, err
		case ok && r.Status >= 200:
			return r.Status, nil
		}
	}
}

// sleep is for a task.
func (g *ground) sleep(d time.Duration) {
	for at := g.after(max(1, d)); !g.sim.wait(at); {
	}
}

// plain answers with a path's name.
func plain(a ask) {
	r := message.Response{Status: 200, ContentLength: -1}
	if a.Respond(&r, false) == nil {
		a.Write([]byte(a.path()))
		a.End(nil)
	}
}

// onGround plays with a stage of servers that speak HTTP/2.
func onGround(t *testing.T, farm []string, app func(g *ground, a ask), play func(*ground, *stage)) {
	synctest.Test(t, func(t *testing.T) {
		var g *ground
		g = newGround("a", func(a ask) { app(g, a) })
		s := newStage(t, g, &script{servers: 1, farm: farm})
		defer g.finish()
		defer s.close()
		play(g, s)
		synctest.Wait()
		s.end()
	})
}

// TestCrowdMeetsNewConnection: all who have waited for the first connection to a server
// share it at once.
func TestCrowdMeetsNewConnection(t *testing.T) {
	const crowd = 50
	onGround(t, nil, func(g *ground, a ask) { g.sleep(time.Second); plain(a) }, func(g *ground, s *stage) {
		g.far = 100 * time.Millisecond
		v, served := g.visit(s), 0
		for range crowd {
			g.Submit(func() {
				if got := v.get("/x"); got.err != nil || got.content != "/x" {
					t.Errorf("got %+v", got)
				}
				served++
			})
		}
		g.wait(10 * time.Second)
		g.on(func() {
			if served != crowd {
				t.Errorf("%d of %d are served in ten times what each takes", served, crowd)
			}
			v.Close()
		})
	})
}

// TestLostWhileAsked: a connection that ends with requests under way is forgotten.
func TestLostWhileAsked(t *testing.T) {
	onGround(t, nil, func(g *ground, a ask) { a.Conn().Close() }, func(g *ground, s *stage) {
		v := g.visit(s)
		g.Submit(func() {
			if got := v.get("/x"); got.status != 502 {
				t.Errorf("got %+v", got)
			}
			v.Close()
		})
		g.wait(time.Second)
	})
}
