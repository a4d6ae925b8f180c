//go:build !race

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/guest"
	"sluice/internal/testkit"
)

// How a worker gets its memory (workers.memory), and what share of its anonymous
// pages must be on its node then.
const (
	prefer = "prefer"
	bind   = "bind"
)

var wanted = map[string]float64{prefer: 0.95, bind: 1}

// A guest of eight nodes with a CPU each, some of them odd.
const (
	unplugged  = 6 // its CPU is offline when Sluice starts
	memoryless = 3
	nearest    = 4 // to that one
	cpuless    = 8
)

// A machine of which every node is odd in its way: all have but one CPU, one has no
// memory, one no CPU, one a CPU that is offline, and one loses its CPU for a while.
func TestGuestOfEightNodes(t *testing.T) {
	g := guest.Boot(t, guest.Options{Nodes: 8, CPUsPerNode: 1, MemoryPerNode: 192, Memoryless: []int{memoryless}, CPUless: 1,
		Distances: distances(9, memoryless, nearest),
		Files:     map[string]string{"sluice": guest.Build(t, "cmd/sluice")}})
	g.Plug(unplugged, false)
	s := startGuested(t, g, farm("http://"+guestServer, "admission: off", "timeouts: {first_byte: 10m}"))
	s.part("loops are where CPUs are", func(s *guested) {
		v := s.visitAll()
		if share := v.remote(); share > 0.01 {
			s.t.Errorf("%.0f %% of the connections are served by another node's loops", 100*share)
		}
		v.leave()
	})
	// The CPU of the node without memory belongs to the worker of the nearest node.
	s.nodes[nearest].CPUs, s.nodes[memoryless].CPUs = []int{memoryless, nearest}, nil
	s.part("workers are where CPUs and memory are", func(s *guested) {
		s.inSilos(prefer, 0, 1, 2, nearest, 5, 7)
		s.arriveAtHome(s.nodes...)
	})
	s.part("a node loses its CPU", func(s *guested) {
		const lost = 5
		others := slices.Delete(slices.Clone(s.nodes), lost, lost+1)
		s.g.Plug(lost, false)
		s.arriveAtHome(others...)
		victim, _ := s.workerOn(lost)
		s.g.Signal(victim, syscall.SIGKILL)
		testkit.Eventually(s.t, "another worker serves", func() bool {
			pid, state := s.workerOn(lost)
			return pid != victim && state == "serving"
		})
		s.arriveAtHome(others...)
		s.g.Plug(lost, true)
		s.awaitPinned(lost)
		s.inSilos(prefer, 0, 1, 2, nearest, 5, 7)
		s.arriveAtHome(s.nodes[lost])
	})
}

// distances are those of some nodes that are all equally far from each other, but for
// two.
func distances(nodes, a, b int) [][]int {
	const own, near, far = 10, 15, 30
	rows := make([][]int, nodes)
	for from := range rows {
		rows[from] = slices.Repeat([]int{far}, nodes)
		rows[from][from] = own
	}
	rows[a][b], rows[b][a] = near, near
	return rows
}

// A machine of two nodes with four CPUs each. One CPU is offline when Sluice starts,
// another goes while it runs.
func TestGuestOfTwoNodes(t *testing.T) {
	g := guest.Boot(t, guest.Options{Nodes: 2, CPUsPerNode: 4,
		Files: map[string]string{"sluice": guest.Build(t, "cmd/sluice")}})
	const off, lost = 3, 6
	g.Plug(off, false)
	s := startGuested(t, g, farm("http://"+guestServer, "admission: off", "timeouts: {first_byte: 10m}"))
	s.part("a loop for each CPU that is there", func(s *guested) {
		s.inSilos(prefer, 0, 1)
		v := s.visitAll()
		v.expect(func(from, at int) bool { return at == from })
		v.leave()
	})
	s.part("a CPU that comes is named by a reload", func(s *guested) {
		s.g.Plug(off, true)
		if r := s.g.Run(guest.Command{Path: "/sluice", Args: []string{"reload", "--admin", "unix:" + guestAdmin}}); r.Code != 0 {
			s.t.Errorf("reload: %+v", r)
		}
		if said := s.process.Stderr(); !strings.Contains(said, "have no loop") || !strings.Contains(said, "cpus=3\n") {
			s.t.Errorf("Sluice said\n%s", said)
		}
		s.g.Plug(off, false)
	})
	s.part("a CPU goes and comes", func(s *guested) {
		pid, _ := s.workerOn(1)
		s.g.Plug(lost, false)
		testkit.Eventually(s.t, "no loop leaves its node", func() bool { return len(s.outside(pid, 1)) == 0 })
		s.nodes = s.g.Nodes()
		s.arriveAtHome(s.nodes...)
		s.g.Plug(lost, true)
		s.nodes = s.g.Nodes()
		s.awaitPinned(1)
		s.inSilos(prefer, 0, 1)
		s.arriveAtHome(s.nodes...)
	})
}

