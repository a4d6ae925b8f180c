// Package topology says what this machine is: its NUMA nodes, their CPUs, their
// memory and how far apart they are; sockets, caches and SMT siblings; network
// cards and where their interrupts go; and what this process may use of it all.
//
// Read looks at sysfs and procfs below a root and makes a Machine, a value that
// nobody changes. It decides nothing: package placement does. What the kernel
// does not tell, or does not let us read, is left out: a machine without NUMA
// files is one node with every CPU, one without cache files has no Caches. Facts
// without which a plan is a guess are named in Machine.Unknown. So whoever reads
// a Machine needs no case for ignorance but the zero values said here.
//
// A CPU, a node, a socket is named by the kernel's number for it. Lists of them
// are ascending. -1 is an unknown number.
package topology

import "slices"

// Machine is what was found. It is immutable, always has a node, and always has
// an online CPU.
type Machine struct {
	// Nodes are the online NUMA nodes, ascending by ID.
	Nodes []Node `json:"nodes"`

	// Online are the CPUs that can run threads. Each stands in exactly one node.
	Online []int `json:"online"`

	// CPUs says more of each online CPU, in the order of Online.
	CPUs []CPU `json:"cpus"`

	Sockets []Socket `json:"sockets,omitempty"` // ascending by ID; none: unknown
	Dies    []Die    `json:"dies,omitempty"`    // by socket, then ID; none: unknown
	Caches  []Cache  `json:"caches,omitempty"`  // last-level ones, by their first CPU; none: unknown

	Offline      []int `json:"offline,omitempty"`       // CPUs that are there and switched off
	Isolated     []int `json:"isolated,omitempty"`      // CPUs that the scheduler balances nothing onto (isolcpus=, isolated cpusets)
	OfflineNodes []int `json:"offline_nodes,omitempty"` // nodes that could come (hot plug), or have gone

	// NUMA is false if the kernel names no nodes, and Nodes[0] was made up.
	NUMA bool `json:"numa"`

	Model string `json:"model,omitempty"` // of the first CPU, as it names itself

	// Hypervisor names the virtual machine's maker ("KVM", "Xen"), or is
	// "unknown" if the CPU only says that there is one. It is empty on bare metal,
	// and where the kernel is silent.
	Hypervisor string `json:"hypervisor,omitempty"`

	// Container names what we run in ("docker", "kubernetes"); empty: none that
	// shows.
	Container string `json:"container,omitempty"`

	Limits   Limits   `json:"limits"`   // of this process's control group
	Cpuset   Cpuset   `json:"cpuset"`   // of this process's control group
	Affinity Cpuset   `json:"affinity"` // of this process, as /proc/self/status says
	Switches Switches `json:"switches"`
	NICs     []NIC    `json:"nics,omitempty"` // by name, those with a device beneath

	// Unknown names each fact that could not be read, and why.
	Unknown []string `json:"unknown,omitempty"`
}

// Node is one NUMA node. It may have CPUs, memory, or both.
type Node struct {
	ID           int         `json:"id"`                     // numbers may have gaps
	CPUs         []int       `json:"cpus"`                   // online; empty for a node of memory only
	HasMemory    bool        `json:"has_memory"`             // true if unknown
	MemTotal     int64       `json:"memory_bytes"`           // bytes; 0: unknown or none
	MemFree      int64       `json:"memory_free_bytes"`      // bytes at the time of reading
	MemAvailable int64       `json:"memory_available_bytes"` // bytes that could be had without swapping, about; 0: unknown
	HugePages    []HugePages `json:"huge_pages,omitempty"`   // by size, those of which there are any
	Distance     []int       `json:"distance,omitempty"`     // to Machine.Nodes[i]; 10 is the node itself, 20 twice as far (ACPI SLIT); nil: unknown
}

// HugePages are a node's reserved pages of one size. Nobody gets their memory
// but who asks for such pages.
type HugePages struct {
	Size  int64 `json:"size_bytes"`
	Total int64 `json:"total"` // pages
	Free  int64 `json:"free"`  // pages
}

// CPU is what is known of one online CPU.
type CPU struct {
	ID        int   `json:"id"`
	Node      int   `json:"node"`
	Socket    int   `json:"socket"`              // physical package; -1: unknown
	Die       int   `json:"die"`                 // number within the socket; -1: unknown
	Core      []int `json:"core"`                // the online SMT siblings, itself among them; itself if unknown
	Cache     int   `json:"cache"`               // its last-level cache, an index of Machine.Caches; -1: unknown
	Capacity  int   `json:"capacity,omitempty"`  // of 1024, the strongest; 0: unknown
	Efficient bool  `json:"efficient,omitempty"` // an efficiency core, where there are performance cores too
}

