// Package proc starts the processes of a benchmark on the CPUs they belong to,
// reads what they use, and ends them.
//
// A process is started by Start, its Tree gives the workers it has forked, CPU and
// MemoryOf read what they use, and Stop ends them all. Nothing outlives the
// benchmark: each process asks the kernel to be ended if the benchmark dies.
package proc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopWithin is the time a process has to end before it is killed.
const stopWithin = 5 * time.Second

// Command says what to start.
type Command struct {
	Path   string
	Args   []string       // without the program's name
	Env    []string       // added to the environment
	Dir    string         // working directory
	Output io.Writer      // standard output; nil: it joins Log
	Input  io.Reader      // standard input; nil: empty
	Log    string         // file for what it complains about
	CPUs   []int          // that it may run on; its children inherit them
	Stop   syscall.Signal // what ends it at once; 0: SIGTERM
}

// Process is one that was started, with all that it forked.
type Process struct {
	cmd  *exec.Cmd
	log  *os.File
	stop syscall.Signal
	done chan struct{} // closed when it has ended
	err  error         // how it ended; valid once done is closed
}

// Start starts a process. The caller ends it with Stop.
func Start(c Command) (*Process, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Dir, cmd.Stdin, cmd.Stderr = c.Dir, c.Input, log
	cmd.Stdout = c.Output
	if c.Output == nil {
		cmd.Stdout = log
	}
	stop := c.Stop
	if stop == 0 {
		stop = syscall.SIGTERM
	}
	// A group of its own: the terminal's Ctrl-C reaches the benchmark only, which ends all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: stop}
	if err := onCPUs(c.CPUs, cmd.Start); err != nil {
		log.Close()
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	p := &Process{cmd: cmd, log: log, stop: stop, done: make(chan struct{})}
	go p.wait()
	return p, nil
}

// wait collects the process; it ends with it.
func (p *Process) wait() {
	p.err = p.cmd.Wait()
	p.log.Close()
	close(p.done)
}

// PID is the number of the process that was started.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Stop ends the process and all its descendants, and waits for that: by its
// signal, and by SIGKILL what is then left or takes too long.
func (p *Process) Stop() {
	below := descriptors(p.PID())
	p.cmd.Process.Signal(p.stop)
	select {
	case <-p.done:
	case <-time.After(stopWithin):
		p.cmd.Process.Kill()
		<-p.done
	}
	for _, fd := range below {
		kill(fd)
	}
}

// descriptors are pidfds of the descendants, which stay theirs when numbers are
// used again.
func descriptors(root int) []int {
	tree, err := Tree(root)
	if err != nil {
		return nil
	}
	var fds []int
	for _, pid := range tree {
		if pid == root {
			continue
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds
}

// kill ends the process of a pidfd, waits until it has ended, and closes the descriptor.
func kill(fd int) {
	defer unix.Close(fd)
	if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return // it has ended
	}
	for {
		// A pidfd becomes readable when its process ends (pidfd_open(2)).
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err != unix.EINTR {
			return
		}
	}
}

// onCPUs runs start with this thread bound to cpus, so that what it forks inherits
// them, and then gives the thread its own CPUs back.
func onCPUs(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return err
	}
	if err := Pin(cpus); err != nil {
		return err
	}
	defer unix.SchedSetaffinity(0, &old)
	return start()
}

// Pin binds the calling thread, and what it will start, to cpus.
func Pin(cpus []int) error {
	set := cpuSet(cpus)
	return unix.SchedSetaffinity(0, &set)
}

// PinAll binds every thread of this process to cpus.
func PinAll(cpus []int) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	set := cpuSet(cpus)
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && err != unix.ESRCH {
			return err
		}
	}
	return nil
}

func cpuSet(cpus []int) unix.CPUSet {
	var set unix.CPUSet
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return set
}
