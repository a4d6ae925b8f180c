package e2e

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"sluice/internal/testkit"
)

// A hundred reloads, by signal and by command, while two kinds of clients ask
// without a pause: no request fails, no connection ends.
func TestReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	const reloads, clients = 100, 8
	a, b := testkit.Serve(t, testkit.Answering(ok)), testkit.Serve(t, testkit.Answering(ok))
	configurations := [][]string{
		{farmOf([]string{a.URL(), b.URL()}), jsonLog},
		{farm(a.URL(), "retries: 2"), "limits: {head: 8KiB}", "forward: {forwarded: true}"},
		{farm(b.URL(), "connections: {idle: 4}"), "timeouts: {idle: 30s, header: 5s}", combinedLog},
	}
	s := start(t, configurations[0]...)
	load := testkit.StartLoad(t, s.web(), testkit.Request("GET", "/"), clients)
	wrk := testkit.Start(t, testkit.Command{Path: testkit.Tool(t, "wrk"), Args: []string{"-t", "1", "-c", "8", "-d", "300s", "--timeout", "60s", s.url("/")}})
	worker := s.workers()[0]
	files := func() int {
		supervisors, _ := testkit.OpenFiles(t, s.PID())
		workers, _ := testkit.OpenFiles(t, worker)
		return supervisors + workers
	}
	var before int // after each configuration has been in force once
	for i := range reloads {
		if i == len(configurations) {
			before = files()
		}
		load.AwaitMore(t, 10)
		s.configure(configurations[(i+1)%len(configurations)]...)
		if i%5 == 0 {
			s.reload()
		} else {
			s.Signal(syscall.SIGHUP)
			s.Stderr.AwaitTimes(t, "configuration reloaded", i+1)
		}
	}
	load.AwaitMore(t, 10)
	tally := load.Stop()
	wrk.Signal(syscall.SIGINT)
	wrk.AwaitAllGone()
	if len(tally.Failures) > 0 || tally.Connections != clients {
		t.Errorf("%d of %d requests failed, first: %q; %d connections of %d clients",
			len(tally.Failures), tally.Good, tally.Failures[:min(1, len(tally.Failures))], tally.Connections, clients)
	}
	if report := wrk.Stdout.String(); !strings.Contains(report, "requests in") || strings.Contains(report, "Socket errors") || strings.Contains(report, "Non-2xx") {
		t.Errorf("wrk saw errors:\n%s", report)
	}
	const slack = 20 // connections to servers, and to the admin interface, come and go
	if after := files(); after > before+slack {
		t.Errorf("%d open files in supervisor and worker, and %d after %d reloads", before, after, reloads)
	}
	st := s.status()
	if st.Generation != reloads+1 || st.Workers[0].Restarts != 0 {
		t.Errorf("generation %d after %d reloads, %d restarts", st.Generation, reloads, st.Workers[0].Restarts)
	}
}

// A request that is under way when the configuration changes ends as it began.
func TestReloadDuringARequest(t *testing.T) {
	t.Parallel()
	answer := make(chan struct{})
	old, next := testkit.Serve(t, func(p *testkit.Peer) {
		p.Request()
		<-answer
		p.Send(ok)
		p.AwaitEnd()
	}), testkit.Serve(t, named("next"))
	s := start(t, farm(old.URL()))
	waiting, kept := s.dial(), s.dial()
	waiting.Send(testkit.Request("GET", "/"))
	testkit.Eventually(t, "the request has reached the server", func() bool { return len(old.Heard()) == 1 })
	s.configure(farm(next.URL()))
	s.reload()
	kept.Send(testkit.Request("GET", "/"))
	if m := kept.Respond("GET"); string(m.Body) != "next" {
		t.Errorf("after the reload: %s %q", m.Start, m.Body)
	}
	close(answer)
	if m := waiting.Respond("GET"); string(m.Body) != "ok\n" {
		t.Errorf("the request that was under way: %s %q", m.Start, m.Body)
	}
	waiting.Send(testkit.Request("GET", "/"))
	if m := waiting.Respond("GET"); string(m.Body) != "next" {
		t.Errorf("the next on its connection: %s %q", m.Start, m.Body)
	}
	testkit.Eventually(t, "the server that is gone has no connection", func() bool { return old.Open() == 0 })
}

