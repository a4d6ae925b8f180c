// Package shape draws machines for tests: a few numbers become the files of
// sysfs and procfs that package topology reads. A Tree is also how a recorded
// machine is kept as text.
//
// CPUs are numbered as Linux does on bare metal: the first threads of all cores,
// node by node, then the second threads. With Adjacent they are numbered as
// hypervisors do, the threads of a core side by side.
package shape

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Machine is a machine whose parts are alike. Counts of 0 are 1.
type Machine struct {
	Sockets int
	Nodes   int // per socket
	Caches  int // last-level ones, per node
	Cores   int // per cache
	Threads int // per core

	Adjacent  bool // the threads of a core have numbers side by side
	OneNode   bool // all CPUs in node 0, whatever Nodes says: hidden by a hypervisor
	WideCache bool // the cache files show a socket's whole L3 in each of its nodes

	MemoryMiB   int   // per node
	MemoryNodes []int // MiB of further nodes without CPUs
	Distance    func(from, to int) int
	Flags       string // of the CPU, in /proc/cpuinfo
	Model       string
	NICs        []NIC
}

// NIC is a network card on a PCI function of its own, with as many receive as
// transmit queues and an interrupt for each pair. IRQs number from First.
type NIC struct {
	Name, Driver, PCI string
	Node              int
	First             int
	IRQs              []string // the CPU list that each queue's interrupt goes to
	Virtio            bool     // a virtio device on the function: its IRQs bear its name, and it tells no node
}

// cpu is where one CPU is.
type cpu struct{ id, socket, node, cache, core int }

// Tree draws the machine.
func (m Machine) Tree() Tree {
	t := Tree{}
	cpus := m.cpus()
	all := ids(cpus, func(cpu) bool { return true })
	for _, file := range []string{"online", "present", "possible"} {
		t["sys/devices/system/cpu/"+file] = all
	}
	for _, c := range cpus {
		m.drawCPU(t, c, cpus)
	}
	m.drawNodes(t, cpus)
	t["proc/cpuinfo"] = fmt.Sprintf("processor\t: 0\nmodel name\t: %s\nflags\t\t: %s", m.Model, m.Flags)
	m.drawNICs(t, len(cpus))
	return t
}

func (m Machine) cpus() []cpu {
	sockets, nodes, caches, cores, threads := max(1, m.Sockets), max(1, m.Nodes), max(1, m.Caches), max(1, m.Cores), max(1, m.Threads)
	total := sockets * nodes * caches * cores
	var cpus []cpu
	for core := range total {
		for thread := range threads {
			id := core + thread*total
			if m.Adjacent {
				id = core*threads + thread
			}
			node := core / (caches * cores)
			if m.OneNode {
				node = 0
			}
			cpus = append(cpus, cpu{id: id, socket: core / (nodes * caches * cores), node: node, cache: core / cores, core: core})
		}
	}
	slices.SortFunc(cpus, func(a, b cpu) int { return a.id - b.id })
	return cpus
}

func (m Machine) drawCPU(t Tree, c cpu, cpus []cpu) {
	dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d", c.id)
	inCore := ids(cpus, func(o cpu) bool { return o.core == c.core })
	inCache := ids(cpus, func(o cpu) bool { return o.cache == c.cache || m.WideCache && o.socket == c.socket })
	t[dir+"/topology/physical_package_id"] = strconv.Itoa(c.socket)
	t[dir+"/topology/die_id"] = "0"
	t[dir+"/topology/core_cpus_list"] = inCore
	for i, cache := range []struct{ level, kind, size, cpus string }{
		{"1", "Data", "32K", inCore}, {"1", "Instruction", "32K", inCore}, {"2", "Unified", "1024K", inCore}, {"3", "Unified", "32768K", inCache},
	} {
		index := fmt.Sprintf("%s/cache/index%d", dir, i)
		t[index+"/level"], t[index+"/type"], t[index+"/size"], t[index+"/shared_cpu_list"] = cache.level, cache.kind, cache.size, cache.cpus
	}
}

