package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/placement"
	"sluice/internal/topology"
)

// print writes the machine as tables, the plan, and the warnings.
func (l *layout) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n", summary(l.Machine))
	for _, f := range facts(l.Machine) {
		fmt.Fprintf(w, "%s\n", f)
	}
	fmt.Fprintln(w)
	tables := []*table{nodesTable(l.Machine)}
	if len(l.Machine.NICs) > 0 {
		tables = append(tables, nicsTable(l.Machine))
	}
	if l.Plan != nil {
		tables = append(tables, l.planTable())
	}
	for _, t := range tables {
		if err := t.print(w); err != nil {
			return err
		}
	}
	return l.printRemarks(w)
}

// summary counts what there is.
func summary(m *topology.Machine) string {
	cores := 0
	for _, c := range m.CPUs {
		if c.Core[0] == c.ID {
			cores++
		}
	}
	var parts []string
	if m.Model != "" {
		parts = append(parts, m.Model)
	}
	if len(m.Sockets) > 0 {
		parts = append(parts, plural(len(m.Sockets), "socket"))
	}
	nodes := plural(len(m.Nodes), "NUMA node")
	if !m.NUMA {
		nodes = "no NUMA nodes named by the kernel"
	}
	return strings.Join(append(parts, nodes, plural(cores, "core"), plural(len(m.Online), "CPU")), ", ")
}

// facts are what is not as on most machines, a line each.
func facts(m *topology.Machine) []string {
	var lines []string
	add := func(what, value string) {
		if value != "" {
			lines = append(lines, what+": "+value)
		}
	}
	add("hypervisor", m.Hypervisor)
	add("container", m.Container)
	if m.Limits.CPUs > 0 {
		add("the control group's CPU limit", strconv.FormatFloat(m.Limits.CPUs, 'g', 4, 64)+" CPUs")
	}
	if m.Limits.Memory > 0 {
		add("the control group's memory limit", bytesText(m.Limits.Memory))
	}
	for _, grant := range []struct {
		what  string
		ids   []int
		among []int
	}{
		{"the control group's CPUs", m.Cpuset.CPUs, m.Online},
		{"the control group's memory nodes", m.Cpuset.Nodes, nodeIDs(m)},
		{"the process's CPUs", m.Affinity.CPUs, m.Online},
		{"the process's memory nodes", m.Affinity.Nodes, nodeIDs(m)},
	} {
		if missing := slices.ContainsFunc(grant.among, func(id int) bool { return !slices.Contains(grant.ids, id) }); missing {
			add(grant.what, topology.FormatCPUs(grant.ids))
		}
	}
	add("offline CPUs", topology.FormatCPUs(m.Offline))
	add("offline nodes", topology.FormatCPUs(m.OfflineNodes))
	add("isolated CPUs", topology.FormatCPUs(m.Isolated))
	var efficient []int
	for _, c := range m.CPUs {
		if c.Efficient {
			efficient = append(efficient, c.ID)
		}
	}
	add("efficiency cores", topology.FormatCPUs(efficient))
	for _, fact := range m.Unknown {
		add("unknown", fact)
	}
	return lines
}

func nodeIDs(m *topology.Machine) []int {
	var ids []int
	for _, n := range m.Nodes {
		ids = append(ids, n.ID)
	}
	return ids
}

func nodesTable(m *topology.Machine) *table {
	t := newTable(">NODE >CPUS LIST SOCKET CACHES >MEMORY >AVAILABLE DISTANCE CARDS")
	for i := range m.Nodes {
		n := &m.Nodes[i]
		var cards, sockets []string
		for _, nic := range m.NICs {
			if nic.Node == n.ID {
				cards = append(cards, nic.Name)
			}
		}
		for _, s := range m.Sockets {
			if slices.Contains(s.Nodes, n.ID) {
				sockets = append(sockets, strconv.Itoa(s.ID))
			}
		}
		t.add(whole(n.ID), whole(len(n.CPUs)), dash(topology.FormatCPUs(n.CPUs)), dash(strings.Join(sockets, ",")), cachesOf(m, n.CPUs),
			memoryText(n), available(n), distances(n), dash(strings.Join(cards, " ")))
	}
	return t
}

