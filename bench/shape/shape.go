// Package shape is what a bench must know of a machine before it shares the CPUs
// out: which of them are on one node, under one cache and in one core. It asks the
// Sluice under test, as an operator would (`sluice topology --json`), so that bench
// and Sluice see the same machine.
//
//	ask.go     asks Sluice for the machine, and for the workers that it would start
//	shape.go   which CPUs come first, and which are set aside for the load: pure
package shape

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Shape is a machine, as far as Sluice would use it. It is immutable.
type Shape struct {
	CPUs       []CPU   // at least one
	LeftOut    []int   // CPUs that Sluice would not use by itself: not granted, isolated, efficiency cores
	Limit      float64 // CPU seconds per second that the control group grants; 0: all
	Hypervisor string  // its name, or "unknown"; empty: none that shows
}

// CPU is where one CPU is.
type CPU struct {
	ID    int
	Node  int
	Cache int   // number of its last-level cache; -1: unknown
	Core  []int // the threads of its core, itself among them, ascending
}

// Order lists the CPUs as a growing program takes them: node by node, in a node
// cache by cache, under a cache first one thread of each core. So a step of few
// CPUs has whole caches and nodes, and shares a core only when it must.
func (s Shape) Order() []int {
	return ids(slices.SortedStableFunc(slices.Values(s.CPUs), func(a, b CPU) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Cache, b.Cache),
			cmp.Compare(a.thread(), b.thread()), cmp.Compare(a.ID, b.ID))
	}))
}

// thread is the CPU's place among the threads of its core.
func (c CPU) thread() int { return max(0, slices.Index(c.Core, c.ID)) }

// Only is the part of the shape that has these CPUs.
func (s Shape) Only(cpus []int) Shape {
	s.CPUs = slices.DeleteFunc(slices.Clone(s.CPUs), func(c CPU) bool { return !slices.Contains(cpus, c.ID) })
	return s
}

// Without is the rest of it.
func (s Shape) Without(cpus []int) Shape {
	s.CPUs = slices.DeleteFunc(slices.Clone(s.CPUs), func(c CPU) bool { return slices.Contains(cpus, c.ID) })
	return s
}

// Nodes are those of the CPUs, ascending.
func (s Shape) Nodes() []int { return s.numbers(func(c CPU) int { return c.Node }) }

// Caches are the known ones of the CPUs, ascending.
func (s Shape) Caches() []int {
	return slices.DeleteFunc(s.numbers(func(c CPU) int { return c.Cache }), func(cache int) bool { return cache < 0 })
}

func (s Shape) numbers(of func(CPU) int) []int {
	var all []int
	for _, c := range s.CPUs {
		all = append(all, of(c))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// On are a node's CPUs, in the order of Order.
func (s Shape) On(node int) []int {
	s.CPUs = slices.DeleteFunc(slices.Clone(s.CPUs), func(c CPU) bool { return c.Node != node })
	return s.Order()
}

// Cores are the threads of each core, by node, cache and number.
func (s Shape) Cores() [][]int {
	var all [][]int
	for _, cpu := range s.Order() {
		i := slices.IndexFunc(s.CPUs, func(c CPU) bool { return c.ID == cpu })
		if c := s.CPUs[i]; !slices.ContainsFunc(all, func(core []int) bool { return slices.Contains(core, cpu) }) {
			all = append(all, ids(s.Only(c.Core).CPUs))
		}
	}
	return all
}

// Threads is how many of the CPUs are in one core, at most.
func (s Shape) Threads() int {
	most := 0
	for _, core := range s.Cores() {
		most = max(most, len(core))
	}
	return most
}

// roomy is from how many CPUs on a node can feed a proxy from the same node.
const roomy = 4

// Aside are CPUs for load generators and backends: half of each node, the last
// cores, whole, so that neither a core nor, where there are several, a cache is
// shared with what is measured. There are none if a node has fewer than four CPUs.
func (s Shape) Aside() []int {
	var aside []int
	for _, node := range s.Nodes() {
		here := s.Only(s.On(node))
		if len(here.CPUs) < roomy {
			return nil
		}
		cores, taken := here.Cores(), 0
		for _, core := range slices.Backward(cores) {
			if taken+len(core) <= len(here.CPUs)/2 {
				aside = append(aside, core...)
				taken += len(core)
			}
		}
	}
	slices.Sort(aside)
	return aside
}

// String says how large it is: "4 CPUs, 2 nodes, 2 caches".
func (s Shape) String() string {
	parts := []string{Count(len(s.CPUs), "CPU"), Count(len(s.Nodes()), "node")}
	if n := len(s.Caches()); n > 0 {
		parts = append(parts, Count(n, "cache"))
	}
	return strings.Join(parts, ", ")
}

// Count is a number of things: "1 node", "2 nodes".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func ids(cpus []CPU) []int {
	var all []int
	for _, c := range cpus {
		all = append(all, c.ID)
	}
	return all
}
