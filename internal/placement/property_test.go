package placement

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/topology"
	"sluice/internal/topology/shape"
)

// TestPlanProperties plans for many random machines and wishes.
func TestPlanProperties(t *testing.T) {
	const machines = 1500
	refused := 0
	for seed := range uint64(machines) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := randomMachine(r)
		w := randomWishes(r)
		before := fmt.Sprintf("%+v %+v", m, w)
		a, err := Plan(m, w)
		if err != nil {
			if w.CPUs == "" && w.Nodes == "" {
				t.Fatalf("seed %d: %v\nmachine\n%vwishes %+v", seed, err, m, w)
			}
			refused++
			continue
		}
		for _, check := range []func(*topology.Machine, Wishes, *Assignment) string{checkWorkers, checkCPUs, checkNodes, checkMemory, checkCounts, checkReserved, checkUnused} {
			if fault := check(m, w, a); fault != "" {
				t.Fatalf("seed %d: %s\nmachine\n%vwishes %+v\nplan\n%s", seed, fault, m, w, transcript(a))
			}
		}
		if again, _ := Plan(m, w); transcript(again) != transcript(a) {
			t.Fatalf("seed %d: the same question has two answers", seed)
		}
		if other, _ := Plan(withOtherFacts(m), w); transcript(other) != transcript(a) {
			t.Fatalf("seed %d: a network card changed the plan from\n%sto\n%s", seed, transcript(a), transcript(other))
		}
		Warnings(m, a)
		if after := fmt.Sprintf("%+v %+v", m, w); after != before {
			t.Fatalf("seed %d: Plan or Warnings changed its input from\n%s\nto\n%s", seed, before, after)
		}
	}
	if refused > machines/2 {
		t.Errorf("%d of %d wishes were refused: the test shows little", refused, machines)
	}
}

// randomMachine has 1 to 8 nodes, some without CPUs, some without memory, and
// at least one CPU, dealt out at random. Half of the machines tell of siblings,
// caches and kinds of cores, some of what is ours.
func randomMachine(r *rand.Rand) *topology.Machine {
	m := &topology.Machine{NUMA: true, Nodes: make([]topology.Node, 1+r.IntN(8))}
	distances := r.IntN(2) == 0
	for i := range m.Nodes {
		n := topology.Node{ID: 2 * i, HasMemory: r.IntN(4) > 0}
		if n.HasMemory {
			n.MemTotal = r.Int64N(1 << 38)
		}
		if r.IntN(5) == 0 {
			n.HugePages = []topology.HugePages{{Size: 2 << 20, Total: r.Int64N(1 << 16)}}
		}
		for to := 0; distances && to < len(m.Nodes); to++ {
			n.Distance = append(n.Distance, 10+min(i^to, 1)*(1+r.IntN(30)))
		}
		m.Nodes[i] = n
	}
	for cpu := range 1 + r.IntN(64) {
		n := &m.Nodes[r.IntN(len(m.Nodes))]
		n.CPUs = append(n.CPUs, cpu)
		m.Online = append(m.Online, cpu)
	}
	if r.IntN(2) == 0 {
		describeCPUs(r, m)
	}
	if r.IntN(2) == 0 {
		m.Limits = topology.Limits{CPUs: 80 * r.Float64(), Memory: r.Int64N(1 << 36)}
	}
	m.Isolated = someOf(r, 80, 4)
	m.Cpuset = topology.Cpuset{CPUs: someOf(r, 80, 4), Nodes: someOf(r, 16, 4)}
	m.Affinity = topology.Cpuset{CPUs: someOf(r, 80, 4), Nodes: someOf(r, 16, 4)}
	return m
}

// describeCPUs pairs the threads of each node, and gives each node some caches.
func describeCPUs(r *rand.Rand, m *topology.Machine) {
	m.CPUs = make([]topology.CPU, len(m.Online))
	hybrid := r.IntN(3) == 0
	for _, n := range m.Nodes {
		perCache := 1 + r.IntN(6)
		for i, id := range n.CPUs {
			if i%perCache == 0 {
				m.Caches = append(m.Caches, topology.Cache{Level: 3})
			}
			cache := len(m.Caches) - 1
			m.Caches[cache].CPUs = append(m.Caches[cache].CPUs, id)
			core := n.CPUs[i&^1 : min(i|1, len(n.CPUs)-1)+1]
			m.CPUs[id] = topology.CPU{ID: id, Node: n.ID, Core: core, Cache: cache, Efficient: hybrid && i%4 > 1}
		}
	}
}

