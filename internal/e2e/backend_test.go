package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/testkit"
)

// oneWorker has all connections in one pool, so that they can be counted.
const oneWorker = "workers: {per: machine}"

// manyLoops has more loops than this machine may have CPUs, so that connections to
// servers often move between them.
const manyLoops = "workers: {per: machine, loops: 4}"

// A server that closes a kept connection in good time costs nobody anything, and
// one that closes it on a request only who may not ask twice (DESIGN 8.4).
func TestKeptConnectionThatCloses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, fields, body string
		status, asked        int
	}{
		{"GET", "Accept: */*", "", 200, 2},
		{"PUT", "Content-Length: 3", "abc", 200, 2},
		{"DELETE", "Accept: */*", "", 200, 2},
		{"POST", "Content-Length: 3", "abc", 502, 1},
		{"PATCH", "Content-Length: 3", "abc", 502, 1},
		{"LOCK", "Accept: */*", "", 502, 1},
	} {
		t.Run(c.method, func(t *testing.T) {
			t.Parallel()
			b := testkit.Serve(t, func(p *testkit.Peer) {
				p.Request()
				p.Send(ok)
				if p.Number > 1 {
					testkit.Answering(ok)(p)
				}
				p.Request() // and close
			})
			client := start(t, farm(b.URL()), oneWorker).dial()
			client.Send(testkit.Request("GET", "/first"))
			if m := client.Respond("GET"); m.Status() != 200 {
				t.Fatalf("the first answer: %s %s", m.Start, m.Body)
			}
			client.Send(testkit.Request(c.method, "/second", c.fields), c.body)
			if m := client.Respond(c.method); m.Status() != c.status {
				t.Errorf("%s, want %d: %s", m.Start, c.status, m.Body)
			}
			if asked := len(b.Heard()) - 1; asked != c.asked {
				t.Errorf("the server was asked %d times, want %d: %q, over %d connections", asked, c.asked, targets(b), b.Accepted())
			}
		})
	}
}

// A connection that the server has closed while nobody used it is not used again,
// not even for a POST.
func TestKeptConnectionThatHasClosed(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, func(p *testkit.Peer) {
		p.Request()
		p.Send(ok)
	})
	s := start(t, farm(b.URL()))
	client := s.dial()
	for i := range 3 {
		client.Send(testkit.Request("POST", "/", "Content-Length: 3"), "abc")
		if m := client.Respond("POST"); m.Status() != 200 {
			t.Errorf("request %d: %s", i, m.Start)
		}
		testkit.Eventually(t, "its end is seen", func() bool { return s.status().Farms[0].Servers[0].Open == 0 })
	}
}

// Connections to a server are kept and shared, up to their limits.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL(), "timeouts: {keep_alive: 600ms}"), oneWorker)
	for range 20 {
		c := s.dial()
		c.Send(testkit.Request("GET", "/"))
		c.Respond("GET")
		c.Close()
	}
	if n := b.Accepted(); n > 2 {
		t.Errorf("%d connections for 20 requests, one after another", n)
	}
	testkit.Eventually(t, "unused connections are closed", func() bool { return b.Open() == 0 })
}

