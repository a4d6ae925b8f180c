package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/admin"
)

// asProgram in the environment makes the test binary be sluice, in whatever role
// its arguments say; its children inherit it.
const asProgram = "SLUICE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// program is a running sluice.
type program struct {
	cmd    *exec.Cmd
	stdout *bufio.Reader
	notify *net.UnixConn // what it tells its service manager (sd_notify(3))
	log    chan string   // its standard error, once it and all that it started have gone
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	address := filepath.Join(t.TempDir(), "notify")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	p := &program{cmd: exec.Command("/proc/self/exe", args...), notify: notify, log: make(chan string, 1)}
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "NOTIFY_SOCKET="+address, "STATE_DIRECTORY="+t.TempDir())
	p.cmd.Stderr = theirs // and that of every process it starts
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdout = bufio.NewReader(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	go func() {
		log, _ := io.ReadAll(ours)
		ours.Close()
		p.log <- string(log)
		notify.Close()
	}()
	t.Cleanup(func() { p.cmd.Process.Kill() }) // os.ErrProcessDone if the test went well
	return p
}

// awaitReady returns when the program tells its service manager that it serves.
func (p *program) awaitReady(t *testing.T) {
	t.Helper()
	buffer := make([]byte, 4096)
	for {
		n, err := p.notify.Read(buffer)
		if err != nil {
			t.Fatalf("ended before it was ready:\n%s", <-p.log)
		}
		if slices.Contains(strings.Split(string(buffer[:n]), "\n"), "READY=1") {
			return
		}
	}
}

// end sends a signal, and checks that the program and all that it started go, and
// that this is a good end.
func (p *program) end(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(p.stdout)
	log := <-p.log
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after %s: %v\n%s%s", signal, err, rest, log)
	}
}

// get is the body of a good answer.
func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%s: %d %s, %v", url, answer.StatusCode, body, err)
	}
	return string(body)
}

// The welcome comes once, when all is ready, and not after the end.
func TestAnnounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ready atomic.Bool
		var told atomic.Int32
		go announce(t.Context(), ready.Load, func() { told.Add(1) })
		<-time.After(time.Minute)
		synctest.Wait()
		if told.Load() != 0 {
			t.Error("told before it was ready")
		}
		ready.Store(true)
		<-time.After(time.Minute)
		synctest.Wait()
		if n := told.Load(); n != 1 {
			t.Errorf("told %d times", n)
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		announce(ctx, func() bool { return true }, func() { t.Error("told after the end") })
	})
}

// The whole thing, as a newcomer meets it: one command, a site, the admin pages,
// the other commands, and Ctrl-C that leaves nothing behind.
func TestDemo(t *testing.T) {
	p := start(t, "run", "--demo")
	var welcome strings.Builder
	for !strings.Contains(welcome.String(), "Ctrl-C") {
		line, err := p.stdout.ReadString('\n')
		welcome.WriteString(line)
		if err != nil {
			t.Fatalf("ended before it was ready:\n%s%s", &welcome, <-p.log)
		}
	}
	site := regexp.MustCompile(`site +(http://localhost:\d+)/`).FindStringSubmatch(welcome.String())
	office := regexp.MustCompile(`admin +http://(127\.0\.0\.1:\d+)/`).FindStringSubmatch(welcome.String())
	if site == nil || office == nil {
		t.Fatalf("the welcome names no site or no admin:\n%s", &welcome)
	}

	if page := get(t, site[1]+"/"); !strings.Contains(page, "Your request went through") || !strings.Contains(page, `"known":true`) {
		t.Errorf("the page does not know its way:\n%s", page)
	}
	apps := make(map[string]int)
	for range 20 {
		var who struct {
			App       struct{ Name string }
			Placement struct {
				Known        bool
				Farm, Server string
			}
		}
		if err := json.Unmarshal([]byte(get(t, site[1]+"/whoami")), &who); err != nil {
			t.Fatal(err)
		}
		if !who.Placement.Known || who.Placement.Farm != "demo" || !strings.HasPrefix(who.Placement.Server, "http://127.0.0.1:") {
			t.Errorf("the way of the request: %+v", who.Placement)
		}
		apps[who.App.Name]++
	}
	if len(apps) < 2 {
		t.Errorf("nothing is balanced: %v", apps)
	}

	if ready := get(t, "http://"+office[1]+"/readyz"); ready != "ready\n" {
		t.Errorf("readyz: %s", ready)
	}
	if metrics := get(t, "http://"+office[1]+"/metrics"); !strings.Contains(metrics, `code="2xx",node="0",worker="0"}`) {
		t.Errorf("no responses in the metrics:\n%s", metrics)
	}
	code, status, stderr := command(t.Context(), "status", "--admin", office[1])
	if code != 0 || !strings.Contains(status, "serving") || !strings.Contains(status, "demo  http://127.0.0.1:") {
		t.Errorf("status: exit code %d: %s%s", code, status, stderr)
	}
	if code, _, stderr := command(t.Context(), "reload", "--admin", office[1]); code != 0 {
		t.Errorf("reload: exit code %d: %s", code, stderr)
	}
	get(t, site[1]+"/whoami")
	leaveAndCount(t, site[1], office[1])
	p.end(t, os.Interrupt)
}

// leaveAndCount makes clients come, ask and go, and then looks for gauges that
// did not come back to 0.
func leaveAndCount(t *testing.T, site, office string) {
	t.Helper()
	for range 5 {
		client := &http.Client{Transport: &http.Transport{}}
		for range 3 {
			answer, err := client.Get(site + "/bytes?n=100")
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		client.CloseIdleConnections()
	}
	for {
		w := &watcher{address: office}
		s, err := w.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var now admin.Traffic // the sum of all
		for _, worker := range s.Workers {
			now.Connections += worker.Connections
			now.Active += worker.Active
			now.Idle += worker.Idle
		}
		if now.Connections == 0 { // the kernel has told Sluice that all have gone
			if now.Active != 0 || now.Idle != 0 {
				t.Errorf("without a client there are %d active requests and %d idle connections", now.Active, now.Idle)
			}
			break
		}
	}
}

// A file is read again by reload, and a faulty one changes nothing.
func TestRunWithAFile(t *testing.T) {
	backend := pretend(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	text := func(listen string) string {
		return fmt.Sprintf("admin: {listen: %q}\nlog: {access: {path: off}}\nlisteners: [{address: %q}]\n"+
			"farms: {app: {servers: [{url: %q}]}}\n", "unix:"+t.TempDir()+"/admin.sock", listen, "http://"+backend)
	}
	first, second := closedPort(t), closedPort(t)
	config := text(first)
	path := file(t, config)
	p := start(t, "run", "--config", path)
	admin := regexp.MustCompile(`unix:[^"]*`).FindString(config)
	p.awaitReady(t)
	if body := get(t, "http://"+first+"/one"); body != "/one" {
		t.Errorf("the backend's answer: %s", body)
	}

	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(config, "farms:", "farmz:", 1))
	if code, _, stderr := command(t.Context(), "reload", "--admin", admin); code != 1 || !strings.Contains(stderr, path+":4: farmz") {
		t.Errorf("a faulty file: exit code %d: %s", code, stderr)
	}
	get(t, "http://"+first+"/still")

	write(strings.Replace(config, first, second, 1))
	if code, stdout, stderr := command(t.Context(), "reload", "--admin", admin); code != 0 {
		t.Errorf("a good file: exit code %d: %s%s", code, stdout, stderr)
	}
	get(t, "http://"+second+"/moved")
	p.end(t, syscall.SIGTERM)
}
