package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait of these tests, so that a fault fails and does not
// hang. Nothing is measured against it.
const patience = 60 * time.Second

// program is a supervisor in a process of its own, with its workers.
type program struct {
	*testing.T
	command *exec.Cmd
	file    string            // the configuration
	manager *net.UnixConn     // where it notifies
	output  *os.File          // the log's
	log     chan string       // lines of it and its workers; closed when all of them have ended
	exit    chan error        // of the supervisor
	address map[string]string // of listeners, as logged
	pids    []int             // of workers, as logged
}

// twoNodes is a machine of two nodes with one CPU each, as sysfs shows it.
func twoNodes(t *testing.T) string {
	root := t.TempDir()
	for name, text := range map[string]string{
		"node/online": "0-1\n", "node/has_cpu": "0-1\n", "node/has_memory": "0\n",
		"node/node0/cpulist": "0\n", "node/node1/cpulist": "1\n", "cpu/online": "0-1\n",
	} {
		path := filepath.Join(root, "sys/devices/system", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// startProgram returns when every worker serves.
func startProgram(t *testing.T, listeners ...string) *program {
	p := &program{
		T: t, file: filepath.Join(t.TempDir(), "sluice.yaml"),
		log: make(chan string, 10000), exit: make(chan error, 1), address: map[string]string{},
	}
	p.write(listeners...)
	socket := filepath.Join(t.TempDir(), "notify")
	var err error
	if p.manager, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	var theirs *os.File
	if p.output, theirs, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	p.command = exec.Command("/proc/self/exe", "supervise", p.file, twoNodes(t))
	p.command.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket, "STATE_DIRECTORY="+t.TempDir())
	p.command.Stdout, p.command.Stderr = theirs, theirs
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	go p.read()
	go func() { p.exit <- p.command.Wait() }()
	t.Cleanup(p.end)
	p.notified("READY=1")
	for ready := false; !ready; {
		ready = strings.Contains(p.logged(""), "msg=ready")
	}
	return p
}

// read collects the log until every process has closed it.
func (p *program) read() {
	defer p.output.Close()
	defer close(p.log)
	for lines := bufio.NewScanner(p.output); lines.Scan(); {
		p.log <- lines.Text()
	}
}

// end leaves nothing behind, whatever the test has done.
func (p *program) end() {
	p.command.Process.Kill()
	p.manager.Close()
	for {
		select {
		case line, open := <-p.log:
			if !open {
				return
			}
			if p.Failed() {
				p.Log(line)
			}
		case <-time.After(patience):
			for _, pid := range p.pids {
				unix.Kill(pid, unix.SIGKILL)
			}
			p.Error("workers lived on without their supervisor")
			return
		}
	}
}

// write makes the configuration: listeners as name=address.
func (p *program) write(listeners ...string) {
	p.Helper()
	text := "admin: {listen: \"off\"}\nfarms: {app: {servers: [{url: \"http://127.0.0.1:9\"}]}}\nlisteners:\n"
	for _, l := range listeners {
		name, address, _ := strings.Cut(l, "=")
		text += fmt.Sprintf("  - {name: %s, address: %q}\n", name, address)
	}
	p.writeText(text)
}

func (p *program) writeText(text string) {
	p.Helper()
	if err := os.WriteFile(p.file, []byte(text), 0o644); err != nil {
		p.Fatal(err)
	}
}

var (
	logListening = regexp.MustCompile(`msg=listening listener=(\S+) address=(\S+)`)
	logServes    = regexp.MustCompile(`msg="worker serves" worker=\d+ pid=(\d+)`)
)

// logged returns the next line with the text in it, and learns from all on the way.
func (p *program) logged(text string) string {
	p.Helper()
	for {
		select {
		case line, open := <-p.log:
			if !open {
				p.Fatalf("the log ended before %q", text)
			}
			if m := logListening.FindStringSubmatch(line); m != nil {
				p.address[m[1]] = m[2]
			}
			if m := logServes.FindStringSubmatch(line); m != nil {
				pid, _ := strconv.Atoi(m[1])
				p.pids = append(p.pids, pid)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-time.After(patience):
			p.Fatalf("no line with %q in the log", text)
		}
	}
}

// notified waits until the service manager hears text.
func (p *program) notified(text string) string {
	p.Helper()
	p.manager.SetReadDeadline(time.Now().Add(patience))
	buffer := make([]byte, 1024)
	for {
		n, err := p.manager.Read(buffer)
		if err != nil {
			for len(p.log) > 0 {
				p.Log(<-p.log)
			}
			p.Fatalf("no notification with %q: %v", text, err)
		}
		if state := string(buffer[:n]); strings.Contains(state, text) {
			return state
		}
	}
}

func (p *program) signal(s unix.Signal) {
	p.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		p.Fatal(err)
	}
}

// reload returns when the outcome is known, and says it.
func (p *program) reload() string {
	p.Helper()
	p.signal(unix.SIGHUP)
	if state := p.notified("RELOADING=1"); !regexp.MustCompile(`(?m)^MONOTONIC_USEC=[1-9]\d*$`).MatchString(state) {
		p.Errorf("notified %q, without the time", state)
	}
	return p.notified("READY=1")
}

// ended waits for the supervisor and all workers.
func (p *program) ended() error {
	p.Helper()
	select {
	case err := <-p.exit:
		for range p.log {
		}
		return err
	case <-time.After(patience):
		p.Fatal("the supervisor does not end")
		return nil
	}
}

// client is a connection to the line server.
type client struct {
	net.Conn
	lines *bufio.Reader
}

func (p *program) dial(listener string) *client {
	p.Helper()
	c, err := net.DialTimeout("tcp", p.address[listener], patience)
	if err != nil {
		p.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	p.Cleanup(func() { c.Close() })
	return &client{Conn: c, lines: bufio.NewReader(c)}
}

func (c *client) say(line string) { fmt.Fprintln(c, line) }

// hear gives the answer: who, with which configuration.
func (c *client) hear() (pid, generation int, err error) {
	line, err := c.lines.ReadString('\n')
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscanf(line, "%d %d", &pid, &generation)
	return pid, generation, err
}

// ask sends a line and gives the answer, which must come.
func (p *program) ask(c *client) (pid, generation int) {
	p.Helper()
	c.say("who")
	pid, generation, err := c.hear()
	if err != nil {
		p.Fatalf("no answer: %v", err)
	}
	return pid, generation
}

func TestProcesses(t *testing.T) {
	p := startProgram(t, "web=127.0.0.1:0", "six=[::1]:0")
	for _, name := range []string{"web", "six"} {
		if pid, generation := p.ask(p.dial(name)); pid == p.command.Process.Pid || generation != 1 {
			t.Errorf("%s was answered by %d with generation %d", name, pid, generation)
		}
	}
	p.signal(unix.SIGUSR1)
	p.logged("logs reopened")
}

// A worker stands still, connections queue on its sockets, it is killed: the next
// one answers them all.
func TestKilledWorkerLosesNoQueue(t *testing.T) {
	p := startProgram(t, "web=127.0.0.1:0")
	old := p.pids
	for _, pid := range old {
		freeze(t, pid)
	}
	var clients []*client
	for range 50 {
		c := p.dial("web")
		c.say("who")
		clients = append(clients, c)
	}
	for _, pid := range old {
		unix.Kill(pid, unix.SIGKILL)
	}
	for i, c := range clients {
		pid, _, err := c.hear()
		if err != nil {
			t.Fatalf("connection %d was lost: %v", i, err)
		}
		for _, dead := range old {
			if pid == dead {
				t.Fatalf("connection %d was answered by the dead %d", i, pid)
			}
		}
	}
	if line := p.logged("worker is restarted"); !strings.Contains(line, "signal: killed") {
		t.Errorf("logged %q, which does not say how it died", line)
	}
}

// freeze stops a process, and returns when every thread stands.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for moving := true; moving; {
		moving = false
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("threads of %d: %v, error %v", pid, threads, err)
		}
		for _, path := range threads {
			stat, err := os.ReadFile(path)
			_, state, _ := strings.Cut(string(stat), ") ")
			moving = moving || err != nil || !strings.HasPrefix(state, "T")
		}
	}
}

