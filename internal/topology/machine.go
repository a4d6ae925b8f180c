// Package topology says what this machine is: its NUMA nodes, their CPUs, their
// memory and how far apart they are.
//
// Read looks at sysfs and procfs below a root and makes a Machine, a value that
// nobody changes. It decides nothing: package placement does. What the kernel
// does not tell, or does not let us read, is left out and named in
// Machine.Unknown. A machine without NUMA files is one node with every CPU, so
// that whoever reads a Machine needs no case for it.
//
// Further facts (caches, network cards, interrupts) become further fields of
// Node and Machine, each with one reading function in read.go.
package topology

import (
	"fmt"
	"strings"
)

// Machine is what was found. It is immutable, always has a node, and always has
// an online CPU.
type Machine struct {
	// Nodes are the online NUMA nodes, ascending by ID.
	Nodes []Node

	// Online are the CPUs that can run threads, ascending. Each stands in
	// exactly one node.
	Online []int

	// NUMA is false if the kernel names no nodes, and Nodes[0] was made up.
	NUMA bool

	// Hypervisor names the virtual machine's maker ("KVM", "Xen"), or is
	// "unknown" if the CPU only says that there is one. It is empty on bare metal,
	// and where the kernel is silent.
	Hypervisor string

	// Limits are those of this process's control group.
	Limits Limits

	// Unknown names each fact that could not be read, and why.
	Unknown []string
}

// Node is one NUMA node. It may have CPUs, memory, or both.
type Node struct {
	ID        int   // the kernel's number; numbers may have gaps
	CPUs      []int // online, ascending; empty for a node of memory only
	HasMemory bool  // true if unknown
	MemTotal  int64 // bytes; 0: unknown or none
	MemFree   int64 // bytes at the time of reading
	Distance  []int // to Machine.Nodes[i]; 10 is the node itself, 20 twice as far (ACPI SLIT); nil: unknown
}

// Limits are what a container or a service manager grants to this process.
// The zero value is no limit.
type Limits struct {
	Memory int64   // bytes (memory.max); 0: none
	CPUs   float64 // CPU seconds per second (cpu.max); 0: none
}

// String prints the machine as a small table for people, one node in a line.
func (m *Machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cpus %s numa %t", FormatCPUs(m.Online), m.NUMA)
	if m.Hypervisor != "" {
		fmt.Fprintf(&b, " hypervisor %s", m.Hypervisor)
	}
	if m.Limits.CPUs > 0 {
		fmt.Fprintf(&b, " cpu-limit %g", m.Limits.CPUs)
	}
	if m.Limits.Memory > 0 {
		fmt.Fprintf(&b, " memory-limit %dMiB", m.Limits.Memory>>20)
	}
	b.WriteByte('\n')
	for _, n := range m.Nodes {
		fmt.Fprintf(&b, "node %d cpus %s memory %s distance %v\n", n.ID, orNone(FormatCPUs(n.CPUs)), n.memory(), n.Distance)
	}
	for _, fact := range m.Unknown {
		fmt.Fprintf(&b, "unknown %s\n", fact)
	}
	return b.String()
}

func (n *Node) memory() string {
	switch {
	case !n.HasMemory:
		return "none"
	case n.MemTotal == 0:
		return "unknown"
	default:
		return fmt.Sprintf("%dMiB free %dMiB", n.MemTotal>>20, n.MemFree>>20)
	}
}

func orNone(list string) string {
	if list == "" {
		return "none"
	}
	return list
}
