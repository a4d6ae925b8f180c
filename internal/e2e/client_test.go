package e2e

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit"
)

// silent is a script that takes one request's head and never answers.
func silent(p *testkit.Peer) {
	p.Head()
	p.AwaitEnd()
}

// noEarlier checks that something took its time, which began when the client had
// not yet done what starts it. There is no test that it took no longer, since the
// machine may be busy; nor that nothing is missing from its time, since a loop reads
// its clock once a turn, and a busy machine makes a turn long. Half of it tells a
// time-out from an end at once; package proxy tests the times in virtual time.
func noEarlier(t *testing.T, what string, began time.Time, limit time.Duration) {
	t.Helper()
	if took := time.Since(began); took < limit/2 {
		t.Errorf("%s after %s, long before its time of %s", what, took, limit)
	}
}

// A client that has said all it will still gets its answer.
func TestHalfClosedClient(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	b := testkit.Serve(t, func(p *testkit.Peer) {
		p.Request()
		<-answer
		p.Send(ok)
		p.AwaitEnd()
	})
	s := start(t, farm(b.URL()))
	get, upload := s.dial(), s.dial()
	get.Send(testkit.Request("GET", "/"))
	get.CloseWrite()
	upload.Send(testkit.Request("POST", "/", "Transfer-Encoding: chunked"), "3\r\nabc\r\n0\r\n\r\n")
	upload.CloseWrite()
	testkit.Eventually(t, "both requests have reached the server", func() bool { return len(b.Heard()) == 2 })
	close(answer)
	for _, c := range []*testkit.Client{get, upload} {
		if m := c.Respond("GET"); m.Status() != 200 {
			t.Errorf("the answer: %s", m.Start)
		}
		c.Ended()
	}
}

// One that has sent many requests, and says that these are all, gets all answers.
func TestHalfClosedPipeline(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	c := start(t, farm(b.URL())).dial()
	const requests = 200
	c.Send(strings.Repeat(testkit.Request("GET", "/"), requests))
	c.CloseWrite()
	for i := range requests {
		if m := c.Respond("GET"); m.Status() != 200 {
			t.Errorf("answer %d: %s", i, m.Start)
		}
	}
	c.Ended()
}

// A client that resets while its answer is awaited frees the server at once.
func TestResetDuringTheWait(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, silent)
	s := start(t, farm(b.URL(), "admission: off"), jsonLog)
	for name, request := range map[string]string{
		"GET":              testkit.Request("GET", "/"),
		"POST":             testkit.Request("POST", "/", "Content-Length: 3") + "abc",
		"a body under way": testkit.Request("POST", "/", "Content-Length: 1000") + "abc",
	} {
		heard := len(b.Heard())
		c := s.dial()
		c.Send(request)
		testkit.Eventually(t, "the request has reached the server", func() bool { return len(b.Heard()) > heard })
		c.Reset()
		testkit.Eventually(t, "the server is free after "+name, func() bool { return b.Open() == 0 })
	}
	for _, line := range s.logged(3) {
		if line.Status != 499 || line.FailedBy != "client" || line.Reason != "client_gone" {
			t.Errorf("the log says %+v", line)
		}
	}
	testkit.Eventually(t, "no request is in progress", func() bool { return s.status().Workers[0].Active == 0 })
}

// A body that is cut off never looks complete to the server.
func TestBodyCutOff(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, func(p *testkit.Peer) { p.Request() })
	s := start(t, farm(b.URL(), "admission: off"))
	for name, request := range map[string]string{
		"length":     testkit.Request("POST", "/", "Content-Length: 10") + "abc",
		"chunk":      testkit.Request("POST", "/", "Transfer-Encoding: chunked") + "5\r\nabc",
		"last chunk": testkit.Request("POST", "/", "Transfer-Encoding: chunked") + "3\r\nabc\r\n",
		"trailers":   testkit.Request("POST", "/", "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\nX-A: 1\r\n",
	} {
		for how, cut := range map[string]func(*testkit.Client){"close": (*testkit.Client).CloseWrite, "reset": (*testkit.Client).Reset} {
			c := s.dial()
			c.Send(request)
			testkit.Eventually(t, "the server is asked", func() bool { return b.Open() > 0 })
			cut(c)
			testkit.Eventually(t, "the server is free after "+name+" and "+how, func() bool { return b.Open() == 0 })
		}
	}
	if seen := b.Heard(); len(seen) > 0 {
		t.Errorf("the server saw %q with body %q", seen[0].Start, seen[0].Body)
	}
}

