package tune

import (
	"maps"
	"slices"

	"sluice/internal/topology"
)

// homes are the nodes on which a card delivers, its own first. Each has workers.
func (p *planner) homes(n *topology.NIC) []int {
	served := slices.Sorted(maps.Keys(p.workers))
	anchors := p.anchors()
	if !slices.Contains(served, n.Node) {
		var orphans []int
		for _, node := range served {
			if !slices.Contains(anchors, node) {
				orphans = append(orphans, node)
			}
		}
		switch {
		case n.Node < 0 && len(orphans) > 0:
			return orphans // nobody knows where it is
		case n.Node < 0 || len(anchors) == 0:
			return served
		}
		return p.nearest(n.Node, served)
	}
	homes := []int{n.Node}
	for _, node := range served {
		if !slices.Contains(anchors, node) && node != n.Node && slices.Contains(p.nearest(node, anchors), n.Node) {
			homes = append(homes, node)
		}
	}
	return homes
}

// anchors are the nodes that have workers and a card that is up.
func (p *planner) anchors() []int {
	var nodes []int
	for i := range p.machine.NICs {
		n := &p.machine.NICs[i]
		if _, served := p.workers[n.Node]; served && n.Up && len(queuesOf(n))+len(n.Rx) > 0 {
			nodes = append(nodes, n.Node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// nearest are those of some nodes that are as near as any to one.
func (p *planner) nearest(from int, nodes []int) []int {
	var near []int
	for _, node := range nodes {
		switch d := p.machine.DistanceBetween(from, node); {
		case len(near) == 0 || d < p.machine.DistanceBetween(from, near[0]):
			near = []int{node}
		case d == p.machine.DistanceBetween(from, near[0]):
			near = append(near, node)
		}
	}
	return near
}

// targets are the CPUs that take interrupts, in the order of their turns: one of
// each node, then the next one of each.
func (p *planner) targets(homes []int) []int {
	var targets []int
	for i, more := 0, true; more; i++ {
		more = false
		for _, node := range homes {
			cpus := p.spare[node]
			if len(cpus) == 0 {
				cpus = p.workers[node]
			}
			if i < len(cpus) {
				targets = append(targets, cpus[i])
				more = true
			}
		}
	}
	return targets
}

// on lists the CPUs of workers on some nodes, ascending.
func (p *planner) on(nodes []int) []int {
	var cpus []int
	for _, node := range nodes {
		cpus = append(cpus, p.workers[node]...)
	}
	slices.Sort(cpus)
	return cpus
}