// someOf is nothing in one of so many cases, else random numbers below n,
// ascending.
func someOf(r *rand.Rand, n, oneIn int) []int {
	if r.IntN(oneIn) > 0 {
		return nil
	}
	some := r.Perm(n)[:1+r.IntN(n)]
	slices.Sort(some)
	return some
}

func randomWishes(r *rand.Rand) Wishes {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	w := Wishes{
		Per:      pick(PerNode, PerCluster, PerMachine, strconv.Itoa(1+r.IntN(MaxWorkers))),
		Affinity: pick(AffinityHard, AffinitySoft, AffinityNone),
		Memory:   pick(MemoryPrefer, MemoryBind, MemoryDefault),
		Reserve:  pick("", ReserveNone, ReserveCPU, ReserveSibling),
		CPUs:     topology.FormatCPUs(someOf(r, 80, 3)),
		Nodes:    topology.FormatCPUs(someOf(r, 16, 3)),
	}
	if r.IntN(2) == 0 {
		w.Loops = r.IntN(MaxLoops + 1)
	}
	if r.IntN(3) == 0 {
		w.Allowed = r.Perm(80)[:1+r.IntN(70)]
	}
	return w
}

// withOtherFacts is the machine with facts that no plan depends on.
func withOtherFacts(m *topology.Machine) *topology.Machine {
	other := *m
	other.Model, other.Hypervisor, other.Container = "Fast", "KVM", "docker"
	other.NICs = []topology.NIC{{Name: "eth0", Node: m.Nodes[0].ID, Up: true, IRQs: []topology.IRQ{{Number: 7, CPUs: m.Online}}}}
	other.Switches = topology.Switches{NUMABalancing: 1, ZoneReclaim: 1, TransparentHugePages: "always"}
	other.Sockets = []topology.Socket{{ID: 0, CPUs: m.Online}}
	other.Unknown = []string{"/sys/anything: permission denied"}
	return &other
}

// TestBrokenTrees damages what a machine's files say and plans all the same:
// nothing panics, and what comes out keeps every promise.
func TestBrokenTrees(t *testing.T) {
	tree := shape.Machine{
		Sockets: 2, Caches: 2, Cores: 2, Threads: 2, MemoryMiB: 1000, MemoryNodes: []int{500},
		NICs: []shape.NIC{{Name: "eth0", PCI: "0000:18:00.0", First: 40, IRQs: []string{"0", "4"}}},
	}.Tree().With("proc/self/status", "Cpus_allowed_list: 0-15", "sys/fs/cgroup/cpuset.cpus.effective", "0-15")
	names := slices.Sorted(maps.Keys(tree))
	damage := []string{"", "-1", "0-", "0-999", "3", "99999999999999999999", "ff", "0,2,4", "Cpus_allowed_list: 77"}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		broken := maps.Clone(tree)
		for range 1 + r.IntN(12) {
			if name := names[r.IntN(len(names))]; !strings.HasPrefix(broken[name], shape.Link("")) {
				broken[name] = damage[r.IntN(len(damage))]
			}
		}
		m, w := topology.ReadFS(broken.FS()), randomWishes(r)
		a, err := Plan(m, w)
		if err != nil {
			continue
		}
		Warnings(m, a)
		for _, check := range []func(*topology.Machine, Wishes, *Assignment) string{checkWorkers, checkCPUs, checkNodes, checkMemory, checkReserved, checkUnused} {
			if fault := check(m, w, a); fault != "" {
				t.Fatalf("seed %d: %s\nmachine\n%vwishes %+v\nplan\n%s", seed, fault, m, w, transcript(a))
			}
		}
	}
}

// The checks return the first broken promise of an assignment, or nothing.

