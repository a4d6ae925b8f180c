package proxy

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// storm has clients come, ask and leave, servers answer or fail, and limits and
// configurations change, all at random.
type storm struct {
	*stage
	ground  *virtual
	dice    *rand.Rand
	clients []*asker
}

// asker is a client, and how many requests it has sent.
type asker struct {
	party
	asked int
}

// TestHeldStorm: after whatever step, no permit is free that somebody waits for,
// and permits are out for just those requests that are at a server. In the end
// every client that has stayed has an answer to each request, or was told to go.
func TestHeldStorm(t *testing.T) {
	held := uint64(0)
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtual()
				farm := []string{"admission: {limit: 2, queue: 4, timeout: 3s}", "fail_for: 1s"}
				w := &storm{stage: newStage(t, r, &script{servers: 2, farm: farm}), ground: r, dice: rand.New(rand.NewPCG(seed, 4))}
				defer r.finish()
				defer w.close()
				for i := range 300 {
					does := w.step()
					synctest.Wait()
					if fault := w.fault(); fault != "" {
						t.Fatalf("after step %d, %s: %s", i, does, fault)
					}
				}
				w.calm()
				held += w.loop.Wait.Count()
			})
		})
	}
	if t.Logf("%d requests were held", held); held < 1000 {
		t.Error("too few to tell anything")
	}
}

// step does one thing.
func (w *storm) step() (does string) {
	server := byte('a' + w.dice.IntN(2))
	switch n := w.dice.IntN(100); {
	case n < 40:
		w.ask()
		return "a request"
	case n < 75:
		w.answer(w.dice.IntN(10))
		return "an answer"
	case n < 85:
		w.leave([]string{"close", "reset"}[w.dice.IntN(2)])
		return "a client leaves"
	case n < 90:
		limit := fmt.Sprint(1 + w.dice.IntN(3))
		w.ground.on(func() { w.lobby.limit(server, limit, w.ground.Now()) })
		return "limit " + limit
	case n < 93:
		line := fmt.Sprintf("farm admission: {limit: %d, queue: %d, timeout: 3s}", 1+w.dice.IntN(3), w.dice.IntN(6))
		if err := w.reload(line); err != nil {
			w.t.Fatal(err)
		}
		return "reload " + line
	case n < 95:
		w.ground.mode(server, []string{"refuses", "accepts"}[w.dice.IntN(2)])
		return "a server refuses, or accepts again"
	}
	w.ground.wait(time.Duration(w.dice.IntN(1500)) * time.Millisecond)
	return "time passes"
}

// ask has a client, a new one or one that is there, send a request. One that has
// been told to go is seen off instead.
func (w *storm) ask() {
	if len(w.clients) == 0 || len(w.clients) < 12 && w.dice.IntN(2) == 0 {
		w.clients = append(w.clients, &asker{party: w.ground.client(w.stage)})
	}
	i := w.dice.IntN(len(w.clients))
	c := w.clients[i]
	if _, ended := c.received(); ended != "" {
		w.compare(c)
		w.clients = slices.Delete(w.clients, i, i+1)
		return
	}
	c.asked++
	switch w.dice.IntN(8) {
	case 0:
		c.send(crlf("PUT / HTTP/1.1|Host: x|Content-Length: 5||hello"))
	case 1:
		c.send(crlf("POST / HTTP/1.1|Host: x|Content-Length: 0||")) // not sent twice
	default:
		c.send(crlf("GET / HTTP/1.1|Host: x||"))
	}
}

// compare has a client close, who has an answer to each request, or to those up to
// the one whose answer told it to go.
func (w *storm) compare(c *asker) {
	got, ended := c.received()
	n, last := responses(got)
	if n != c.asked && (n == 0 || !last.Close) || (ended != "") != (n > 0 && last.Close) {
		w.t.Errorf("%d answers (%s) to %d requests", n, ended, c.asked)
	}
	c.event("close")
}

// leave has one of the clients end its connection.
func (w *storm) leave(how string) {
	if len(w.clients) == 0 {
		return
	}
	i := w.dice.IntN(len(w.clients))
	w.clients[i].event(how)
	w.clients = slices.Delete(w.clients, i, i+1)
}

// answer has a server answer one of its requests, if there is any: 0 is that it
// closes the connection instead, 1 that it has too much to do.
func (w *storm) answer(how int) bool {
	var asked []*actor
	for _, letter := range []byte{'a', 'b'} {
		for _, c := range w.ground.conns[letter] {
			a := &actor{w.ground, c}
			if text, ended := a.received(); text != "" && ended == "" {
				asked = append(asked, a)
			}
		}
	}
	if len(asked) == 0 {
		return false
	}
	a := asked[w.dice.IntN(len(asked))]
	text, _ := a.received()
	a.take(len(text))
	switch how {
	case 0:
		a.event("close")
	case 1:
		a.send(crlf("HTTP/1.1 503 Service Unavailable|Content-Length: 0||"))
	default:
		a.send(crlf("HTTP/1.1 200 OK|Content-Length: 2||ok"))
	}
	return true
}

// fault is what must not be when all is at rest; empty if all is well.
func (w *storm) fault() string {
	waiting := int64(0)
	for i := range w.lobby.gates {
		g, n := &w.lobby.gates[i], w.lobby.waits[i].Waiting.Load()
		limit, out := g.Limit.Load(), g.InFlight.Load()
		waiting = max(waiting, n)
		switch {
		case n > 0 && out < limit:
			return fmt.Sprintf("server %c: %d wait, though %d of %d permits are out", 'a'+i, n, out, limit)
		case out != w.figures[i].InFlight.Load():
			return fmt.Sprintf("server %c: %d permits are out, for %d requests", 'a'+i, out, w.figures[i].InFlight.Load())
		case (n > 0) != (g.Waiters.Load() != 0):
			return fmt.Sprintf("server %c: %d wait, the gate knows of %b", 'a'+i, n, g.Waiters.Load())
		}
	}
	if held := w.loop.Held.Load(); waiting > held {
		return fmt.Sprintf("%d wait, %d are held", waiting, held)
	}
	return ""
}

// calm has servers answer until all is done, and compares.
func (w *storm) calm() {
	for quiet := 0; quiet < 10; synctest.Wait() {
		if quiet++; w.answer(9) {
			quiet = 0
			continue
		}
		w.ground.wait(time.Second) // a server is no longer skipped, a request waits no longer
	}
	for _, c := range w.clients {
		w.compare(c)
	}
	w.end()
}

// responses counts them, and gives the last.
func responses(text string) (n int, last *http.Response) {
	for in := bufio.NewReader(strings.NewReader(text)); ; n++ {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			return n, last
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return n, last
		}
		last = r
	}
}