// What cannot be taken into force changes nothing, and says why.
func TestRefusedReload(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, named("old"))
	s := start(t, farm(b.URL()))
	c := s.dial()
	for name, sections := range map[string][]string{
		"an unknown key":  {farm(b.URL()), "timeout: {idle: 5s}"},
		"no YAML":         {"farms: ["},
		"a taken port":    {farm(b.URL()), fmt.Sprintf("listeners: [{name: web, address: \"127.0.0.1:0\"}, {name: b, address: %q}]", b.Address())},
		"another workers": {farm(b.URL()), "workers: {loops: 7}"},
		"no directory":    {farm(b.URL()), "log: {access: {path: /nowhere/at/all}}"},
	} {
		s.configure(sections...)
		r := s.command("reload")
		if r.Code != 1 || !strings.Contains(r.Stderr, "the old configuration stays in force") || strings.Count(r.Stderr, "\n") < 2 {
			t.Errorf("%s: exit code %d: %s", name, r.Code, r.Stderr)
		}
		c.Send(testkit.Request("GET", "/"))
		if m := c.Respond("GET"); string(m.Body) != "old" {
			t.Errorf("%s: then %s %q", name, m.Start, m.Body)
		}
	}
	if err := os.WriteFile(s.file, []byte("farms: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := strings.Count(s.Stderr.String(), "the old one stays in force")
	s.Signal(syscall.SIGHUP)
	s.Stderr.AwaitTimes(t, "the old one stays in force", before+1)
	if st := s.status(); st.Generation != 1 || !st.Ready {
		t.Errorf("generation %d, ready %t", st.Generation, st.Ready)
	}
	s.configure(farm(b.URL()))
	s.reload()
}

// Listeners come and go; a connection that came by one that is gone ends well.
func TestListenersComeAndGo(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	b := testkit.Serve(t, func(p *testkit.Peer) {
		for {
			if m := p.Request(); m.Target() == "/wait" {
				asked <- struct{}{}
				<-answer
			}
			p.Send(ok)
		}
	})
	second := "127.0.0.1:" + testkit.FreePort(t)
	both := fmt.Sprintf("listeners: [{name: web, address: \"127.0.0.1:0\"}, {name: second, address: %q}]", second)
	s := start(t, farm(b.URL()))
	load := testkit.StartLoad(t, s.web(), testkit.Request("GET", "/"), 2)
	for round := range 3 {
		s.configure(farm(b.URL()), both)
		s.reload()
		c := testkit.Dial(t, second)
		c.Send(testkit.Request("GET", "/wait"))
		<-asked
		s.configure(farm(b.URL()))
		s.reload()
		testkit.Eventually(t, "nobody listens there any more", func() bool { return !listens(second) })
		answer <- struct{}{}
		if m := c.Respond("GET"); m.Status() != 200 {
			t.Errorf("round %d: %s", round, m.Start)
		}
		c.Close()
	}
	if tally := load.Stop(); len(tally.Failures) > 0 || tally.Connections != 2 {
		t.Errorf("on the listener that stayed: %d connections, failures %q", tally.Connections, tally.Failures)
	}
}

// Many ask for a reload at once: all are answered, and fewer are made.
func TestBurstOfReloads(t *testing.T) {
	t.Parallel()
	const askers = 20
	old, next := testkit.Serve(t, named("old")), testkit.Serve(t, named("next"))
	s := start(t, farm(old.URL()))
	load := testkit.StartLoad(t, s.web(), testkit.Request("GET", "/"), 4)
	load.AwaitMore(t, 10)
	s.configure(farm(next.URL()))
	var all sync.WaitGroup
	for range askers {
		s.Signal(syscall.SIGHUP)
		all.Go(func() {
			answer, err := s.office().Post("http://admin/reload", "", nil)
			if err != nil {
				t.Error(err)
				return
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("the answer: %s", answer.Status)
			}
		})
	}
	all.Wait()
	c := s.dial()
	c.Send(testkit.Request("GET", "/"))
	if m := c.Respond("GET"); string(m.Body) != "next" {
		t.Errorf("then %s %q", m.Start, m.Body)
	}
	if tally := load.Stop(); len(tally.Failures) > 0 || tally.Connections != 4 {
		t.Errorf("%d connections of 4 clients, failures %q", tally.Connections, tally.Failures)
	}
	if n := s.status().Generation; n > 2*askers {
		t.Errorf("%d generations for %d wishes", n, 2*askers)
	}
}

// Reloads and deaths of workers at once: in the end one configuration is in force,
// and it is the last.
func TestReloadsAndKills(t *testing.T) {
	t.Parallel()
	const rounds = 5
	var servers []*testkit.Backend
	for i := range rounds + 1 {
		servers = append(servers, testkit.Serve(t, named(fmt.Sprint(i))))
	}
	s := start(t, farm(servers[0].URL()), oneWorker)
	for i := range rounds {
		pid := s.workers()[0]
		s.configure(farm(servers[i+1].URL()), oneWorker)
		syscall.Kill(pid, syscall.SIGKILL)
		s.Signal(syscall.SIGHUP)
		s.Stderr.AwaitTimes(t, "configuration reloaded", i+1)
		testkit.Eventually(t, "all is well again", func() bool {
			st := s.status()
			return st.Ready && st.Workers[0].PID != pid
		})
		c := s.dial()
		c.Send(testkit.Request("GET", "/"))
		if m := c.Respond("GET"); string(m.Body) != fmt.Sprint(i+1) {
			t.Errorf("round %d: %s %q", i+1, m.Start, m.Body)
		}
	}
}