func checkWorkers(_ *topology.Machine, w Wishes, a *Assignment) string {
	if len(a.Workers) == 0 || len(a.Workers) > MaxWorkers {
		return fmt.Sprintf("%d workers", len(a.Workers))
	}
	for i, worker := range a.Workers {
		switch {
		case worker.Index != i:
			return fmt.Sprintf("worker %d says it is %d", i, worker.Index)
		case len(worker.CPUs) == 0:
			return fmt.Sprintf("worker %d has no CPU", i)
		case !slices.IsSorted(worker.CPUs) || !slices.IsSorted(worker.Nodes) || !slices.IsSorted(worker.Reserved) || !slices.IsSorted(worker.Unused):
			return fmt.Sprintf("a list of worker %d is not ascending", i)
		case worker.Loops < 1 || worker.Loops > MaxLoops:
			return fmt.Sprintf("worker %d has %d loops", i, worker.Loops)
		case w.Loops > 0 && worker.Loops != w.Loops:
			return fmt.Sprintf("worker %d has not the loops that were wished", i)
		case w.Loops == 0 && worker.Loops > len(worker.CPUs):
			return fmt.Sprintf("worker %d has more loops than CPUs", i)
		case worker.Affinity != w.Affinity || worker.Pin != (w.Affinity == AffinityHard):
			return fmt.Sprintf("worker %d is pinned against the wish", i)
		}
	}
	return ""
}

// checkCPUs: every CPU at most once, nothing outside of what is allowed, and each
// online CPU is either used or in a note.
func checkCPUs(m *topology.Machine, w Wishes, a *Assignment) string {
	var used []int
	for _, worker := range a.Workers {
		for _, cpu := range worker.CPUs {
			if slices.Contains(used, cpu) {
				return fmt.Sprintf("CPU %d is used twice", cpu)
			}
			used = append(used, cpu)
			if fault := forbidden(m, w, cpu); fault != "" {
				return fmt.Sprintf("CPU %d is used, but %s", cpu, fault)
			}
		}
	}
	explained := explainedCPUs(a)
	for _, cpu := range m.Online {
		stray := !slices.Contains(m.Online, a.Workers[0].CPUs[0]) // files and grant disagree: no note of each
		if in := slices.Contains(used, cpu); in == explained[cpu] && !stray {
			return fmt.Sprintf("CPU %d: used %t, left out in a note %t", cpu, in, explained[cpu])
		}
	}
	for _, worker := range a.Workers {
		overflow := without(slices.Sorted(slices.Values(used)), worker.CPUs)
		if w.Affinity != AffinitySoft {
			overflow = nil
		}
		if !slices.Equal(worker.Overflow, overflow) {
			return fmt.Sprintf("worker %d overflows to %v, want %v", worker.Index, worker.Overflow, overflow)
		}
	}
	return ""
}

// forbidden says why a CPU may not be used; nothing if it may.
func forbidden(m *topology.Machine, w Wishes, cpu int) string {
	in := func(list string) bool {
		ids, _ := topology.ParseCPUs(list)
		return slices.Contains(ids, cpu)
	}
	own := w.Allowed
	if len(own) == 0 {
		own = m.Affinity.CPUs
	}
	byName := in(w.CPUs) && slices.Contains(m.Isolated, cpu)
	nodes, _ := topology.ParseCPUs(w.Nodes)
	switch {
	case len(own) > 0 && !slices.Contains(own, cpu) && !byName:
		return "is not in the process's affinity"
	case w.CPUs != "" && !in(w.CPUs):
		return "is not named"
	case w.Nodes != "" && !slices.Contains(nodes, m.NodeOf(cpu)):
		return "is on another node than wished"
	case len(m.Cpuset.CPUs) > 0 && !slices.Contains(m.Cpuset.CPUs, cpu) && slices.ContainsFunc(own, func(o int) bool { return slices.Contains(m.Cpuset.CPUs, o) && slices.Contains(m.Online, o) }):
		return "is not in the cpuset"
	}
	return ""
}

// explainedCPUs reads the notes that leave CPUs out.
func explainedCPUs(a *Assignment) map[int]bool {
	cpus := map[int]bool{}
	for _, note := range a.Notes {
		what, _, found := strings.Cut(note, " left out: ")
		ids, err := topology.ParseCPUs(strings.TrimLeft(what, "CPUs "))
		for _, id := range ids {
			cpus[id] = found && err == nil
		}
	}
	return cpus
}