func (m Machine) drawNodes(t Tree, cpus []cpu) {
	const dir = "sys/devices/system/node"
	count := cpus[len(cpus)-1].node + 1
	total := count + len(m.MemoryNodes)
	nodes := sequence(total)
	t[dir+"/online"], t[dir+"/possible"] = nodes, nodes
	var withMemory []string
	for id := range total {
		memory := m.MemoryMiB
		if id >= count {
			memory = m.MemoryNodes[id-count]
		}
		if memory > 0 {
			withMemory = append(withMemory, strconv.Itoa(id))
		}
		var row []string
		for to := range total {
			row = append(row, strconv.Itoa(m.distance(id, to)))
		}
		at := fmt.Sprintf("%s/node%d", dir, id)
		t[at+"/cpulist"] = ids(cpus, func(c cpu) bool { return c.node == id })
		t[at+"/distance"] = strings.Join(row, " ")
		t[at+"/meminfo"] = Meminfo(id, memory)
	}
	t[dir+"/has_memory"] = strings.Join(withMemory, ",")
}

func (m Machine) distance(from, to int) int {
	switch {
	case from == to:
		return 10
	case m.Distance != nil:
		return m.Distance(from, to)
	default:
		return 20
	}
}

// Meminfo is a node's file: half of its memory is free.
func Meminfo(node, mib int) string {
	return fmt.Sprintf("Node %d MemTotal: %d kB\nNode %d MemFree: %d kB", node, mib<<10, node, mib<<9)
}

func (m Machine) drawNICs(t Tree, cpus int) {
	if len(m.NICs) == 0 {
		return
	}
	var table strings.Builder
	for i := range cpus {
		fmt.Fprintf(&table, " CPU%d", i)
	}
	for i, n := range m.NICs {
		n.draw(t, i, cpus, &table)
	}
	t["proc/interrupts"] = table.String()
}

func (n NIC) draw(t Tree, number, cpus int, table *strings.Builder) {
	function := "sys/devices/pci0000:00/" + n.PCI
	device, action := function, n.Name+"-TxRx-%d"
	if n.Virtio {
		virtio := fmt.Sprintf("virtio%d", number)
		device, action = function+"/"+virtio, virtio+"-input.%d"
	}
	place := device + "/net/" + n.Name
	t["sys/class/net/"+n.Name] = Link("../../" + strings.TrimPrefix(place, "sys/"))
	t[place+"/device"] = Link("../../../" + device[strings.LastIndex(device, "/")+1:])
	t[place+"/operstate"] = "up"
	t[device+"/uevent"] = "DRIVER=" + n.Driver
	t[function+"/numa_node"] = strconv.Itoa(n.Node)
	for i, list := range n.IRQs {
		irq := n.First + i
		t[fmt.Sprintf("%s/queues/rx-%d/rps_cpus", place, i)] = "0"
		t[fmt.Sprintf("%s/queues/rx-%d/rps_flow_cnt", place, i)] = "0"
		t[fmt.Sprintf("%s/queues/tx-%d/xps_cpus", place, i)] = "0"
		t[fmt.Sprintf("%s/msi_irqs/%d", function, irq)] = "msix"
		t[fmt.Sprintf("proc/irq/%d/smp_affinity_list", irq)] = list
		fmt.Fprintf(table, "\n%d: %s PCI-MSIX-%s %d-edge "+action, irq, strings.Repeat("1 ", cpus), n.PCI, i, i)
	}
}

// ids lists the numbers of those CPUs that are in.
func ids(cpus []cpu, in func(cpu) bool) string {
	var list []string
	for _, c := range cpus {
		if in(c) {
			list = append(list, strconv.Itoa(c.id))
		}
	}
	return strings.Join(list, ",")
}

// sequence lists the numbers below n.
func sequence(n int) string {
	var list []string
	for i := range n {
		list = append(list, strconv.Itoa(i))
	}
	return strings.Join(list, ",")
}
