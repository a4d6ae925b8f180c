package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/testkit"
)

// counters are the samples that may only grow.
func (s *sluice) counters() map[string]float64 {
	s.t.Helper()
	all := s.metrics()
	maps.DeleteFunc(all, func(name string, _ float64) bool {
		family, _, _ := strings.Cut(name, "{")
		return !strings.HasSuffix(family, "_total") && !strings.HasSuffix(family, "_count") && !strings.HasSuffix(family, "_bucket")
	})
	// The process of a worker is another after a restart; its CPU time begins anew
	// and is no figure of Sluice's.
	maps.DeleteFunc(all, func(name string, _ float64) bool { return strings.HasPrefix(name, "sluice_worker_cpu_seconds_total") })
	return all
}

// A worker is killed, again and again, under load: only what it has in its hands
// fails. Connections that wait are taken by the next one, and no counter steps
// back.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	const clients, kills = 8, 3
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()), oneWorker)
	load := testkit.StartLoad(t, s.web(), testkit.Request("GET", "/"), clients)
	seen := s.counters()
	for kill := range kills {
		load.AwaitMore(t, 200)
		pid := s.workers()[0]
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "another worker serves", func() bool {
			w := s.status().Workers[0]
			return w.State == "serving" && w.PID != pid
		})
		load.AwaitMore(t, 200)
		now := s.counters()
		for _, name := range slices.Sorted(maps.Keys(seen)) {
			if now[name] < seen[name] {
				t.Errorf("kill %d: %s went from %v to %v", kill+1, name, seen[name], now[name])
			}
		}
		seen = now
	}
	tally := load.Stop()
	for _, failure := range tally.Failures {
		if strings.HasPrefix(failure, "connecting") {
			t.Errorf("a connection was refused: %s", failure)
		}
	}
	if n := len(tally.Failures); n > clients*kills || n == 0 {
		t.Errorf("%d requests failed; %d times %d were in a worker's hands at most: %q", n, kills, clients, tally.Failures)
	}
	w := s.status().Workers[0]
	if w.Restarts != kills || w.Requests < tally.Good {
		t.Errorf("%d restarts and %d requests are counted, of %d kills and %d requests", w.Restarts, w.Requests, kills, tally.Good)
	}
	testkit.Eventually(t, "the clients' connections are counted as gone", func() bool { return s.connections() == 0 })
}

// gate is a script that answers when the test says so.
func gate(answer <-chan struct{}) func(*testkit.Peer) {
	return func(p *testkit.Peer) {
		for {
			p.Request()
			<-answer
			p.Send(ok)
		}
	}
}

// SIGTERM: what is under way ends well, nothing new begins, all processes go.
func TestDrain(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	b := testkit.Serve(t, gate(answer))
	s := start(t, farm(b.URL()))
	busy, idle, beginning := s.dial(), s.dial(), s.dial()
	busy.Send(testkit.Request("GET", "/"))
	beginning.Send("GET / HTTP/1.1\r\n")
	testkit.Eventually(t, "all connections are there and the request has reached the server", func() bool {
		return len(b.Heard()) == 1 && s.connections() == 3
	})
	s.Signal(syscall.SIGTERM)
	idle.Ended()
	testkit.Eventually(t, "nobody can connect", func() bool { return !listens(s.web()) })
	beginning.Send("Host: a\r\n\r\n")
	testkit.Eventually(t, "the request that had begun has reached the server", func() bool { return len(b.Heard()) == 2 })
	if !s.Running() {
		t.Fatal("ended before the requests")
	}
	close(answer)
	for _, c := range []*testkit.Client{busy, beginning} {
		if m := c.Respond("GET"); m.Status() != 200 || m.Get("Connection") != "close" {
			t.Errorf("%s, Connection: %s", m.Start, m.Get("Connection"))
		}
		c.Ended()
	}
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.AwaitAllGone()
}

// Clients that ask without a pause lose nothing to a drain: each connection ends
// between two requests.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()))
	load := testkit.StartLoad(t, s.web(), testkit.Request("GET", "/"), 8)
	load.AwaitMore(t, 500)
	s.Signal(syscall.SIGTERM)
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.AwaitAllGone()
	for _, failure := range load.Stop().Failures {
		if !strings.HasPrefix(failure, "connecting") {
			t.Errorf("a request was lost: %s", failure)
		}
	}
}

