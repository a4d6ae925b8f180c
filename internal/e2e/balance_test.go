package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// named is a script that answers with a name.
func named(name string) func(*testkit.Peer) {
	return testkit.Answering(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(name), name))
}

// oneLoop has one order of turns, so that shares are exact.
const oneLoop = "workers: {per: machine, loops: 1}"

// ask sends n requests and counts who answered.
func ask(t *testing.T, s *sluice, n int) map[string]int {
	t.Helper()
	answers := map[string]int{}
	c := s.dial()
	for range n {
		c.Send(testkit.Request("GET", "/"))
		m := c.Respond("GET")
		answers[fmt.Sprint(m.Status(), " ", string(m.Body))]++
	}
	return answers
}

func TestWeights(t *testing.T) {
	t.Parallel()
	a, b, c := testkit.Serve(t, named("a")), testkit.Serve(t, named("b")), testkit.Serve(t, named("c"))
	s := start(t, oneLoop, fmt.Sprintf("farms: {app: {servers: [{url: %q, weight: 30}, {url: %q, weight: 10}, {url: %q, weight: 0}]}}", a.URL(), b.URL(), c.URL()))
	if got := ask(t, s, 40); got["200 a"] != 30 || got["200 b"] != 10 || len(got) != 2 {
		t.Errorf("answers: %v", got)
	}
}

// A server that is down is skipped, and costs no request; once it is back it gets
// its share again.
func TestServerThatIsDown(t *testing.T) {
	t.Parallel()
	up := testkit.Serve(t, named("up"))
	port := testkit.FreePort(t)
	down := "http://127.0.0.1:" + port
	s := start(t, oneLoop, farmOf([]string{down, up.URL()}, "fail_for: 1s"))
	if got := ask(t, s, 50); got["200 up"] != 50 {
		t.Errorf("with one server down: %v", got)
	}
	for _, server := range s.status().Farms[0].Servers {
		if server.URL == up.URL() && server.Requests != 50 {
			t.Errorf("the server that is up was sent %d requests", server.Requests)
		}
	}
	if n := s.metrics()[fmt.Sprintf("sluice_server_connect_failures_total{farm=\"app\",server=%q}", down)]; n == 0 || n > 10 {
		t.Errorf("%v tries to connect to the server that is down, while it is to be skipped", n)
	}
	testkit.Listen(t, "tcp", "127.0.0.1:"+port, named("back"))
	testkit.Eventually(t, "the server gets requests again", func() bool { return ask(t, s, 2)["200 back"] > 0 })
}

// A server that closes without an answer: another is asked, if asking twice is
// allowed.
func TestServerThatClosesEachTime(t *testing.T) {
	t.Parallel()
	bad, good := testkit.Serve(t, func(p *testkit.Peer) { p.Request() }), testkit.Serve(t, named("good"))
	s := start(t, oneLoop, farmOf([]string{bad.URL(), good.URL()}, "fail_for: 0s"))
	if got := ask(t, s, 10); got["200 good"] != 10 {
		t.Errorf("GET: %v", got)
	}
	statuses := map[int]int{}
	c := s.dial()
	for range 10 {
		c.Send(testkit.Request("POST", "/", "Content-Length: 1"), "a")
		statuses[c.Respond("POST").Status()]++
	}
	if statuses[200] == 0 || statuses[502] == 0 || len(statuses) != 2 {
		t.Errorf("POST: %v", statuses)
	}
}

// Nobody there: the client reads so, in its own language, and the log says more.
func TestAllServersAreDown(t *testing.T) {
	t.Parallel()
	s := start(t, farmOf([]string{"http://127.0.0.1:" + testkit.FreePort(t), "http+unix:///nowhere/at/all"}), jsonLog)
	client := s.dial()
	for i, c := range []struct{ accept, contentType string }{
		{"text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8"},
		{"application/json", "application/json"},
		{"*/*", "text/html; charset=utf-8"},
	} {
		client.Send(testkit.Request("GET", "/", "Accept: "+c.accept))
		m := client.Respond("GET")
		if m.Status() != 502 || m.Get("Content-Type") != c.contentType || m.Get("Connection") != "" || m.Get("Cache-Control") != "no-store" {
			t.Errorf("Accept: %s: %s %q", c.accept, m.Start, m.Fields)
		}
		last := s.logged(i + 1)[i]
		if last.RequestID == "" || !strings.Contains(string(m.Body), last.RequestID) {
			t.Errorf("Accept: %s: the page does not hold the request's id %q: %s", c.accept, last.RequestID, m.Body)
		}
		if last.FailedBy != "server" || last.Phase != "connect" || last.Reason != "connect_failed" || last.Retries != 1 {
			t.Errorf("the log says %+v", last)
		}
		if c.contentType == "application/json" {
			var page struct {
				Status    int
				Error     string
				RequestID string `json:"request_id"`
			}
			if err := json.Unmarshal(m.Body, &page); err != nil || page.Status != 502 || page.Error == "" || page.RequestID != last.RequestID {
				t.Errorf("the page: %s: %v", m.Body, err)
			}
		}
	}
}

// What the routes do not cover is not found; hosts and paths part the farms.
func TestRoutes(t *testing.T) {
	t.Parallel()
	a, b := testkit.Serve(t, named("a")), testkit.Serve(t, named("b"))
	s := start(t, fmt.Sprintf("farms:\n  a: {servers: [{url: %q}]}\n  b: {servers: [{url: %q}]}\n", a.URL(), b.URL()),
		"routes:\n  - {host: one.example, path: /api, farm: b}\n  - {host: one.example, farm: a}\n  - {host: \"*.two.example\", farm: b}\n")
	for _, c := range []struct{ host, target, want string }{
		{"one.example", "/", "200 a"},
		{"ONE.example.:80", "/x", "200 a"},
		{"one.example", "/api", "200 b"},
		{"one.example", "/api/x?y", "200 b"},
		{"one.example", "/apis", "200 a"},
		{"x.two.example", "/", "200 b"},
		{"two.example", "/", "404"},
		{"three.example", "/", "404"},
	} {
		client := s.dial()
		client.Send("GET " + c.target + " HTTP/1.1\r\nHost: " + c.host + "\r\n\r\n")
		if m := client.Respond("GET"); !strings.HasPrefix(fmt.Sprint(m.Status(), " ", string(m.Body)), c.want) {
			t.Errorf("%s%s: %s %q, want %s", c.host, c.target, m.Start, m.Body, c.want)
		}
	}
}
