package place

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/placement"
	"sluice/internal/topology"
)

// groupPrefix begins the name of each control group that is made here; the rest is
// the number of the family's first process.
const groupPrefix = "sluice-place-"

// group is a control group of version 2 with a cpuset of its own
// (Documentation/admin-guide/cgroup-v2.rst of the kernel).
type group struct {
	mount string // directory of the hierarchy, below the root of files
	path  string // of the group in the hierarchy, as /proc/PID/cgroup names it
}

// groupFor says which group a family gets: beside the one that its first process is
// in, or the same if that was made here.
func (m *Mover) groupFor(pid int) (group, error) {
	mount, err := m.hierarchy()
	if err != nil {
		return group{}, err
	}
	return group{mount: mount, path: path.Join(path.Dir(m.groupOf(pid)), groupPrefix+strconv.Itoa(pid))}, nil
}

// hierarchy finds where version 2 is mounted with the cpuset controller.
func (m *Mover) hierarchy() (string, error) {
	for _, mount := range []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"} {
		controllers, err := fs.ReadFile(m.tree(), mount+"/cgroup.controllers")
		if err != nil {
			continue
		}
		if slices.Contains(strings.Fields(string(controllers)), "cpuset") {
			return mount, nil
		}
		return "", fmt.Errorf("the cpuset controller is not in version 2 of control groups (/%s/cgroup.controllers)", mount)
	}
	return "", fmt.Errorf("version 2 of control groups is not mounted on /sys/fs/cgroup")
}

// groupOf is the path of a process's group in version 2.
func (m *Mover) groupOf(pid int) string {
	text, _ := fs.ReadFile(m.tree(), fmt.Sprintf("proc/%d/cgroup", pid))
	for line := range strings.Lines(string(text)) {
		if at, found := strings.CutPrefix(line, "0::"); found {
			return path.Clean("/" + strings.TrimSpace(at))
		}
	}
	return "/"
}

// isOurs reports whether a group was made here.
func isOurs(at string) bool { return strings.HasPrefix(path.Base(at), groupPrefix) }

// prepare makes the group with the target's CPUs, and with the node's memory alone
// if it is to be bound, else with all. Groups of families that have ended go.
func (m *Mover) prepare(g group, t Target) error {
	parent := path.Dir(g.path)
	for at := range levels(parent) {
		if err := m.delegate(path.Join(g.mount, at)); err != nil {
			return err
		}
	}
	stale, _ := filepath.Glob(m.file(g.mount, parent, groupPrefix+"*"))
	for _, dir := range stale {
		os.Remove(dir) // the kernel refuses while somebody is in it
	}
	if err := os.MkdirAll(m.file(g.mount, g.path), 0o755); err != nil {
		return err
	}
	memory := t.All // by name: once somebody is in the group the kernel refuses an empty list (ENOSPC)
	if t.Memory == placement.MemoryBind {
		memory = []int{t.Node}
	}
	// Memory comes first, so that pages follow once the processes join.
	if err := m.write(path.Join(g.mount, g.path, "cpuset.mems"), topology.FormatCPUs(memory)); err != nil {
		return err
	}
	return m.write(path.Join(g.mount, g.path, "cpuset.cpus"), topology.FormatCPUs(t.CPUs))
}

// delegate lets the groups below a directory have cpusets.
func (m *Mover) delegate(dir string) error {
	enabled, err := fs.ReadFile(m.tree(), dir+"/cgroup.subtree_control")
	if err == nil && slices.Contains(strings.Fields(string(enabled)), "cpuset") {
		return nil
	}
	return m.write(dir+"/cgroup.subtree_control", "+cpuset")
}

// join moves a process into the group, with all its threads.
func (m *Mover) join(g group, pid int) error {
	return m.write(path.Join(g.mount, g.path, "cgroup.procs"), strconv.Itoa(pid))
}

// levels yields the groups from the root of the hierarchy down to one.
func levels(group string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		at := "/"
		if !yield(at) {
			return
		}
		for part := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
			if at = path.Join(at, part); at != "/" && !yield(at) {
				return
			}
		}
	}
}

func (m *Mover) write(name, text string) error {
	return os.WriteFile(m.file(name), []byte(text+"\n"), 0o644)
}
