package guest

import (
	"fmt"
	"syscall"

	"sluice/internal/guest/order"
	"sluice/internal/testkit"
)

// Agent is the guest's own program, which has roles for tests:
//
//	serve ADDRESS NAME open     a server that answers with its name
//	serve ADDRESS NAME closed   likewise, from SIGUSR1 on; /figures says at any
//	                            time how many requests came, are there, were there at once
//	ask ADDRESS COUNT TARGET    a request on each of COUNT connections at once; a
//	                            line for each: status and the body's first line, or "failed: …"
const Agent = "/init"

// Command says what to start in a guest.
type Command struct {
	Path string
	Args []string
	Env  []string // besides the agent's
	CPUs string   // the CPUs that it may use, in the kernel's list format; empty: all of Cgroup
	// Cgroup is the directory of the control group that it is born in; empty: the
	// root, or one that is made for CPUs.
	Cgroup string
}

// Process is a program in the guest. It leads a process group of its own, which is
// killed when the test ends.
type Process struct {
	PID int

	g       *Guest
	what    string
	outputs string // path of both outputs, without their ends
}

// Start starts a program.
func (g *Guest) Start(c Command) *Process {
	g.t.Helper()
	if c.CPUs != "" && c.Cgroup == "" {
		c.Cgroup = g.Cpuset("cpus-"+c.CPUs, c.CPUs, "")
	}
	a := g.do(order.Order{Do: order.Start, Path: c.Path, Args: c.Args, Env: c.Env, Cgroup: c.Cgroup})
	p := &Process{PID: a.PID, g: g, what: c.Path, outputs: a.Text}
	g.t.Cleanup(p.end)
	return p
}

// end leaves nothing of the process behind, and tells what it wrote if the test
// has failed.
func (p *Process) end() {
	p.g.t.Helper()
	if p.g.lost() {
		return
	}
	p.g.try(order.Order{Do: order.Signal, PID: -p.PID, Number: int(syscall.SIGKILL)}) // ESRCH if all have gone
	if p.g.t.Failed() {
		p.g.t.Logf("in the guest %s, process %d, wrote\n%s%s", p.what, p.PID, p.Stdout(), p.Stderr())
	}
	p.ExitCode()
}

// Stdout is what the program has written to standard output so far.
func (p *Process) Stdout() string { return p.g.Read(p.outputs + ".stdout") }

// Stderr is what the program has written to standard error so far.
func (p *Process) Stderr() string { return p.g.Read(p.outputs + ".stderr") }

// Signal sends a signal to the program alone.
func (p *Process) Signal(s syscall.Signal) {
	p.g.t.Helper()
	p.g.Signal(p.PID, s)
}

// Signal sends a signal to any process of the guest; to a group if pid is negative.
func (g *Guest) Signal(pid int, s syscall.Signal) {
	g.t.Helper()
	g.do(order.Order{Do: order.Signal, PID: pid, Number: int(s)})
}

// ExitCode waits for the program's end; -1 means that a signal killed it.
func (p *Process) ExitCode() int {
	p.g.t.Helper()
	var a order.Answer
	testkit.Eventually(p.g.t, fmt.Sprintf("%s, process %d in the guest, has ended", p.what, p.PID), func() bool {
		a = p.g.do(order.Order{Do: order.Ended, PID: p.PID})
		return a.Ended
	})
	return a.Code
}

// Run runs a program to its end.
func (g *Guest) Run(c Command) testkit.Result {
	g.t.Helper()
	p := g.Start(c)
	code := p.ExitCode()
	return testkit.Result{Code: code, Stdout: p.Stdout(), Stderr: p.Stderr()}
}

// Serve starts a server (see Agent) that answers from the start or when it is told
// to, and returns when it listens.
func (g *Guest) Serve(address, name string, open bool, cpus string) *Process {
	g.t.Helper()
	state := "closed"
	if open {
		state = "open"
	}
	p := g.Start(Command{Path: Agent, Args: []string{"serve", address, name, state}, CPUs: cpus})
	testkit.Eventually(g.t, name+" listens", func() bool { return p.Stdout() != "" })
	return p
}
