package admin

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// ticksPerSecond is the unit of CPU times in /proc (USER_HZ). It is 100 on every
// architecture that Go runs on, whatever the kernel's own timer does.
const ticksPerSecond = 100

// Usage is what a process has taken from the machine.
type Usage struct {
	CPUSeconds  float64 `json:"cpu_seconds"`  // user and system, since the process began
	MemoryBytes int64   `json:"memory_bytes"` // resident now, shared pages included
}

// readUsage asks procfs, mounted at proc, for a process. A process that has gone
// is an error.
func readUsage(proc string, pid int) (Usage, error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Usage{}, err
	}
	statm, err := os.ReadFile(filepath.Join(dir, "statm"))
	if err != nil {
		return Usage{}, err
	}
	var u Usage
	if u.CPUSeconds, err = cpuSeconds(stat); err != nil {
		return Usage{}, err
	}
	u.MemoryBytes, err = residentBytes(statm)
	return u, err
}

// cpuSeconds takes fields 14 and 15, utime and stime, of /proc/PID/stat
// (proc_pid_stat(5)). Field 2 is the program's name in parentheses and may hold
// anything, so counting begins after the last one.
func cpuSeconds(stat []byte) (float64, error) {
	const afterName, utime, stime = 3, 14, 15 // field numbers of the manual
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime-afterName {
		return 0, errors.New("/proc/PID/stat is short")
	}
	user, userErr := strconv.ParseUint(string(fields[utime-afterName]), 10, 64)
	system, systemErr := strconv.ParseUint(string(fields[stime-afterName]), 10, 64)
	if err := errors.Join(userErr, systemErr); err != nil {
		return 0, fmt.Errorf("/proc/PID/stat: %w", err)
	}
	return float64(user+system) / ticksPerSecond, nil
}

// residentBytes takes field 2, resident pages, of /proc/PID/statm.
func residentBytes(statm []byte) (int64, error) {
	fields := bytes.Fields(statm)
	if len(fields) < 2 {
		return 0, errors.New("/proc/PID/statm is short")
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/PID/statm: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}
