package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testkit"
)

// limits is what the tests read of /limits.
type limits struct {
	Held, Leaks, Stranded int
	Servers               []struct {
		Limit, In_flight, Waiting int
		Centre                    float64
		Permits                   map[string]int
	}
}

func (s *sluice) limits() (l limits) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.page("/limits")), &l); err != nil {
		s.t.Fatal(err)
	}
	return l
}

// awaitHeld waits until so many requests are held.
func (s *sluice) awaitHeld(n int) {
	s.t.Helper()
	testkit.Eventually(s.t, fmt.Sprintf("%d requests are held", n), func() bool { return s.limits().Held == n })
}

// quiet checks that nothing is held, no permit is out, and none was ever lost.
func (s *sluice) quiet() {
	s.t.Helper()
	testkit.Eventually(s.t, "every permit is back", func() bool {
		l := s.limits()
		for _, server := range l.Servers {
			if server.In_flight != 0 || server.Waiting != 0 {
				return false
			}
		}
		return l.Held == 0
	})
	if l := s.limits(); l.Leaks != 0 || l.Stranded != 0 {
		s.t.Errorf("%d permits leaked, %d queues were stranded", l.Leaks, l.Stranded)
	}
}

// targets are what the backend has been asked for, in this order.
func targets(b *testkit.Backend) (all []string) {
	for _, m := range b.Heard() {
		all = append(all, m.Target())
	}
	return all
}

// one at a time: the farm of these tests.
const oneAtOnce = "admission: {limit: 1, timeout: 60s}"

// Held requests go in the order of their urgency, and in that of their coming,
// over all loops of the worker.
func TestHeldOrder(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	b := testkit.Serve(t, gate(answer))
	s := start(t, farm(b.URL(), oneAtOnce),
		"routes: [{path: /urgent, farm: app, priority: 1}, {path: /later, farm: app, priority: 6}, {farm: app}]")
	var clients []*testkit.Client
	for i, target := range []string{"/first", "/later/1", "/2", "/3", "/urgent/4", "/5", "/later/6", "/urgent/7", "/8"} {
		c := s.dial()
		c.Send(testkit.Request("GET", target))
		clients = append(clients, c)
		if s.awaitHeld(i); i == 0 {
			testkit.Eventually(t, "the first request has reached the server", func() bool { return len(b.Heard()) == 1 })
		}
	}
	close(answer)
	for _, c := range clients {
		if m := c.Respond("GET"); m.Status() != 200 {
			t.Errorf("a held request got %s", m.Start)
		}
	}
	const want = "/first /urgent/4 /urgent/7 /2 /3 /5 /8 /later/1 /later/6"
	if got := strings.Join(targets(b), " "); got != want {
		t.Errorf("served in the order\n%s, want\n%s", got, want)
	}
	s.quiet()
}

// A queue holds as many as it may; the next is told when to come again.
func TestHeldBounds(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	b := testkit.Serve(t, gate(answer))
	s := start(t, farm(b.URL(), "admission: {limit: 1, queue: 2, timeout: 60s, server_timing: true}"),
		"routes: [{path: /hurry, farm: app, deadline: 300ms}, {farm: app}]")
	var clients []*testkit.Client
	for i := range 3 {
		c := s.dial()
		c.Send(testkit.Request("GET", "/"))
		clients = append(clients, c)
		testkit.Eventually(t, "the first request has reached the server", func() bool { return len(b.Heard()) == 1 })
		s.awaitHeld(i)
	}
	refused := s.dial()
	refused.Send(testkit.Request("GET", "/"))
	m := refused.Respond("GET")
	if wait, err := strconv.Atoi(m.Get("Retry-After")); m.Status() != 503 || err != nil && m.Get("Retry-After") != "" || wait > 60 {
		t.Errorf("%s, Retry-After: %s", m.Start, m.Get("Retry-After"))
	}
	clients[2].Close() // makes room
	s.awaitHeld(1)
	began := time.Now()
	refused.Send(testkit.Request("GET", "/hurry"))
	if m := refused.Respond("GET"); m.Status() != 503 {
		t.Errorf("past its deadline a request got %s", m.Start)
	}
	noEarlier(t, "the deadline", began, 300*time.Millisecond)
	close(answer)
	for i, c := range clients[:2] {
		m := c.Respond("GET")
		timing := m.Get("Server-Timing")
		if m.Status() != 200 || !strings.HasPrefix(timing, "queue;dur=") || (timing == "queue;dur=0.000") != (i == 0) {
			t.Errorf("request %d got %s, Server-Timing: %s", i, m.Start, timing)
		}
	}
	s.quiet()
	refusedBy := s.status().Workers[0].Refused
	if refusedBy["queue_full"] != 1 || refusedBy["deadline_unmet"] != 1 || refusedBy["client_gone"] != 1 {
		t.Errorf("refused are counted as %v", refusedBy)
	}
}

