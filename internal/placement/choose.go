package placement

import (
	"fmt"
	"slices"

	"sluice/internal/topology"
)

// pool is the CPUs of one node that workers may be made of.
type pool struct {
	node int
	cpus []int // ascending, at least one
}

// choose takes what fits from the machine's CPUs, step by step. Each step says
// what it leaves out. The first three are orders; of what they leave, isolated
// CPUs and efficiency cores are used only if they are named, or if there is
// nothing else.
func (p *planner) choose() ([]pool, error) {
	m := p.machine
	if len(m.Offline) > 0 {
		p.note("%s left out: offline", list(m.Offline))
	}
	granted := p.granted()
	pools := p.pools(granted)
	cpus := cpusOf(pools)

	cpus, err := p.onNodes(cpus)
	if err != nil {
		return nil, err
	}
	if p.wishes.CPUs != "" {
		if cpus, err = p.onlyNamed(cpus); err != nil {
			return nil, err
		}
	} else {
		cpus = p.spare(cpus, both(cpus, m.Isolated), "the kernel balances no load onto isolated CPUs; name them in workers.cpus to use them")
		cpus = p.spare(cpus, p.efficient(cpus), "efficiency cores; name them in workers.cpus to use them")
	}
	if used := both(cpus, m.Isolated); len(used) > 0 && p.wishes.Affinity != AffinityHard {
		p.unmet("workers.affinity: %s: the kernel balances no load onto isolated CPUs, so threads will crowd on one of %s; write %s",
			p.wishes.Affinity, topology.FormatCPUs(used), AffinityHard)
	}
	return narrowed(pools, cpus), nil
}

// granted lists the CPUs that this process may use: its affinity within its
// control group's cpuset. No process is born with isolated CPUs in its affinity,
// so those that the operator names need the cpuset's grant only. It is nil for all.
func (p *planner) granted() []int {
	m := p.machine
	own := slices.Compact(slices.Sorted(slices.Values(p.wishes.Allowed)))
	if len(own) == 0 {
		own = m.Affinity.CPUs
	}
	if len(own) > 0 {
		named := both(p.named, m.Isolated)
		own = slices.Compact(slices.Sorted(slices.Values(slices.Concat(own, named))))
	}
	if len(own) == 0 {
		return m.Cpuset.CPUs
	}
	if within := both(own, m.Cpuset.CPUs); len(both(within, m.Online)) > 0 {
		return within
	}
	return own // the cpuset is unknown, or another's
}

// pools takes the granted CPUs from each node. If the machine's files and the
// grant disagree altogether, as in some containers, the grant is right: the
// kernel itself gave it to us.
func (p *planner) pools(granted []int) []pool {
	var pools []pool
	var left []int
	for _, n := range p.machine.Nodes {
		cpus := n.CPUs
		if len(granted) > 0 {
			cpus = both(n.CPUs, granted)
			left = append(left, without(n.CPUs, granted)...)
		}
		if len(cpus) > 0 {
			pools = append(pools, pool{node: n.ID, cpus: cpus})
		}
	}
	if len(pools) == 0 {
		return []pool{{node: p.machine.Nodes[0].ID, cpus: granted}}
	}
	if slices.Sort(left); len(left) > 0 {
		p.note("%s left out: not granted to this process (its CPU affinity and its cpuset leave it %s)", list(left), topology.FormatCPUs(granted))
	}
	return pools
}

// onNodes keeps the CPUs of the wished nodes.
func (p *planner) onNodes(cpus []int) ([]int, error) {
	if p.wishes.Nodes == "" {
		return cpus, nil
	}
	var kept, absent, present []int
	for _, n := range p.machine.Nodes {
		present = append(present, n.ID)
	}
	for _, id := range p.nodes {
		if n := p.machine.Node(id); n == nil {
			absent = append(absent, id)
		} else {
			kept = append(kept, both(cpus, n.CPUs)...)
		}
	}
	slices.Sort(kept)
	if len(kept) == 0 {
		return nil, fmt.Errorf("workers.nodes: %s: no CPU of these nodes is ours to use; this machine has nodes %s, with CPUs %s for us",
			p.wishes.Nodes, topology.FormatCPUs(present), topology.FormatCPUs(cpus))
	}
	if len(absent) > 0 {
		p.unmet("workers.nodes: there is no node %s; using the others", topology.FormatCPUs(absent))
	}
	if left := without(cpus, kept); len(left) > 0 {
		p.note("%s left out: not on workers.nodes %s", list(left), topology.FormatCPUs(p.nodes))
	}
	return kept, nil
}