// Listeners come and go; a connection on one that stays does not notice.
func TestReloadListeners(t *testing.T) {
	p := startProgram(t, "web=127.0.0.1:0")
	busy := p.dial("web")
	busy.say("wait")

	extra := freeAddress(t, "127.0.7.1")
	p.write("web=127.0.0.1:0", "extra="+extra)
	if state := p.reload(); !strings.Contains(state, "serving configuration 2") {
		t.Fatalf("notified %q", state)
	}
	p.address["extra"] = extra
	kept := p.dial("extra")
	if _, generation := p.ask(kept); generation != 2 {
		t.Errorf("the new listener serves generation %d, want 2", generation)
	}
	p.write("web=127.0.0.1:0")
	p.reload()
	refuses(t, extra)
	if _, generation := p.ask(kept); generation != 3 {
		t.Errorf("a connection of the removed listener sees generation %d, want 3", generation)
	}
	busy.say("")
	if _, generation, err := busy.hear(); err != nil || generation != 3 {
		t.Errorf("the request in progress over two reloads: generation %d, error %v", generation, err)
	}
}

// freeAddress is one that nobody uses, on a loopback address that nobody asks for.
func freeAddress(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func refuses(t *testing.T, address string) {
	t.Helper()
	if c, err := net.Dial("tcp", address); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("%s: connection %v, error %v, want refused", address, c, err)
	}
}