// With one connection allowed, requests take turns; who waits too long is told.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		connect string // how long a request may wait for a connection
		status  int    // of one that waits for as long as another has it
	}{
		"too long": {"500ms", 503},
		"a while":  {"60s", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := make(chan struct{})
			b := testkit.Serve(t, gate(answer))
			s := start(t, farm(b.URL(), "connections: {max: 1}", "timeouts: {connect: "+c.connect+"}"), oneWorker)
			first, second := s.dial(), s.dial()
			first.Send(testkit.Request("GET", "/first"))
			testkit.Eventually(t, "the first has the connection", func() bool { return len(b.Heard()) == 1 })
			second.Send(testkit.Request("GET", "/second"))
			if c.status == 200 {
				testkit.Eventually(t, "the second waits", func() bool { return s.status().Workers[0].Active == 2 })
				close(answer)
			}
			if m := second.Respond("GET"); m.Status() != c.status {
				t.Errorf("beyond the limit: %s, want %d", m.Start, c.status)
			}
			if c.status != 200 {
				close(answer)
			}
			if m := first.Respond("GET"); m.Status() != 200 {
				t.Errorf("within the limit: %s", m.Start)
			}
			if n := b.Accepted(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// Many requests for few connections: each gets its turn, whether the server keeps
// its connections or not.
func TestConnectionLimitUnderLoad(t *testing.T) {
	t.Parallel()
	const limit, clients = 3, 24
	for name, fields := range map[string]string{"kept": "", "closed": "Connection: close\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testkit.Serve(t, testkit.Answering("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"+fields+"\r\na"))
			s := start(t, farm(b.URL(), fmt.Sprintf("connections: {max: %d}", limit)), manyLoops)
			load := testkit.StartLoad(t, s.web(), testkit.Request("GET", "/"), clients)
			load.AwaitMore(t, 3000)
			tally := load.Stop()
			if len(tally.Failures) > 0 {
				t.Errorf("%d of %d failed, first: %s", len(tally.Failures), tally.Good, tally.Failures[0])
			}
			// One that arrives where nobody waits any more is closed, and makes room:
			// how often depends on the machine, but it is no habit.
			if n := b.Accepted(); name == "kept" && n > tally.Good/10 {
				t.Errorf("%d connections were opened for %d requests, for %d at a time", n, tally.Good, limit)
			}
		})
	}
}

// A response that is cut off never looks complete to the client, whichever
// version it speaks.
func TestResponseCutOff(t *testing.T) {
	t.Parallel()
	const large = 4 << 20
	part := strings.Repeat("a", large/4)
	closes, resets := func(*testkit.Peer) {}, (*testkit.Peer).Reset
	for name, c := range map[string]struct {
		response string
		cuts     []func(*testkit.Peer)
	}{
		"length":              {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", []func(*testkit.Peer){closes, resets}},
		"nothing of a length": {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", []func(*testkit.Peer){closes, resets}},
		"large":               {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", large, part), []func(*testkit.Peer){closes, resets}},
		"chunk":               {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", []func(*testkit.Peer){closes, resets}},
		"last chunk":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", []func(*testkit.Peer){closes, resets}},
		"trailers":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-A: 1\r\n", []func(*testkit.Peer){closes, resets}},
		"a bad chunk":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("5\r\nabcde\r\n", 100_000) + "x\r\n", []func(*testkit.Peer){closes, resets}},
		"until close":         {"HTTP/1.1 200 OK\r\n\r\nabc", []func(*testkit.Peer){resets}}, // a close would be its end
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testkit.Serve(t, func(p *testkit.Peer) {
				p.Request()
				p.Send(c.response)
				c.cuts[p.Number%len(c.cuts)](p)
			})
			s := start(t, farm(b.URL(), "retries: 0"))
			for i := range 2 * len(c.cuts) {
				client := s.dial()
				client.Send(fmt.Sprintf("POST / HTTP/1.%d\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 1-i/len(c.cuts)))
				if m, err := client.TryRespond("POST"); err == nil && m.Status() != 502 {
					t.Errorf("client %d takes it for whole: %s, %d bytes, trailers %q", i, m.Start, len(m.Body), m.Trailers)
				}
			}
		})
	}
}

// A server that says nothing, or stops in the middle, is given up in time.
func TestServersThatStall(t *testing.T) {
	t.Parallel()
	const limit = 500 * time.Millisecond
	for name, c := range map[string]struct {
		script  func(*testkit.Peer)
		request string
		status  int // 0: the response is cut off
	}{
		"before the head": {silent, testkit.Request("GET", "/"), 504},
		"after the body":  {silent, testkit.Request("POST", "/", "Content-Length: 3") + "abc", 504},
		"in the head": {func(p *testkit.Peer) {
			p.Request()
			p.Send("HTTP/1.1 200 OK\r\nX-A: ")
			p.AwaitEnd()
		}, testkit.Request("GET", "/"), 504},
		"after an interim response": {func(p *testkit.Peer) {
			p.Request()
			p.Send("HTTP/1.1 102 Processing\r\n\r\n")
			p.AwaitEnd()
		}, testkit.Request("GET", "/"), 504},
		"in the body": {func(p *testkit.Peer) {
			p.Request()
			p.Send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nabc")
			p.AwaitEnd()
		}, testkit.Request("GET", "/"), 0},
		"in a chunk": {func(p *testkit.Peer) {
			p.Request()
			p.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc")
			p.AwaitEnd()
		}, testkit.Request("GET", "/"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testkit.Serve(t, c.script)
			firstByte, idle := limit, testkit.Patience
			if c.status == 0 { // the head may take as long as the machine makes it
				firstByte, idle = idle, firstByte
			}
			client := start(t, farm(b.URL(), fmt.Sprintf("timeouts: {first_byte: %s, idle: %s}", firstByte, idle))).dial()
			began := time.Now()
			client.Send(c.request)
			m, err := client.TryRespond("GET")
			for err == nil && m.Status() < 200 {
				m, err = client.TryRespond("GET")
			}
			if err == nil && m.Status() != c.status || err != nil && c.status != 0 {
				t.Errorf("%s, %v; want %d", m.Start, err, c.status)
			}
			noEarlier(t, "the end", began, limit)
			testkit.Eventually(t, "the server is free", func() bool { return b.Open() == 0 })
		})
	}
}

// A server that takes nothing of an upload is given up as well.
func TestServerThatTakesNothing(t *testing.T) {
	t.Parallel()
	const limit = 500 * time.Millisecond
	over := make(chan struct{})
	defer close(over)
	b := testkit.Serve(t, func(p *testkit.Peer) {
		p.Head()
		<-over
	})
	client := start(t, farm(b.URL(), fmt.Sprintf("timeouts: {idle: %s, first_byte: 60s}", limit))).dial()
	began := time.Now()
	client.Send(testkit.Request("POST", "/", "Content-Length: 100000000"))
	go client.TrySend(strings.Repeat("a", 100_000_000))
	if m := client.Respond("POST"); m.Status() != 504 {
		t.Errorf("%s", m.Start)
	}
	noEarlier(t, "the answer", began, limit)
}

// A server whose queue of connections is full gives 504.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil { // room for one connection, which nobody accepts
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		full, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(full)
		unix.Connect(full, bound) // EINPROGRESS
	}
	const limit = 500 * time.Millisecond
	url := fmt.Sprintf("http://127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port)
	client := start(t, farm(url, fmt.Sprintf("timeouts: {connect: %s}", limit))).dial()
	began := time.Now()
	client.Send(testkit.Request("GET", "/"))
	if m := client.Respond("GET"); m.Status() != 504 {
		t.Errorf("%s", m.Start)
	}
	noEarlier(t, "the answer", began, limit)
}

// An answer that comes before the end of an upload arrives whole, whatever the
// server does with the rest.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(file, noise(30<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	const refusal = "HTTP/1.1 413 Too Much\r\nContent-Length: 8\r\nConnection: close\r\n\r\ntoo much"
	for name, script := range map[string]func(*testkit.Peer){
		"and reads on": func(p *testkit.Peer) {
			p.Head()
			p.Send(refusal)
			p.AwaitEnd()
		},
		"in the middle": func(p *testkit.Peer) {
			p.Head()
			p.Read(1 << 20)
			p.Send(refusal)
			p.AwaitEnd()
		},
		"and closes": func(p *testkit.Peer) {
			p.Head()
			p.Send(refusal)
		},
		"and stays, deaf": func(p *testkit.Peer) {
			p.Head()
			p.Send(refusal)
			p.CloseWrite()
			p.AwaitEnd()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testkit.Serve(t, script)
			s := start(t, farm(b.URL()))
			for _, expect := range []string{"Expect: 100-continue", "Expect:"} {
				got := curl(t, "--upload-file", file, "--header", expect, "--write-out", " %{http_code}", s.url("/"))
				if got != "too much 413" {
					t.Errorf("curl, %s: %q", expect, got)
				}
			}
			testkit.Eventually(t, "the server is free", func() bool { return b.Open() == 0 })
		})
	}
}

// Interim responses reach who understands them, as they come.
func TestInterimResponses(t *testing.T) {
	t.Parallel()
	final := make(chan struct{}, 1)
	b := testkit.Serve(t, func(p *testkit.Peer) {
		for {
			p.Request()
			p.Send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")
			<-final
			p.Send(ok)
		}
	})
	s := start(t, farm(b.URL()))
	client := s.dial()
	client.Send(testkit.Request("GET", "/"))
	if m := client.Respond("GET"); m.Status() != 103 || m.Get("Link") != "</a.css>; rel=preload" {
		t.Errorf("first came %s %q", m.Start, m.Fields)
	}
	final <- struct{}{}
	if m := client.Respond("GET"); m.Status() != 200 {
		t.Errorf("then came %s", m.Start)
	}
	old := s.dial()
	old.Send("GET / HTTP/1.0\r\n\r\n")
	final <- struct{}{}
	if m := old.Respond("GET"); m.Status() != 200 {
		t.Errorf("a client of HTTP/1.0 got %s", m.Start)
	}
}

// Who waits for leave to send a body gets it from the server, or from us if the
// server says nothing, or is told to keep it; where no limit is in force.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	const wait = 300 * time.Millisecond
	request := testkit.Request("POST", "/", "Content-Length: 3", "Expect: 100-continue")
	for name, c := range map[string]struct {
		script    func(*testkit.Peer)
		timeouts  string
		proceeds  bool
		notBefore time.Duration
		status    int
		stays     bool
	}{
		"from the server": {func(p *testkit.Peer) {
			m := p.Head()
			p.Send("HTTP/1.1 100 Continue\r\n\r\n")
			p.Body(m)
			p.Send(ok)
			p.AwaitEnd()
		}, "timeouts: {continue: 30s}", true, 0, 200, true},
		"from us": {testkit.Answering(ok), fmt.Sprintf("timeouts: {continue: %s}", wait), true, wait, 200, true},
		"from us, then from the server": {func(p *testkit.Peer) {
			p.Request()
			p.Send("HTTP/1.1 100 Continue\r\n\r\n" + ok)
			p.AwaitEnd()
		}, fmt.Sprintf("timeouts: {continue: %s}", wait), true, wait, 200, true},
		"refused": {func(p *testkit.Peer) {
			p.Head()
			p.Send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
			p.AwaitEnd()
		}, "timeouts: {continue: 30s}", false, 0, 401, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testkit.Serve(t, c.script)
			client := start(t, farm(b.URL(), c.timeouts, "admission: off")).dial()
			began := time.Now()
			client.Send(request)
			if c.proceeds {
				if m := client.Respond("POST"); m.Status() != 100 {
					t.Fatalf("first came %s", m.Start)
				}
				noEarlier(t, "100", began, c.notBefore)
				client.Send("abc")
			}
			if m := client.Respond("POST"); m.Status() != c.status {
				t.Errorf("the answer: %s", m.Start)
			}
			if !c.stays {
				client.Ended() // the body may come or not: nobody could tell where the next request begins
			}
			if seen := b.Request(t, 0); seen.Get("Expect") != "100-continue" || c.proceeds && string(seen.Body) != "abc" {
				t.Errorf("the server saw %q %q", seen.Fields, seen.Body)
			}
		})
	}
}
