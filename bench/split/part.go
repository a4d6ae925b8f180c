package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/bench/shape"
)

// part is where one of the two instances goes.
type part struct {
	node int
	cpus []int // ascending
	some bool  // they are not all of the node's
	load []int // CPUs of its load generators; none: all that there are
}

// place is the command line of `sluice place` that moves a process here.
func (p part) place(pid int) []string {
	args := []string{"place", fmt.Sprint(pid), "--node", fmt.Sprint(p.node)}
	if p.some {
		args = append(args, "--cpus", strings.Join(strings.Fields(strings.Trim(fmt.Sprint(p.cpus), "[]")), ","))
	}
	return args
}

// halve makes two parts: the first two nodes, or the halves of a single one, by
// cache and by core where there are several. CPUs for the load are taken from each
// part, if there are enough.
func halve(whole shape.Shape) ([2]part, error) {
	var parts [2]part
	aside := whole.Aside()
	ours := whole.Without(aside)
	if nodes := ours.Nodes(); len(nodes) > 1 {
		for i, node := range nodes[:2] {
			parts[i] = part{node: node, cpus: slices.Sorted(slices.Values(ours.On(node))), some: len(aside) > 0, load: whole.Only(aside).On(node)}
		}
		return parts, nil
	}
	cpus, ok := halves(ours)
	if !ok {
		return parts, errors.New("there is one CPU; two instances need one each")
	}
	load, _ := halves(whole.Only(aside))
	for i := range parts {
		parts[i] = part{node: ours.Nodes()[0], cpus: cpus[i], some: true, load: load[i]}
	}
	return parts, nil
}

// halves are equal numbers of whole cores, or of the threads of the only one; an
// odd one is in neither.
func halves(s shape.Shape) (parts [2][]int, ok bool) {
	cores := s.Cores()
	if len(cores) == 1 {
		threads := cores[0]
		cores = nil
		for _, cpu := range threads {
			cores = append(cores, []int{cpu})
		}
	}
	half := len(cores) / 2
	for i := range parts {
		parts[i] = slices.Sorted(slices.Values(slices.Concat(cores[i*half : (i+1)*half]...)))
	}
	return parts, half > 0
}

// arrangement is one way to run the application on both parts.
type arrangement struct {
	name      string
	base      string // what it is compared with
	instances int
	split     bool // each is placed on its part
	behind    bool // Sluice passes requests to them, with a worker for each node
}

// String is the arrangement's name.
func (a arrangement) String() string { return a.name }

// Names of the arrangements.
const (
	one       = "one instance, all CPUs"
	two       = "two instances, all CPUs"
	twoAgain  = "two instances, all CPUs, again (A/A)"
	split     = "two instances, split by sluice place"
	twoBehind = "two instances behind Sluice"
	splitSilo = "two instances, split, behind Sluice"
)

// arrangements are those that say something on these parts: those behind Sluice are
// about servers that are local to a node, and need two.
func arrangements(parts [2]part, http bool) []arrangement {
	all := []arrangement{
		{name: one, base: two, instances: 1},
		{name: two, base: two, instances: 2},
		{name: split, base: two, instances: 2, split: true},
		{name: twoAgain, base: two, instances: 2},
	}
	if http && parts[0].node != parts[1].node {
		all = append(all, arrangement{name: twoBehind, base: twoBehind, instances: 2, behind: true},
			arrangement{name: splitSilo, base: twoBehind, instances: 2, split: true, behind: true})
	}
	return all
}
