package main

import (
	"fmt"
	"slices"
	"strings"

	"sluice/bench/shape"
	"sluice/bench/suite"
)

// size is Sluice on so many CPUs with one plan of workers.
type size struct {
	cpus     []int
	per      []string // the values of workers.per that make this plan
	workers  int
	at       string // how large it is: "4 CPUs, 1 node, 1 cache"
	threads  int    // CPUs of one core, at most
	layout   suite.Layout
	steering string // of the listener; empty: the default
	afar     bool   // some of the load comes from another node than Sluice's
}

// name is the size's in a table: "4 CPUs, per node = cluster".
func (s size) name() string {
	return shape.Count(len(s.cpus), "CPU") + ", per " + strings.Join(s.per, " = ")
}

// autoSteps are one CPU, all of one cache, one node, two, four, … nodes, and all.
func autoSteps(s shape.Shape) [][]int {
	order, nodes := s.Order(), s.Nodes()
	steps := [][]int{order[:1]}
	first := s.Only(s.On(nodes[0]))
	if caches := first.Caches(); len(caches) > 0 {
		under := slices.DeleteFunc(slices.Clone(first.CPUs), func(c shape.CPU) bool { return c.Cache != caches[0] })
		steps = append(steps, order[:len(under)])
	}
	for n := 1; n < len(nodes); n *= 2 {
		held := 0
		for _, node := range nodes[:n] {
			held += len(s.On(node))
		}
		steps = append(steps, order[:held])
	}
	steps = append(steps, order)
	return slices.CompactFunc(steps, func(a, b []int) bool { return len(a) == len(b) })
}

// namedSteps are the first so many CPUs, in ascending numbers.
func namedSteps(s shape.Shape, counts []int) ([][]int, error) {
	order := s.Order()
	var steps [][]int
	for _, n := range slices.Compact(slices.Sorted(slices.Values(counts))) {
		if n < 1 || n > len(order) {
			return nil, fmt.Errorf("-cpus %d: write 1 to %d: so many there are for Sluice (-load %s sets no CPUs aside)", n, len(order), loadRest)
		}
		steps = append(steps, order[:n])
	}
	return steps, nil
}

// planner says which CPUs each worker has.
type planner func(per string, cpus []int) ([][]int, error)

// steerCPU is the steering that gives a connection to the loop on whose CPU it arrives.
const steerCPU = "cpu"

// feed says where load generators and backends run.
type feed struct {
	aside  []int // CPUs that no step takes; none: those that Sluice leaves at a step
	shared bool  // on Sluice's own at every step
	first  bool  // on the first of Sluice's own, and all connections are for the loop there
}

// arrangement reads a value of -per: "node" or "node/soft".
func arrangement(word string) (per, affinity string) {
	per, affinity, _ = strings.Cut(word, "/")
	return per, affinity
}

// sizes are all plans of all steps. Values of workers.per that make the same plan
// are one size: there is nothing to compare.
func sizes(whole shape.Shape, from feed, steps [][]int, pers []string, plan planner) ([]size, error) {
	var all []size
	for _, cpus := range steps {
		first := len(all)
		seen := map[string]int{}
		for _, word := range pers {
			per, affinity := arrangement(word)
			workers, err := plan(per, cpus)
			if err != nil {
				return nil, err
			}
			if len(cpus) == 1 {
				affinity = "" // there is nowhere to go
			}
			key := fmt.Sprint(workers, affinity)
			if at, same := seen[key]; same {
				all[at].per = append(all[at].per, word)
				continue
			}
			seen[key] = len(all)
			all = append(all, size{cpus: cpus, per: []string{word}, workers: len(workers)})
		}
		layout, afar := share(whole, from, cpus)
		for i := first; i < len(all); i++ {
			all[i].at, all[i].threads = whole.Only(cpus).String(), whole.Only(cpus).Threads()
			all[i].layout, all[i].afar = layout, afar
			if from.first {
				all[i].steering = steerCPU
			}
		}
	}
	return all, nil
}

// share gives Sluice its CPUs, and generators and backends theirs; without any left
// they share Sluice's. A pair of generator and backend stays on one node, on a node
// of Sluice's if it can.
func share(whole shape.Shape, from feed, cpus []int) (l suite.Layout, afar bool) {
	l.Proxy = slices.Sorted(slices.Values(cpus))
	free := whole.Without(cpus)
	if len(from.aside) > 0 {
		free = whole.Only(from.aside)
	}
	ours := whole.Only(cpus)
	if from.first {
		l.Load, l.Backend, l.Shared = [][]int{cpus[:1]}, [][]int{cpus[:1]}, true
		return l, false
	}
	if from.shared || len(free.CPUs) == 0 {
		for range max(1, len(cpus)/4) {
			l.Load, l.Backend = append(l.Load, l.Proxy), append(l.Backend, l.Proxy)
		}
		l.Shared = true
		return l, false
	}
	near := slices.DeleteFunc(ours.Nodes(), func(node int) bool { return len(free.On(node)) == 0 })
	afar = len(near) < len(ours.Nodes())
	if len(near) == 0 {
		near = free.Nodes()
	}
	for i, node := range near {
		here := free.On(node)
		wanted := len(ours.On(node))
		if wanted == 0 { // load from afar is shared out among the nodes that have room
			wanted = (len(cpus) + i) / len(near)
		}
		pairs := max(1, min(wanted, len(here)/2))
		for p := range pairs {
			l.Load = append(l.Load, here[p:p+1])
			l.Backend = append(l.Backend, here[(pairs+p)%len(here):][:1])
		}
	}
	return l, afar
}
