package e2e

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/internal/testkit"
)

// moody is a script that mostly answers with what it was asked, and sometimes does
// what no server should. The target's first segment says which.
func moody(p *testkit.Peer) {
	for {
		m := p.Head()
		mood, _, _ := strings.Cut(m.Target()[1:], "/")
		switch mood {
		case "close":
			return
		case "reset":
			p.Reset()
		case "garbage":
			p.Send("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")
			p.AwaitEnd()
		case "early":
			p.Send("HTTP/1.1 403 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
			p.AwaitEnd()
		case "cut":
			p.Send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 70_000))
			return
		}
		p.Body(m)
		echo := m.Target() + " " + string(m.Body)
		if mood == "chunked" {
			p.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunks(echo) + "0\r\n\r\n")
			continue
		}
		p.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(echo), echo))
	}
}

// inChunks cuts text into chunks, without the last one.
func inChunks(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		n := min(len(text), 1000)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, text[:n])
		text = text[n:]
	}
	return b.String()
}

// steady is a client that must always get its own answer.
func steady(c *testkit.Client, name string, r *rand.Rand, rounds int) error {
	for i := range rounds {
		target := fmt.Sprintf("/%s/%s/%d", []string{"length", "chunked"}[r.IntN(2)], name, i)
		body := strings.Repeat(name+strconv.Itoa(i)+" ", r.IntN(1<<r.IntN(16)))
		request := testkit.Request("POST", target, "Content-Length: "+strconv.Itoa(len(body))) + body
		if r.IntN(2) == 0 {
			request = testkit.Request("POST", target, "Transfer-Encoding: chunked") + inChunks(body) + "0\r\n\r\n"
		}
		if err := c.TrySend(request); err != nil {
			return err
		}
		m, err := c.TryRespond("POST")
		if err != nil || m.Status() != 200 || string(m.Body) != target+" "+body {
			return fmt.Errorf("%s with %d bytes got %s, %d bytes, %v", target, len(body), m.Start, len(m.Body), err)
		}
	}
	return nil
}

// erratic is a client that asks for trouble, and often leaves in the middle.
func erratic(c *testkit.Client, r *rand.Rand) {
	moods := []string{"close", "reset", "garbage", "early", "cut", "length", "chunked"}
	body := strings.Repeat("e", r.IntN(200_000))
	request := testkit.Request("PUT", "/"+moods[r.IntN(len(moods))]+"/x", "Content-Length: "+strconv.Itoa(len(body))) + body
	if r.IntN(4) == 0 {
		request = request[:r.IntN(len(request))]
	}
	if c.TrySend(request) != nil {
		return
	}
	switch r.IntN(4) {
	case 0:
		c.Reset()
	case 1:
		c.Close()
	case 2:
		c.TryCloseWrite()
		c.Rest()
	default:
		c.TryRespond("PUT")
	}
}

// Clients and servers of every mood at once: whoever behaves gets its own answers,
// all of them, and when everybody has gone nothing is left: no request, no
// connection in use, no socket.
func TestChaos(t *testing.T) {
	t.Parallel()
	const steadies, rounds, erratics, visits = 6, 60, 6, 80
	b := testkit.Serve(t, moody)
	s := start(t, farm(b.URL(), "fail_for: 0s", "timeouts: {keep_alive: 1s}"), manyLoops, "timeouts: {header: 1s, idle: 2s, body: 1s, linger: 1s}")
	_, before := testkit.OpenFiles(t, s.workers()[0])
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var clients sync.WaitGroup
	for i := range steadies {
		c, r := s.dial(), rand.New(rand.NewPCG(seed, uint64(i)))
		clients.Go(func() {
			if err := steady(c, fmt.Sprint("client", i), r, rounds); err != nil {
				t.Error(err)
			}
			c.Close()
		})
	}
	for i := range erratics {
		r := rand.New(rand.NewPCG(seed, uint64(steadies+i)))
		clients.Go(func() {
			for range visits {
				c, err := testkit.TryDial(t, s.web())
				if err != nil {
					t.Error(err)
					return
				}
				erratic(c, r)
				c.Close()
			}
		})
	}
	clients.Wait()
	testkit.Eventually(t, "nothing is left", func() bool {
		st := s.status()
		w, server := st.Workers[0], st.Farms[0].Servers[0]
		return w.Connections == 0 && w.Active == 0 && w.Idle == 0 && server.In_flight == 0 && server.Open == 0 && server.Idle == 0
	})
	testkit.Eventually(t, "no socket is left", func() bool {
		_, sockets := testkit.OpenFiles(t, s.workers()[0])
		return sockets == before
	})
	if n := s.status().Workers[0].Panics; n > 0 {
		t.Errorf("%d panics", n)
	}
}
