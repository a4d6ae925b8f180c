package placement

import (
	"fmt"
	"slices"
	"strings"

	"sluice/internal/topology"
)

// Warning is something in how the machine is set up that works against an
// assignment. It is no fault: everything runs.
type Warning struct {
	ID   string `json:"id"`   // names the kind, for those who look for one: "nic-remote"
	What string `json:"what"` // what was found
	Why  string `json:"why"`  // what it costs
	Cure string `json:"cure"` // what to do, as a command where there is one
}

// Warnings says what of the machine is set up against an assignment. The order
// is fixed. Where a fact is unknown there is no warning.
func Warnings(m *topology.Machine, a *Assignment) []Warning {
	c := &critic{machine: m, workers: a.Workers}
	c.hiddenNodes()
	c.numaBalancing()
	c.zoneReclaim()
	c.hugePages()
	c.partialCpuset()
	c.remoteMemory()
	c.idleIsolated()
	for i := range m.NICs {
		if n := &m.NICs[i]; n.Up {
			c.nicElsewhere(n)
			c.nicOffItsNode(n)
			c.oneQueue(n)
		}
	}
	c.deafWorkers()
	c.idleReserve()
	return c.found
}

// byTune begins the cures of what the plan of package tune mends; its test holds it
// to that.
const byTune = "sluice tune --apply, with the same --config; by hand: "

// critic collects the warnings.
type critic struct {
	machine *topology.Machine
	workers []Worker
	found   []Warning
}

func (c *critic) warn(id, what, why, cure string) {
	c.found = append(c.found, Warning{ID: id, What: what, Why: why, Cure: cure})
}

// hiddenNodes: several sockets and one node is what a hypervisor shows that
// spreads a guest over nodes and does not say so, or firmware that interleaves.
func (c *critic) hiddenNodes() {
	m := c.machine
	if len(m.Sockets) < 2 || len(m.Nodes) > 1 {
		return
	}
	what := fmt.Sprintf("%d sockets, but one NUMA node", len(m.Sockets))
	if m.Hypervisor != "" {
		c.warn("hidden-nodes", what+": the hypervisor may hide the nodes",
			"memory may be on another socket than the CPU that uses it, and nobody here can see or mend it",
			"give the virtual machine virtual NUMA nodes that match its CPUs and memory, or fit it into one node of the host and show one socket; until then workers.per: cluster keeps caches apart")
		return
	}
	c.warn("hidden-nodes", what+": node interleaving in the firmware, or numa=off on the kernel's command line",
		"every second access goes to another socket's memory",
		"turn node interleaving off in the firmware, or take numa=off from the kernel's command line; until then workers.per: cluster keeps caches apart")
}

func (c *critic) numaBalancing() {
	if s := c.machine.Switches; s.NUMABalancing > 0 && s.NUMABalancing&1 != 0 && len(c.machine.Nodes) > 1 {
		c.warn("numa-balancing", "automatic NUMA balancing is on",
			"the kernel unmaps pages to see who uses them; workers that are placed already pay the faults and gain nothing",
			"sysctl kernel.numa_balancing=0")
	}
}

func (c *critic) zoneReclaim() {
	if mode := c.machine.Switches.ZoneReclaim; mode > 0 && len(c.machine.Nodes) > 1 {
		c.warn("zone-reclaim", fmt.Sprintf("zone_reclaim_mode is %d", mode),
			"a node that is full stalls its worker to free its own pages while other nodes have free ones",
			"sysctl vm.zone_reclaim_mode=0")
	}
}

