package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory is the user memory of processes, in bytes. What the kernel holds for
// their sockets is not in it.
type Memory struct {
	RSS int64 `json:"rss"` // resident; a page that processes share counts in each
	PSS int64 `json:"pss"` // proportional: a shared page counts once, in parts
}

// MemoryOf adds up /proc/PID/smaps_rollup of the processes.
func MemoryOf(pids []int) (Memory, error) {
	var sum Memory
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return Memory{}, err
		}
		m, err := parseRollup(string(text))
		if err != nil {
			return Memory{}, fmt.Errorf("smaps_rollup of process %d: %w", pid, err)
		}
		sum.RSS += m.RSS
		sum.PSS += m.PSS
	}
	return sum, nil
}

func parseRollup(text string) (Memory, error) {
	rss, err := kilobytes(text, "Rss:")
	if err != nil {
		return Memory{}, err
	}
	pss, err := kilobytes(text, "Pss:")
	return Memory{RSS: rss, PSS: pss}, err
}

// kilobytes finds the line "key N kB", as in smaps and meminfo, and gives N in bytes.
func kilobytes(text, key string) (int64, error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == key && f[2] == "kB" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no line %q", key)
}

// PeakOf adds up the most resident memory that each of the processes has ever had
// (proc(5), VmHWM), in bytes.
func PeakOf(pids []int) (int64, error) {
	var sum int64
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		n, err := kilobytes(string(text), "VmHWM:")
		if err != nil {
			return 0, fmt.Errorf("status of process %d: %w", pid, err)
		}
		sum += n
	}
	return sum, nil
}