// onlyNamed keeps the CPUs that the operator named.
func (p *planner) onlyNamed(cpus []int) ([]int, error) {
	kept := both(cpus, p.named)
	if len(kept) == 0 {
		return nil, fmt.Errorf("workers.cpus: %s: none of them is ours to use; we may use %s", p.wishes.CPUs, topology.FormatCPUs(cpus))
	}
	if absent := without(p.named, cpus); len(absent) > 0 {
		p.unmet("workers.cpus: %s cannot be used (offline, not granted, not on workers.nodes, or not there); using %s",
			list(absent), topology.FormatCPUs(kept))
	}
	if left := without(cpus, kept); len(left) > 0 {
		p.note("%s left out: not in workers.cpus", list(left))
	}
	return kept, nil
}

// spare leaves CPUs out unless they are all that there is.
func (p *planner) spare(cpus, unwanted []int, why string) []int {
	rest := without(cpus, unwanted)
	if len(unwanted) == 0 || len(rest) == 0 {
		return cpus
	}
	p.note("%s left out: %s", list(unwanted), why)
	return rest
}

func (p *planner) efficient(cpus []int) []int {
	return slices.DeleteFunc(slices.Clone(cpus), func(id int) bool {
		c, _ := p.machine.CPU(id)
		return !c.Efficient
	})
}

// reserve takes CPUs from each pool for interrupts, and returns them by node. A
// pool keeps at least one CPU.
func (p *planner) reserve(pools []pool) map[int][]int {
	reserved := map[int][]int{}
	for i := range pools {
		var taken []int
		switch p.wishes.Reserve {
		case ReserveCPU:
			taken = pools[i].cpus[:1] // interrupts that nobody placed go to the lowest anyway
		case ReserveSibling:
			taken = p.furtherThreads(pools[i].cpus)
		default:
			return nil
		}
		rest := without(pools[i].cpus, taken)
		switch {
		case len(taken) == 0:
			p.unmet("workers.reserve: sibling: no core of node %d has two threads that are ours; none is left to interrupts there", pools[i].node)
		case len(rest) == 0:
			p.unmet("workers.reserve: %s: node %d has one CPU for us; none is left to interrupts there", p.wishes.Reserve, pools[i].node)
		default:
			reserved[pools[i].node] = slices.Clone(taken)
			pools[i].cpus = rest
			p.note("%s left out: for interrupts (workers.reserve: %s)", list(taken), p.wishes.Reserve)
		}
	}
	return reserved
}

// furtherThreads lists all threads of each core but its first.
func (p *planner) furtherThreads(cpus []int) []int {
	var further []int
	for _, core := range p.cores(cpus) {
		further = append(further, core[1:]...)
	}
	slices.Sort(further)
	return further
}

// cores groups CPUs by core, in the order of their first threads.
func (p *planner) cores(cpus []int) [][]int {
	var cores [][]int
	at := map[int]int{} // a core's lowest sibling: its place in cores
	for _, id := range cpus {
		first := id
		if c, found := p.machine.CPU(id); found {
			first = c.Core[0]
		}
		i, seen := at[first]
		if !seen {
			i = len(cores)
			at[first] = i
			cores = append(cores, nil)
		}
		cores[i] = append(cores[i], id)
	}
	return cores
}

func cpusOf(pools []pool) []int {
	var all []int
	for _, p := range pools {
		all = append(all, p.cpus...)
	}
	slices.Sort(all)
	return all
}

// narrowed is the pools with those of their CPUs that are kept.
func narrowed(pools []pool, kept []int) []pool {
	var rest []pool
	for _, p := range pools {
		if cpus := both(p.cpus, kept); len(cpus) > 0 {
			rest = append(rest, pool{node: p.node, cpus: cpus})
		}
	}
	return rest
}
