// Package placement decides which worker runs where.
//
// It is pure: topology and wishes go in, an Assignment comes out, and nothing of
// the machine is touched. Package affinity applies the result. The decision in
// order:
//
//  1. check the wishes
//  2. take from each node the CPUs that are granted, wished and fit (choose.go)
//  3. leave some of them to interrupts (choose.go)
//  4. make silos of the rest: one per node, per cache, for the machine, or N
//     (silo.go)
//  5. give each silo's worker its loops, its memory policy and its share of
//     memory (memory.go)
//
// What is left out, and why, stands in Assignment.Notes. What cannot be had (a
// memory policy for a node without memory) is replaced by doing nothing, and
// Assignment.Unmet says so. A fact that the machine does not tell changes
// nothing: without cache files there are no clusters, without siblings each CPU
// is a core. Warnings (warnings.go) says what of the machine is set up against
// an assignment.
package placement

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"sluice/internal/topology"
)

// Values of Wishes.Per, Wishes.Affinity, Wishes.Memory and Wishes.Reserve, and
// of Worker.Affinity and Worker.Memory.
const (
	PerNode    = "node"
	PerCluster = "cluster"
	PerMachine = "machine"

	AffinityHard = "hard"
	AffinitySoft = "soft"
	AffinityNone = "none"

	MemoryPrefer  = "prefer"
	MemoryBind    = "bind"
	MemoryDefault = "default"

	ReserveNone    = "none"
	ReserveCPU     = "cpu"
	ReserveSibling = "sibling"
)

// Bounds of an assignment. The shared segment has room for so many
// (segment.MaxWorkers, segment.MaxLoops).
const (
	MaxWorkers = 64
	MaxLoops   = 256 // per worker
)

// Wishes are what the operator configured, and what the process was given.
type Wishes struct {
	// Per is a worker per NUMA node that has CPUs and memory (node), per last-level
	// cache (cluster), one (machine), or so many in all ("4").
	Per string

	Loops int // per worker; 0: one per CPU

	// Affinity is how threads stay: loop i on CPUs[i % len] (hard); within the
	// worker's CPUs while those have idle time, then on Overflow too (soft); within
	// the worker's CPUs (none).
	Affinity string

	Memory  string // prefer | bind | default: the node's memory, first, only, or as the kernel likes
	Reserve string // none | cpu | sibling: left to interrupts, nothing, a CPU of each node, or all threads of each core but the first; empty: none
	CPUs    string // only these, in the kernel's list format ("0-7,16"); empty: all that fit
	Nodes   string // only these nodes' CPUs, likewise; empty: all
	Allowed []int  // CPUs that this process may use, as the kernel said; empty: as the Machine says
}

// Assignment is the decision. It is immutable.
type Assignment struct {
	Workers []Worker `json:"workers"`         // at least one; no CPU is in two of them
	Notes   []string `json:"notes,omitempty"` // what was left out, and why
	Unmet   []string `json:"unmet,omitempty"` // wishes that this machine cannot meet, and what is done instead
}

// Worker is the place of one listener process. Lists are ascending.
type Worker struct {
	Index       int         `json:"index"`                        // position in Assignment.Workers
	Node        int         `json:"node"`                         // NUMA node; of several the only one with memory, else the lowest
	Nodes       []int       `json:"nodes"`                        // all nodes that it has CPUs of
	CPUs        []int       `json:"cpus"`                         // at least one: all threads of the process stay on them
	Reserved    []int       `json:"reserved,omitempty"`           // CPUs of its nodes that no worker uses: interrupts go there
	CPUNodes    map[int]int `json:"-"`                            // if it has several nodes, that of each of their CPUs; else nil
	Unused      []int       `json:"-"`                            // all further CPUs of its nodes, not granted or not wished: connections that arrive there are for the workers of the node
	Overflow    []int       `json:"overflow,omitempty"`           // soft: where its threads may go too while its own CPUs are full
	Loops       int         `json:"loops"`                        // 1 to MaxLoops
	Affinity    string      `json:"affinity"`                     // hard | soft | none
	Pin         bool        `json:"pin"`                          // hard: loop i stays on CPUs[i % len]
	Memory      string      `json:"memory"`                       // prefer | bind: Node's memory; default: no policy
	MemoryShare int64       `json:"memory_share_bytes,omitempty"` // its part of its nodes' memory, or of the control group's limit; 0: unknown
	MemoryLimit int64       `json:"memory_limit_bytes,omitempty"` // for GOMEMLIMIT; 0: unknown, no limit
}

// NodeOf is the node of a CPU of the worker's nodes.
func (w *Worker) NodeOf(cpu int) int {
	if node, found := w.CPUNodes[cpu]; found {
		return node
	}
	return w.Node
}

// Plan decides. It fails if the wishes are not as documented, if they leave no
// CPU, or if they ask for more workers or loops than the bounds.
func Plan(m *topology.Machine, w Wishes) (*Assignment, error) {
	p := &planner{machine: m, wishes: w}
	if err := p.check(); err != nil { // 1
		return nil, err
	}
	pools, err := p.choose() // 2
	if err != nil {
		return nil, err
	}
	reserved := p.reserve(pools) // 3
	silos, err := p.cut(pools)   // 4
	if err != nil {
		return nil, err
	}
	p.assign(silos, reserved) // 5
	return &p.made, nil
}

// planner is one decision under way.
type planner struct {
	machine *topology.Machine
	wishes  Wishes
	workers int   // wished by number; 0: by another word
	named   []int // CPUs of Wishes.CPUs
	nodes   []int // of Wishes.Nodes
	made    Assignment
}

