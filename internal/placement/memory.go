package placement

import (
	"sluice/internal/topology"
)

// heapShare of a worker's memory is what its Go heap may grow to before the
// collector works against it (GOMEMLIMIT). The rest is for socket buffers, the
// page cache and the app servers on the node.
const heapShare = 0.7

// policy gives the memory policy that makes a difference on this machine. With a
// single node that memory can come from every page comes from there anyway, and
// the call would only be refused where containers forbid it.
func (p *planner) policy(worker int, s silo) string {
	wish := p.wishes.Memory
	if wish == MemoryDefault || sources(p.machine) < 2 {
		return MemoryDefault
	}
	home := p.machine.Node(s.home(p.machine))
	switch {
	case len(s.giving(p.machine)) > 1:
		// One worker for several nodes cannot prefer one; who asked for that by
		// keeping the default needs no word.
		if wish == MemoryBind {
			p.unmet("workers.memory: %s: worker %d spans nodes %s, so no one node holds its memory; using %s",
				wish, worker, topology.FormatCPUs(s.nodes), MemoryDefault)
		}
	case len(both(s.cpus, home.CPUs)) == 0:
		p.unmet("workers.memory: %s: the machine does not say which node the CPUs %s of worker %d are on; using %s",
			wish, topology.FormatCPUs(s.cpus), worker, MemoryDefault)
	case !gives(p.machine, home):
		p.unmet("workers.memory: %s: node %d of worker %d has no memory for us; using %s, which is the nearest node that has",
			wish, home.ID, worker, MemoryDefault)
	default:
		return wish
	}
	return MemoryDefault
}

// gives reports whether a node has memory that this process may use
// (cpuset.mems, Mems_allowed). A restriction that names no node with memory is a
// file that we misread.
func gives(m *topology.Machine, n *topology.Node) bool {
	if !n.HasMemory {
		return false
	}
	for _, allowed := range [][]int{m.Cpuset.Nodes, m.Affinity.Nodes} {
		if len(allowed) > 0 && !has(allowed, n.ID) && anyWithMemory(m, allowed) {
			return false
		}
	}
	return true
}

func anyWithMemory(m *topology.Machine, ids []int) bool {
	for _, id := range ids {
		if n := m.Node(id); n != nil && n.HasMemory {
			return true
		}
	}
	return false
}

// sources counts the nodes that memory can come from.
func sources(m *topology.Machine) int {
	count := 0
	for i := range m.Nodes {
		if gives(m, &m.Nodes[i]) {
			count++
		}
	}
	return count
}

// shares divides memory among the silos. The memory of a node goes to the CPUs
// on it that workers use, in equal parts; CPUs of a node without memory count to
// the nearest that has. A node without CPUs that nobody is nearest to (a card's
// memory, slow memory behind a bus) is in no share. A control group's limit is
// divided likewise, and the smaller part holds. 0 is unknown.
func (p *planner) shares(silos []silo) []int64 {
	total := 0
	drawing := map[int]int{} // a node: the CPUs that draw from its memory
	for _, s := range silos {
		total += len(s.cpus)
		for _, node := range s.nodes {
			drawing[source(p.machine, node)] += p.countOn(s, node)
		}
	}
	p.noteMemory(drawing)
	shares := make([]int64, len(silos))
	for i, s := range silos {
		for _, node := range s.nodes {
			from := source(p.machine, node)
			if n := p.machine.Node(from); n != nil && drawing[from] > 0 {
				shares[i] += part(ordinary(n), p.countOn(s, node), drawing[from])
			}
		}
		if limit := part(p.machine.Limits.Memory, len(s.cpus), total); limit > 0 && (shares[i] == 0 || limit < shares[i]) {
			shares[i] = limit
		}
	}
	return shares
}

// source is the node that a node's CPUs get memory from: itself, or the nearest
// that gives any, of equally near ones one with CPUs, then the lowest. It is -1
// if none does.
func source(m *topology.Machine, node int) int {
	best, cost := -1, 0
	for i := range m.Nodes {
		n := &m.Nodes[i]
		if !gives(m, n) {
			continue
		}
		c := 2 * m.DistanceBetween(node, n.ID)
		if len(n.CPUs) == 0 {
			c++
		}
		if n.ID == node {
			return node
		}
		if best < 0 || c < cost {
			best, cost = n.ID, c
		}
	}
	return best
}

// countOn counts a silo's CPUs on one of its nodes. CPUs that the machine does
// not know count nowhere.
func (p *planner) countOn(s silo, node int) int {
	return len(both(s.cpus, p.machine.Node(node).CPUs))
}

// ordinary is a node's memory less its huge pages, which our heap cannot use.
func ordinary(n *topology.Node) int64 {
	return max(0, n.MemTotal-hugeBytes(n))
}

func hugeBytes(n *topology.Node) int64 {
	var sum int64
	for _, h := range n.HugePages {
		sum += h.Size * h.Total
	}
	return sum
}

// noteMemory says what is in no share.
func (p *planner) noteMemory(drawing map[int]int) {
	for i := range p.machine.Nodes {
		n := &p.machine.Nodes[i]
		if len(n.CPUs) == 0 && n.HasMemory && drawing[n.ID] == 0 {
			p.note("node %d has no CPU online: no worker there, and its memory is in no worker's share", n.ID)
		}
		if huge := hugeBytes(n); huge > 0 && drawing[n.ID] > 0 {
			p.note("node %d: %d MiB of its %d MiB are reserved as huge pages, and in no worker's share", n.ID, huge>>20, n.MemTotal>>20)
		}
	}
}

// part is total × n / of, without overflow: totals are below 2^53.
func part(total int64, n, of int) int64 {
	if of == 0 {
		return 0
	}
	each, rest := total/int64(of), total%int64(of)
	return each*int64(n) + rest*int64(n)/int64(of)
}
