package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"sluice/internal/testkit"
)

// The pages that operators and their machines read.
func TestAdminPages(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()))
	c := s.dial()
	const requests = 7
	for range requests {
		c.Send(testkit.Request("GET", "/"))
		c.Respond("GET")
	}
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ready", "/config": "url: " + b.URL(), "/": "/metrics",
		"/status": fmt.Sprintf(`"requests": %d`, requests),
	} {
		if page := s.page(path); !strings.Contains(page, want) {
			t.Errorf("%s lacks %q:\n%s", path, want, page)
		}
	}
	for path, want := range map[string]int{"/nothing": 404, "/debug/pprof/": 404, "/reload": 405} {
		answer, err := s.office().Get("http://admin" + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("GET %s: %s, want %d", path, answer.Status, want)
		}
	}
	faults, err := promlint.New(strings.NewReader(s.page("/metrics"))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Errorf("metric %s: %s", fault.Metric, fault.Text)
	}
	m := s.metrics()
	sum := 0.0
	for name, value := range m {
		if strings.HasPrefix(name, "sluice_requests_total{") {
			sum += value
		}
	}
	if server := m[fmt.Sprintf(`sluice_server_requests_total{farm="app",server=%q}`, b.URL())]; sum != requests || server != requests {
		t.Errorf("%v requests and %v to the server are counted, of %d", sum, server, requests)
	}
}

// A reload moves the admin interface; the answer to the reload itself still comes.
func TestAdminMoves(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()))
	old := s.socket
	next := filepath.Join(s.dir, "moved")
	s.configure(farm(b.URL()), fmt.Sprintf("admin: {listen: %q}", "unix:"+next))
	s.reload()
	testkit.Eventually(t, "the old address is left", func() bool { return !answers("unix", old) })
	s.socket = next
	if page := s.page("/readyz"); page != "ready\n" {
		t.Errorf("readyz: %s", page)
	}
	s.configure(farm(b.URL()), "admin: {listen: \"off\"}")
	s.reload()
	testkit.Eventually(t, "it is off", func() bool { return !answers("unix", next) })
	s.configure(farm(b.URL()))
	s.Signal(syscall.SIGHUP)
	testkit.Eventually(t, "it is on again", func() bool { return answers("unix", next) })
	curl(t, s.url("/"))
}

// readyz says no while a worker is away.
func TestReadiness(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()))
	for range 3 { // the second one is not started again at once
		pid := s.workers()[0]
		syscall.Kill(pid, syscall.SIGKILL)
		testkit.Eventually(t, "the worker is gone", func() bool { return s.workers()[0] != pid })
		testkit.Eventually(t, "another one works", func() bool { return s.status().Ready })
	}
	no := false
	testkit.Eventually(t, "readyz has said no, then yes", func() bool {
		answer, err := s.office().Get("http://admin/readyz")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		yes := answer.StatusCode == http.StatusOK
		no = no || answer.StatusCode == http.StatusServiceUnavailable
		if pid := s.workers()[0]; !no && pid > 0 { // again: it may have come back between two looks
			syscall.Kill(pid, syscall.SIGKILL)
		}
		return no && yes
	})
}

// The commands, against a Sluice that runs and one that does not.
func TestCommands(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()))
	faulty := filepath.Join(s.dir, "faulty.yaml")
	if err := os.WriteFile(faulty, []byte("limts: {}\nfarms: {app: {servers: [{url: \"http://a\", weight: -1}]}}\nlisteners: [{address: 80}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := "unix:" + s.socket
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr []string
	}{
		{[]string{"check", s.file}, 0, []string{"is good: 1 listener, 1 farm, 1 route"}, nil},
		{[]string{"check", "--print", s.file}, 0, []string{"url: " + b.URL(), "first_byte: 30s", "keep_alive: 30s"}, nil},
		{[]string{"check", faulty}, 1, nil, []string{":1: limts: unknown key; did you mean \"limits\"?", ":2: farms.app.servers[0].weight", ":3: listeners[0].address"}},
		{[]string{"check", "/nowhere.yaml"}, 1, nil, []string{"/nowhere.yaml"}},
		{[]string{"run", "--config", faulty}, 1, nil, []string{"limts"}},
		{[]string{"run"}, 2, nil, []string{"--config"}},
		{[]string{"run", "--to", "ftp://a"}, 1, nil, []string{"--to"}},
		{[]string{"runn"}, 2, nil, []string{"did you mean run"}},
		{[]string{"status", "--admin", socket}, 0, []string{"ready", "serving", "web", "app", b.URL()}, nil},
		{[]string{"status", "--json", "--admin", socket}, 0, []string{`"workers"`}, nil},
		{[]string{"status", "--admin", "unix:/nowhere"}, 1, nil, []string{"nobody answers on unix:/nowhere"}},
		{[]string{"reload", "--admin", "unix:/nowhere"}, 1, nil, []string{"nobody answers on unix:/nowhere"}},
		{[]string{"reload", "--admin", socket}, 0, []string{"generation 2"}, nil},
		{nil, 0, []string{"sluice run --demo"}, nil},
		{[]string{"--help"}, 0, []string{"run", "check", "status", "reload", "version"}, nil},
	} {
		r := testkit.Run(t, binary, c.args...)
		if r.Code != c.code {
			t.Errorf("sluice %v: exit code %d, want %d: %s%s", c.args, r.Code, c.code, r.Stdout, r.Stderr)
		}
		for _, text := range c.stdout {
			if !strings.Contains(r.Stdout, text) {
				t.Errorf("sluice %v does not print %q:\n%s", c.args, text, r.Stdout)
			}
		}
		for _, text := range c.stderr {
			if !strings.Contains(r.Stderr, text) {
				t.Errorf("sluice %v does not complain with %q:\n%s", c.args, text, r.Stderr)
			}
		}
	}
}

