package guest

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Waits are the inodes of what each thread of a process waits for in epoll_wait at
// this moment, by thread id: of a loop that sleeps, its connections. A thread that
// does anything else is missing.
func (g *Guest) Waits(pid int) map[int][]string {
	g.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	waits := map[int][]string{}
	for path, call := range g.matchOnly(proc+"task/*/syscall", `^\S+ \S+`) {
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			g.t.Fatal(err)
		}
		if fd, waiting := epollOf(call); waiting {
			inodes, err := watched(g.readOnly(fmt.Sprintf("%sfdinfo/%d", proc, fd), "tfd:.*"))
			if err != nil {
				g.t.Fatal(err)
			}
			waits[id] = inodes
		}
	}
	return waits
}

// epollOf reads /proc/PID/task/TID/syscall (proc_pid_syscall(5)): "running", or the
// number of the call and its arguments. It returns the descriptor that a thread
// waits at.
func epollOf(call string) (fd int, waiting bool) {
	const epollWait, epollPwait = "232", "281" // on amd64, the only guest that we have
	words := strings.Fields(call)
	if len(words) < 2 || words[0] != epollWait && words[0] != epollPwait {
		return 0, false
	}
	n, err := strconv.ParseInt(words[1], 0, 32)
	return int(n), err == nil
}

// watched reads /proc/PID/fdinfo/FD of an epoll instance (proc_pid_fdinfo(5)), which
// has a line for each descriptor that is watched:
//
//	tfd:        7 events: 80002019 data:  100000007  pos:0 ino:1fd8 sdev:8
func watched(fdinfo string) ([]string, error) {
	var inodes []string
	for line := range strings.Lines(fdinfo) {
		if !strings.HasPrefix(line, "tfd:") {
			continue
		}
		_, after, _ := strings.Cut(line, "ino:")
		words := strings.Fields(after)
		if len(words) == 0 {
			return nil, fmt.Errorf("fdinfo: no inode in %q", line)
		}
		inode, err := strconv.ParseUint(words[0], 16, 64)
		if err != nil {
			return nil, fmt.Errorf("fdinfo: the inode in %q: %w", line, err)
		}
		inodes = append(inodes, strconv.FormatUint(inode, 10))
	}
	return inodes, nil
}
