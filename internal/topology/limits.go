package topology

import (
	"path"
	"strconv"
	"strings"
)

// cgroupDir is where control groups of version 2 are mounted
// (Documentation/admin-guide/cgroup-v2.rst of the kernel).
const cgroupDir = "sys/fs/cgroup"

// limits reads what this process's control group grants. Limits count on every
// level, so the smallest on the way up holds. Version 1 groups are not read:
// they look like no limit.
func (r *reader) limits() Limits {
	var least Limits
	for group := r.cgroup(); ; group = path.Dir(group) {
		dir := path.Join(cgroupDir, group)
		memory, _ := r.peek(dir + "/memory.max")
		least.Memory = smaller(least.Memory, memoryMax(memory))
		cpu, _ := r.peek(dir + "/cpu.max")
		least.CPUs = smaller(least.CPUs, cpuMax(cpu))
		if group == "/" {
			return least
		}
	}
}

// cgroup is the path of this process's version 2 group below cgroupDir. In a
// container with a name space of its own it is "/".
func (r *reader) cgroup() string {
	groups, _ := r.peek("proc/self/cgroup")
	for line := range strings.SplitSeq(groups, "\n") {
		if group, found := strings.CutPrefix(line, "0::"); found {
			return path.Clean("/" + group)
		}
	}
	return "/"
}

// memoryMax reads memory.max: bytes, or "max" for none.
func memoryMax(text string) int64 {
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit < 0 {
		return 0
	}
	return limit
}

// cpuMax reads cpu.max: "quota period" in microseconds, or "max period".
func cpuMax(text string) float64 {
	words := strings.Fields(text)
	if len(words) != 2 {
		return 0
	}
	quota, err := strconv.ParseUint(words[0], 10, 53)
	if err != nil {
		return 0
	}
	period, err := strconv.ParseUint(words[1], 10, 53)
	if err != nil || period == 0 {
		return 0
	}
	return float64(quota) / float64(period)
}

// smaller is the tighter of two limits; 0 is none.
func smaller[T int64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