func TestReloadFaultyFile(t *testing.T) {
	p := startProgram(t, "web=127.0.0.1:0")
	admin := freeAddress(t, "127.0.7.2")
	for _, test := range []struct{ text, want string }{
		{"listenerz: []\n", "listenerz"},
		{"farms: {app: {servers: [{url: \"http://127.0.0.1:9\"}]}}\nadmin: {listen: \"192.0.2.1:1\"}\n" +
			"listeners: [{name: web, address: \"127.0.0.1:0\"}]\n", "192.0.2.1:1"},
		{"farms: {app: {servers: [{url: \"http://127.0.0.1:9\"}]}}\nadmin: {listen: \"" + admin + "\"}\ntrust: [10.0.0.0/8]\n" +
			"listeners: [{name: web, address: \"127.0.0.1:0\"}]\n", "trust is beyond a line server"},
	} {
		p.writeText(test.text)
		if state := p.reload(); !strings.Contains(state, "refused") {
			t.Errorf("notified %q", state)
		}
		if line := p.logged("not reloaded"); !strings.Contains(line, test.want) {
			t.Errorf("logged %q, want %q", line, test.want)
		}
		if _, generation := p.ask(p.dial("web")); generation != 1 {
			t.Errorf("generation %d is served, want 1", generation)
		}
		refuses(t, admin)
	}
}

