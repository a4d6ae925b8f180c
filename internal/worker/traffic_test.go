package worker

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/spec"
)

// house is a worker's traffic half with two loops, each of which has a listening
// socket of its own at an address of its own, so that a test chooses the loop.
type house struct {
	bell    int // that the worker answers
	t       *testing.T
	shared  *segment.Segment
	traffic *traffic
	cfg     *config.Config
	sockets [][]int // by listener, by loop
	keys    *spec.Keys
	at      []string // addresses of the first listener, by loop
}

const loops = 2

// newHouse starts traffic to these servers.
func newHouse(t *testing.T, change func(*config.Config), servers ...string) *house {
	t.Helper()
	shared, err := segment.Create(segment.Shape{Workers: 1, Loops: loops, Servers: 8})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, shared: shared, traffic: NewTraffic(shared, 0).(*traffic), cfg: config.Default()}
	if h.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.traffic.Close(); shared.Close(); unix.Close(h.bell) })
	shared.Worker(0).Loops.Store(loops) // as the supervisor does
	h.cfg.Log.Access.Path = "off"
	h.cfg.Forward.Placement = true
	h.cfg.Farms = config.Farms{config.NewFarm("app", servers...)}
	h.cfg.Routes = []config.Route{{Farm: "app"}}
	if change != nil {
		change(h.cfg)
	}
	h.at = h.open()
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	return h
}

// open adds a listener: a socket for each loop.
func (h *house) open() (addresses []string) {
	h.t.Helper()
	var fds []int
	for range loops {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			h.t.Fatal(err)
		}
		defer ln.Close()
		file, err := ln.(*net.TCPListener).File()
		if err != nil {
			h.t.Fatal(err)
		}
		defer file.Close()
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			h.t.Fatal(err)
		}
		fds = append(fds, fd)
		addresses = append(addresses, ln.Addr().String())
	}
	h.sockets = append(h.sockets, fds)
	return addresses
}

// apply gives the traffic its configuration anew, as a reload does.
func (h *house) apply() error {
	s := &spec.Spec{Loops: loops, Config: h.cfg, Keys: h.keys, Bells: []int{h.bell}}
	for i, fds := range h.sockets {
		s.Listeners = append(s.Listeners, spec.Listener{Name: fmt.Sprintf("listener %d", i), Sockets: fds})
	}
	for _, f := range h.cfg.Farms {
		for _, srv := range f.Servers {
			slot, err := h.shared.Assign(f.Name, srv.URL)
			if err != nil {
				return err
			}
			s.Servers = append(s.Servers, spec.ServerSlot{Farm: f.Name, URL: srv.URL, Slot: slot})
		}
	}
	return h.traffic.Apply(s)
}

// tells is a server that answers with its name and the placement that it was
// told.
func tells(t *testing.T, name string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, name, " ", r.Header.Get("X-Sluice-Placement"))
	}))
	t.Cleanup(s.Close)
	return s
}

// get asks over a connection of its own.
func get(t *testing.T, address string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	r, err := client.Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mustHave(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want %q in it", text, part)
		}
	}
}

// TestLanes: each loop serves its own socket; a connection that one has opened
// serves the other too.
func TestLanes(t *testing.T) {
	h := newHouse(t, nil, tells(t, "a").URL)
	mustHave(t, get(t, h.at[0]), "a ", "loop=0", "connection=new")
	h.traffic.Probe()
	mustHave(t, get(t, h.at[0]), "loop=0", "connection=reused")
	h.traffic.Probe() // the connection is back
	mustHave(t, get(t, h.at[1]), "loop=1", "connection=taken")
	total := h.shared.Totals(0)
	if n := total.Requests.Load(); n != 3 {
		t.Errorf("%d requests are counted", n)
	}
	if n := total.Takeovers.Load(); n != 1 {
		t.Errorf("%d connections are counted as taken over", n)
	}
	h.traffic.Probe()
	if got := h.shared.Loop(0, 1); got.Turns.Load() == 0 || got.BusyNanos.Load() == 0 {
		t.Errorf("loop 1: %d turns, %d ns busy", got.Turns.Load(), got.BusyNanos.Load())
	}
}