// Socket is a physical package, or what a hypervisor shows as one.
type Socket struct {
	ID    int   `json:"id"`
	CPUs  []int `json:"cpus"`
	Nodes []int `json:"nodes"` // IDs; several with sub-NUMA clustering, one for all sockets where nodes are hidden
}

// Die is a part of a socket.
type Die struct {
	Socket int   `json:"socket"`
	ID     int   `json:"id"`
	CPUs   []int `json:"cpus"`
}

// Cache is a last-level cache. It may span nodes: with sub-NUMA clustering the
// kernel shows a socket's whole L3 in each of its nodes.
type Cache struct {
	Level int   `json:"level"`
	Size  int64 `json:"size_bytes"` // 0: unknown
	CPUs  []int `json:"cpus"`
}

// Limits are what a container or a service manager grants to this process.
// The zero value is no limit.
type Limits struct {
	Memory int64   `json:"memory_bytes,omitempty"` // memory.max; 0: none
	CPUs   float64 `json:"cpus,omitempty"`         // CPU seconds per second (cpu.max); 0: none
}

// Cpuset is a set of CPUs and of the nodes that memory may come from.
type Cpuset struct {
	CPUs  []int `json:"cpus,omitempty"`  // empty: unknown
	Nodes []int `json:"nodes,omitempty"` // IDs; empty: unknown
}

// Switches are the kernel's settings that move memory or make it slow to get.
type Switches struct {
	NUMABalancing        int    `json:"numa_balancing"`                   // bits: 1 moves pages to who uses them, 2 between tiers; -1: unknown
	ZoneReclaim          int    `json:"zone_reclaim_mode"`                // 0: another node's memory before reclaiming one's own; -1: unknown
	TransparentHugePages string `json:"transparent_huge_pages,omitempty"` // always, madvise, never; empty: unknown
}

// NIC is a network card, real or paravirtual. Bridges, bonds, tunnels and the
// loopback have no device and are none.
type NIC struct {
	Name   string  `json:"name"`
	Driver string  `json:"driver,omitempty"` // empty: unknown
	Node   int     `json:"node"`             // where it is plugged in; -1: unknown
	Up     bool    `json:"up"`
	Rx     []Queue `json:"rx"`
	Tx     []Queue `json:"tx"`
	IRQs   []IRQ   `json:"irqs,omitempty"` // ascending by number
}

// Queue is a receive or a transmit queue of a NIC.
type Queue struct {
	Index int   `json:"index"`
	CPUs  []int `json:"cpus,omitempty"`  // receive: RPS, who goes on with a packet; transmit: XPS, who sends by it; empty: off
	Flows int   `json:"flows,omitempty"` // receive: entries of its RFS table; 0: off
}

// IRQ is an interrupt of a NIC.
type IRQ struct {
	Number    int    `json:"number"`              // 0: it has none (a channel of Hyper-V's bus)
	Name      string `json:"name,omitempty"`      // as the driver calls it
	Queue     int    `json:"queue"`               // the queue that it serves, by its name; -1: none, it is for control
	CPUs      []int  `json:"cpus,omitempty"`      // where it may go; empty: unknown
	Effective []int  `json:"effective,omitempty"` // where it does go; empty: unknown
	Count     uint64 `json:"count"`               // since boot, on all CPUs
}

// Targets are the CPUs that an interrupt goes to, as exactly as the kernel says.
// Empty is unknown.
func (i *IRQ) Targets() []int {
	if len(i.Effective) > 0 {
		return i.Effective
	}
	return i.CPUs
}

// CPU finds an online CPU; false if there is none of that number, or if nothing
// is known of it.
func (m *Machine) CPU(id int) (CPU, bool) {
	i, found := slices.BinarySearchFunc(m.CPUs, id, func(c CPU, id int) int { return c.ID - id })
	if !found {
		return CPU{}, false
	}
	return m.CPUs[i], true
}

// Node finds an online node by its number; nil if there is none.
func (m *Machine) Node(id int) *Node {
	for i := range m.Nodes {
		if m.Nodes[i].ID == id {
			return &m.Nodes[i]
		}
	}
	return nil
}

// NodeOf is the number of the node that a CPU is on; -1 if it is not online.
func (m *Machine) NodeOf(cpu int) int {
	for i := range m.Nodes {
		if _, found := slices.BinarySearch(m.Nodes[i].CPUs, cpu); found {
			return m.Nodes[i].ID
		}
	}
	return -1
}

// DistanceBetween is how far one node's CPUs are from another's memory, as the
// firmware says; without its word 10 for the node itself and 20 for any other,
// as the kernel assumes (include/linux/topology.h).
func (m *Machine) DistanceBetween(from, to int) int {
	node := m.Node(from)
	i := slices.IndexFunc(m.Nodes, func(n Node) bool { return n.ID == to })
	switch {
	case node != nil && i >= 0 && i < len(node.Distance):
		return node.Distance[i]
	case from == to:
		return 10
	default:
		return 20
	}
}