// Clients connect all the time while the configuration is reloaded 50 times.
func TestReloadsUnderLoad(t *testing.T) {
	p := startProgram(t, "web=127.0.0.1:0")
	stop := make(chan struct{})
	failed := make(chan error, 4)
	var clients sync.WaitGroup
	for range cap(failed) {
		clients.Go(func() { failed <- p.load(stop) })
	}
	for i := range 50 {
		p.write([][]string{{"web=127.0.0.1:0"}, {"other=[::1]:0", "web=127.0.0.1:0"}}[i%2]...)
		if state := p.reload(); !strings.Contains(state, "serving configuration") || strings.Contains(state, "refused") {
			t.Errorf("reload %d: notified %q", i, state)
		}
	}
	close(stop)
	clients.Wait()
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// load connects and asks until stop; every question must be answered.
func (p *program) load(stop <-chan struct{}) error {
	for n := 0; ; n++ {
		select {
		case <-stop:
			if n == 0 {
				return errors.New("no request was made")
			}
			return nil
		default:
		}
		c, err := net.Dial("tcp", p.address["web"])
		if err != nil {
			return err
		}
		fmt.Fprintln(c, "who")
		_, _, err = (&client{Conn: c, lines: bufio.NewReader(c)}).hear()
		c.Close()
		if err != nil {
			return fmt.Errorf("request %d: %w", n, err)
		}
	}
}

// SIGTERM: the request in progress ends well, idle and new connections do not stay.
func TestTermDrains(t *testing.T) {
	p := startProgram(t, "web=127.0.0.1:0")
	busy, idle := p.dial("web"), p.dial("web")
	busy.say("wait")
	p.ask(idle)
	p.signal(unix.SIGTERM)
	p.notified("STOPPING=1")
	if _, err := idle.lines.ReadString('\n'); err != io.EOF {
		t.Errorf("the idle connection: %v, want its end", err)
	}
	busy.say("")
	if _, _, err := busy.hear(); err != nil {
		t.Errorf("the request in progress: %v", err)
	}
	if err := p.ended(); err != nil {
		t.Errorf("the supervisor ended with %v, want code 0", err)
	}
	refuses(t, p.address["web"])
}

func TestIntStops(t *testing.T) {
	p := startProgram(t, "web=127.0.0.1:0")
	busy := p.dial("web")
	busy.say("wait")
	p.signal(unix.SIGINT)
	if _, err := busy.lines.ReadString('\n'); err == nil {
		t.Error("a request in progress was answered")
	}
	for range p.pids {
		if line := p.logged("worker ended"); !strings.Contains(line, "exit status 0") {
			t.Errorf("logged %q, want the end of an orderly worker", line)
		}
	}
	if err := p.ended(); err != nil {
		t.Errorf("the supervisor ended with %v, want code 0", err)
	}
}

// A worker that stands still does not keep Sluice from ending.
func TestIntTwiceKills(t *testing.T) {
	p := startProgram(t, "web=127.0.0.1:0")
	for _, pid := range p.pids {
		freeze(t, pid)
	}
	p.signal(unix.SIGINT)
	p.notified("STOPPING=1")
	p.signal(unix.SIGINT)
	if err := p.ended(); err != nil {
		t.Errorf("the supervisor ended with %v, want code 0", err)
	}
}

// Nobody reads the log any more: Sluice serves on.
func TestLogReaderGone(t *testing.T) {
	p := startProgram(t, "web=127.0.0.1:0")
	p.output.Close()
	for range p.log {
	}
	if state := p.reload(); !strings.Contains(state, "serving configuration 2") {
		t.Errorf("notified %q", state)
	}
	for _, pid := range p.pids {
		unix.Kill(pid, unix.SIGKILL)
	}
	if _, generation := p.ask(p.dial("web")); generation != 2 {
		t.Errorf("generation %d is served, want 2", generation)
	}
	p.signal(unix.SIGINT)
	if err := p.ended(); err != nil {
		t.Errorf("the supervisor ended with %v, want code 0", err)
	}
}

// Only its supervisor ends a worker: a terminal or a service manager signals every
// process of the program.
func TestWorkersIgnoreSignals(t *testing.T) {
	p := startProgram(t, "web=127.0.0.1:0")
	for _, pid := range p.pids {
		for _, s := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2} {
			if err := unix.Kill(pid, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 20 {
		if pid, _ := p.ask(p.dial("web")); !slices.Contains(p.pids, pid) {
			t.Fatalf("worker %d answers, which is not one of %v", pid, p.pids)
		}
	}
	p.signal(unix.SIGINT)
	if err := p.ended(); err != nil {
		t.Errorf("the supervisor ended with %v, want code 0", err)
	}
}

// The supervisor is killed: its workers finish what they have in hand, and end.
// It makes no difference that nobody reads what they have to say about it.
func TestOrphansDrain(t *testing.T) {
	for _, test := range []struct {
		name   string
		unread bool
	}{{"log is read", false}, {"log is not read", true}} {
		t.Run(test.name, func(t *testing.T) {
			p := startProgram(t, "web=127.0.0.1:0")
			busy := p.dial("web")
			busy.say("wait")
			if test.unread {
				p.output.Close()
			}
			p.command.Process.Kill()
			for { // until the drain has begun
				c, err := net.Dial("tcp", p.address["web"])
				if err != nil {
					break
				}
				c.Close()
			}
			busy.say("")
			if _, _, err := busy.hear(); err != nil {
				t.Errorf("the request in progress: %v", err)
			}
			p.ended() // which waits for the end of the log, so for every worker
		})
	}
}
