package affinity

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/topology"
)

// AllowThread lets a thread of this process, by its number, run on these CPUs and
// no others from now on. Those that are offline or not ours are left out by the
// kernel; with none left it is EINVAL, and the thread stays as it was. A thread
// that has ended is ESRCH.
func AllowThread(tid int, cpus []int) error {
	if err := unix.SchedSetaffinityDynamic(tid, cpuSet(cpus)); err != nil {
		return fmt.Errorf("thread %d on CPUs %s: %w", tid, topology.FormatCPUs(cpus), err)
	}
	return nil
}

// OnlineCPUs reads which CPUs are switched on, from sysfs mounted at sys, ascending.
func OnlineCPUs(sys string) ([]int, error) {
	text, err := os.ReadFile(sys + "/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	return topology.ParseCPUs(string(text))
}

// Threads lists the numbers of this process's threads, from procfs mounted at proc.
// One that is born or ends meanwhile may be there or not.
func Threads(proc string) ([]int, error) {
	entries, err := os.ReadDir(proc + "/self/task")
	var threads []int
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			threads = append(threads, tid)
		}
	}
	return threads, err
}

// CPUTime is what a CPU has done since boot.
type CPUTime struct{ Busy, Idle time.Duration }

// CPUTimes reads what each online CPU has done, from procfs mounted at proc. The
// kernel counts in ticks of 10 ms.
func CPUTimes(proc string) (map[int]CPUTime, error) {
	text, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return nil, err
	}
	return parseCPUTimes(text)
}

// tick is the unit of times in /proc (USER_HZ).
const tick = 10 * time.Millisecond

// parseCPUTimes reads the lines "cpu7 user nice system idle iowait irq softirq
// steal …" (proc_stat(5)). Waiting for a disk is idle; what a hypervisor took is
// not.
func parseCPUTimes(stat []byte) (map[int]CPUTime, error) {
	const idle, iowait, steal = 3, 4, 7 // columns
	times := map[int]CPUTime{}
	for line := range bytes.Lines(stat) {
		words := strings.Fields(string(line))
		if len(words) == 0 || !strings.HasPrefix(words[0], "cpu") {
			break // they come first
		}
		id, err := strconv.Atoi(words[0][len("cpu"):])
		if err != nil {
			continue // the sum of all
		}
		var t CPUTime
		for i, word := range words[1:min(len(words), steal+2)] {
			n, err := strconv.ParseInt(word, 10, 53)
			if err != nil {
				return nil, fmt.Errorf("/proc/stat: %q is no time", word)
			}
			if i == idle || i == iowait {
				t.Idle += time.Duration(n) * tick
			} else {
				t.Busy += time.Duration(n) * tick
			}
		}
		times[id] = t
	}
	if len(times) == 0 {
		return nil, fmt.Errorf("/proc/stat names no CPU")
	}
	return times, nil
}

// ThreadTime is what a thread has done since it began.
type ThreadTime struct {
	Ran    time.Duration // on a CPU
	Waited time.Duration // ready to run, while others ran
	On     int           // the CPU on which it ran last
}

// ThreadTimes reads what a thread of this process has done, from procfs mounted at
// proc. A kernel without CONFIG_SCHED_INFO does not tell.
func ThreadTimes(proc string, tid int) (ThreadTime, error) {
	dir := fmt.Sprintf("%s/self/task/%d/", proc, tid)
	schedstat, err := os.ReadFile(dir + "schedstat")
	if err != nil {
		return ThreadTime{}, err
	}
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return ThreadTime{}, err
	}
	return parseThreadTimes(string(schedstat), string(stat))
}

// parseThreadTimes reads /proc/PID/schedstat: ns on a CPU, ns waiting for one, and
// slices (Documentation/scheduler/sched-stats.rst of the kernel); and field 39 of
// /proc/PID/stat (proc_pid_stat(5)), counted from its last parenthesis since a
// name may hold anything.
func parseThreadTimes(schedstat, stat string) (ThreadTime, error) {
	const afterName, processor = 3, 39 // field numbers of the manual
	times := strings.Fields(schedstat)
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(times) < 2 || len(fields) <= processor-afterName {
		return ThreadTime{}, fmt.Errorf("a thread's schedstat or stat is short")
	}
	ran, err1 := strconv.ParseInt(times[0], 10, 64)
	waited, err2 := strconv.ParseInt(times[1], 10, 64)
	on, err3 := strconv.Atoi(fields[processor-afterName])
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			return ThreadTime{}, fmt.Errorf("a thread's schedstat or stat: %w", err)
		}
	}
	return ThreadTime{Ran: time.Duration(ran), Waited: time.Duration(waited), On: on}, nil
}
