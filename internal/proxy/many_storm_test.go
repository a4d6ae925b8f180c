package proxy

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/http2"
	"sluice/internal/message"
)

// tempest has clients and servers of both protocols do all they may do, and much that
// they may not, at random. Server a speaks HTTP/1.1, b HTTP/2.
type tempest struct {
	*ground
	*stage
	dice    *rand.Rand
	visits  []*visitor
	asked   int
	seen    map[string]int // by path: how often a server has begun with it
	whole   int            // answers
	cut     int            // those that were cut, visibly
	refused int
}

// TestManyStorm: whatever happens, each answer is whole or visibly cut and belongs to its
// request; a request that is not idempotent reaches a server at most once; and in the end
// nothing is held, lent or counted.
func TestManyStorm(t *testing.T) {
	whole, cut := 0, 0
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTempest(t, seed)
				defer w.finish()
				defer w.close()
				for range 250 {
					w.step()
					synctest.Wait()
				}
				w.calm()
				whole, cut = whole+w.whole, cut+w.cut
			})
		})
	}
	if t.Logf("%d answers were whole, %d were cut", whole, cut); whole < 500 || cut < 50 {
		t.Error("too few to tell anything")
	}
}

func newTempest(t *testing.T, seed uint64) *tempest {
	w := &tempest{dice: rand.New(rand.NewPCG(seed, 7)), seen: map[string]int{}}
	w.ground = newGround("b", w.app)
	w.ground.http1 = w.serveHTTP1
	w.ground.far = time.Duration(w.dice.IntN(3)) * 10 * time.Millisecond
	w.ground.peer.Streams = 1 + w.dice.IntN(20)
	w.stage = newStage(t, w.ground, &script{servers: 2, farm: []string{"admission: {limit: 4, queue: 20, timeout: 3s}", "fail_for: 1s"}})
	return w
}

// finish is that of the ground.
func (w *tempest) finish() { w.ground.finish() }

// step does one thing.
func (w *tempest) step() {
	switch n := w.dice.IntN(100); {
	case n < 35:
		w.byHTTP2()
	case n < 55:
		w.byHTTP1()
	case n < 58:
		w.ground.on(func() { w.either(func(v *visitor) { v.Close() }) })
	case n < 61:
		w.ground.on(func() { w.either(func(v *visitor) { v.Leave() }) })
	case n < 65:
		w.hurtServer()
	case n < 67:
		line := fmt.Sprintf("farm admission: {limit: %d, queue: %d, timeout: 3s}", 1+w.dice.IntN(8), w.dice.IntN(20))
		if err := w.reload(line); err != nil {
			w.t.Fatal(err)
		}
	case n < 68:
		w.mode(byte('a'+w.dice.IntN(2)), []string{"refuses", "accepts"}[w.dice.IntN(2)])
	default:
		w.ground.wait(time.Duration(w.dice.IntN(30)) * time.Millisecond)
	}
}

// either picks one of the clients' connections. In a task.
func (w *tempest) either(f func(*visitor)) {
	if n := len(w.visits); n > 0 {
		f(w.visits[w.dice.IntN(n)])
	}
}

// hurtServer ends a connection to a server, in order or not.
func (w *tempest) hurtServer() {
	how := w.dice.IntN(3)
	w.ground.on(func() {
		for conn, far := range w.served {
			switch how {
			case 0:
				conn.Drain()
			case 1:
				conn.Close()
			case 2:
				far.reset()
			}
			return
		}
	})
}

// errand is what a request is to do.
type errand struct {
	path   string
	method message.Method
	sends  int           // bytes
	pause  time.Duration // while it sends
	known  bool          // the length is told
	leaves time.Duration // 0: it stays
	expect bool
}

func (w *tempest) errand() errand {
	w.asked++
	e := errand{
		path:   fmt.Sprintf("/%d/%s/%d", w.asked, []string{"well", "well", "well", "slow", "cut", "early", "turn"}[w.dice.IntN(7)], []int{0, 5, 3000, 100_000, 300_000}[w.dice.IntN(5)]),
		method: message.GET, pause: time.Duration(w.dice.IntN(30)) * time.Millisecond,
	}
	if w.dice.IntN(2) == 0 {
		e.method, e.sends = message.POST, []int{0, 5, 3000, 70_000, 300_000}[w.dice.IntN(5)]
		e.known, e.expect = w.dice.IntN(2) == 0, w.dice.IntN(4) == 0
	}
	if w.dice.IntN(4) == 0 {
		e.leaves = time.Duration(1+w.dice.IntN(500)) * time.Millisecond
	}
	return e
}

// fill is content that belongs to a path alone.
func fill(path string, n int) string {
	return strings.Repeat(path+",", n/(len(path)+1)+1)[:n]
}

// answers is the content that a path is answered with.
func answers(path string) string {
	n := 0
	fmt.Sscan(path[strings.LastIndexByte(path, '/')+1:], &n)
	return fill(path, n)
}

// judge looks at an answer.
func (w *tempest) judge(e errand, a reply) {
	want := answers(e.path)
	switch {
	case a.status == 200 && a.err == nil && a.content == want:
		w.whole++
	case a.status == 200 && a.err == nil:
		w.t.Errorf("%+v is answered by %d bytes as whole, want %d: %.60q", e, len(a.content), len(want), a.content)
	case a.status == 200 && !strings.HasPrefix(want, a.content):
		w.t.Errorf("%+v is answered by %.60q and then %v", e, a.content, a.err)
	case a.status == 200 || a.err != nil:
		w.cut++
	case a.status < 400:
		w.t.Errorf("%+v is answered by %d", e, a.status)
	default:
		w.refused++
	}
}