// Clients that are too slow are told so, or their connection ends, in time.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	const limit = 700 * time.Millisecond
	s := start(t, farm(b.URL()), fmt.Sprintf("timeouts: {header: %s, idle: %s, body: %s}", limit, limit, limit))
	for name, c := range map[string]struct {
		sends  string
		status int // 0: the connection ends without a word
	}{
		"says nothing":              {"", 0},
		"a byte":                    {"G", 408},
		"a line":                    {"GET / HTTP/1.1\r\n", 408},
		"half a head":               {"GET / HTTP/1.1\r\nHost: a\r\nX-A: ", 408},
		"an empty line":             {"\r\n", 408},
		"no body":                   {testkit.Request("POST", "/", "Content-Length: 5"), 408},
		"half a body":               {testkit.Request("POST", "/", "Content-Length: 5") + "ab", 408},
		"half a chunk":              {testkit.Request("POST", "/", "Transfer-Encoding: chunked") + "5\r\nab", 408},
		"no last chunk":             {testkit.Request("POST", "/", "Transfer-Encoding: chunked") + "2\r\nab\r\n", 408},
		"expects and sends no body": {testkit.Request("POST", "/", "Content-Length: 5", "Expect: 100-continue"), 408},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			client := testkit.Dial(t, s.web())
			client.Send(c.sends)
			if c.status != 0 {
				m := client.Respond("GET")
				for m.Status() < 200 {
					m = client.Respond("GET")
				}
				if m.Status() != c.status || m.Get("Connection") != "close" {
					t.Errorf("%s, Connection: %s", m.Start, m.Get("Connection"))
				}
			}
			client.Ended()
			noEarlier(t, "the end", began, limit)
		})
	}
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		client := testkit.Dial(t, s.web())
		began := time.Now()
		client.Send(testkit.Request("GET", "/"))
		client.Respond("GET")
		client.Ended()
		noEarlier(t, "the end", began, limit)
	})
}

// A head that comes byte by byte gets no more time than any other.
func TestTrickledHead(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	const limit = time.Second
	s := start(t, farm(b.URL()), fmt.Sprintf("timeouts: {header: %s}", limit))
	c := s.dial()
	began := time.Now()
	go trickle(c, "GET / HTTP/1.1\r\nHost: a\r\nX-A: "+strings.Repeat("a", 60_000))
	if m := c.Respond("GET"); m.Status() != 408 {
		t.Errorf("%s", m.Start)
	}
	noEarlier(t, "408", began, limit)
	if n := b.Accepted(); n > 0 {
		t.Error("the server was asked")
	}
}

// trickle sends text byte by byte until the other end has enough of it: 100 bytes
// a second.
func trickle(c *testkit.Client, text string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range len(text) {
		if c.TrySend(text[i:i+1]) != nil {
			return
		}
		<-tick.C
	}
}

// A body that comes at less than the least rate is refused, though no single wait
// for it was long.
func TestTrickledBody(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, silent)
	s := start(t, farm(b.URL())) // 240 bytes per second
	c := s.dial()
	c.Send(testkit.Request("POST", "/", "Content-Length: 100000"))
	go trickle(c, strings.Repeat("a", 100_000))
	if m := c.Respond("POST"); m.Status() != 408 || m.Get("Connection") != "close" {
		t.Errorf("%s, Connection: %s", m.Start, m.Get("Connection"))
	}
	testkit.Eventually(t, "the server is free", func() bool { return b.Open() == 0 })
}

// endless is a script that answers with a body that goes on for as long as the
// proxy takes it.
func endless(p *testkit.Peer) {
	p.Request()
	p.Send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
	for block := string(make([]byte, 64<<10)); ; {
		p.Send(block)
	}
}

// A client that reads nothing is cut off, and the server with it; one that reads
// slowly is not.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, endless)
	const limit = 700 * time.Millisecond
	s := start(t, farm(b.URL()), fmt.Sprintf("timeouts: {write: %s}", limit))
	stuck := s.dial()
	began := time.Now()
	stuck.Send(testkit.Request("GET", "/"))
	testkit.Eventually(t, "the server answers", func() bool { return b.Accepted() == 1 })
	testkit.Eventually(t, "the server is free", func() bool { return b.Open() == 0 })
	noEarlier(t, "the end", began, limit)

	slow := s.dial()
	began = time.Now()
	slow.Send(testkit.Request("GET", "/"))
	tick := time.NewTicker(limit / 20)
	defer tick.Stop()
	for time.Since(began) < 3*limit {
		slow.ReadSome(1 << 20)
		<-tick.C
	}
	if b.Open() != 1 {
		t.Error("a client that reads slowly was cut off")
	}
	slow.Reset()
	testkit.Eventually(t, "the server is free again", func() bool { return b.Open() == 0 })
}

// A client that sends more than it should still reads why it was refused.
func TestRefusalDuringAnUpload(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()), "limits: {body: 1MiB}")
	for _, framing := range []string{"Content-Length: 5000000", "Transfer-Encoding: chunked"} {
		c := s.dial()
		c.Send(testkit.Request("POST", "/", framing))
		if framing[0] == 'T' {
			c.Send("4c4b40\r\n") // 5,000,000
		}
		c.TrySend(string(bytes.Repeat([]byte("a"), 5_000_000)))
		if m := c.Respond("POST"); m.Status() != 413 || m.Get("Connection") != "close" {
			t.Errorf("%s: %s, Connection: %s", framing, m.Start, m.Get("Connection"))
		}
		c.Ended()
	}
}