// checkNodes: a worker's CPUs are on the nodes that it says, on one if the wish
// does not ask for more; a cluster's share a cache.
func checkNodes(m *topology.Machine, w Wishes, a *Assignment) string {
	served := map[int]bool{}
	for _, worker := range a.Workers {
		for _, cpu := range worker.CPUs {
			if node := m.NodeOf(cpu); node >= 0 {
				served[node] = true
			}
		}
	}
	for _, worker := range a.Workers {
		for _, cpu := range worker.CPUs {
			if node := m.NodeOf(cpu); node >= 0 && !slices.Contains(worker.Nodes, node) {
				return fmt.Sprintf("worker %d uses CPU %d of another node", worker.Index, cpu)
			}
		}
		if fault := checkHome(m, w, a, worker); fault != "" {
			return fault
		}
		if w.Per == PerCluster && !sameCache(m, worker.CPUs) && slices.ContainsFunc(a.Workers, func(o Worker) bool { return o.Index != worker.Index && o.Node == worker.Node }) {
			return fmt.Sprintf("worker %d has CPUs of several caches, and is not alone on its node", worker.Index)
		}
		n, err := strconv.Atoi(w.Per)
		single := w.Per == PerCluster || err == nil && n >= len(served)
		if single && len(worker.Nodes) != 1 {
			return fmt.Sprintf("worker %d spans nodes", worker.Index)
		}
	}
	return ""
}

// checkHome: a worker is on the only one of its nodes that gives memory, else on the
// lowest, and knows the node of each CPU. With a worker per node, all nodes of one but
// its home have no memory, and a node without memory is alone only if the one that it
// gets memory from has no worker, or if both have too many CPUs for one.
func checkHome(m *topology.Machine, w Wishes, a *Assignment, worker Worker) string {
	var giving, poor []int
	for _, id := range worker.Nodes {
		if gives(m, m.Node(id)) {
			giving = append(giving, id)
		}
		if !m.Node(id).HasMemory {
			poor = append(poor, id)
		}
	}
	home := worker.Nodes[0]
	if len(giving) == 1 {
		home = giving[0]
	}
	if worker.Node != home {
		return fmt.Sprintf("worker %d of nodes %v is on node %d, want %d", worker.Index, worker.Nodes, worker.Node, home)
	}
	for _, cpu := range slices.Concat(worker.CPUs, worker.Reserved, worker.Unused) {
		if node := m.NodeOf(cpu); node >= 0 && worker.NodeOf(cpu) != node {
			return fmt.Sprintf("worker %d says that CPU %d is on node %d", worker.Index, cpu, worker.NodeOf(cpu))
		}
	}
	if w.Per != PerNode {
		return ""
	}
	if len(worker.Nodes) > 1 && len(poor) != len(worker.Nodes)-1 {
		return fmt.Sprintf("worker %d spans nodes %v, of which only %v have no memory", worker.Index, worker.Nodes, poor)
	}
	if len(worker.Nodes) == 1 && len(poor) == 1 && m.NodeOf(worker.CPUs[0]) >= 0 {
		from := source(m, poor[0])
		for _, o := range a.Workers {
			if slices.Contains(o.Nodes, from) && len(o.CPUs)+len(worker.CPUs) <= MaxLoops {
				return fmt.Sprintf("worker %d is alone on node %d, which has no memory, though node %d has a worker", worker.Index, poor[0], from)
			}
		}
	}
	return ""
}

func sameCache(m *topology.Machine, cpus []int) bool {
	first, _ := m.CPU(cpus[0])
	return !slices.ContainsFunc(cpus, func(cpu int) bool {
		c, _ := m.CPU(cpu)
		return c.Cache != first.Cache
	})
}

