package proc

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time, user and system, that the processes have used since
// they started. It reads each process's CPU clock (clock_getcpuclockid(3)), which
// is what utime and stime of /proc/PID/stat are scaled to, in nanoseconds where
// those have ticks of 10 ms, and with the threads that have ended.
func CPU(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		var t unix.Timespec
		if err := unix.ClockGettime(cpuClock(pid), &t); err != nil {
			return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
		}
		sum += time.Duration(t.Nano())
	}
	return sum, nil
}

// cpuClock is the clock of a whole process: the inverted process number above
// three bits, of which 2 (CPUCLOCK_SCHED) asks for the scheduler's exact time
// (the kernel's include/linux/posix-timers.h).
func cpuClock(pid int) int32 { return int32(^pid<<3 | 2) }

// Usage is what one CPU has done since boot, in clock ticks.
type Usage struct {
	Busy  int64 // all but idle, iowait and steal
	Steal int64 // taken by the hypervisor
	Total int64
}

// Share is the part of the ticks since before in which the CPU was busy, 0 to 1.
func (u Usage) Share(before Usage) float64 { return part(u.Busy-before.Busy, u.Total-before.Total) }

// StolenShare is the part of the ticks since before that the hypervisor took.
func (u Usage) StolenShare(before Usage) float64 {
	return part(u.Steal-before.Steal, u.Total-before.Total)
}

func part(n, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// parseUsage reads /proc/stat (proc(5)) into one Usage for each CPU.
func parseUsage(text string) (map[int]Usage, error) {
	all := map[int]Usage{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") || f[0] == "cpu" {
			continue
		}
		cpu, err := strconv.Atoi(f[0][3:])
		if err != nil {
			return nil, fmt.Errorf("/proc/stat: %q is not a CPU", f[0])
		}
		var u Usage
		for i, field := range f[1:9] { // user nice system idle iowait irq softirq steal
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("/proc/stat: %s: %w", f[0], err)
			}
			u.Total += n
			switch i {
			case 3, 4:
			case 7:
				u.Steal = n
			default:
				u.Busy += n
			}
		}
		all[cpu] = u
	}
	return all, nil
}
