package placement

import (
	"cmp"
	"fmt"
	"slices"

	"sluice/internal/topology"
)

// silo is the CPUs that one worker gets.
type silo struct {
	nodes []int // ascending; of its CPUs
	cpus  []int // ascending, at least one
}

// giving are the nodes of a silo that have memory for us.
func (s silo) giving(m *topology.Machine) []int {
	return slices.DeleteFunc(slices.Clone(s.nodes), func(id int) bool {
		n := m.Node(id)
		return n == nil || !gives(m, n)
	})
}

// home is the node of a silo that gives memory if only one of them does, else the
// lowest.
func (s silo) home(m *topology.Machine) int {
	if giving := s.giving(m); len(giving) == 1 {
		return giving[0]
	}
	return s.nodes[0]
}

// cut makes silos of the pools, in the order of their nodes.
func (p *planner) cut(pools []pool) ([]silo, error) {
	var silos []silo
	switch {
	case p.workers > 0:
		silos = p.number(pools)
	case p.wishes.Per == PerMachine:
		silos = []silo{merged(asSilos(pools))}
	case p.wishes.Per == PerCluster:
		silos = p.clusters(pools)
	default:
		silos = p.fed(asSilos(pools))
	}
	if len(silos) > MaxWorkers {
		return nil, fmt.Errorf("workers.per: %s: %d %ss have usable CPUs, and at most %d workers are possible; write %s or a number",
			p.wishes.Per, len(silos), p.wishes.Per, MaxWorkers, PerMachine)
	}
	return silos, nil
}

func asSilos(pools []pool) []silo {
	silos := make([]silo, len(pools))
	for i, p := range pools {
		silos[i] = silo{nodes: []int{p.node}, cpus: p.cpus}
	}
	return silos
}

// merged makes one silo of several.
func merged(silos []silo) silo {
	var all silo
	for _, s := range silos {
		all.nodes = append(all.nodes, s.nodes...)
		all.cpus = append(all.cpus, s.cpus...)
	}
	slices.Sort(all.nodes)
	slices.Sort(all.cpus)
	return all
}

// fed joins the CPUs of a node without memory to the silo of the node that their
// memory comes from: a process of their own would be one more heap on that node, and
// left out they would do nothing. They are a silo by themselves if that node has
// none, or if together they were more than one worker has loops for. A node whose
// memory is only kept from us (cpuset.mems) stays one too: one word mends that.
func (p *planner) fed(silos []silo) []silo {
	kept := slices.Clone(silos)
	for _, s := range silos {
		n := p.machine.Node(s.nodes[0])
		if n == nil || n.HasMemory {
			continue
		}
		from := source(p.machine, n.ID)
		at := slices.IndexFunc(kept, func(o silo) bool { return slices.Contains(o.nodes, from) })
		if at < 0 || len(kept[at].cpus)+len(s.cpus) > MaxLoops {
			continue
		}
		kept[at] = merged([]silo{kept[at], s})
		kept = slices.DeleteFunc(kept, func(o silo) bool { return slices.Equal(o.nodes, s.nodes) })
		p.note("node %d has no memory: the worker of node %d, from which it comes, has its %s too", n.ID, from, list(s.cpus))
	}
	return kept
}

// clusters cuts each pool by last-level cache. A cache that spans nodes (as
// sub-NUMA clustering shows it) is cut by the node too.
func (p *planner) clusters(pools []pool) []silo {
	var silos []silo
	for _, pool := range pools {
		groups := p.byCache(pool.cpus)
		if len(groups) > 1 && !p.shared(groups) {
			p.unmet("workers.per: cluster: no cache of node %d that the kernel shows is shared by two cores; one worker for the node", pool.node)
			groups = [][]int{pool.cpus}
		}
		for _, cpus := range groups {
			silos = append(silos, silo{nodes: []int{pool.node}, cpus: cpus})
		}
	}
	return silos
}

// byCache groups CPUs by last-level cache, in the order of their first CPUs.
// Those whose cache is unknown are one group.
func (p *planner) byCache(cpus []int) [][]int {
	var groups [][]int
	at := map[int]int{}
	for _, id := range cpus {
		cache := p.cache(id)
		i, seen := at[cache]
		if !seen {
			i = len(groups)
			at[cache] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], id)
	}
	return groups
}