// cachesOf tells the last-level caches of some CPUs: "4 × L3 32 MiB".
func cachesOf(m *topology.Machine, cpus []int) string {
	var kinds []string
	counts := map[string]int{}
	for _, c := range m.Caches {
		if !slices.ContainsFunc(c.CPUs, func(id int) bool { return slices.Contains(cpus, id) }) {
			continue
		}
		kind := cacheText(c)
		if counts[kind]++; counts[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d × %s", counts[kind], kind)
	}
	return dash(strings.Join(kinds, ", "))
}

func cacheText(c topology.Cache) string {
	text := "L" + strconv.Itoa(c.Level)
	if c.Size > 0 {
		text += " " + bytesText(c.Size)
	}
	return text
}

func memoryText(n *topology.Node) string {
	switch {
	case !n.HasMemory:
		return "none"
	case n.MemTotal == 0:
		return "-"
	}
	return bytesText(n.MemTotal)
}

func available(n *topology.Node) string {
	if n.MemAvailable == 0 {
		return "-"
	}
	return bytesText(n.MemAvailable)
}

func distances(n *topology.Node) string {
	row := make([]string, len(n.Distance))
	for i, d := range n.Distance {
		row[i] = strconv.Itoa(d)
	}
	return dash(strings.Join(row, " "))
}

func nicsTable(m *topology.Machine) *table {
	t := newTable("CARD DRIVER >NODE LINK >RX >TX INTERRUPTS RPS XPS")
	for i := range m.NICs {
		n := &m.NICs[i]
		link := "down"
		if n.Up {
			link = "up"
		}
		t.add(n.Name, dash(n.Driver), node(n.Node), link, whole(len(n.Rx)), whole(len(n.Tx)), interrupts(m, n), steering(n.Rx), steering(n.Tx))
	}
	return t
}

// interrupts tells to which nodes those of a card's queues go: "2 to node 0, 2 to
// node 1".
func interrupts(m *topology.Machine, n *topology.NIC) string {
	var kinds []string
	counts := map[string]int{}
	for i := range n.IRQs {
		irq := &n.IRQs[i]
		if irq.Queue < 0 {
			continue
		}
		to := "to an unknown place"
		if nodes := nodesOf(m, irq.Targets()); len(nodes) == 1 {
			to = "to node " + strconv.Itoa(nodes[0])
		} else if len(nodes) > 1 {
			to = "to any of nodes " + topology.FormatCPUs(nodes)
		}
		if counts[to]++; counts[to] == 1 {
			kinds = append(kinds, to)
		}
	}
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return dash(strings.Join(kinds, ", "))
}

func nodesOf(m *topology.Machine, cpus []int) []int {
	var nodes []int
	for _, cpu := range cpus {
		if n := m.NodeOf(cpu); n >= 0 && !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// steering tells the CPUs that RPS or XPS names for a card's queues.
func steering(queues []topology.Queue) string {
	var cpus []int
	for _, q := range queues {
		cpus = append(cpus, q.CPUs...)
	}
	if len(cpus) == 0 {
		return "off"
	}
	slices.Sort(cpus)
	return topology.FormatCPUs(slices.Compact(cpus))
}

func (l *layout) planTable() *table {
	t := newTable(">WORKER >NODE CPUS >LOOPS AFFINITY MEMORY >SHARE >HEAP RESERVED")
	for _, w := range l.Plan.Workers {
		share, heap := "-", "-"
		if w.MemoryShare > 0 {
			share, heap = bytesText(w.MemoryShare), bytesText(w.MemoryLimit)
		}
		t.add(whole(w.Index), topology.FormatCPUs(w.Nodes), topology.FormatCPUs(w.CPUs), whole(w.Loops), w.Affinity, w.Memory,
			share, heap, dash(topology.FormatCPUs(w.Reserved)))
	}
	return t
}

// printRemarks says in words what the tables do not.
func (l *layout) printRemarks(w io.Writer) error {
	var b strings.Builder
	if l.Plan != nil {
		remarks(&b, "About the plan", l.Plan.Notes)
		remarks(&b, "Wishes that this machine cannot meet", l.Plan.Unmet)
		b.WriteString(warningsText(l.Warnings))
	} else {
		b.WriteString("There is no plan.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func remarks(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "%s:\n", title)
	for _, line := range lines {
		fmt.Fprintf(b, "  %s\n", line)
	}
	b.WriteByte('\n')
}

func warningsText(warnings []placement.Warning) string {
	if len(warnings) == 0 {
		return "Nothing that was read works against this plan.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", plural(len(warnings), "warning"))
	for _, w := range warnings {
		fmt.Fprintf(&b, "  %s (%s)\n    why:  %s\n    cure: %s\n", w.What, w.ID, w.Why, w.Cure)
	}
	return b.String()
}

// dash stands for nothing.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