var shown = regexp.MustCompile(`(site|admin) +http://([^/\s]+)`)

// startDemo returns when the demo has said where it is. It looks for free ports, and
// another demo may be as quick: then it is started again, as a user would.
func startDemo(t *testing.T) (p *testkit.Process) {
	t.Helper()
	testkit.Eventually(t, "the demo has found its ports", func() bool {
		p = testkit.Start(t, testkit.Command{Path: binary, Args: []string{"run", "--demo"}})
		testkit.Eventually(t, "the demo runs, or has ended", func() bool {
			return strings.Contains(p.Stdout.String(), "Ctrl-C") || !p.Running()
		})
		if !p.Running() && !strings.Contains(p.Stderr.String(), "another process uses that port") {
			t.Fatalf("the demo ended:\n%s", p.Stderr)
		}
		return p.Running()
	})
	return p
}

// One command, and there is a site; Ctrl-C, and nothing is left.
func TestDemo(t *testing.T) {
	t.Parallel()
	p := startDemo(t)
	addresses := map[string]string{}
	for _, m := range shown.FindAllStringSubmatch(p.Stdout.String(), -1) {
		addresses[m[1]] = m[2]
	}
	if page := curl(t, "http://"+addresses["site"]+"/"); !strings.Contains(page, "<html") {
		t.Errorf("the site: %s", page)
	}
	var who struct{ Placement struct{ Known bool } }
	if err := json.Unmarshal([]byte(curl(t, "http://"+addresses["site"]+"/whoami")), &who); err != nil || !who.Placement.Known {
		t.Errorf("the site does not know its way: %v", err)
	}
	if page := curl(t, "http://"+addresses["admin"]+"/readyz"); page != "ready\n" {
		t.Errorf("the admin: %s", page)
	}
	before := testkit.Group(p.PID())
	if len(before) < 4 { // supervisor, a worker, two apps
		t.Errorf("processes: %v", before)
	}
	p.SignalGroup(syscall.SIGINT) // as the terminal does
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.AwaitAllGone()
	testkit.Eventually(t, "no process of it lives on", func() bool { return len(testkit.Group(p.PID())) == 0 })
}

// A sidecar needs no file.
func TestRunByFlags(t *testing.T) {
	t.Parallel()
	a, b := testkit.Serve(t, named("a")), testkit.Serve(t, named("b"))
	socket := filepath.Join(shortDir(t), "admin")
	p := testkit.Start(t, testkit.Command{Path: binary, Args: []string{
		"run", "--listen", "127.0.0.1:0", "--to", a.URL(), "--to", b.URL(), "--admin", "unix:" + socket,
	}})
	p.Stderr.Await(t, "msg=ready")
	s := &sluice{Process: p, t: t, socket: socket}
	address := s.address("127.0.0.1:0")
	seen := map[string]bool{}
	for range 8 {
		seen[curl(t, "http://"+address+"/")] = true
	}
	if !seen["a"] || !seen["b"] || len(seen) != 2 {
		t.Errorf("answers: %v", seen)
	}
	p.Signal(syscall.SIGTERM)
	if code := p.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	p.AwaitAllGone()
	testkit.Eventually(t, "the log on standard output is whole", func() bool { return len(p.Stdout.Lines()) == 8 })
	for _, line := range p.Stdout.Lines() {
		if !json.Valid([]byte(line)) {
			t.Errorf("standard output: %s", line)
		}
	}
}
