package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// sluice is a running Sluice: supervisor and workers.
type sluice struct {
	*testkit.Process
	t      testing.TB
	dir    string // holds what belongs to it
	file   string // the configuration
	socket string // of the admin interface
}

// shortDir makes a directory whose path leaves room for the name of a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// start runs Sluice with a configuration and returns when it serves. The
// configuration is in sections, each with its key at the start of the line; what
// they leave out is filled in: a listener called web on a free port, an admin
// interface, no access log.
func start(t testing.TB, sections ...string) *sluice {
	t.Helper()
	return startLimited(t, 0, sections...)
}

// startLimited is start with a limit of open files for each process.
func startLimited(t testing.TB, files int, sections ...string) *sluice {
	t.Helper()
	dir := shortDir(t)
	s := &sluice{t: t, dir: dir, file: filepath.Join(dir, "sluice.yaml"), socket: filepath.Join(dir, "admin")}
	s.configure(sections...)
	t.Cleanup(func() { // after the processes have ended
		if s.Process != nil {
			s.sound()
		}
	})
	s.Process = testkit.Start(t, testkit.Command{
		Path: binary, Args: []string{"run", "--config", s.file}, MostFiles: files, Dir: dir,
		Env: []string{"STATE_DIRECTORY=" + dir}, // what another run has learned is none of this one's
	})
	s.Stderr.Await(t, "msg=ready")
	return s
}

// sound checks that Sluice met no fault of its own making.
func (s *sluice) sound() {
	for _, sign := range []string{"ended by a panic", "panic:", "DATA RACE", "fatal error:"} {
		if strings.Contains(s.Stderr.String(), sign) {
			s.t.Errorf("Sluice's log says %q:\n%s", sign, s.Stderr)
		}
	}
}

// configure writes the configuration's file. Loops that run late say nothing of
// Sluice while many tests share the machine: no connection is refused for it.
func (s *sluice) configure(sections ...string) {
	s.t.Helper()
	text := strings.Join(sections, "\n") + "\n"
	for key, section := range map[string]string{
		"admin:":     fmt.Sprintf("admin: {listen: %q}\n", "unix:"+s.socket),
		"listeners:": "listeners: [{name: web, address: \"127.0.0.1:0\"}]\n",
		"log:":       "log: {access: {path: off}}\n",
		"overload:":  "overload: {latency: 0s}\n",
	} {
		if !strings.HasPrefix(text, key) && !strings.Contains(text, "\n"+key) {
			text += section
		}
	}
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// farm is the section of one farm with one server, and further keys of the farm.
func farm(url string, keys ...string) string {
	return farmOf([]string{url}, keys...)
}

// farmOf is the section of one farm with several servers.
func farmOf(urls []string, keys ...string) string {
	text := "farms:\n  app:\n    servers:\n"
	for _, url := range urls {
		text += fmt.Sprintf("      - {url: %q}\n", url)
	}
	for _, key := range keys {
		text += "    " + key + "\n"
	}
	return text
}

var listening = regexp.MustCompile(`msg=listening listener=(\S+) address=(\S+)`)

// address is where a listener that was there at the start listens.
func (s *sluice) address(listener string) string {
	s.t.Helper()
	for _, m := range listening.FindAllStringSubmatch(s.Stderr.String(), -1) {
		if m[1] == listener {
			return m[2]
		}
	}
	s.t.Fatalf("no listener %q in\n%s", listener, s.Stderr)
	return ""
}

// web is the address of the listener web.
func (s *sluice) web() string { return s.address("web") }

// url is a URL on the listener web.
func (s *sluice) url(path string) string { return "http://" + s.web() + path }

// dial opens a connection to the listener web.
func (s *sluice) dial() *testkit.Client {
	s.t.Helper()
	return testkit.Dial(s.t, s.web())
}

// listens reports whether anybody takes connections at an address.
func listens(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// office is a client of the admin interface.
func (s *sluice) office() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.socket)
		},
	}}
}

// page gets a page of the admin interface.
func (s *sluice) page(path string) string {
	s.t.Helper()
	answer, err := s.office().Get("http://admin" + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s, %v: %s", path, answer.Status, err, body)
	}
	return string(body)
}

// status is what the tests read of /status.
type status struct {
	Ready      bool
	Generation int
	Workers    []struct {
		PID, Restarts, Loops      int
		Node                      int
		State                     string
		Connections, Idle, Active int
		Accepted, Requests        int
		Accept_pauses             int
		Panics, Log_dropped       int
		Refused                   map[string]int
	}
	Farms []struct {
		Servers []struct {
			URL                                   string
			Requests, Failures, Retries, Connects int
			Open, Idle, In_flight                 int
		}
	}
}

func (s *sluice) status() (st status) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.page("/status")), &st); err != nil {
		s.t.Fatal(err)
	}
	return st
}

// workers are the process ids of the workers.
func (s *sluice) workers() []int {
	s.t.Helper()
	var pids []int
	for _, w := range s.status().Workers {
		pids = append(pids, w.PID)
	}
	return pids
}

// connections is how many client connections are open.
func (s *sluice) connections() (n int) {
	s.t.Helper()
	for _, w := range s.status().Workers {
		n += w.Connections
	}
	return n
}

// command runs a command of Sluice against this one.
func (s *sluice) command(args ...string) testkit.Result {
	s.t.Helper()
	return testkit.Run(s.t, binary, append(args, "--admin", "unix:"+s.socket)...)
}

// reload reads the configuration anew, which must succeed.
func (s *sluice) reload() {
	s.t.Helper()
	if r := s.command("reload"); r.Code != 0 {
		s.t.Fatalf("reload: exit code %d: %s", r.Code, r.Stderr)
	}
}

// sample is a line of the text format of Prometheus: name, labels, value.
var sample = regexp.MustCompile(`(?m)^([a-z0-9_]+(?:\{[^}]*\})?) (\S+)$`)

// metrics are the samples of /metrics by name and labels.
func (s *sluice) metrics() map[string]float64 {
	s.t.Helper()
	values := map[string]float64{}
	for _, m := range sample.FindAllStringSubmatch(s.page("/metrics"), -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			s.t.Fatalf("metric %s: %v", m[0], err)
		}
		values[m[1]] = v
	}
	return values
}

// curl runs curl, which must succeed, and returns what it prints.
func curl(t testing.TB, args ...string) string {
	t.Helper()
	r := testkit.Run(t, testkit.Tool(t, "curl"), append([]string{"--silent", "--show-error", "--max-time", "60"}, args...)...)
	if r.Code != 0 {
		t.Fatalf("curl %v: exit code %d: %s", args, r.Code, r.Stderr)
	}
	return r.Stdout
}
