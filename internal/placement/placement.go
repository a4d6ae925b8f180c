// Package placement decides which worker runs where.
//
// It is pure: topology and wishes go in, an Assignment comes out, and nothing of
// the machine is touched. Package affinity applies the result. The decision in
// order:
//
//  1. check the wishes
//  2. take from each node the CPUs that this process may use
//  3. make one silo per node, or one for the whole machine
//  4. give each silo's worker its loops, its memory policy and its memory limit
//
// What cannot be had (a memory policy for a node without memory) is replaced by
// doing nothing, and Assignment.Notes says so.
package placement

import (
	"fmt"
	"math"
	"slices"

	"sluice/internal/topology"
)

// Values of Wishes.Per, Wishes.Affinity and Wishes.Memory, and of Worker.Memory.
const (
	PerNode    = "node"
	PerMachine = "machine"

	AffinityHard = "hard"
	AffinityNone = "none"

	MemoryPrefer  = "prefer"
	MemoryBind    = "bind"
	MemoryDefault = "default"
)

// Bounds of an assignment. The shared segment has room for so many
// (segment.MaxWorkers, segment.MaxLoops).
const (
	MaxWorkers = 64
	MaxLoops   = 256 // per worker
)

// memoryShare of a silo's memory is what the Go heap of its worker may grow to
// before the collector works against it (GOMEMLIMIT). The rest is for socket
// buffers, the page cache and the app servers on the node.
const memoryShare = 0.7

// Wishes are what the operator configured, and what the process was given.
type Wishes struct {
	Per      string // node: a worker per NUMA node that has CPUs; machine: one
	Loops    int    // per worker; 0: one per CPU
	Affinity string // hard: loop i stays on CPUs[i % len]; none: loops move within the worker's CPUs
	Memory   string // prefer | bind | default: the node's memory, first, only, or as the kernel likes
	Allowed  []int  // CPUs that this process may use; empty: all that are online
}

// Assignment is the decision. It is immutable.
type Assignment struct {
	Workers []Worker // at least one; no CPU is in two of them
	Notes   []string // wishes that this machine cannot meet, for the log
}

// Worker is the place of one listener process.
type Worker struct {
	Index       int    // position in Assignment.Workers
	Node        int    // NUMA node; the lowest if the worker spans several
	CPUs        []int  // ascending, at least one: all threads of the process stay on them
	Loops       int    // 1 to MaxLoops
	Pin         bool   // loop i stays on CPUs[i % len]
	Memory      string // prefer | bind: Node's memory; default: no policy
	MemoryLimit int64  // bytes, for GOMEMLIMIT; 0: unknown, no limit
}

// silo is a set of CPUs and memory that one worker gets.
type silo struct {
	node      int
	cpus      []int
	memory    int64 // bytes; 0: unknown or none
	hasMemory bool  // of its own
}

// Plan decides. It fails if the wishes are not as documented, or if they ask for
// more workers or loops than the bounds.
func Plan(m *topology.Machine, w Wishes) (*Assignment, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	silos := usable(m, w.Allowed)
	if w.Per == PerMachine {
		silos = []silo{merge(silos)}
	}
	if len(silos) > MaxWorkers {
		return nil, fmt.Errorf("workers.per: node: %d nodes have usable CPUs, and at most %d workers are possible; write machine", len(silos), MaxWorkers)
	}
	a := &Assignment{Workers: make([]Worker, len(silos))}
	shares := split(silos, m.Limits.CPUs)
	for i, s := range silos {
		a.Workers[i] = Worker{
			Index:       i,
			Node:        s.node,
			CPUs:        s.cpus,
			Loops:       a.loops(s, w, shares[i]),
			Pin:         w.Affinity == AffinityHard,
			Memory:      a.memory(s, w, m),
			MemoryLimit: limit(s, m.Limits.Memory, len(silos)),
		}
	}
	return a, nil
}

func (w Wishes) check() error {
	switch {
	case w.Per != PerNode && w.Per != PerMachine:
		return fmt.Errorf("workers.per: %q: write %s or %s", w.Per, PerNode, PerMachine)
	case w.Affinity != AffinityHard && w.Affinity != AffinityNone:
		return fmt.Errorf("workers.affinity: %q: write %s or %s", w.Affinity, AffinityHard, AffinityNone)
	case w.Memory != MemoryPrefer && w.Memory != MemoryBind && w.Memory != MemoryDefault:
		return fmt.Errorf("workers.memory: %q: write %s, %s or %s", w.Memory, MemoryPrefer, MemoryBind, MemoryDefault)
	case w.Loops < 0 || w.Loops > MaxLoops:
		return fmt.Errorf("workers.loops: %d: write 0 (one per CPU) to %d", w.Loops, MaxLoops)
	}
	return nil
}

