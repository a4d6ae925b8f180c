package guest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Node is what the kernel says of a node (/sys/devices/system/node/nodeN).
type Node struct {
	ID     int
	CPUs   []int // online, ascending
	Memory int   // MiB
}

// Nodes are those that are online.
func (g *Guest) Nodes() []Node {
	g.t.Helper()
	const dir = "/sys/devices/system/node/"
	lists, memory := g.Match(dir+"node*/cpulist"), g.matchOnly(dir+"node*/meminfo", "Node .* MemTotal.*")
	var nodes []Node
	for _, id := range g.CPUs(g.Line(dir + "online")) {
		n := Node{ID: id}
		at := fmt.Sprintf("%snode%d/", dir, id)
		n.CPUs = g.CPUs(lists[at+"cpulist"])
		var kib int
		if _, err := fmt.Sscanf(memory[at+"meminfo"], "Node %d MemTotal: %d kB", new(int), &kib); err != nil {
			g.t.Fatalf("%smeminfo: %v", at, err)
		}
		n.Memory = kib >> 10
		nodes = append(nodes, n)
	}
	return nodes
}

// Plug takes a CPU away, or brings it back.
func (g *Guest) Plug(cpu int, in bool) {
	g.t.Helper()
	value := "0"
	if in {
		value = "1"
	}
	g.Write(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu), value)
}

// CPUs reads a list of the kernel, of CPUs or of nodes.
func (g *Guest) CPUs(list string) []int {
	g.t.Helper()
	cpus, err := parseList(list)
	if err != nil {
		g.t.Fatal(err)
	}
	return cpus
}

// parseList reads the kernel's list format: "0-2,5" (Documentation/core-api/
// printk-formats.rst, bitmap). An empty list is none.
func parseList(list string) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		if part == "" {
			continue
		}
		low, high, ranged := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		last := first
		if ranged && err == nil {
			last, err = strconv.Atoi(high)
		}
		if err != nil || last < first {
			return nil, fmt.Errorf("%q is no list of the kernel's", list)
		}
		for n := first; n <= last; n++ {
			all = append(all, n)
		}
	}
	return all, nil
}

// Children are the processes whose parent is pid, ascending, but for those that
// have ended.
func (g *Guest) Children(pid int) []int {
	g.t.Helper()
	var children []int
	for _, text := range g.matchOnly("/proc/[0-9]*/stat", `(?s)^\d+ \(.*\) \S \d+`) {
		child, state, parent, err := parseStat(text)
		if err != nil {
			g.t.Fatal(err)
		}
		if parent == pid && state != "Z" {
			children = append(children, child)
		}
	}
	slices.Sort(children)
	return children
}

// parseStat reads /proc/PID/stat (proc_pid_stat(5)). The name may hold anything,
// so what follows its last parenthesis is read.
func parseStat(text string) (pid int, state string, parent int, err error) {
	at := strings.LastIndexByte(text, ')')
	fields := strings.Fields(text[at+1:])
	if at < 0 || len(fields) < 2 {
		return 0, "", 0, fmt.Errorf("%q is no line of /proc/PID/stat", text)
	}
	if _, err = fmt.Sscanf(text, "%d", &pid); err == nil {
		parent, err = strconv.Atoi(fields[1])
	}
	return pid, fields[0], parent, err
}

// CPUTime is what a process has used of its CPUs so far, in the kernel's steps of
// 10 ms.
func (g *Guest) CPUTime(pid int) time.Duration {
	g.t.Helper()
	used, err := cpuTime(g.Read(fmt.Sprintf("/proc/%d/stat", pid)))
	if err != nil {
		g.t.Fatal(err)
	}
	return used
}

// cpuTime reads fields 14 and 15 of /proc/PID/stat, user and system time.
func cpuTime(text string) (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ on amd64
	var user, system int64
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q is no line of /proc/PID/stat", text)
	}
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, fmt.Errorf("the CPU time in %q: %w", text, err)
	}
	return time.Duration(user+system) * tick, nil
}

// Threads are the CPUs that each thread of a process may run on, by thread id.
func (g *Guest) Threads(pid int) map[int][]int {
	g.t.Helper()
	threads := map[int][]int{}
	const field = "Cpus_allowed_list:"
	for path, text := range g.matchOnly(fmt.Sprintf("/proc/%d/task/*/status", pid), field+".*") {
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		list, found := strings.CutPrefix(text, field)
		if err != nil || !found {
			g.t.Fatalf("%s: no %s", path, field)
		}
		threads[id] = g.CPUs(list)
	}
	if len(threads) == 0 {
		g.t.Fatalf("process %d in the guest has no threads", pid)
	}
	return threads
}

// AnonymousPages are the pages of a process's heap, stacks and other memory that
// is no file's, by the node that they are on.
func (g *Guest) AnonymousPages(pid int) map[int]int {
	g.t.Helper()
	pages, err := anonymousPages(g.readOnly(fmt.Sprintf("/proc/%d/numa_maps", pid), `.* N\d+=.*`))
	if err != nil {
		g.t.Fatal(err)
	}
	return pages
}

// MemoryPolicies are those of a process's mappings that are no file's, as "bind:2":
// how many mappings have each. The kernel shows the policy of the process's first
// thread, which those have that were not given their own.
func (g *Guest) MemoryPolicies(pid int) map[string]int {
	g.t.Helper()
	policies := map[string]int{}
	for line := range strings.Lines(g.readOnly(fmt.Sprintf("/proc/%d/numa_maps", pid), `.* N\d+=.*`)) {
		if fields := strings.Fields(line); !strings.Contains(line, " file=") {
			policies[fields[1]]++
		}
	}
	return policies
}

// anonymousPages reads /proc/PID/numa_maps (numa(7)): a line for each mapping, with
// pages by node as N0=12. Mappings of files are left out, with the few pages of
// them that the process has written to.
func anonymousPages(text string) (map[int]int, error) {
	pages := map[int]int{}
	for line := range strings.Lines(text) {
		if strings.Contains(line, " file=") {
			continue
		}
		for _, field := range strings.Fields(line)[1:] {
			name, value, _ := strings.Cut(field, "=")
			digits, ofNode := strings.CutPrefix(name, "N")
			node, err := strconv.Atoi(digits)
			if !ofNode || err != nil {
				continue
			}
			n, err := strconv.Atoi(value)
			if err != nil {
				return nil, fmt.Errorf("numa_maps: %q", line)
			}
			pages[node] += n
		}
	}
	return pages, nil
}
