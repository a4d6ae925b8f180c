package topology

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// cgroupDir is where control groups are mounted: version 2 there
// (Documentation/admin-guide/cgroup-v2.rst of the kernel), a controller of
// version 1 in a directory of its own below.
const cgroupDir = "sys/fs/cgroup"

// noMemoryLimit is from where on a limit of version 1 is none: its largest is
// the number of pages that fits a signed 64-bit word.
const noMemoryLimit = 1 << 62 // bytes

// limits reads what this process's control group grants. Limits count on every
// level, so the smallest on the way up holds, of both versions.
func (r *reader) limits() Limits {
	var least Limits
	for dir := range r.levels("") {
		memory, _ := r.peek(dir + "/memory.max")
		least.Memory = smaller(least.Memory, memoryMax(memory))
		cpu, _ := r.peek(dir + "/cpu.max")
		least.CPUs = smaller(least.CPUs, cpuMax(cpu))
	}
	for dir := range r.levels("memory") {
		memory, _ := r.peek(dir + "/memory.limit_in_bytes")
		least.Memory = smaller(least.Memory, memoryMax(memory))
	}
	for dir := range r.levels("cpu") {
		quota, _ := r.peek(dir + "/cpu.cfs_quota_us")
		period, _ := r.peek(dir + "/cpu.cfs_period_us")
		least.CPUs = smaller(least.CPUs, cpuMax(quota+" "+period))
	}
	return least
}

// cpuset reads which CPUs and nodes this process's control group grants: those
// in effect, which the kernel has already cut to what the groups above have. A
// group without the controller has its parent's.
func (r *reader) cpuset() Cpuset {
	var s Cpuset
	for dir := range r.levels("") {
		s.take(r.peekList(dir + "/cpuset.cpus.effective"))
		s.takeNodes(r.peekList(dir + "/cpuset.mems.effective"))
	}
	for dir := range r.levels("cpuset") { // version 1, in effect or, before Linux 3.17, as set
		s.take(r.peekList(dir + "/cpuset.effective_cpus"))
		s.take(r.peekList(dir + "/cpuset.cpus"))
		s.takeNodes(r.peekList(dir + "/cpuset.effective_mems"))
		s.takeNodes(r.peekList(dir + "/cpuset.mems"))
	}
	return s
}

// take keeps the first CPUs that were found.
func (s *Cpuset) take(cpus []int, _ bool) {
	if len(s.CPUs) == 0 {
		s.CPUs = cpus
	}
}

// takeNodes keeps the first nodes that were found.
func (s *Cpuset) takeNodes(nodes []int, _ bool) {
	if len(s.Nodes) == 0 {
		s.Nodes = nodes
	}
}

// affinity reads what this process itself may use (proc_pid_status(5)): its
// control group's CPUs, less what taskset or a service manager took.
func (r *reader) affinity() Cpuset {
	status, _ := r.peek("proc/self/status")
	var s Cpuset
	for line := range strings.Lines(status) {
		key, list, _ := strings.Cut(line, ":")
		ids, err := ParseCPUs(list)
		if err != nil {
			continue // most lines are no lists
		}
		switch key {
		case "Cpus_allowed_list":
			s.CPUs = ids
		case "Mems_allowed_list":
			s.Nodes = ids
		}
	}
	return s
}

// levels yields the directories of this process's group, from its own up to the
// root's; of version 2, or of a controller of version 1. In a container the
// path is the host's, and only some of the directories are there.
func (r *reader) levels(controller string) func(yield func(dir string) bool) {
	return func(yield func(dir string) bool) {
		for group := r.cgroup(controller); ; group = path.Dir(group) {
			if !yield(path.Join(cgroupDir, controller, group)) || group == "/" {
				return
			}
		}
	}
}

// cgroup is the path of this process's group, of version 2 ("0::/path") or of a
// controller of version 1 ("4:cpu,cpuacct:/path"). In a container with a name
// space of its own it is "/".
func (r *reader) cgroup(controller string) string {
	groups, _ := r.peek("proc/self/cgroup")
	for line := range strings.SplitSeq(groups, "\n") {
		parts := strings.SplitN(line, ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return path.Clean("/" + parts[2])
		}
	}
	return "/"
}

// memoryMax reads memory.max: bytes, or "max" for none.
func memoryMax(text string) int64 {
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || limit < 0 || limit >= noMemoryLimit {
		return 0
	}
	return limit
}

// cpuMax reads cpu.max: "quota period" in microseconds, or "max period".
// Version 1 says -1 for none.
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
