package testkit

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// stat reads parent and group of a process (proc(5), /proc/PID/stat). The name
// before them may hold anything, so what follows its last parenthesis is read.
func stat(pid int) (parent, group int, ok bool) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, false
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 3 || fields[0] == "Z" { // a zombie holds nothing any more
		return 0, 0, false
	}
	parent, _ = strconv.Atoi(fields[1])
	group, _ = strconv.Atoi(fields[2])
	return parent, group, true
}

// processes lists the processes that the condition picks.
func processes(pick func(parent, group int) bool) []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, group, ok := stat(pid); ok && pick(parent, group) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Children lists the processes that a process has started.
func Children(pid int) []int {
	return processes(func(parent, _ int) bool { return parent == pid })
}

// Group lists the members of a process group.
func Group(id int) []int {
	return processes(func(_, group int) bool { return group == id })
}

// OpenFiles counts the descriptors of a process, and those among them that are
// sockets.
func OpenFiles(t testing.TB, pid int) (all, sockets int) {
	t.Helper()
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, _ := os.Readlink(filepath.Join(dir, e.Name())) // empty if it was closed meanwhile
		if strings.HasPrefix(target, "socket:") {
			sockets++
		}
	}
	return len(entries), sockets
}