// usable makes a silo of each node that has CPUs we may use. If the machine's
// files and our CPU set disagree altogether, as in some containers, the CPU set
// is right: the kernel itself gave it to us.
func usable(m *topology.Machine, allowed []int) []silo {
	var silos []silo
	for _, n := range m.Nodes {
		cpus := slices.Clone(n.CPUs)
		if len(allowed) > 0 {
			cpus = slices.DeleteFunc(cpus, func(cpu int) bool { return !slices.Contains(allowed, cpu) })
		}
		if len(cpus) > 0 {
			silos = append(silos, silo{node: n.ID, cpus: cpus, memory: n.MemTotal, hasMemory: n.HasMemory})
		}
	}
	if len(silos) == 0 {
		cpus := slices.Compact(slices.Sorted(slices.Values(allowed)))
		silos = []silo{{node: m.Nodes[0].ID, cpus: cpus}}
	}
	return silos
}

// merge makes one silo of all. One that spans nodes owns no node's memory in
// particular, so that no memory policy fits it.
func merge(silos []silo) silo {
	if len(silos) == 1 {
		return silos[0]
	}
	all := silo{node: silos[0].node}
	for _, s := range silos {
		all.cpus = append(all.cpus, s.cpus...)
		all.memory += s.memory
	}
	slices.Sort(all.cpus)
	return all
}

// split shares a control group's CPU limit out among the silos, in proportion
// to their CPUs: a loop that the kernel throttles holds all its connections up,
// so there must be no more loops than the limit feeds. Without a limit each gets
// all its CPUs.
func split(silos []silo, cpuLimit float64) []int {
	total := 0
	shares := make([]int, len(silos))
	for i, s := range silos {
		shares[i] = len(s.cpus)
		total += len(s.cpus)
	}
	if cpuLimit == 0 || cpuLimit >= float64(total) {
		return shares
	}
	for i := range shares {
		share := cpuLimit * float64(shares[i]) / float64(total)
		shares[i] = max(1, int(math.Round(share)))
	}
	return shares
}

// loops says how many loops a silo's worker runs: as many as wished, else one
// per CPU within its share of the CPU limit.
func (a *Assignment) loops(s silo, w Wishes, share int) int {
	if w.Loops > 0 {
		return w.Loops
	}
	if share < len(s.cpus) {
		a.note("node %d: the control group's CPU limit feeds %d of %d loops", s.node, share, len(s.cpus))
	}
	if share > MaxLoops {
		a.note("node %d: %d CPUs, but a worker runs at most %d loops", s.node, share, MaxLoops)
	}
	return min(share, MaxLoops)
}

// memory gives the policy that makes a difference on this machine. With a
// single node that has memory every page comes from there anyway, and the call
// would only be refused where containers forbid it.
func (a *Assignment) memory(s silo, w Wishes, m *topology.Machine) string {
	if w.Memory == MemoryDefault || sources(m) < 2 {
		return MemoryDefault
	}
	if s.hasMemory {
		return w.Memory
	}
	// One worker for the whole machine cannot prefer a node; who asked for that
	// by keeping the default needs no note.
	if w.Per == PerNode || w.Memory == MemoryBind {
		a.note("workers.memory: %s: no one node holds the memory of the worker on CPUs %s; using %s",
			w.Memory, topology.FormatCPUs(s.cpus), MemoryDefault)
	}
	return MemoryDefault
}

// sources counts the nodes that memory can come from.
func sources(m *topology.Machine) int {
	n := 0
	for _, node := range m.Nodes {
		if node.HasMemory {
			n++
		}
	}
	return n
}

// limit is the worker's share of its silo's memory, or of the control group's
// limit if that is less. The workers divide the group's limit evenly.
func limit(s silo, groupLimit int64, workers int) int64 {
	memory := s.memory
	if share := groupLimit / int64(workers); share > 0 && (memory == 0 || share < memory) {
		memory = share
	}
	return int64(float64(memory) * memoryShare)
}

func (a *Assignment) note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}
