// Package process says what runs on this machine: processes and their children,
// the CPUs that their threads may use, the nodes that their memory is on, and who
// listens on a port. It reads procfs in a tree and changes nothing.
//
//	process.go   processes, threads, pages by node
//	listener.go  listening sockets and their owners
//
// Processes come and go while one reads. Whoever is gone in the middle is left
// out, without an error.
package process

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/topology"
)

// Process is one process, but for its threads.
type Process struct {
	PID    int
	Parent int    // 0: it has none that shows here
	Name   string // at most 15 bytes, as the kernel keeps it
	State  byte   // R, S, D, T, …; Z: it has ended, and nobody has asked for its exit code
	Born   uint64 // ticks since boot: with PID it tells a process from a later one of the same number
}

// Ended reports whether a process is only a name that its parent has not read yet.
func (p *Process) Ended() bool { return p.State == 'Z' || p.State == 'X' }

// Thread is one thread of a process.
type Thread struct {
	ID   int
	CPUs []int // where it may run, ascending
}

// All lists the processes, ascending by PID. The error is that of a tree that has
// no /proc.
func All(tree fs.FS) ([]Process, error) {
	entries, err := fs.ReadDir(tree, "proc")
	if err != nil {
		return nil, fmt.Errorf("the list of processes: %w", err)
	}
	var all []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p, ok := One(tree, pid); ok {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return all, nil
}

// One reads a process; false if there is none of that number.
func One(tree fs.FS, pid int) (Process, bool) {
	text, err := fs.ReadFile(tree, fmt.Sprintf("proc/%d/stat", pid))
	if err != nil {
		return Process{}, false
	}
	return parseStat(string(text))
}

// parseStat reads /proc/PID/stat (proc_pid_stat(5)): "12 (name) S 1 …", the time of
// birth as field 22. A name may hold anything, so what counts is its last
// parenthesis.
func parseStat(text string) (Process, bool) {
	open, shut := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || shut < open {
		return Process{}, false
	}
	fields := strings.Fields(text[shut+1:]) // field 3 of the manual is the first
	if len(fields) < 20 {
		return Process{}, false
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(text[:open]))
	parent, err2 := strconv.Atoi(fields[1])
	born, err3 := strconv.ParseUint(fields[19], 10, 64)
	if err := cmp.Or(err1, err2, err3); err != nil {
		return Process{}, false
	}
	return Process{PID: pid, Parent: parent, Name: text[open+1 : shut], State: fields[0][0], Born: born}, true
}

// Family lists those of all that are one of the roots, and their descendants of
// every degree: parents before children, siblings ascending, each once.
func Family(all []Process, roots ...int) []Process {
	children := map[int][]Process{}
	var found []Process
	for _, p := range all {
		children[p.Parent] = append(children[p.Parent], p)
		if slices.Contains(roots, p.PID) {
			found = append(found, p)
		}
	}
	known := map[int]bool{}
	once := func(p Process) bool {
		again := known[p.PID]
		known[p.PID] = true
		return again
	}
	found = slices.DeleteFunc(found, once)
	for i := 0; i < len(found); i++ {
		found = append(found, slices.DeleteFunc(children[found[i].PID], once)...)
	}
	return found
}

// Threads lists a process's threads, ascending: its first one has its number. None:
// the process is gone.
func Threads(tree fs.FS, pid int) []Thread {
	dir := fmt.Sprintf("proc/%d/task", pid)
	entries, err := fs.ReadDir(tree, dir)
	if err != nil {
		return nil
	}
	var threads []Thread
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		list, found := status(tree, dir+"/"+entry.Name(), "Cpus_allowed_list")
		cpus, err := topology.ParseCPUs(list)
		if found && err == nil {
			threads = append(threads, Thread{ID: id, CPUs: cpus})
		}
	}
	slices.SortFunc(threads, func(a, b Thread) int { return cmp.Compare(a.ID, b.ID) })
	return threads
}

// CPUs are all on which one of the threads may run, ascending.
func CPUs(threads []Thread) []int {
	var cpus []int
	for _, t := range threads {
		cpus = append(cpus, t.CPUs...)
	}
	slices.Sort(cpus)
	return slices.Compact(cpus)
}

// Leader is the process that a thread belongs to; itself, if the number is a
// process's; 0 if there is neither.
func Leader(tree fs.FS, thread int) int {
	text, _ := status(tree, fmt.Sprintf("proc/%d", thread), "Tgid")
	leader, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return leader
}

// status finds a key in a status file (proc_pid_status(5)).
func status(tree fs.FS, dir, key string) (string, bool) {
	text, err := fs.ReadFile(tree, dir+"/status")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); name == key {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// Memory is how much of a process's memory is on each node, in bytes; nodes with
// none are left out. It counts pages of files too, and those that it shares. The
// error says that the kernel has no NUMA, or that we lack the right to look.
func Memory(tree fs.FS, pid int) (map[int]int64, error) {
	return memory(tree, pid, func(string) bool { return true })
}

// Anonymous is Memory without mappings of files, and so without what processes
// share: heap and stacks, which the process alone has written.
func Anonymous(tree fs.FS, pid int) (map[int]int64, error) {
	return memory(tree, pid, func(mapping string) bool { return !strings.Contains(mapping, " file=") })
}

// memory adds up those mappings that count.
func memory(tree fs.FS, pid int, counts func(mapping string) bool) (map[int]int64, error) {
	text, err := fs.ReadFile(tree, fmt.Sprintf("proc/%d/numa_maps", pid))
	if err != nil {
		return nil, fmt.Errorf("memory by node: %w", err)
	}
	sum := map[int]int64{}
	for line := range strings.Lines(string(text)) {
		if !counts(line) {
			continue
		}
		if err := addMapping(sum, line); err != nil {
			return nil, fmt.Errorf("memory by node: /proc/%d/numa_maps: %w", pid, err)
		}
	}
	return sum, nil
}

// smallPage is the size of a page in a line that names none, as those of old
// kernels.
const smallPage = 4 // KiB

// addMapping adds a line of numa_maps (numa(7)): an address, a policy, then words as
// "anon=3", "N2=3" (pages on node 2) and "kernelpagesize_kB=4".
func addMapping(memory map[int]int64, line string) error {
	pages, kib := map[int]int64{}, int64(smallPage)
	for word := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(word, "=")
		node, err := strconv.ParseUint(strings.TrimPrefix(key, "N"), 10, 16)
		isNode := err == nil && key[0] == 'N'
		if !isNode && key != "kernelpagesize_kB" {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 40)
		switch {
		case err != nil:
			return fmt.Errorf("%q is no count", word)
		case isNode:
			pages[int(node)] += n
		default:
			kib = n
		}
	}
	for node, n := range pages {
		memory[node] += n * kib << 10
	}
	return nil
}

// Policies are the memory policies of a process's mappings that name nodes, as the
// kernel writes them: "bind:0", "prefer=static:1", "prefer (many):0-1". Those of its
// first thread are among them. None: new pages come from where its threads run.
func Policies(tree fs.FS, pid int) []string {
	text, _ := fs.ReadFile(tree, fmt.Sprintf("proc/%d/numa_maps", pid))
	var found []string
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		policy := words[1]
		if len(words) > 2 && strings.HasPrefix(words[2], "(") {
			policy += " " + words[2]
		}
		if strings.Contains(policy, ":") && !slices.Contains(found, policy) {
			found = append(found, policy)
		}
	}
	slices.Sort(found)
	return found
}