// A client that goes away while its request is held leaves the queue, however it
// goes; the server never hears of it.
func TestHeldClientsGo(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	b := testkit.Serve(t, gate(answer))
	s := start(t, farm(b.URL(), oneAtOnce))
	first := s.dial()
	first.Send(testkit.Request("GET", "/first"))
	testkit.Eventually(t, "it has reached the server", func() bool { return len(b.Heard()) == 1 })
	var clients []*testkit.Client
	for i := range 6 {
		c := s.dial()
		c.Send(testkit.Request("POST", "/gone", "Content-Length: 5"), "hello"+"GET /"[:i%6]) // and some of a next request
		clients = append(clients, c)
	}
	s.awaitHeld(6)
	for i, c := range clients {
		if i%2 == 0 {
			c.Close()
		} else {
			c.Reset()
		}
	}
	s.awaitHeld(0)
	close(answer)
	first.Respond("GET")
	s.quiet()
	if got := targets(b); len(got) != 1 {
		t.Errorf("the server has been asked for %v", got)
	}
	if n := s.metrics()[`sluice_held_clients_gone_total{node="0",worker="0"}`]; n != 6 {
		t.Errorf("%v clients are counted as gone while they were held, want 6: %v", n, s.page("/metrics"))
	}
}

// A worker that is killed gives back what it held, and what it was given.
func TestHeldWorkerKilled(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	b := testkit.Serve(t, gate(answer))
	s := start(t, farm(b.URL(), "admission: {limit: 3, timeout: 60s}"))
	const clients = 9
	for range clients {
		s.dial().Send(testkit.Request("GET", "/"))
	}
	s.awaitHeld(clients - 3)
	if err := syscall.Kill(s.workers()[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.quiet()
	testkit.Eventually(t, "a worker serves", func() bool { return s.status().Ready })
	close(answer)
	for range 2 * 3 {
		c := s.dial()
		c.Send(testkit.Request("GET", "/"))
		if m := c.Respond("GET"); m.Status() != 200 {
			t.Errorf("after the kill: %s", m.Start)
		}
	}
	s.quiet()
}

// What is held stays held over reloads, and is served by the limit that is in force
// then; with SIGTERM it is served before Sluice ends.
func TestHeldOverReloadAndDrain(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	b := testkit.Serve(t, gate(answer))
	s := start(t, farm(b.URL(), oneAtOnce))
	var clients []*testkit.Client
	for i := range 8 {
		c := s.dial()
		c.Send(testkit.Request("GET", "/"))
		clients = append(clients, c)
		s.awaitHeld(i)
	}
	for range 3 {
		s.reload()
	}
	s.awaitHeld(7)
	s.configure(farm(b.URL(), "admission: {limit: 4, timeout: 60s}"), "listeners: [{name: web, address: "+strconv.Quote(s.web())+"}]")
	s.reload()
	testkit.Eventually(t, "four are at the server", func() bool { return len(b.Heard()) == 4 })
	s.awaitHeld(4)
	s.Signal(syscall.SIGTERM)
	testkit.Eventually(t, "nobody can connect", func() bool { return !listens(s.web()) })
	close(answer)
	for _, c := range clients {
		if m := c.Respond("GET"); m.Status() != 200 {
			t.Errorf("a held request got %s", m.Start)
		}
	}
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A server that hangs: the queue stays bounded, newcomers are told soon, and all is
// well as soon as it goes on.
func TestHeldBehindHungServer(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	b := testkit.Serve(t, gate(answer))
	s := start(t, farm(b.URL(), "admission: {limit: 2, queue: 5, timeout: 500ms}"))
	var clients []*testkit.Client
	for range 20 {
		c := s.dial()
		c.Send(testkit.Request("GET", "/"))
		clients = append(clients, c)
	}
	testkit.Eventually(t, "all but two are told", func() bool {
		told := s.status().Workers[0].Refused
		return told["queue_full"]+told["queue_timeout"]+told["deadline_unmet"] == 18
	})
	close(answer)
	good := 0
	for _, c := range clients {
		if m := c.Respond("GET"); m.Status() == 200 {
			good++
		} else if m.Status() != 503 {
			t.Errorf("got %s", m.Start)
		}
	}
	again := s.dial()
	again.Send(testkit.Request("GET", "/"))
	if m := again.Respond("GET"); m.Status() != 200 || good != 2 {
		t.Errorf("%d of 20 were served, and then one got %s", good, m.Start)
	}
	s.quiet()
}

// A client that takes its answer slowly, or sends its request so, keeps nobody else
// from the server.
func TestSlowClientsKeepNoPermit(t *testing.T) {
	t.Parallel()
	large := testkit.Response("200 OK", "Content-Length: 67108864") + strings.Repeat("x", 64<<20)
	b := testkit.Serve(t, func(p *testkit.Peer) {
		for {
			if m := p.Request(); m.Target() == "/large" {
				p.Send(large)
			} else {
				p.Send(ok)
			}
		}
	})
	s := start(t, farm(b.URL(), oneAtOnce))
	slow := s.dial()
	slow.Send(testkit.Request("GET", "/large"))
	slow.ReadHead()
	sending := s.dial()
	sending.Send(testkit.Request("POST", "/small", "Content-Length: 2"), "x")
	other := s.dial()
	for range 3 {
		other.Send(testkit.Request("GET", "/small"))
		if m := other.Respond("GET"); m.Status() != 200 {
			t.Errorf("beside them: %s", m.Start)
		}
	}
	sending.Send("y")
	if m := sending.Respond("POST"); m.Status() != 200 {
		t.Errorf("the slow sender got %s", m.Start)
	}
	slow.Close()
	s.quiet()
}

// Many clients send their requests' content a byte at a time: beside them others are
// served at once, none is ever held, and in the end the slow ones are served too.
func TestSlowSendersKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	const senders, rounds = 64, 12
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL(), "admission: 4"), "timeouts: {rate: 0}")
	var slow []*testkit.Client
	for range senders {
		c := s.dial()
		c.Send(testkit.Request("POST", "/slow", fmt.Sprintf("Content-Length: %d", rounds+1)), "x")
		slow = append(slow, c)
	}
	testkit.Eventually(t, "all of them are known", func() bool { return s.status().Workers[0].Active == senders })
	other := s.dial()
	for range rounds - 1 {
		for _, c := range slow {
			c.Send("x")
		}
		other.Send(testkit.Request("POST", "/other", "Content-Length: 2"), "ok")
		if m := other.Respond("POST"); m.Status() != 200 {
			t.Fatalf("beside them: %s", m.Start)
		}
	}
	if got := targets(b); len(got) != rounds-1 || slices.Contains(got, "/slow") {
		t.Errorf("the server has been asked for %v", got)
	}
	if n := s.metrics()[`sluice_held_seconds_count{node="0",worker="0"}`]; n != 0 {
		t.Errorf("%v requests were held", n)
	}
	for _, c := range slow {
		c.Send("x")
		if m := c.Respond("POST"); m.Status() != 200 {
			t.Errorf("a slow sender got %s", m.Start)
		}
	}
	s.quiet()
}