func (p *planner) cache(id int) int {
	if c, found := p.machine.CPU(id); found {
		return c.Cache
	}
	return -1
}

// shared reports whether some cache of these groups has more than one core. On
// Arm servers the last cache that the kernel knows may be each core's own, and
// some hypervisors show it so: no clusters, but as many workers as cores.
func (p *planner) shared(groups [][]int) bool {
	return slices.ContainsFunc(groups, func(cpus []int) bool {
		cache := p.cache(cpus[0])
		return cache >= 0 && cache < len(p.machine.Caches) && len(p.cores(p.machine.Caches[cache].CPUs)) > 1
	})
}

// number makes as many silos as wished: at least one of each node if they are
// enough, else each of several nodes that are near each other.
func (p *planner) number(pools []pool) []silo {
	total := len(cpusOf(pools))
	n := min(p.workers, total)
	if n < p.workers {
		p.unmet("workers.per: %d: there are %d CPUs, and a worker needs one; %d workers", p.workers, total, n)
	}
	if n < len(pools) {
		return p.gather(asSilos(pools), n)
	}
	var silos []silo
	for i, count := range apportion(pools, n) {
		for _, cpus := range p.slice(pools[i].cpus, count) {
			silos = append(silos, silo{nodes: []int{pools[i].node}, cpus: cpus})
		}
	}
	return silos
}

// apportion says how many of n workers each pool gets: one, and the further ones
// where a worker would have most CPUs (D'Hondt's method). With n up to the number
// of CPUs no pool gets more workers than CPUs: one that has a worker on each
// would give the next less than a CPU, and another gives a whole one.
func apportion(pools []pool, n int) []int {
	counts := make([]int, len(pools))
	for i := range counts {
		counts[i] = 1
	}
	for range n - len(pools) {
		best := 0
		for i, p := range pools {
			if len(p.cpus)*(counts[best]+1) > len(pools[best].cpus)*(counts[i]+1) {
				best = i
			}
		}
		counts[best]++
	}
	return counts
}

// slice cuts a node's CPUs into n parts as equal as can be. Cores stay whole
// while there are enough, and parts follow the caches.
func (p *planner) slice(cpus []int, n int) [][]int {
	units := p.cores(cpus)
	slices.SortStableFunc(units, func(a, b []int) int { return cmp.Compare(p.cache(a[0]), p.cache(b[0])) })
	if len(units) < n {
		units = units[:0]
		for _, cpu := range cpus {
			units = append(units, []int{cpu})
		}
	}
	parts := make([][]int, n)
	for i := range parts {
		for _, unit := range units[i*len(units)/n : (i+1)*len(units)/n] {
			parts[i] = append(parts[i], unit...)
		}
		slices.Sort(parts[i])
	}
	return parts
}

// gather joins silos until n are left: the smallest with the nearest, and of
// equally near ones with the smallest.
func (p *planner) gather(silos []silo, n int) []silo {
	bySize := func(a, b silo) int {
		return cmp.Or(cmp.Compare(len(a.cpus), len(b.cpus)), cmp.Compare(a.nodes[0], b.nodes[0]))
	}
	for len(silos) > n {
		slices.SortFunc(silos, bySize)
		near := 1
		for i := 2; i < len(silos); i++ {
			if p.apart(silos[0], silos[i]) < p.apart(silos[0], silos[near]) {
				near = i
			}
		}
		silos[near] = merged([]silo{silos[0], silos[near]})
		silos = silos[1:]
	}
	slices.SortFunc(silos, func(a, b silo) int { return cmp.Compare(a.nodes[0], b.nodes[0]) })
	for i, s := range silos {
		if len(s.nodes) > 1 {
			p.note("worker %d spans nodes %s: there are fewer workers than nodes (workers.per: %d)", i, topology.FormatCPUs(s.nodes), p.workers)
		}
	}
	return silos
}

// apart is the mean distance between two silos' nodes, each way.
func (p *planner) apart(a, b silo) float64 {
	sum := 0
	for _, from := range a.nodes {
		for _, to := range b.nodes {
			sum += p.machine.DistanceBetween(from, to) + p.machine.DistanceBetween(to, from)
		}
	}
	return float64(sum) / float64(2*len(a.nodes)*len(b.nodes))
}
