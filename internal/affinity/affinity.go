// Package affinity applies a placement. It is the only package that changes
// where threads run and where memory comes from.
//
// A worker process must have its CPUs and its memory policy before its first
// instruction: the Go runtime sizes itself by the one, and its first pages
// follow the other. Both belong to a thread, and fork hands them to the child.
// So Inherit borrows a thread, changes it, forks from it, and changes it back:
//
//  1. lock a goroutine to its thread, and note how the thread is
//  2. CPU affinity, then memory policy: the policy's own pages come from the node
//  3. start, which forks on this thread
//  4. undo both, in reverse
//  5. unlock; a thread that could not be restored dies with its goroutine
//
// Threads that the runtime makes meanwhile are clean: while a goroutine is
// locked, new threads are cloned from the runtime's template thread.
//
// What the kernel refuses is no failure. A container without rights still
// serves; a Degraded says what it does without.
package affinity

import (
	"fmt"
	"log/slog"
	"runtime"

	"golang.org/x/sys/unix"

	"sluice/internal/placement"
	"sluice/internal/topology"
)

// maxCPUs is the size of a CPU mask. Linux is built for 8192 at most, and
// refuses to fill a mask that is smaller than its own.
const maxCPUs = 8192

// Degraded is one thing that could not be applied.
type Degraded struct {
	What string // "CPU affinity 0-3"
	Err  error  // what the kernel said: EPERM, EINVAL, ENOSYS
}

// String says it in a line for the log.
func (d Degraded) String() string { return fmt.Sprintf("%s: %v", d.What, d.Err) }

// Inherit runs start on a thread that has the worker's CPUs and memory policy,
// so that a process that start forks has them too. It logs what could not be
// applied, and returns what start returns.
func Inherit(w placement.Worker, start func() error) error {
	degraded, err := Start(w, start)
	for _, d := range degraded {
		slog.Warn("placement not applied", "worker", w.Index, "node", w.Node, "what", d.What, "error", d.Err)
	}
	return err
}

// Start is Inherit for a caller that reports for itself. The error is start's.
//
// Start must fork in its own goroutine: only the thread that runs it is changed.
// A child's parent-death signal (prctl(2), PR_SET_PDEATHSIG) watches that thread,
// not the process. The thread goes back to the runtime, which keeps it; only a
// thread that could not be restored ends, and Degraded says so.
func Start(w placement.Worker, start func() error) ([]Degraded, error) {
	done := make(chan errand)
	go runErrand(w, start, done)
	e := <-done
	return e.degraded, e.err
}

// errand is one run of start on a changed thread.
type errand struct {
	degraded []Degraded
	err      error // of start
	undo     []change
}

// change is something done to the thread, and the way back.
type change struct {
	what    string
	restore func() error
}

// runErrand is the goroutine of one Start: the numbered steps above.
func runErrand(w placement.Worker, start func() error, done chan<- errand) {
	runtime.LockOSThread() // 1
	var e errand
	e.apply("CPU affinity "+topology.FormatCPUs(w.CPUs), len(w.CPUs) > 0, func() (func() error, error) { // 2
		return setCPUs(w.CPUs)
	})
	e.apply(fmt.Sprintf("memory policy %s node %d", w.Memory, w.Node), hasPolicy(w), func() (func() error, error) {
		return setPolicy(w)
	})
	e.err = start()  // 3
	if e.restore() { // 4
		runtime.UnlockOSThread() // 5
	}
	done <- e
}

// apply makes one change if it is wanted, and remembers its undoing.
func (e *errand) apply(what string, wanted bool, set func() (restore func() error, err error)) {
	if !wanted {
		return
	}
	restore, err := set()
	if err != nil {
		e.degraded = append(e.degraded, Degraded{What: what, Err: err})
		return
	}
	e.undo = append(e.undo, change{what: what, restore: restore})
}

// restore undoes all changes, the last first, and reports whether the thread is
// as it was.
func (e *errand) restore() bool {
	clean := true
	for i := len(e.undo) - 1; i >= 0; i-- {
		if err := e.undo[i].restore(); err != nil {
			e.degraded = append(e.degraded, Degraded{What: "undo " + e.undo[i].what, Err: err})
			clean = false
		}
	}
	return clean
}

// setCPUs changes the calling thread's CPU set.
func setCPUs(cpus []int) (restore func() error, err error) {
	before := unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(0, before); err != nil {
		return nil, err
	}
	if err := unix.SchedSetaffinityDynamic(0, cpuSet(cpus)); err != nil {
		return nil, err
	}
	return func() error { return unix.SchedSetaffinityDynamic(0, before) }, nil
}

// PinThread keeps the calling thread on one CPU from now on. The caller is
// locked to its thread (runtime.LockOSThread) and never unlocks: another
// goroutine would inherit the pin. An error (EINVAL: the CPU is offline or not
// ours) leaves the thread as it was; it can still serve.
func PinThread(cpu int) error {
	if cpu < 0 || cpu >= maxCPUs {
		return fmt.Errorf("pin to CPU %d: %w", cpu, unix.EINVAL)
	}
	if err := unix.SchedSetaffinityDynamic(0, cpuSet([]int{cpu})); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	return nil
}

func cpuSet(cpus []int) unix.CPUSetDynamic {
	set := unix.NewCPUSet(maxCPUs)
	for _, cpu := range cpus {
		set.Set(cpu)
	}
	return set
}
