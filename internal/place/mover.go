package place

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"sluice/internal/placement"
	"sluice/internal/process"
	"sluice/internal/topology"
)

// Kernel is what changes processes: package affinity, or a test's pretence.
type Kernel struct {
	MoveThread func(thread int, cpus []int) error
	MoveMemory func(pid int, from []int, to int) (stayed int, err error)
}

// Mover moves a family of processes: those that were named, their descendants, and
// those descendants' whose parents have ended since. One goroutine uses it.
type Mover struct {
	Root   string // of /proc and /sys
	Kernel Kernel
	Target Target
	Groups bool // a control group may be made

	known   map[int]uint64 // the family as it was last seen: PID → Process.Born
	refused map[int]bool   // threads that the kernel would not move
	outside map[int]bool   // processes that could not join the group
	group   *group         // that the family joins; nil: none
}

// Outcome is what became of one process.
type Outcome struct {
	Process       process.Process
	Threads       int           // the most that were seen
	Moved         int           // threads whose CPUs were changed
	Before, After []int         // CPUs of all its threads
	Held, Holds   map[int]int64 // memory by node in bytes, before and after; nil: unknown
	Stayed        int           // pages that could not be moved
	Policies      []string      // memory policies that its program has set, and that lead to other nodes
	Faults        []string      // what failed, and what would help
	Ended         bool          // while it was being moved

	usual []int // CPUs of its first thread, before: those of the process, as far as one can tell
}

// maxPasses bounds how often threads are counted anew. A thread that is made by one
// that was moved is in its place already, so the second pass finds few, and later
// ones none, unless the program changes its own threads all the time.
const maxPasses = 10

// Place moves the family of some processes:
//
//  1. note where everybody is
//  2. a control group, if memory shall be bound
//  3. the CPUs of all threads, until no new ones show
//  4. pages
//  5. note where everybody is now
//
// The error says that nothing could be done. What failed of one process stands in
// its Outcome.
func (m *Mover) Place(roots ...int) ([]Outcome, error) {
	m.forget()
	family, err := m.family(roots...)
	if err != nil {
		return nil, err
	}
	if len(family) == 0 {
		return nil, errors.New("the processes have ended")
	}
	outcomes := map[int]*Outcome{}
	for _, p := range family { // 1
		outcomes[p.PID] = m.before(p)
	}
	first := outcomes[family[0].PID]
	m.prepareGroup(first)     // 2
	m.moveAll(outcomes, true) // 3
	for _, o := range outcomes {
		m.moveMemory(o) // 4
	}
	return m.after(outcomes), nil // 5
}

// Look moves threads and processes that have joined the family, or left its CPUs,
// since the last look. It returns those processes that it found so, and how many
// the family has.
func (m *Mover) Look() (moved []Outcome, size int, err error) {
	outcomes := map[int]*Outcome{}
	if size, err = m.moveAll(outcomes, false); err != nil {
		return nil, 0, err
	}
	for pid, o := range outcomes {
		if o.Moved == 0 && len(o.Faults) == 0 {
			delete(outcomes, pid)
			continue
		}
		m.moveMemory(o)
	}
	return m.after(outcomes), size, nil
}

// Plan is what Place would do, without doing it: all threads and all pages go.
func (m *Mover) Plan(roots ...int) ([]Outcome, error) {
	m.forget()
	family, err := m.family(roots...)
	outcomes := map[int]*Outcome{}
	for _, p := range family {
		o := m.before(p)
		o.After, o.Holds = m.Target.CPUs, maps.Clone(o.Held)
		for _, node := range m.Target.From {
			if o.Holds[node] > 0 {
				o.Holds[m.Target.Node] += o.Holds[node]
				delete(o.Holds, node)
			}
		}
		outcomes[p.PID] = o
	}
	return sorted(outcomes), err
}

// forget begins with another family.
func (m *Mover) forget() {
	m.known, m.refused, m.outside, m.group = map[int]uint64{}, map[int]bool{}, map[int]bool{}, nil
}

// family lists the processes that belong to it now, but for those that have ended.
func (m *Mover) family(roots ...int) ([]process.Process, error) {
	all, err := process.All(m.tree())
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if born, is := m.known[p.PID]; is && born == p.Born {
			roots = append(roots, p.PID)
		}
	}
	family := slices.DeleteFunc(process.Family(all, roots...), func(p process.Process) bool { return p.Ended() })
	clear(m.known)
	for _, p := range family {
		m.known[p.PID] = p.Born
	}
	return family, nil
}

func (m *Mover) before(p process.Process) *Outcome {
	threads := process.Threads(m.tree(), p.PID)
	o := &Outcome{Process: p, Threads: len(threads), Before: process.CPUs(threads)}
	if len(threads) > 0 {
		o.usual = threads[0].CPUs
	}
	o.Held, _ = process.Memory(m.tree(), p.PID)
	return o
}

// prepareGroup makes a group if memory shall be bound, or if the family is in one
// that was made here and that allows other CPUs.
func (m *Mover) prepareGroup(first *Outcome) {
	pid := first.Process.PID
	bind := m.Target.Memory == placement.MemoryBind
	if !m.Groups || !bind && !isOurs(m.groupOf(pid)) {
		return
	}
	g, err := m.groupFor(pid)
	if err == nil {
		err = m.prepare(g, m.Target)
	}
	if err != nil {
		first.fault("its memory is not bound, as there is no control group: %v; pages move, and new ones come from node %d first", err, m.Target.Node)
		return
	}
	m.group = &g
}

