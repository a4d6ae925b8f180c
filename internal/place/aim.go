package place

import (
	"fmt"
	"slices"

	"sluice/internal/placement"
	"sluice/internal/topology"
)

// Target is where processes go.
type Target struct {
	Node   int
	CPUs   []int  // of the node
	Memory string // placement.MemoryPrefer, MemoryBind or MemoryDefault
	From   []int  // the other nodes with memory, whose pages are moved; none: nothing is
	All    []int  // every node with memory
	Notes  []string
}

// Aim says what a node gives: its CPUs, but for those that are isolated from the
// scheduler; only those of them that only names, unless it is empty. Memory is
// prefer (pages move there, new ones come from there first), bind (all do, always)
// or default (pages stay where they are). An error says which nodes there are.
func Aim(m *topology.Machine, node int, only []int, memory string) (Target, error) {
	n := m.Node(node)
	if n == nil {
		return Target{}, noSuchNode(m, node)
	}
	if len(n.CPUs) == 0 {
		return Target{}, fmt.Errorf("node %d has memory and no CPUs; nodes with CPUs: %s", node, list(m, func(n topology.Node) bool { return len(n.CPUs) > 0 }))
	}
	t := Target{Node: node, Memory: memory, CPUs: free(m, n)}
	if len(only) > 0 {
		for _, cpu := range only {
			if !slices.Contains(n.CPUs, cpu) {
				return Target{}, fmt.Errorf("CPU %d is not on node %d; its CPUs are %s", cpu, node, topology.FormatCPUs(n.CPUs))
			}
		}
		t.CPUs = only
	}
	for _, n := range m.Nodes {
		if n.HasMemory {
			t.All = append(t.All, n.ID)
		}
	}
	return t, t.aimMemory(m, n)
}

// aimMemory completes a target with the nodes that pages leave.
func (t *Target) aimMemory(m *topology.Machine, n *topology.Node) error {
	switch {
	case t.Memory == placement.MemoryDefault:
		return nil
	case !n.HasMemory && t.Memory == placement.MemoryBind:
		return fmt.Errorf("node %d has no memory to bind to; nodes with memory: %s", t.Node, list(m, func(n topology.Node) bool { return n.HasMemory }))
	case !n.HasMemory:
		t.Notes = append(t.Notes, fmt.Sprintf("node %d has no memory: pages stay where they are", t.Node))
		return nil
	}
	t.From = slices.DeleteFunc(slices.Clone(t.All), func(node int) bool { return node == t.Node })
	return nil
}

func noSuchNode(m *topology.Machine, node int) error {
	every := list(m, func(topology.Node) bool { return true })
	if slices.Contains(m.OfflineNodes, node) {
		return fmt.Errorf("node %d is offline; nodes that are online: %s", node, every)
	}
	return fmt.Errorf("there is no node %d; this machine has %s", node, every)
}

// free are the CPUs of a node that the scheduler uses, or all if it uses none.
func free(m *topology.Machine, n *topology.Node) []int {
	cpus := slices.DeleteFunc(slices.Clone(n.CPUs), func(cpu int) bool { return slices.Contains(m.Isolated, cpu) })
	if len(cpus) == 0 {
		return n.CPUs
	}
	return cpus
}

// list names the nodes of a kind.
func list(m *topology.Machine, is func(topology.Node) bool) string {
	var ids []int
	for _, n := range m.Nodes {
		if is(n) {
			ids = append(ids, n.ID)
		}
	}
	return topology.FormatCPUs(ids)
}