// part runs a part of a test with the same Sluice.
func (s *guested) part(name string, try func(s *guested)) {
	s.t.(*testing.T).Run(name, func(t *testing.T) {
		try(&guested{t: t, g: s.g.For(t), process: s.process, nodes: s.nodes})
	})
}

// awaitPinned waits until every CPU of a node has a thread of the node's worker to
// itself, and none may run elsewhere.
func (s *guested) awaitPinned(node int) {
	s.t.Helper()
	pid, _ := s.workerOn(node)
	testkit.Eventually(s.t, fmt.Sprintf("the loops of node %d are on their CPUs", node), func() bool {
		alone := map[int]bool{}
		for _, cpus := range s.g.Threads(pid) {
			if len(cpus) == 1 {
				alone[cpus[0]] = true
			}
		}
		return len(alone) == len(s.nodes[node].CPUs) && len(s.outside(pid, node)) == 0
	})
}

// inSilos checks that these nodes, and no others, have a worker each, whose threads
// and whose memory are there.
func (s *guested) inSilos(memory string, nodes ...int) {
	s.t.Helper()
	at := map[int]int{} // workers by node
	for _, pid := range s.workers() {
		node := s.siloed(pid)
		at[node] = pid
		s.atHome(pid, node, memory)
	}
	if got := slices.Sorted(maps.Keys(at)); !slices.Equal(got, nodes) || len(s.workers()) != len(nodes) {
		s.t.Errorf("workers are on nodes %v, want %v", got, nodes)
	}
}

// atHome checks a worker's memory policy, and how much of its memory is on its node.
func (s *guested) atHome(pid, node int, memory string) {
	s.t.Helper()
	policy := fmt.Sprintf("%s:%d", memory, node)
	share := s.localShare(pid, node)
	s.t.Logf("%.2f %% of the memory of worker %d is on its node %d", 100*share, pid, node)
	if share < wanted[memory] {
		s.t.Errorf("the pages of worker %d of node %d by node are %v, want %g %% there", pid, node, s.g.AnonymousPages(pid), 100*wanted[memory])
	}
	if policies := s.g.MemoryPolicies(pid); len(policies) != 1 || policies[policy] == 0 {
		s.t.Errorf("the mappings of worker %d of node %d have the policies %v, want %s for all", pid, node, policies, policy)
	}
}

// visitAll connects from every CPU, and returns when the server has every request.
func (s *guested) visitAll() *visit {
	s.t.Helper()
	v := s.visit()
	v.start(s.nodes...)
	v.await()
	return v
}

// remote is the share of the connections of a visit that are served by a loop on
// another node than their client's, 0 to 1. The kernel says of each loop's thread
// where it may run, and for what it waits.
func (v *visit) remote() (share float64) {
	v.t.Helper()
	var ways map[way]int
	testkit.Eventually(v.t, "every connection has a loop that waits for it", func() bool {
		ways = v.ways(v.loops())
		found, remote := 0, 0
		for way, n := range ways {
			if way.at >= 0 {
				found += n
			}
			if way.at != way.from {
				remote += n
			}
		}
		share = float64(remote) / float64(v.all)
		return found == v.all
	})
	v.t.Logf("connections by the nodes of client and loop: %v", ways)
	return share
}