// byHTTP2 has a client of HTTP/2 send a request.
func (w *tempest) byHTTP2() {
	if len(w.visits) == 0 || w.dice.IntN(6) == 0 {
		w.visits = append(w.visits, w.visit(w.stage))
	}
	v, e := w.visits[w.dice.IntN(len(w.visits))], w.errand()
	w.ground.Submit(func() {
		call, err := v.Call()
		if err != nil {
			return
		}
		defer call.Close()
		r := request(e.method, e.path)
		switch {
		case e.sends > 0 && e.known:
			r.Body, r.ContentLength = message.Length, int64(e.sends)
		case e.sends > 0:
			r.Body = message.UntilClose
		}
		if call.Send(r, e.sends == 0) != nil {
			return
		}
		if e.leaves > 0 {
			call.SetReadTimeout(e.leaves)
			call.SetWriteTimeout(e.leaves)
		}
		sending := e.sends > 0
		if sending {
			w.ground.Submit(func() { w.sends(call, e); sending = false })
		}
		w.judge(e, hear(call))
		for call.Abort(io.ErrClosedPipe); sending; { // the call is another's once it is closed
			w.sim.wait(0)
		}
	})
}

// sends sends a request's content.
func (w *tempest) sends(call *http2.Call, e errand) {
	if w.inPieces(call, e) {
		call.End(nil)
	}
}

// byHTTP1 has a client of HTTP/1.1 do the same, on a connection of its own.
func (w *tempest) byHTTP1() {
	e := w.errand()
	far := w.client(w.stage).(*actor).c
	w.ground.Submit(func() {
		defer far.Close()
		if e.leaves > 0 {
			far.SetReadTimeout(e.leaves)
			far.SetWriteTimeout(e.leaves)
		}
		far.in.window = 0 // it takes nothing before all is sent
		w.sendHTTP1(far, e)
		far.in.window = socketBytes
		r, err := http.ReadResponse(bufio.NewReader(far), nil)
		if err != nil {
			w.judge(e, reply{err: err})
			return
		}
		content, err := io.ReadAll(r.Body)
		w.judge(e, reply{status: r.StatusCode, content: string(content), err: err})
	})
}

// sendHTTP1 sends a request to its end.
func (w *tempest) sendHTTP1(far *simConn, e errand) {
	if e.method == message.GET {
		fmt.Fprintf(far, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", e.path)
		return
	}
	fmt.Fprintf(far, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", e.path, e.sends)
	w.inPieces(far, e)
}

// inPieces sends content with pauses between; it reports whether that was all.
func (w *tempest) inPieces(to io.Writer, e errand) bool {
	text := fill(e.path, e.sends)
	for len(text) > 0 {
		n := min(len(text), 20_000)
		if _, err := io.WriteString(to, text[:n]); err != nil {
			return false
		}
		text = text[n:]
		w.ground.sleep(e.pause)
	}
	return true
}

// arrives notes that a server begins with a request, and checks content that it got.
func (w *tempest) arrives(method, path string) {
	if w.seen[path]++; method == "POST" && w.seen[path] > 1 {
		w.t.Errorf("%s %s reaches servers %d times", method, path, w.seen[path])
	}
}

// took checks the content of a request, whole or in part.
func (w *tempest) took(path string, content []byte) {
	if string(content) != fill(path, len(content)) {
		w.t.Errorf("a server gets, as content of %s, %d bytes of another", path, len(content))
	}
}

// app is the server of HTTP/2.
func (w *tempest) app(a ask) {
	path := a.path()
	w.arrives(string(a.req.MethodName), path)
	how, content := strings.Split(path, "/")[2], answers(path)
	if how == "slow" {
		w.ground.sleep(200 * time.Millisecond)
	}
	if how == "turn" {
		a.Read(make([]byte, 100))
		a.Reset()
		return
	}
	if how != "early" {
		came, err := io.ReadAll(a)
		if w.took(path, came); err != nil {
			return
		}
	}
	r := message.Response{Status: 200, ContentLength: -1}
	if a.Respond(&r, false) != nil {
		return
	}
	if how == "cut" {
		a.Write([]byte(content[:len(content)/2]))
		a.Reset()
		return
	}
	if _, err := a.Write([]byte(content)); err == nil {
		a.End(nil)
	}
}

// serveHTTP1 is the server of HTTP/1.1.
func (w *tempest) serveHTTP1(far *simConn) {
	defer far.Close()
	in := bufio.NewReader(far)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		path := r.URL.Path
		w.arrives(r.Method, path)
		how, content := strings.Split(path, "/")[2], answers(path)
		if how == "slow" {
			w.ground.sleep(200 * time.Millisecond)
		}
		if how == "turn" {
			r.Body.Read(make([]byte, 100))
			return
		}
		if how != "early" {
			came, err := io.ReadAll(r.Body)
			if w.took(path, came); err != nil {
				return
			}
		}
		fmt.Fprintf(far, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(content))
		if how == "cut" {
			far.Write([]byte(content[:len(content)/2]))
			return
		}
		if _, err := far.Write([]byte(content)); err != nil || how == "early" {
			return
		}
	}
}

// calm lets all come to an end.
func (w *tempest) calm() {
	w.mode('a', "accepts")
	w.mode('b', "accepts")
	w.ground.wait(10 * time.Minute)
	w.ground.on(func() {
		for _, v := range w.visits {
			v.Close()
		}
	})
	synctest.Wait()
	w.end()
}
