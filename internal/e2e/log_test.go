package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/testkit"
)

// The section of an access log in the directory of the running Sluice.
const (
	jsonLog     = "log: {access: {path: ./access.log, format: json, flush: 10ms}}"
	combinedLog = "log: {access: {path: ./access.log, format: combined, flush: 10ms}}"
)

// entry is a line of the access log in JSON.
type entry struct {
	Time, Client, Peer, Method, Scheme, Host, Target, Protocol string
	Status                                                     int
	BytesIn                                                    int    `json:"bytes_in"`
	BytesOut                                                   int    `json:"bytes_out"`
	RequestID                                                  string `json:"request_id"`
	UserAgent                                                  string `json:"user_agent"`
	Referer, Listener, Farm, Server                            string
	HeadTime                                                   float64 `json:"head_time"`
	ConnectTime                                                float64 `json:"connect_time"`
	FirstByteTime                                              float64 `json:"first_byte_time"`
	TotalTime                                                  float64 `json:"total_time"`
	Retries                                                    int
	Reused                                                     bool
	FailedBy                                                   string `json:"failed_by"`
	Phase, Reason, Error                                       string
}

func (s *sluice) logFile() string { return filepath.Join(s.dir, "access.log") }

// logLines waits until the access log has n lines.
func (s *sluice) logLines(n int) (lines []string) {
	s.t.Helper()
	testkit.Eventually(s.t, fmt.Sprintf("the access log has %d lines", n), func() bool {
		text, err := os.ReadFile(s.logFile())
		lines = strings.SplitAfter(string(text), "\n")
		lines = lines[:len(lines)-1]
		return err == nil && len(lines) >= n
	})
	if len(lines) != n {
		s.t.Fatalf("the access log has %d lines, not %d:\n%s", len(lines), n, strings.Join(lines, ""))
	}
	return lines
}

// logged waits until the access log, in JSON, has n lines.
func (s *sluice) logged(n int) []entry {
	s.t.Helper()
	entries := make([]entry, n)
	for i, line := range s.logLines(n) {
		if err := json.Unmarshal([]byte(line), &entries[i]); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
	}
	return entries
}

// A line for each request, with what an operator needs to know.
func TestJSONLog(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()), jsonLog, "trust: [127.0.0.1]")
	c := s.dial()
	c.Send(testkit.Request("POST", "/p?q=1", "Content-Length: 4", "User-Agent: \"odd\\one\"\xff", "Referer: http://r/", "X-Request-Id: id-1", "X-Forwarded-For: 203.0.113.7"), "four")
	c.Respond("POST")
	c.Send("BAD\r\n\r\n")
	c.Respond("GET")
	lines := s.logged(2)
	good, bad := lines[0], lines[1]
	if good.Client != "203.0.113.7" || good.Peer != c.LocalAddr() || good.Method != "POST" || good.Target != "/p?q=1" || good.Host != "test" ||
		good.Protocol != "HTTP/1.1" || good.Status != 200 || good.BytesIn != 4 || good.BytesOut != 3 || good.RequestID != "id-1" || good.Referer != "http://r/" ||
		!strings.HasPrefix(good.UserAgent, `"odd\one"`) || good.Listener != "web" || good.Farm != "app" || good.Server != b.URL() || good.FailedBy != "" {
		t.Errorf("the good request: %+v", good)
	}
	const rounding = 2e-6 // seconds
	if good.TotalTime <= 0 || good.FirstByteTime <= 0 || good.ConnectTime <= 0 || good.TotalTime < good.FirstByteTime+good.ConnectTime-rounding || good.Reused {
		t.Errorf("its times: %+v", good)
	}
	if bad.Status != 400 || bad.FailedBy != "client" || bad.Phase != "request_head" || bad.Reason != "bad_request" || bad.Server != "" {
		t.Errorf("the bad request: %+v", bad)
	}
}

var combinedLine = regexp.MustCompile(`^127\.0\.0\.1 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "GET /x HTTP/1\.1" 200 3 "-" "curl/[^"]*"\n$`)

func TestCombinedLog(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()), combinedLog)
	curl(t, s.url("/x"))
	if line := s.logLines(1)[0]; !combinedLine.MatchString(line) {
		t.Errorf("the log says %q", line)
	}
}

// The usual way to rotate a log: rename it, send SIGUSR1, read the old one. No line
// is lost, and none is torn.
func TestLogRotation(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()), jsonLog)
	load := testkit.StartLoad(t, s.web(), testkit.Request("GET", "/"), 4)
	const rotations = 5
	for i := range rotations {
		load.AwaitMore(t, 20)
		if err := os.Rename(s.logFile(), fmt.Sprint(s.logFile(), i)); err != nil {
			t.Fatal(err)
		}
		s.Signal(syscall.SIGUSR1)
		testkit.Eventually(t, "there is a new log", func() bool {
			_, err := os.Stat(s.logFile())
			return err == nil
		})
	}
	tally := load.Stop()
	s.Signal(syscall.SIGTERM)
	s.AwaitAllGone()
	lines := 0
	files, _ := filepath.Glob(s.logFile() + "*")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var e entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %q: %v", file, line, err)
			}
			lines++
		}
	}
	if len(files) != rotations+1 || lines != tally.Good {
		t.Errorf("%d files with %d lines for %d requests", len(files), lines, tally.Good)
	}
}

// A disk that takes nothing slows no request, and does not hold up the end: lines
// are dropped and counted.
func TestLogOnAStuckDisk(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()), oneWorker)
	// A pipe that nobody reads takes 64 KiB, then nothing (pipe(7)).
	if err := unix.Mkfifo(s.logFile(), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(s.logFile(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	s.configure(farm(b.URL()), oneWorker, "log: {access: {path: ./access.log, buffer: 4KiB}}")
	s.reload()
	load := testkit.StartLoad(t, s.web(), testkit.Request("GET", "/"), 4)
	testkit.Eventually(t, "lines are dropped", func() bool { return s.status().Workers[0].Log_dropped > 0 })
	load.AwaitMore(t, 1000)
	if tally := load.Stop(); len(tally.Failures) > 0 {
		t.Errorf("requests failed: %q", tally.Failures)
	}
	s.Signal(syscall.SIGTERM)
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.AwaitAllGone()
}

// Whoever read our standard output is gone: that is no reason to serve nobody.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	p := testkit.Start(t, testkit.Command{Path: "/bin/sh", Args: []string{
		"-c", `"$0" run --listen 127.0.0.1:0 --to "$1" --admin off | head -n 1`, binary, b.URL(),
	}})
	p.Stderr.Await(t, "msg=ready")
	s := &sluice{Process: p, t: t}
	address := s.address("127.0.0.1:0")
	curl(t, "http://"+address+"/")
	p.Stdout.Await(t, `"status":200`)
	load := testkit.StartLoad(t, address, testkit.Request("GET", "/"), 4)
	load.AwaitMore(t, 2000)
	if tally := load.Stop(); len(tally.Failures) > 0 {
		t.Errorf("requests failed: %q", tally.Failures)
	}
}
