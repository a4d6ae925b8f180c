//go:build !race

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"sluice/internal/guest"
	"sluice/internal/testkit"
)

// wanderers are the worker of a page of nodes, as far as this test looks.
type wanderers struct {
	Workers []struct {
		PID        int `json:"pid"`
		Node       int `json:"node"`
		Away       int `json:"loops_away"`
		LetOut     int `json:"loops_let_out"`
		CalledBack int `json:"loops_called_back"`
	} `json:"workers"`
}

// With workers.affinity: soft a loop of a node that is full may run on others', and
// nowhere but at home once the load has ended. The kernel says where threads may run.
func loopsRoam(t *testing.T, g *guest.Guest) {
	const (
		busy   = 1     // node of the clients
		quiet  = "6-7" // CPUs of the server, those of node 3
		rounds = 20
	)
	s := startGuested(t, g, "workers: {affinity: soft}", "overload: {latency: 0s}", farm("http://"+guestServer, "admission: off"))
	s.g.Serve(guestServer, "a", true, quiet)
	worker, _ := s.workerOn(busy)
	if cpus := s.outside(worker, busy); len(cpus) > 0 {
		t.Fatalf("before any load threads may run on CPUs %v, beside those of node %d", cpus, busy)
	}
	left := false
	for round := 1; !left && round <= rounds; round++ {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			left = (&guested{t: t, g: g.For(t), process: s.process, nodes: s.nodes}).leavesUnderLoad(worker, busy)
		})
	}
	if !left {
		t.Fatalf("no loop of the full node was let out in %d rounds", rounds)
	}
	testkit.Eventually(t, "all loops are back", func() bool {
		var page wanderers
		s.page("/nodes", &page)
		for _, w := range page.Workers {
			if w.Away > 0 || w.CalledBack != w.LetOut || len(s.outside(w.PID, w.Node)) > 0 {
				return false
			}
		}
		return true
	})
	var page wanderers
	s.page("/nodes", &page)
	t.Logf("loops let out and called back: %+v", page.Workers)
}

// leavesUnderLoad fills a node with clients, and reports whether a thread of its
// worker could run on others' CPUs before they had all been served. The end
// of the part of a test that it runs for ends them.
func (s *guested) leavesUnderLoad(worker, node int) bool {
	s.t.Helper()
	const each, looks = 900, 200
	s.crowdFrom(each, s.nodes[node])
	s.crowdFrom(each, s.nodes[node])
	for range looks {
		if len(s.outside(worker, node)) > 0 {
			return true
		}
	}
	return false
}

// outside are the CPUs beside those of a node on which threads of a process may
// run.
func (s *guested) outside(pid, node int) []int {
	s.t.Helper()
	var cpus []int
	for _, may := range s.g.Threads(pid) {
		for _, cpu := range may {
			if !slices.Contains(s.nodes[node].CPUs, cpu) {
				cpus = append(cpus, cpu)
			}
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus)
}
