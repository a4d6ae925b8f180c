package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"sluice/internal/guest/order"
)

// outputs is where the outputs of started processes go.
const outputs = "/run/outputs"

// child is a process that a test has started.
type child struct {
	exited chan struct{} // closed at its end
	code   int           // valid then
}

// start starts a process, in its control group from its first instruction on.
func (a *agent) start(o order.Order) (order.Answer, error) {
	cmd := exec.Command(o.Path, o.Args...)
	cmd.Env = append(os.Environ(), o.Env...)
	name := filepath.Join(outputs, strconv.Itoa(len(a.children)))
	stdout, err := os.Create(name + ".stdout")
	if err != nil {
		return order.Answer{}, err
	}
	defer stdout.Close()
	stderr, err := os.Create(name + ".stderr")
	if err != nil {
		return order.Answer{}, err
	}
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o.Cgroup != "" {
		group, err := os.Open(o.Cgroup)
		if err != nil {
			return order.Answer{}, err
		}
		defer group.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.Fd())
	}
	if err := cmd.Start(); err != nil {
		return order.Answer{}, err
	}
	c := &child{exited: make(chan struct{})}
	a.children[cmd.Process.Pid] = c
	go c.wait(cmd)
	return order.Answer{PID: cmd.Process.Pid, Text: name}, nil
}

// wait is a goroutine that ends with the process.
func (c *child) wait(cmd *exec.Cmd) {
	defer close(c.exited)
	cmd.Wait() // the result stands in ProcessState
	c.code = cmd.ProcessState.ExitCode()
}

func (a *agent) ended(pid int) (order.Answer, error) {
	c := a.children[pid]
	if c == nil {
		return order.Answer{}, fmt.Errorf("process %d was not started here", pid)
	}
	select {
	case <-c.exited:
		return order.Answer{Ended: true, Code: c.code}, nil
	default:
		return order.Answer{}, nil
	}
}