func (c *critic) hugePages() {
	if c.machine.Switches.TransparentHugePages == "always" {
		c.warn("thp-always", "transparent huge pages: always",
			"small heaps and stacks are rounded up to 2 MiB, and the kernel stops threads to make room for such pages",
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
	}
}

// partialCpuset: a cpuset, or an affinity, that cuts a node or a core in two.
func (c *critic) partialCpuset() {
	m := c.machine
	for _, grant := range [...]struct {
		what, cure string
		cpus       []int
	}{
		{"the control group's cpuset", "give the control group whole nodes: cpuset.cpus and cpuset.mems", m.Cpuset.CPUs},
		{"the process's CPU affinity", "give the process whole nodes (taskset, CPUAffinity= of the service)", m.Affinity.CPUs},
	} {
		var cut []string
		for _, n := range m.Nodes {
			usable := without(n.CPUs, m.Isolated)
			if got := both(usable, grant.cpus); len(got) > 0 && len(got) < len(usable) {
				cut = append(cut, fmt.Sprintf("%s of node %d's %s", topology.FormatCPUs(got), n.ID, topology.FormatCPUs(usable)))
			}
		}
		if len(cut) > 0 {
			c.warn("cpuset-partial", fmt.Sprintf("%s grants CPUs %s", grant.what, strings.Join(cut, ", ")),
				"others run on the rest of the node: its caches, its memory and the other threads of its cores are shared with them",
				grant.cure)
			return // the affinity lies within the cpuset, and says the same
		}
	}
}

// remoteMemory: a worker on a node without memory, or without any that is ours.
func (c *critic) remoteMemory() {
	m := c.machine
	told := map[int]bool{}
	for _, w := range c.workers {
		for _, id := range w.Nodes {
			n := m.Node(id)
			if n == nil || told[id] || gives(m, n) || sources(m) == 0 {
				continue
			}
			told[id] = true
			if n.HasMemory {
				c.warn("memory-denied", fmt.Sprintf("workers run on node %d, whose memory the cpuset does not grant", id),
					fmt.Sprintf("all their memory is on node %d", source(m, id)), fmt.Sprintf("add node %d to the control group's cpuset.mems, or leave it out by workers.nodes", id))
				continue
			}
			c.warn("memory-none", fmt.Sprintf("workers run on node %d, which has no memory", id),
				fmt.Sprintf("all their memory is on node %d", source(m, id)), fmt.Sprintf("fill memory slots of node %d, or leave it out by workers.nodes", id))
		}
	}
}

func (c *critic) idleIsolated() {
	idle := without(both(c.machine.Isolated, c.machine.Online), c.used())
	if len(idle) > 0 {
		c.warn("isolated-idle", fmt.Sprintf("no worker uses %s, isolated from the scheduler", list(idle)),
			"the scheduler puts nothing there by itself, so they are idle unless another program goes there by name",
			fmt.Sprintf("add %s to workers.cpus, or take them from isolcpus=", topology.FormatCPUs(idle)))
	}
}

// delivery lists the CPUs that go on with the packets of a NIC's receive queues:
// those that RPS names, else those that the queue's interrupt goes to. It is nil
// if that is unknown, or if an interrupt may go anywhere.
func (c *critic) delivery(n *topology.NIC) []int {
	var cpus []int
	for i := range n.IRQs {
		irq := &n.IRQs[i]
		if !receives(irq) {
			continue
		}
		steered := topology.Queue{}
		for _, q := range n.Rx {
			if q.Index == irq.Queue {
				steered = q
			}
		}
		to := irq.Targets()
		if len(steered.CPUs) > 0 {
			to = steered.CPUs
		}
		if len(c.nodesOf(to)) > 1 && len(steered.CPUs) == 0 && len(irq.Effective) == 0 {
			return nil
		}
		cpus = append(cpus, to...)
	}
	slices.Sort(cpus)
	return both(slices.Compact(cpus), c.machine.Online)
}

// receives reports whether an interrupt says that packets have come, as far as
// its name tells.
func receives(irq *topology.IRQ) bool {
	return irq.Queue >= 0 && !strings.Contains(irq.Name, "output") && !strings.Contains(irq.Name, "-tx-")
}

// nodesOf lists the nodes of some CPUs.
func (c *critic) nodesOf(cpus []int) []int {
	var nodes []int
	for _, cpu := range cpus {
		if node := c.machine.NodeOf(cpu); node >= 0 {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// served lists the nodes that have workers.
func (c *critic) served() []int {
	var nodes []int
	for _, w := range c.workers {
		nodes = append(nodes, w.Nodes...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// used lists the CPUs that workers have.
func (c *critic) used() []int {
	var cpus []int
	for _, w := range c.workers {
		cpus = append(cpus, w.CPUs...)
	}
	slices.Sort(cpus)
	return cpus
}

// nicElsewhere: packets arrive on a node that no worker is on.
func (c *critic) nicElsewhere(n *topology.NIC) {
	served := c.served()
	if away := without(c.nodesOf(c.delivery(n)), served); len(away) > 0 {
		c.warn("nic-elsewhere", fmt.Sprintf("%s delivers packets on node %s, where no worker is", n.Name, topology.FormatCPUs(away)),
			"each of them crosses to another node before anybody reads it",
			byTune+fmt.Sprintf("stop irqbalance; for each interrupt of %s: echo %s > /proc/irq/N/smp_affinity_list", n.Name, topology.FormatCPUs(c.cpusOn(served))))
	}
}

// nicOffItsNode: interrupts go to another node than the card is plugged into.
func (c *critic) nicOffItsNode(n *topology.NIC) {
	home := c.machine.Node(n.Node)
	if home == nil || len(c.machine.Nodes) < 2 || len(home.CPUs) == 0 || !has(c.served(), n.Node) {
		return
	}
	var irqs []int
	for i := range n.IRQs {
		irq := &n.IRQs[i]
		if to := irq.Targets(); irq.Queue >= 0 && len(to) > 0 && len(both(to, home.CPUs)) == 0 {
			irqs = append(irqs, irq.Number)
		}
	}
	if len(irqs) == 0 || c.wantsSpread(n) {
		return
	}
	slices.Sort(irqs)
	c.warn("nic-remote", fmt.Sprintf("%s is on node %d, but its interrupts %s go to other nodes", n.Name, n.Node, topology.FormatCPUs(slices.Compact(irqs))),
		"the card writes packets to its own node's memory, and another node reads them",
		byTune+fmt.Sprintf("stop irqbalance; for each of them: echo %s > /proc/irq/N/smp_affinity_list", topology.FormatCPUs(both(home.CPUs, c.used()))))
}

// wantsSpread reports whether a card's interrupts belong on other nodes too:
// their workers have no card of their own, and would get no connections.
func (c *critic) wantsSpread(n *topology.NIC) bool {
	for _, node := range c.nodesOf(c.delivery(n)) {
		own := slices.ContainsFunc(c.machine.NICs, func(o topology.NIC) bool { return o.Up && o.Node == node })
		if node != n.Node && (own || !has(c.served(), node)) {
			return false
		}
	}
	return true
}

// oneQueue: one receive queue, so one CPU takes all packets, though RPS could
// share them out.
func (c *critic) oneQueue(n *topology.NIC) {
	if len(n.Rx) != 1 || len(n.Rx[0].CPUs) > 0 || len(c.used()) < 2 {
		return
	}
	cpus := c.used()
	c.warn("rps-off", fmt.Sprintf("%s has one receive queue, and RPS is off", n.Name),
		"one CPU takes all packets off the card, and hands work to the others one by one",
		byTune+fmt.Sprintf("echo %s > /sys/class/net/%s/queues/rx-0/rps_cpus", topology.FormatMask(cpus), n.Name))
}

// deafWorkers: with several nodes, those on which no card delivers. A connection
// goes to the node on which it arrives.
func (c *critic) deafWorkers() {
	var reached []int
	known := false
	for i := range c.machine.NICs {
		n := &c.machine.NICs[i]
		if !n.Up {
			continue
		}
		cpus := c.delivery(n)
		if len(cpus) == 0 && len(n.Rx) > 0 {
			return // this one may deliver anywhere
		}
		known = known || len(cpus) > 0
		reached = append(reached, c.nodesOf(cpus)...)
	}
	slices.Sort(reached)
	var deaf []int
	for _, w := range c.workers {
		if len(both(w.Nodes, reached)) == 0 {
			deaf = append(deaf, w.Nodes...)
		}
	}
	slices.Sort(deaf)
	deaf = slices.Compact(deaf)
	if !known || len(deaf) == 0 || len(deaf) == len(c.served()) {
		return
	}
	c.warn("node-deaf", fmt.Sprintf("no network card delivers on node %s", topology.FormatCPUs(deaf)),
		"connections are steered to the node on which they arrive, so the workers there get none from outside",
		byTune+fmt.Sprintf("send some receive queues' interrupts there (echo %s > /proc/irq/N/smp_affinity_list), or set rps_cpus of a card that has too few queues", topology.FormatCPUs(c.cpusOn(deaf))))
}

// idleReserve: CPUs were left to interrupts that go elsewhere.
func (c *critic) idleReserve() {
	var reserved, targets []int
	for _, w := range c.workers {
		reserved = append(reserved, w.Reserved...)
	}
	for i := range c.machine.NICs {
		for j := range c.machine.NICs[i].IRQs {
			if irq := &c.machine.NICs[i].IRQs[j]; irq.Queue >= 0 {
				targets = append(targets, irq.Targets()...)
			}
		}
	}
	slices.Sort(reserved)
	slices.Sort(targets)
	reserved = slices.Compact(reserved)
	if idle := without(reserved, targets); len(idle) > 0 && len(targets) > 0 {
		c.warn("reserve-idle", fmt.Sprintf("%s left to interrupts (workers.reserve), but no network card's go there", list(idle)),
			"they are taken from the workers for nothing",
			byTune+fmt.Sprintf("stop irqbalance; for interrupts of the same node: echo %s > /proc/irq/N/smp_affinity_list", topology.FormatCPUs(idle)))
	}
}

// cpusOn lists the CPUs of workers on some nodes, and those left to interrupts
// there alone if there are such.
func (c *critic) cpusOn(nodes []int) []int {
	var reserved, cpus []int
	for _, w := range c.workers {
		for _, node := range w.Nodes {
			if n := c.machine.Node(node); n != nil && has(nodes, node) {
				cpus = append(cpus, both(w.CPUs, n.CPUs)...)
				reserved = append(reserved, both(w.Reserved, n.CPUs)...)
			}
		}
	}
	if len(reserved) > 0 {
		cpus = reserved
	}
	slices.Sort(cpus)
	return slices.Compact(cpus)
}
