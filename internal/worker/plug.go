package worker

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/affinity"
)

// CPUs may be switched off and on while a worker runs. The kernel lets a thread
// whose every CPU is off run anywhere, and does not call it back when they are on
// again (select_fallback_rq, kernel/sched/core.c); before Linux 6.2 it also lets all
// threads of a control group with a cpuset run on the whole of that (user_cpus_ptr
// is newer). A goroutine of the worker sees such changes, and puts the threads back:
// a loop on its CPU, or on all of the worker's while its own is off; every other
// thread on all of them.

// replugEvery is how often the worker looks which CPUs are on: one small file.
const replugEvery = time.Second

// keeper holds the threads of one worker on its CPUs while CPUs come and go.
type keeper struct {
	cpus   []int // of the worker, immutable
	pin    bool  // each loop has one of them
	loops  func() []int
	kernel kernel
	online []int // at the last look
	again  bool  // a change was at the last look: threads that were born meanwhile come next

	closing chan struct{}
	running sync.WaitGroup // watch
}

// kernel is how the keeper sees CPUs and threads, and moves these.
type kernel struct {
	online  func() ([]int, error)
	threads func() ([]int, error)
	allow   func(tid int, cpus []int) error
}

// thisKernel is the real one.
func thisKernel() kernel {
	return kernel{
		online:  func() ([]int, error) { return affinity.OnlineCPUs("/sys") },
		threads: func() ([]int, error) { return affinity.Threads("/proc") },
		allow:   affinity.AllowThread,
	}
}

func newKeeper(cpus []int, pin bool, k kernel, loops func() []int) *keeper {
	return &keeper{cpus: cpus, pin: pin, kernel: k, loops: loops, closing: make(chan struct{})}
}

// start begins to watch, until close. Where the kernel does not tell which CPUs are
// on there is nothing to watch.
func (k *keeper) start() {
	online, err := k.kernel.online()
	if k.online = online; err == nil {
		k.running.Go(k.watch)
	}
}

// close ends the watch. A nil keeper, of a worker that never began, has none.
func (k *keeper) close() {
	if k != nil {
		close(k.closing)
		k.running.Wait()
	}
}

// watch is a goroutine.
func (k *keeper) watch() {
	tick := time.NewTicker(replugEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := k.look(); err != nil {
				slog.Warn("after a change of the CPUs that are online not all threads are where they should be", "cpus", k.cpus, "error", err)
			}
		case <-k.closing:
			return
		}
	}
}

// look puts the threads back after a change, and once more at the next look.
func (k *keeper) look() error {
	online, err := k.kernel.online()
	if err != nil {
		return err
	}
	changed := !slices.Equal(online, k.online)
	if !changed && !k.again {
		return nil
	}
	k.online, k.again = online, changed
	return k.settle()
}

// settle gives every thread the CPUs that it should have. With none of them online
// they stay where the kernel has put them. It returns the first fault.
func (k *keeper) settle() error {
	on := func(cpu int) bool { return slices.Contains(k.online, cpu) }
	if !slices.ContainsFunc(k.cpus, on) {
		return nil
	}
	own := map[int]int{} // CPUs by thread
	for i, thread := range k.loops() {
		if cpu := k.cpus[i%len(k.cpus)]; k.pin && on(cpu) {
			own[thread] = cpu
		}
	}
	threads, fault := k.kernel.threads()
	for _, thread := range threads {
		cpus := k.cpus
		if cpu, pinned := own[thread]; pinned {
			cpus = []int{cpu}
		}
		if err := k.kernel.allow(thread, cpus); err != nil && fault == nil && !errors.Is(err, unix.ESRCH) {
			fault = err
		}
	}
	return fault
}
