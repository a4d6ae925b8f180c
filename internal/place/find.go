package place

import (
	"fmt"
	"io/fs"
	"slices"

	"sluice/internal/process"
)

// ByPID checks that there is such a process. It may be a thread's number, which is
// refused with its process's.
func ByPID(tree fs.FS, pid int) error {
	p, found := process.One(tree, pid)
	leader := process.Leader(tree, pid)
	switch {
	case !found:
		return fmt.Errorf("there is no process %d", pid)
	case leader != 0 && leader != pid:
		return fmt.Errorf("%d is a thread of process %d; place that one", pid, leader)
	case p.Ended():
		return fmt.Errorf("process %d (%s) has ended; its parent %d has not read its exit code yet", pid, Printable(p.Name), p.Parent)
	}
	return nil
}

// ByPort finds the processes that listen on a TCP port. Process 1 is left out where
// it only keeps the socket for a service (systemd.socket(5)): it would take the
// whole machine along.
func ByPort(tree fs.FS, port uint16) ([]int, error) {
	listeners, err := process.TCP(tree, port)
	if err != nil {
		return nil, err
	}
	if len(listeners) == 0 {
		return nil, fmt.Errorf("nobody listens on TCP port %d in this network name space; ss -ltn lists the ports", port)
	}
	owners, hidden, err := process.Owners(tree, listeners)
	if err != nil {
		return nil, err
	}
	services := slices.DeleteFunc(slices.Clone(owners), func(p process.Process) bool {
		return p.PID == 1 && (len(owners) > 1 || p.Name == "systemd" || p.Name == "init")
	})
	var pids []int
	for _, p := range services {
		pids = append(pids, p.PID)
	}
	switch {
	case len(pids) > 0:
		return pids, nil
	case len(owners) > 0:
		return nil, fmt.Errorf("only process 1 (%s) has TCP port %d, and would take the whole machine along; start the service behind it, or name its process", owners[0].Name, port)
	case hidden > 0:
		return nil, fmt.Errorf("TCP port %d belongs to one of the processes that you may not look into, %d in all; be root, or the user that it runs as", port, hidden)
	}
	return nil, fmt.Errorf("TCP port %d belongs to no process that shows here; it may be in another container", port)
}

// Printable is a process's name without what would move a terminal's cursor. A name
// is what its owner likes.
func Printable(name string) string {
	runes := []rune(name)
	for i, r := range runes {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			runes[i] = '?'
		}
	}
	return string(runes)
}