// checkMemory: policies are wished and possible, and shares are not more than
// there is.
func checkMemory(m *topology.Machine, w Wishes, a *Assignment) string {
	var sum, total int64
	for _, n := range m.Nodes {
		total += n.MemTotal
	}
	for _, worker := range a.Workers {
		node := m.Node(worker.Node)
		switch {
		case worker.Memory != w.Memory && worker.Memory != MemoryDefault:
			return fmt.Sprintf("worker %d has a memory policy that nobody wished", worker.Index)
		case worker.Memory != MemoryDefault && (!node.HasMemory || slices.ContainsFunc(worker.Nodes, func(id int) bool { return id != worker.Node && gives(m, m.Node(id)) })):
			return fmt.Sprintf("worker %d wants memory of a node that has not all of it", worker.Index)
		case worker.MemoryShare < 0 || worker.MemoryLimit > worker.MemoryShare || worker.MemoryLimit < worker.MemoryShare/2:
			return fmt.Sprintf("worker %d has a share of %d and a limit of %d", worker.Index, worker.MemoryShare, worker.MemoryLimit)
		}
		sum += worker.MemoryShare
	}
	if limit := m.Limits.Memory; limit > 0 && sum > limit {
		return fmt.Sprintf("shares of %d, the control group has %d", sum, limit)
	}
	if sum > total && m.Limits.Memory == 0 {
		return fmt.Sprintf("shares of %d, the machine has %d", sum, total)
	}
	return ""
}

// checkCounts: as many workers as wished, and no core in two of them while their
// node has cores enough.
func checkCounts(m *topology.Machine, w Wishes, a *Assignment) string {
	p := &planner{machine: m}
	for _, n := range m.Nodes {
		var cpus []int
		var parts, pieces int // workers on the node, and the cores of each
		for _, worker := range a.Workers {
			if here := both(worker.CPUs, n.CPUs); len(here) > 0 {
				cpus = append(cpus, here...)
				parts++
				pieces += len(p.cores(here))
			}
		}
		slices.Sort(cpus)
		if whole := len(p.cores(cpus)); w.Per != PerCluster && parts <= whole && pieces != whole {
			return fmt.Sprintf("node %d: %d cores are in %d pieces, for %d workers", n.ID, whole, pieces, parts)
		}
	}
	cpus := 0
	for _, worker := range a.Workers {
		cpus += len(worker.CPUs)
	}
	if n, err := strconv.Atoi(w.Per); err == nil && len(a.Workers) != min(n, cpus) {
		return fmt.Sprintf("%d workers on %d CPUs, wished %d", len(a.Workers), cpus, n)
	}
	if w.Per == PerMachine && len(a.Workers) != 1 {
		return fmt.Sprintf("%d workers for the machine", len(a.Workers))
	}
	return ""
}

// checkUnused: each CPU of a worker's nodes is a worker's, or left to interrupts, or
// unused, and never two of these.
func checkUnused(m *topology.Machine, _ Wishes, a *Assignment) string {
	for _, worker := range a.Workers {
		for _, node := range worker.Nodes {
			n := m.Node(node)
			if n == nil {
				continue
			}
			for _, cpu := range n.CPUs {
				uses := 0
				for _, other := range a.Workers {
					uses += count(other.CPUs, cpu)
				}
				if uses += count(worker.Reserved, cpu) + count(worker.Unused, cpu); uses != 1 {
					return fmt.Sprintf("CPU %d of node %d has %d uses, want 1, for worker %d", cpu, node, uses, worker.Index)
				}
			}
		}
	}
	return ""
}

func count(list []int, id int) (n int) {
	for _, other := range list {
		if other == id {
			n++
		}
	}
	return n
}

// checkReserved: what is left to interrupts is on the worker's nodes, and nobody
// uses it.
func checkReserved(m *topology.Machine, w Wishes, a *Assignment) string {
	for _, worker := range a.Workers {
		for _, cpu := range worker.Reserved {
			if node := m.NodeOf(cpu); node >= 0 && !slices.Contains(worker.Nodes, node) || forbidden(m, w, cpu) != "" {
				return fmt.Sprintf("CPU %d is not worker %d's to reserve", cpu, worker.Index)
			}
			for _, other := range a.Workers {
				if slices.Contains(other.CPUs, cpu) {
					return fmt.Sprintf("CPU %d is reserved and used", cpu)
				}
			}
		}
		if w.Reserve == ReserveNone || w.Reserve == "" {
			if len(worker.Reserved) > 0 {
				return "CPUs are reserved that nobody wished to"
			}
		}
	}
	return ""
}