// check reads the wishes.
func (p *planner) check() error {
	w := &p.wishes
	if w.Reserve == "" {
		w.Reserve = ReserveNone
	}
	if err := p.checkWords(); err != nil {
		return err
	}
	if w.Loops < 0 || w.Loops > MaxLoops {
		return fmt.Errorf("workers.loops: %d: write 0 (one per CPU) to %d", w.Loops, MaxLoops)
	}
	var err error
	if p.named, err = topology.ParseCPUs(w.CPUs); err != nil {
		return fmt.Errorf("workers.cpus: %w; write a list as \"0-7,16\"", err)
	}
	if p.nodes, err = topology.ParseCPUs(w.Nodes); err != nil {
		return fmt.Errorf("workers.nodes: %w; write a list as \"0-1,3\"", err)
	}
	return nil
}

func (p *planner) checkWords() error {
	w := &p.wishes
	if !slices.Contains([]string{PerNode, PerCluster, PerMachine}, w.Per) {
		n, err := strconv.ParseUint(w.Per, 10, 16)
		if err != nil || n < 1 || n > MaxWorkers {
			return fmt.Errorf("workers.per: %q: write %s, %s, %s or a number of workers from 1 to %d", w.Per, PerNode, PerCluster, PerMachine, MaxWorkers)
		}
		p.workers = int(n)
	}
	for _, word := range []struct {
		key, value string
		choices    [3]string
	}{
		{"workers.affinity", w.Affinity, [3]string{AffinityHard, AffinitySoft, AffinityNone}},
		{"workers.memory", w.Memory, [3]string{MemoryPrefer, MemoryBind, MemoryDefault}},
		{"workers.reserve", w.Reserve, [3]string{ReserveNone, ReserveCPU, ReserveSibling}},
	} {
		if c := word.choices; !slices.Contains(c[:], word.value) {
			return fmt.Errorf("%s: %q: write %s, %s or %s", word.key, word.value, c[0], c[1], c[2])
		}
	}
	return nil
}

// assign makes the workers, one per silo.
func (p *planner) assign(silos []silo, reserved map[int][]int) {
	w := p.wishes
	loops := split(silos, p.machine.Limits.CPUs)
	shares := p.shares(silos)
	all := everyCPU(silos)
	for i, s := range silos {
		worker := Worker{
			Index: i, Node: s.home(p.machine), Nodes: s.nodes, CPUs: s.cpus, CPUNodes: p.cpuNodes(s),
			Loops: p.loops(i, s, loops[i]), Affinity: w.Affinity, Pin: w.Affinity == AffinityHard,
			Memory: p.policy(i, s), MemoryShare: shares[i], MemoryLimit: int64(float64(shares[i]) * heapShare),
		}
		for _, node := range s.nodes {
			worker.Reserved = append(worker.Reserved, reserved[node]...)
			if n := p.machine.Node(node); n != nil {
				worker.Unused = append(worker.Unused, without(without(n.CPUs, all), reserved[node])...)
			}
		}
		slices.Sort(worker.Reserved)
		slices.Sort(worker.Unused)
		if w.Affinity == AffinitySoft {
			worker.Overflow = without(all, s.cpus)
		}
		p.made.Workers = append(p.made.Workers, worker)
	}
	if w.Affinity == AffinitySoft && len(silos) == 1 {
		p.unmet("workers.affinity: soft: there is one worker, and so no other's CPU to go to; its threads move within its own")
	}
}

// cpuNodes is the node of each CPU of a silo's nodes, if they are several.
func (p *planner) cpuNodes(s silo) map[int]int {
	if len(s.nodes) == 1 {
		return nil
	}
	nodes := map[int]int{}
	for _, id := range s.nodes {
		for _, cpu := range p.machine.Node(id).CPUs {
			nodes[cpu] = id
		}
	}
	return nodes
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
func (p *planner) loops(worker int, s silo, share int) int {
	if p.wishes.Loops > 0 {
		return p.wishes.Loops
	}
	if share < len(s.cpus) {
		p.note("worker %d: the control group's CPU limit of %g feeds %d of %d loops", worker, p.machine.Limits.CPUs, share, len(s.cpus))
	}
	if share > MaxLoops {
		p.note("worker %d: %d CPUs, but a worker runs at most %d loops", worker, share, MaxLoops)
	}
	return min(share, MaxLoops)
}

func (p *planner) note(format string, args ...any) {
	p.made.Notes = append(p.made.Notes, fmt.Sprintf(format, args...))
}

func (p *planner) unmet(format string, args ...any) {
	p.made.Unmet = append(p.made.Unmet, fmt.Sprintf(format, args...))
}

// everyCPU lists the CPUs of all silos.
func everyCPU(silos []silo) []int {
	var all []int
	for _, s := range silos {
		all = append(all, s.cpus...)
	}
	slices.Sort(all)
	return all
}

// both lists what is in two ascending lists.
func both(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(id int) bool { return !has(b, id) })
}

// without lists what is in a and not in b; both are ascending.
func without(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(id int) bool { return has(b, id) })
}

func has(list []int, id int) bool {
	_, found := slices.BinarySearch(list, id)
	return found
}

// list prints CPUs for a sentence: "CPU 3", "CPUs 0-3".
func list(cpus []int) string {
	if len(cpus) == 1 {
		return "CPU " + topology.FormatCPUs(cpus)
	}
	return "CPUs " + topology.FormatCPUs(cpus)
}