// TestReloads: servers and listeners come and go, and nobody who is connected
// notices.
func TestReloads(t *testing.T) {
	a, b := tells(t, "a"), tells(t, "b")
	h := newHouse(t, nil, a.URL)
	conn, err := net.Dial("tcp", h.at[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	mustHave(t, ask(t, conn), "a ", "connection=new")

	h.cfg.Farms = config.Farms{config.NewFarm("app", b.URL)}
	second := h.open()
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	mustHave(t, ask(t, conn), "b ", "connection=new")
	mustHave(t, get(t, second[1]), "b ")
	mustHave(t, get(t, h.at[1]), "b ")
	if open := h.shared.ServerTotals(0, 0).Open; open != 0 {
		t.Errorf("%d connections to the removed server are open", open)
	}

	h.sockets = h.sockets[1:]
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	mustHave(t, ask(t, conn), "b ")
	if c, err := net.Dial("tcp", h.at[0]); err == nil {
		c.Close()
		t.Error("the removed listener still accepts")
	}
}

// ask sends a request over a connection that stays.
func ask(t *testing.T, conn net.Conn) string {
	t.Helper()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf) // a small answer comes in one piece
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// TestFailedReload: what cannot be applied leaves everything as it was.
func TestFailedReload(t *testing.T) {
	h := newHouse(t, nil, tells(t, "a").URL)
	good := *h.cfg
	for name, spoil := range map[string]func(*config.Config){
		"a log that cannot be opened":   func(c *config.Config) { c.Log.Access.Path = filepath.Join(t.TempDir(), "none", "x.log") },
		"a route to a farm that is not": func(c *config.Config) { c.Routes = []config.Route{{Farm: "none"}} },
	} {
		bad := good
		spoil(&bad)
		h.cfg = &bad
		if err := h.apply(); err == nil {
			t.Errorf("%s: no error", name)
		}
		mustHave(t, get(t, h.at[0]), "a ")
	}
}

// TestLog: lines go to the file of the configuration, and to a new one after a
// rotation.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	h := newHouse(t, func(c *config.Config) {
		c.Log.Access.Path = path
		c.Log.Access.Flush = config.Duration(10 * time.Millisecond)
	}, tells(t, "a").URL)
	get(t, h.at[0])
	eventually(t, "the line is written", func() bool { return lineCount(path) == 1 })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := h.traffic.ReopenLogs(); err != nil {
		t.Fatal(err)
	}
	get(t, h.at[1])
	eventually(t, "the line is in one of the files", func() bool { return lineCount(path)+lineCount(path+".1") == 2 })

	h.cfg.Log.Access.Path = filepath.Join(dir, "other.log")
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	get(t, h.at[0])
	eventually(t, "the line is in the other file", func() bool { return lineCount(h.cfg.Log.Access.Path) == 1 })
}

func lineCount(path string) int {
	text, _ := os.ReadFile(path)
	return strings.Count(string(text), "\n")
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 20_000 {
		if cond() {
			return
		}
		<-tick.C
	}
	t.Fatalf("%s: not so after many seconds", what)
}

// TestDrain: a request in progress is answered, then all is over; no listener
// accepts any more.
func TestDrain(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-leave
		fmt.Fprint(w, "at last")
	}))
	defer slow.Close()
	h := newHouse(t, nil, slow.URL)
	answer := make(chan string, 1)
	go func() { answer <- get(t, h.at[0]) }()
	<-entered
	drained := make(chan struct{})
	go func() { defer close(drained); h.traffic.Drain(time.Minute) }()
	eventually(t, "nobody accepts", func() bool {
		c, err := net.Dial("tcp", h.at[1])
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(leave)
	mustHave(t, <-answer, "at last")
	<-drained
}

// TestDrainLimit: a client that does not go is left behind when the limit is
// over, or when the worker must stop at once.
func TestDrainLimit(t *testing.T) {
	hang := make(chan struct{})
	stuck := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer stuck.Close()
	defer close(hang)
	for _, limit := range []time.Duration{time.Millisecond, time.Hour} {
		h := newHouse(t, nil, stuck.URL)
		conn, err := net.Dial("tcp", h.at[0])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		eventually(t, "the request is in progress", func() bool { return h.shared.Loop(0, 0).Active.Load() == 1 })
		drained := make(chan struct{})
		go func() { defer close(drained); h.traffic.Drain(limit) }()
		if limit == time.Hour {
			h.traffic.Close()
		}
		<-drained
	}
}

// abandoned is a job that is told of its panic.
type abandoned struct{ told int }

func (a *abandoned) Run()     { panic("on purpose") }
func (a *abandoned) Abandon() { a.told++ }

// TestPanicIsCounted: and the job is told, and the loop lives.
func TestPanicIsCounted(t *testing.T) {
	h := newHouse(t, nil, tells(t, "a").URL)
	job := &abandoned{}
	h.traffic.each(func(l *lane) {
		if l.index == 0 {
			l.loop.Go(job)
		}
	})
	mustHave(t, get(t, h.at[0]), "a ")
	told := 0
	h.traffic.each(func(l *lane) {
		if l.index == 0 {
			told = job.told
		}
	})
	if total := h.shared.Totals(0); total.Panics.Load() != 1 || told != 1 {
		t.Errorf("%d panics counted, the job was told %d times", total.Panics.Load(), told)
	}
}