// loops are the nodes of the loops that wait for sockets, by the sockets' inodes.
func (v *visit) loops() map[string]int {
	v.t.Helper()
	serving := map[string]int{}
	for _, pid := range v.workers() {
		threads := v.g.Threads(pid)
		for thread, inodes := range v.g.Waits(pid) {
			node := v.nodeOf(threads[thread])
			for _, inode := range inodes {
				serving[inode] = node
			}
		}
	}
	return serving
}

// nodeOf is the node that has all of some CPUs, else -1.
func (s *guested) nodeOf(cpus []int) int {
	for _, n := range s.nodes {
		if len(cpus) > 0 && !slices.ContainsFunc(cpus, func(cpu int) bool { return !slices.Contains(n.CPUs, cpu) }) {
			return n.ID
		}
	}
	return -1
}

// Under workers.memory: bind every page is on the node.
func memoryBound(t *testing.T, g *guest.Guest) {
	s := startGuested(t, g, farm("http://"+guestServer, "admission: off", "timeouts: {first_byte: 10m}"), "workers: {memory: bind}")
	v := s.visitAll()
	s.inSilos(bind, 0, 1, 2, 3)
	if share := v.remote(); share > 0.01 {
		t.Errorf("%.0f %% of the connections are served by another node's loops", 100*share)
	}
	v.leave()
}

// One worker has a loop on every CPU. What is lost: its memory is wherever it happens
// to be, and so are the loops that serve a node's clients.
func workerPerMachine(t *testing.T, g *guest.Guest) {
	s := startGuested(t, g, farm("http://"+guestServer, "admission: off", "timeouts: {first_byte: 10m}"), "workers: {per: machine}")
	workers := s.workers()
	if len(workers) != 1 {
		t.Fatalf("workers %v", workers)
	}
	v := s.visitAll()
	loops := map[int]int{} // by the only CPU that they may use
	for _, cpus := range s.g.Threads(workers[0]) {
		if len(cpus) == 1 {
			loops[cpus[0]]++
		}
	}
	for _, node := range s.nodes {
		for _, cpu := range node.CPUs {
			if loops[cpu] != 1 {
				t.Errorf("CPU %d has %d loops", cpu, loops[cpu])
			}
		}
		t.Logf("%.0f %% of its memory is remote to its loops on node %d", 100*(1-s.localShare(workers[0], node.ID)), node.ID)
	}
	pages := s.g.AnonymousPages(workers[0])
	if len(pages) < 2 {
		t.Errorf("all its memory is on one node, %v: then nothing tells it from a silo", pages)
	}
	// The kernel's hash knows no nodes: three of four go elsewhere, and 64 are enough
	// that fewer than a quarter would be no chance.
	share := v.remote()
	t.Logf("%.0f %% of the connections are served by another node's loops", 100*share)
	if share < 0.25 {
		t.Errorf("%.0f %% of the connections are remote: then nothing tells it from a silo", 100*share)
	}
	v.leave()
}

// In a control group that has some CPUs, and memory of some nodes, workers have
// those and nothing else.
func inControlGroup(t *testing.T, g *guest.Guest) {
	g = g.For(t)
	all, group := g.Nodes(), g.Cpuset("part", "1-4", "0-1")
	s := startGuestedIn(t, g, group, farm("http://"+guestServer, "admission: off", "timeouts: {first_byte: 10m}"))
	for at, cpus := range [][]int{{1}, {2, 3}, {4}, nil} {
		s.nodes[at].CPUs = cpus
	}
	v := s.visitAll()
	v.expect(func(from, at int) bool { return at == from })
	for _, pid := range s.workers() {
		node := s.siloed(pid)
		if node < 2 {
			s.atHome(pid, node, prefer)
		}
		for from, pages := range s.g.AnonymousPages(pid) {
			if from > 1 && pages > 0 {
				t.Errorf("worker %d has %d pages on node %d, of which its group may have none", pid, pages, from)
			}
		}
	}
	if got := len(s.workers()); got != 3 {
		t.Errorf("%d workers for the group's CPUs on three nodes", got)
	}
	v.leave()

	// Those that are not in the group are served too, by whom there is.
	s.nodes = all
	v = s.visitAll()
	v.expect(func(from, at int) bool { return at == from || from == 3 && at >= 0 })
	v.leave()
}