// moveAll moves the threads of all that belong to the family, until a pass finds
// nothing to move. Who joins meanwhile gets an Outcome. With widen a thread that
// has fewer CPUs than the target gets them all, unless it is its program that keeps
// it on fewer.
func (m *Mover) moveAll(outcomes map[int]*Outcome, widen bool) (size int, err error) {
	for range maxPasses {
		family, err := m.family()
		if err != nil {
			return 0, err
		}
		moved := 0
		for _, p := range family {
			o := outcomes[p.PID]
			if o == nil {
				o = m.before(p)
				outcomes[p.PID] = o
			}
			moved += m.moveThreads(o, widen)
		}
		if size = len(family); moved == 0 {
			break
		}
	}
	return size, nil
}

// moveThreads moves one process's threads, and returns how many.
func (m *Mover) moveThreads(o *Outcome, widen bool) (moved int) {
	pid := o.Process.PID
	if g := m.group; g != nil && m.groupOf(pid) != g.path && !m.outside[pid] {
		if err := m.join(*g, pid); err != nil && !isGone(err) {
			m.outside[pid] = true
			o.fault("control group %s: %v", g.path, err)
		}
	}
	threads := process.Threads(m.tree(), pid)
	o.Threads = max(o.Threads, len(threads))
	for _, t := range threads {
		if m.refused[t.ID] || m.stays(t, o.usual, widen) {
			continue
		}
		err := m.Kernel.MoveThread(t.ID, m.Target.CPUs)
		switch {
		case err == nil:
			moved++
		case !isGone(err):
			m.refused[t.ID] = true
			o.fault("%s", m.why(err))
		}
	}
	o.Moved += moved
	return moved
}

// stays reports whether a thread is where it belongs.
func (m *Mover) stays(t process.Thread, usual []int, widen bool) bool {
	target := m.Target.CPUs
	if slices.Equal(t.CPUs, target) {
		return true
	}
	for _, cpu := range t.CPUs {
		if !slices.Contains(target, cpu) {
			return false
		}
	}
	return !widen || !slices.Equal(t.CPUs, usual)
}

// why says what helps against the refusal to move a thread.
func (m *Mover) why(err error) string {
	cpus := topology.FormatCPUs(m.Target.CPUs)
	switch {
	case errors.Is(err, syscall.EPERM):
		return fmt.Sprintf("CPUs %s: %v; be root, or the user that it runs as", cpus, err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Sprintf("CPUs %s: %v; the kernel keeps this thread, or its control group's cpuset.cpus has none of them", cpus, err)
	}
	return fmt.Sprintf("CPUs %s: %v", cpus, err)
}

// moveMemory moves a process's pages.
func (m *Mover) moveMemory(o *Outcome) {
	t := m.Target
	if len(t.From) == 0 {
		return
	}
	stayed, err := m.Kernel.MoveMemory(o.Process.PID, t.From, t.Node)
	o.Stayed += stayed
	switch {
	case err == nil || isGone(err):
	case errors.Is(err, syscall.EPERM):
		o.fault("memory to node %d: %v; be root, or the user that it runs as; and its control group's cpuset.mems must have the node", t.Node, err)
	default:
		o.fault("memory to node %d: %v", t.Node, err)
	}
}

// after notes where everybody is, in order of PID.
func (m *Mover) after(outcomes map[int]*Outcome) []Outcome {
	for pid, o := range outcomes {
		now, found := process.One(m.tree(), pid)
		threads := process.Threads(m.tree(), pid)
		if !found || now.Born != o.Process.Born || now.Ended() || len(threads) == 0 {
			o.Ended = true
			continue
		}
		o.After = process.CPUs(threads)
		o.Holds, _ = process.Memory(m.tree(), pid)
		o.Policies = m.against(process.Policies(m.tree(), pid))
	}
	return sorted(outcomes)
}

// against are the policies under which new pages come from other nodes only, or
// first. A group that binds memory stands above them.
func (m *Mover) against(policies []string) []string {
	if m.group != nil && m.Target.Memory == placement.MemoryBind {
		return nil
	}
	return slices.DeleteFunc(policies, func(policy string) bool {
		nodes, err := topology.ParseCPUs(policy[strings.LastIndexByte(policy, ':')+1:])
		return m.Target.Memory == placement.MemoryDefault || err != nil || slices.Contains(nodes, m.Target.Node)
	})
}

func sorted(outcomes map[int]*Outcome) []Outcome {
	var all []Outcome
	for _, pid := range slices.Sorted(maps.Keys(outcomes)) {
		all = append(all, *outcomes[pid])
	}
	return all
}

// fault notes what failed, once.
func (o *Outcome) fault(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(o.Faults, text) {
		o.Faults = append(o.Faults, text)
	}
}

// isGone reports whether somebody has ended before he could be moved.
func isGone(err error) bool { return errors.Is(err, syscall.ESRCH) }

func (m *Mover) tree() fs.FS { return os.DirFS(m.Root) }

func (m *Mover) file(parts ...string) string {
	return filepath.Join(append([]string{m.Root}, parts...)...)
}
