package testkit

import (
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Command says what to start.
type Command struct {
	Path string
	Args []string
	Env  []string // besides ours
	Dir  string   // empty: ours
	// MostFiles is the limit of open files, RLIMIT_NOFILE; 0: ours.
	MostFiles int
}

// Process is a running program. It leads a process group of its own; when the
// test ends, all that is left of the group is killed.
type Process struct {
	Stdout, Stderr *Output

	t      testing.TB
	cmd    *exec.Cmd
	exited chan struct{} // closed when the program itself has ended
}

// Tool finds a program that a test needs. The test fails if it is not there:
// what is skipped is believed to work.
func Tool(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	dirs := []string{"/usr/sbin", "/usr/local/sbin", "/sbin"}       // where Debian has its daemons
	dirs = append(dirs, filepath.Join(build.Default.GOPATH, "bin")) // and go install what it builds
	for _, dir := range dirs {
		if path := filepath.Join(dir, name); exec.Command(path, "--version").Run() == nil {
			return path
		}
	}
	t.Fatalf("the test needs %s, which is not installed; run `make deps`", name)
	return ""
}

// Start starts a process.
func Start(t testing.TB, c Command) *Process {
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(c.Path, c.Args...), exited: make(chan struct{})}
	if c.MostFiles > 0 { // by a shell, since Go cannot set a child's limits
		script := "ulimit -n " + strconv.Itoa(c.MostFiles) + ` && exec "$0" "$@"`
		p.cmd = exec.Command("/bin/sh", append([]string{"-c", script, c.Path}, c.Args...)...)
	}
	var stdout, stderr *os.File
	p.Stdout, stdout = newOutput(t)
	p.Stderr, stderr = newOutput(t)
	p.cmd.Dir = c.Dir
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	starter() <- func() { started <- p.cmd.Start() }
	err := <-started
	stdout.Close()
	stderr.Close()
	if err != nil {
		t.Fatal(err)
	}
	go p.wait()
	t.Cleanup(p.end)
	return p
}

// starter is one thread that starts every process and never ends. Pdeathsig, which
// leaves nothing behind if the test itself is killed, is sent when the thread that
// forked ends (PR_SET_PDEATHSIG, prctl(2)), and Go's threads come and go.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range work {
			start()
		}
	}()
	return work
})

// wait is a goroutine that ends with the program.
func (p *Process) wait() {
	defer close(p.exited)
	p.cmd.Wait() // the result stands in ProcessState
}

// end leaves nothing behind, whatever the test has done.
func (p *Process) end() {
	p.t.Helper()
	syscall.Kill(-p.PID(), syscall.SIGKILL) // ESRCH if all have gone, as they should
	<-p.exited
	over := time.NewTimer(Patience)
	defer over.Stop()
	for _, o := range []*Output{p.Stdout, p.Stderr} {
		select {
		case <-o.ended:
		case <-over.C:
			p.t.Errorf("%s: a process that it started left the group and lives on", p.cmd.Path)
		}
	}
	if p.t.Failed() {
		p.t.Logf("%s wrote\n%s%s", filepath.Base(p.cmd.Path), p.Stdout, p.Stderr)
	}
}

// PID is the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to the program alone.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("signal %s: %v", s, err)
	}
}

// SignalGroup sends a signal to the program and all that it started, as a
// terminal does with Ctrl-C.
func (p *Process) SignalGroup(s syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(-p.PID(), s); err != nil {
		p.t.Fatalf("signal %s to the group: %v", s, err)
	}
}

// Running reports whether the program has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// ExitCode waits for the program's end; -1 means that a signal killed it.
func (p *Process) ExitCode() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(Patience):
		p.t.Fatalf("%s does not end", p.cmd.Path)
	}
	return p.cmd.ProcessState.ExitCode()
}

// AwaitAllGone waits until every process that writes to the program's outputs has
// ended: itself, and all that it started.
func (p *Process) AwaitAllGone() {
	p.t.Helper()
	over := time.NewTimer(Patience)
	defer over.Stop()
	for _, o := range []*Output{p.Stdout, p.Stderr} {
		select {
		case <-o.ended:
		case <-over.C:
			p.t.Fatalf("processes of %s live on: %v", p.cmd.Path, Group(p.PID()))
		}
	}
}

// Result is how a short command ended.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs a program to its end.
func Run(t testing.TB, path string, args ...string) Result {
	t.Helper()
	p := Start(t, Command{Path: path, Args: args})
	code := p.ExitCode()
	p.AwaitAllGone()
	return Result{code, p.Stdout.String(), p.Stderr.String()}
}