// What a limit has learned is there again after a restart, and what it learns then
// is kept.
func TestLimitOutlivesSluice(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	state := filepath.Join(shortDir(t), "limits.json")
	learned := fmt.Sprintf(`{"version":1,"servers":[{"farm":"app","url":%q,"saved":%q,"kind":"adaptive","state":{"centre":7,"supported":2}}]}`,
		b.URL(), time.Now().Format(time.RFC3339))
	if err := os.WriteFile(state, []byte(learned), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, farm(b.URL()), "state: "+state)
	if l := s.limits().Servers[0].Limit; l < 5 || l > 9 {
		t.Errorf("the limit is %d; 7 had been learned", l)
	}
	b.Close()
	// As many at once as make up a bout, however slow the machine is.
	client, burst := s.dial(), 20
	testkit.Eventually(t, "failures lower the limit", func() bool {
		client.Send(strings.Repeat(testkit.Request("GET", "/"), burst))
		for range burst {
			client.Respond("GET")
		}
		return s.limits().Servers[0].Centre < 6
	})
	s.Signal(syscall.SIGTERM)
	if code := s.ExitCode(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	kept, err := os.ReadFile(state)
	if err != nil || !strings.Contains(string(kept), b.URL()) || string(kept) == learned {
		t.Fatalf("the state is %q, %v", kept, err)
	}
}