// A drain ends when its time is over, whatever is still under way; a second
// SIGTERM, or SIGINT, does not wait so long.
func TestDrainThatIsCutShort(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drain   string
		signals []syscall.Signal
	}{
		"by the limit":        {"500ms", []syscall.Signal{syscall.SIGTERM}},
		"by a second SIGTERM": {"10m", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}},
		"by SIGINT":           {"10m", []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}},
		"SIGINT alone":        {"10m", []syscall.Signal{syscall.SIGINT}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testkit.Serve(t, silent)
			s := start(t, farm(b.URL()), "timeouts: {drain: "+c.drain+"}")
			client := s.dial()
			client.Send(testkit.Request("GET", "/"))
			testkit.Eventually(t, "the request has reached the server", func() bool { return len(b.Heard()) == 1 })
			for i, signal := range c.signals {
				s.Signal(signal)
				s.Stderr.AwaitTimes(t, "msg=signal", i+1)
			}
			client.Ended()
			if code := s.ExitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			s.AwaitAllGone()
			testkit.Eventually(t, "the server is free", func() bool { return b.Open() == 0 })
		})
	}
}

// The supervisor is killed: its workers end what they have and go, and another
// Sluice can take their place at once.
func TestKilledSupervisor(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	b := testkit.Serve(t, gate(answer))
	address := "127.0.0.1:" + testkit.FreePort(t)
	listener := fmt.Sprintf("listeners: [{name: web, address: %q}]", address)
	s := start(t, farm(b.URL()), listener)
	busy := s.dial()
	busy.Send(testkit.Request("GET", "/"))
	testkit.Eventually(t, "the request has reached the server", func() bool { return len(b.Heard()) == 1 })
	s.Signal(syscall.SIGKILL)
	testkit.Eventually(t, "the port is free", func() bool { return !listens(address) })

	next := testkit.Serve(t, named("next"))
	successor := start(t, farm(next.URL()), listener)
	c := successor.dial()
	c.Send(testkit.Request("GET", "/"))
	if m := c.Respond("GET"); string(m.Body) != "next" {
		t.Errorf("the next Sluice: %s %q", m.Start, m.Body)
	}
	close(answer)
	if m := busy.Respond("GET"); m.Status() != 200 {
		t.Errorf("the request of the one before: %s", m.Start)
	}
	s.AwaitAllGone()
}

// A port that somebody else has is told at the start, and nothing stays behind.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()))
	r := testkit.Run(t, binary, "run", "--listen", s.web(), "--to", b.URL(), "--admin", "off")
	if r.Code != 1 || !strings.Contains(r.Stderr, s.web()) || !strings.Contains(r.Stderr, "another process uses that port") {
		t.Errorf("exit code %d: %s", r.Code, r.Stderr)
	}
	curl(t, s.url("/"))
}

// Descriptors run out, as none are kept back: who is being served goes on, no server is blamed for it,
// and who waits is served once there is room.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	const limit, crowd, waiting = 200, 250, 20
	asked, answer := make(chan struct{}), make(chan struct{})
	b := testkit.Serve(t, func(p *testkit.Peer) {
		for {
			if m := p.Request(); m.Target() == "/hold" {
				asked <- struct{}{}
				<-answer
			}
			p.Send(ok)
		}
	})
	// One loop, so that a connection to the server is back before the next request.
	s := startLimited(t, limit, farm(b.URL()), "workers: {per: machine, loops: 1}", "overload: {latency: 0s, descriptors: 0}")
	first, second := s.dial(), s.dial()
	get := func(c *testkit.Client, status int) {
		t.Helper()
		c.Send(testkit.Request("GET", "/"))
		if m := c.Respond("GET"); m.Status() != status {
			t.Errorf("%s %s, want %d", m.Start, m.Body, status)
		}
	}
	get(first, 200)
	get(second, 200) // on the same connection to the server
	var silent, others []*testkit.Client
	for range crowd {
		silent = append(silent, s.dial()) // the kernel's queue has room for all
	}
	testkit.Eventually(t, "accept pauses", func() bool { return s.status().Workers[0].Accept_pauses > 0 })
	for range 10 {
		get(first, 200)
	}
	first.Send(testkit.Request("GET", "/hold"))
	<-asked
	get(second, 503) // there is no descriptor for another connection to the server
	answer <- struct{}{}
	first.Respond("GET")
	get(second, 200)

	for range waiting {
		others = append(others, s.dial())
	}
	for _, c := range silent {
		c.Close()
	}
	testkit.Eventually(t, "those who waited are accepted", func() bool { return s.connections() == waiting+2 })
	for _, c := range append(others, first, second) {
		get(c, 200)
	}
	if failures := s.status().Farms[0].Servers[0].Failures; failures > 0 {
		t.Errorf("the server is blamed for %d failures", failures)
	}
}
