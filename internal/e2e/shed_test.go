package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// shed is how many connections were turned away for a cause.
func (s *sluice) shed(cause string) float64 {
	s.t.Helper()
	sum := 0.0
	for name, value := range s.metrics() {
		if strings.HasPrefix(name, "sluice_shed_connections_total{") && strings.Contains(name, fmt.Sprintf("cause=%q", cause)) {
			sum += value
		}
	}
	return sum
}

// turnedAway checks that a new client is, in good order.
func (s *sluice) turnedAway() {
	s.t.Helper()
	c := s.dial()
	c.Send(testkit.Request("GET", "/"))
	m := c.Respond("GET")
	if m.Status() != 503 || m.Get("Retry-After") != "1" || m.Get("Connection") != "close" {
		s.t.Errorf("a new client gets %s %q", m.Start, m.Fields)
	}
	c.Ended()
}

// Clients take all descriptors that are for clients. Who came before is served on,
// with connections to the server that are opened now; who comes after is told so;
// and when the crowd has gone all is as it was.
func TestDescriptorsAreKeptForServers(t *testing.T) {
	t.Parallel()
	const limit, crowd, early = 200, 250, 8
	answer := make(chan struct{})
	b := testkit.Serve(t, func(p *testkit.Peer) {
		for {
			if m := p.Request(); m.Target() == "/hold" {
				<-answer
			}
			p.Send(ok)
		}
	})
	s := startLimited(t, limit, farm(b.URL()), "workers: {per: machine, loops: 1}")
	var regulars, silent []*testkit.Client
	get := func(c *testkit.Client) {
		t.Helper()
		c.Send(testkit.Request("GET", "/"))
		if m := c.Respond("GET"); m.Status() != 200 {
			t.Errorf("%s %s", m.Start, m.Body)
		}
	}
	for range early {
		regulars = append(regulars, s.dial())
		get(regulars[len(regulars)-1]) // all on the same connection to the server
	}
	for range crowd {
		silent = append(silent, s.dial())
	}
	testkit.Eventually(t, "all are accepted", func() bool { return s.status().Workers[0].Accepted == crowd+early })
	turnedAway := crowd + early - s.connections()
	if most := limit * 9 / 10; s.connections() > most || s.connections() < most/2 {
		t.Errorf("%d clients have a descriptor; wanted nearly %d", s.connections(), most)
	}
	for _, c := range regulars { // some of the crowd wait for their refusal still
		c.Send(testkit.Request("GET", "/hold"))
	}
	testkit.Eventually(t, "each request has a connection to the server", func() bool { return b.Open() == early })
	for _, c := range silent[crowd-turnedAway:] {
		if text, err := c.Rest(); err != nil || !strings.HasPrefix(text, "HTTP/1.1 503 ") {
			t.Errorf("a silent client of the crowd reads %q, %v", text, err)
		}
	}
	s.turnedAway()
	close(answer)
	for _, c := range regulars {
		if m := c.Respond("GET"); m.Status() != 200 {
			t.Errorf("%s %s", m.Start, m.Body)
		}
	}
	if n := s.shed("descriptors"); n != float64(turnedAway+1) {
		t.Errorf("%v connections are counted as turned away, want %d", n, turnedAway+1)
	}
	s.Stderr.Await(t, "new connections are refused\" worker=0 cause=descriptors")

	for _, c := range silent {
		c.Close()
	}
	testkit.Eventually(t, "the crowd has gone", func() bool { return s.connections() == early })
	get(s.dial())
	w := s.status()
	if n := w.Workers[0].Accept_pauses; n > 0 {
		t.Errorf("accept has paused %d times", n)
	}
	if n, refused := w.Farms[0].Servers[0].Failures, w.Workers[0].Refused; n > 0 || len(refused) > 0 {
		t.Errorf("the server is blamed for %d failures; requests refused: %v", n, refused)
	}
}

// A worker without memory to spare turns new connections away, and those that it
// has are served on. GOMEMLIMIT is the operator's; without it the supervisor sets
// it.
func TestMemoryIsShort(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "100MiB") // of which every worker needs more than 1 %
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()))
	regular := s.dial()
	for _, step := range []struct{ memory, status string }{{"95", "200"}, {"1", "503"}, {"0", "200"}} {
		s.configure(farm(b.URL()), "overload: {latency: 0s, memory: "+step.memory+"}")
		s.reload()
		status := curl(t, "--output", os.DevNull, "--write-out", "%{http_code}", s.url("/"))
		if status != step.status {
			t.Errorf("memory: %s: a new client gets %s, want %s", step.memory, status, step.status)
		}
		regular.Send(testkit.Request("GET", "/"))
		if m := regular.Respond("GET"); m.Status() != 200 {
			t.Errorf("memory: %s: a client that was there before gets %s", step.memory, m.Start)
		}
	}
	if n := s.shed("memory"); n != 1 {
		t.Errorf("%v connections are counted as turned away", n)
	}
}
