package topology

import (
	"fmt"
	"strings"
)

// String prints the machine as a small table for people, a thing in a line. What
// is not known, or is as on most machines, has no line.
func (m *Machine) String() string {
	var b strings.Builder
	m.printHead(&b)
	for _, n := range m.Nodes {
		fmt.Fprintf(&b, "node %d cpus %s memory %s distance %v\n", n.ID, orNone(FormatCPUs(n.CPUs)), n.memory(), n.Distance)
	}
	for _, s := range m.Sockets {
		fmt.Fprintf(&b, "socket %d cpus %s nodes %s\n", s.ID, FormatCPUs(s.CPUs), FormatCPUs(s.Nodes))
	}
	if len(m.Dies) > len(m.Sockets) {
		for _, d := range m.Dies {
			fmt.Fprintf(&b, "die %d.%d cpus %s\n", d.Socket, d.ID, FormatCPUs(d.CPUs))
		}
	}
	for _, c := range m.Caches {
		fmt.Fprintf(&b, "cache L%d %dKiB cpus %s\n", c.Level, c.Size>>10, FormatCPUs(c.CPUs))
	}
	m.printCores(&b)
	m.printGrants(&b)
	for i := range m.NICs {
		m.NICs[i].print(&b)
	}
	for _, fact := range m.Unknown {
		fmt.Fprintf(&b, "unknown %s\n", fact)
	}
	return b.String()
}

func (m *Machine) printHead(b *strings.Builder) {
	fmt.Fprintf(b, "cpus %s numa %t", FormatCPUs(m.Online), m.NUMA)
	if m.Hypervisor != "" {
		fmt.Fprintf(b, " hypervisor %s", m.Hypervisor)
	}
	if m.Container != "" {
		fmt.Fprintf(b, " container %s", m.Container)
	}
	if m.Limits.CPUs > 0 {
		fmt.Fprintf(b, " cpu-limit %g", m.Limits.CPUs)
	}
	if m.Limits.Memory > 0 {
		fmt.Fprintf(b, " memory-limit %dMiB", m.Limits.Memory>>20)
	}
	b.WriteByte('\n')
	if m.Model != "" {
		fmt.Fprintf(b, "model %s\n", m.Model)
	}
}

// printCores prints how CPUs differ and hang together.
func (m *Machine) printCores(b *strings.Builder) {
	var firsts, efficient []int
	for _, c := range m.CPUs {
		if c.Core[0] == c.ID {
			firsts = append(firsts, c.ID)
		}
		if c.Efficient {
			efficient = append(efficient, c.ID)
		}
	}
	if len(firsts) < len(m.CPUs) {
		fmt.Fprintf(b, "cores %d, first threads %s\n", len(firsts), FormatCPUs(firsts))
	}
	printList(b, "efficiency cores", efficient)
	printList(b, "offline cpus", m.Offline)
	printList(b, "isolated cpus", m.Isolated)
	printList(b, "offline nodes", m.OfflineNodes)
}

// printGrants prints what this process may use, and the kernel's switches.
func (m *Machine) printGrants(b *strings.Builder) {
	printList(b, "cpuset cpus", m.Cpuset.CPUs)
	printList(b, "cpuset nodes", m.Cpuset.Nodes)
	printList(b, "affinity cpus", m.Affinity.CPUs)
	printList(b, "affinity nodes", m.Affinity.Nodes)
	if m.Switches.NUMABalancing >= 0 {
		fmt.Fprintf(b, "numa_balancing %d\n", m.Switches.NUMABalancing)
	}
	if m.Switches.ZoneReclaim >= 0 {
		fmt.Fprintf(b, "zone_reclaim_mode %d\n", m.Switches.ZoneReclaim)
	}
	if m.Switches.TransparentHugePages != "" {
		fmt.Fprintf(b, "transparent_hugepage %s\n", m.Switches.TransparentHugePages)
	}
}

func (n *NIC) print(b *strings.Builder) {
	fmt.Fprintf(b, "nic %s", n.Name)
	if n.Driver != "" {
		fmt.Fprintf(b, " driver %s", n.Driver)
	}
	if n.Node >= 0 {
		fmt.Fprintf(b, " node %d", n.Node)
	}
	fmt.Fprintf(b, " up %t rx %d tx %d\n", n.Up, len(n.Rx), len(n.Tx))
	for _, q := range n.Rx {
		if len(q.CPUs) > 0 || q.Flows > 0 {
			fmt.Fprintf(b, "  rx %d rps %s flows %d\n", q.Index, orNone(FormatCPUs(q.CPUs)), q.Flows)
		}
	}
	for _, q := range n.Tx {
		if len(q.CPUs) > 0 {
			fmt.Fprintf(b, "  tx %d xps %s\n", q.Index, FormatCPUs(q.CPUs))
		}
	}
	for _, i := range n.IRQs {
		fmt.Fprintf(b, "  irq %d %s queue %d cpus %s effective %s count %d\n", i.Number, i.Name, i.Queue,
			orNone(FormatCPUs(i.CPUs)), orNone(FormatCPUs(i.Effective)), i.Count)
	}
}

func (n *Node) memory() string {
	var b strings.Builder
	switch {
	case !n.HasMemory:
		return "none"
	case n.MemTotal == 0:
		return "unknown"
	default:
		fmt.Fprintf(&b, "%dMiB free %dMiB", n.MemTotal>>20, n.MemFree>>20)
	}
	if n.MemAvailable > 0 {
		fmt.Fprintf(&b, " available %dMiB", n.MemAvailable>>20)
	}
	for _, h := range n.HugePages {
		fmt.Fprintf(&b, " huge %d of %dKiB, %d free", h.Total, h.Size>>10, h.Free)
	}
	return b.String()
}

func printList(b *strings.Builder, what string, ids []int) {
	if len(ids) > 0 {
		fmt.Fprintf(b, "%s %s\n", what, FormatCPUs(ids))
	}
}

func orNone(list string) string {
	if list == "" {
		return "none"
	}
	return list
}
