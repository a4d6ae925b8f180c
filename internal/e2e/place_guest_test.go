//go:build !race

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/guest"
	"sluice/internal/testkit"
)

// A running server is moved to a node by sluice place: all its processes and threads,
// then those that come later, then its memory, and at last it is bound there. The
// server is a Sluice: it has children, threads that it pins, a port, and a memory
// policy in each worker, for the node that it was planned for.
func placeMoves(t *testing.T, g *guest.Guest) {
	g.For(t).Serve(guestServer, "a", true, "")
	s := startGuested(t, g, farm("http://"+guestServer))
	watch := s.g.Start(guest.Command{Path: "/sluice", Args: []string{"place", fmt.Sprint(s.process.PID), "--node", "1", "--watch"}})
	testkit.Eventually(t, "all is placed", func() bool { return watch.Stdout() != "" })
	s.awaitOn(1)
	s.g.Signal(s.status().Workers[2].PID, syscall.SIGKILL)
	testkit.Eventually(t, "another worker serves", func() bool { return s.status().Workers[2].Restarts == 1 && s.status().Ready })
	s.awaitOn(1)
	watch.Signal(syscall.SIGINT)
	if code := watch.ExitCode(); code != 0 || !strings.Contains(watch.Stdout(), "moved to node 1") {
		t.Errorf("watching ended with %d: %s%s", code, watch.Stdout(), watch.Stderr())
	}

	const own = "a memory policy of its own, prefer:0: new pages come from there"
	if told := s.place("prefer", 2); !strings.Contains(told, own) {
		t.Errorf("nobody says that worker 0 has %s", own)
	}
	if pid := s.status().Workers[2].PID; s.localShare(pid, 2) < 0.95 {
		t.Errorf("memory of worker 2, process %d, on node 2: %v", pid, s.g.AnonymousPages(pid))
	}
	if told := s.place("bind", 3); strings.Contains(told, "policy of its own") {
		t.Error("a policy of its own counts for nothing while memory is bound, and is told")
	}
	group := fmt.Sprintf("/sys/fs/cgroup/sluice-place-%d", s.process.PID)
	if cpus, mems := s.g.Line(group+"/cpuset.cpus"), s.g.Line(group+"/cpuset.mems"); cpus != "6-7" || mems != "3" {
		t.Errorf("the group has CPUs %s and memory of %s", cpus, mems)
	}
	if got := received(s.crowd(2)); got["200 a"] != 16 {
		t.Errorf("afterwards: %v", got)
	}
	for _, pid := range s.workers() {
		if s.localShare(pid, 3) < 1 {
			t.Errorf("memory of process %d, bound to node 3: %v", pid, s.g.AnonymousPages(pid))
		}
	}
	s.place("prefer", 0) // out of the group's CPUs
	if mems := s.g.Line(group + "/cpuset.mems"); mems != "0-3" {
		t.Errorf("nobody binds it, and the group has memory of nodes %s", mems)
	}
	if r := s.g.Run(guest.Command{Path: "/sluice", Args: []string{"place", "--port", "8080", "--node", "4"}}); r.Code != 1 || !strings.Contains(r.Stderr, "there is no node 4; this machine has 0-3") {
		t.Errorf("a node that is not there: %+v", r)
	}
}

// place moves Sluice, found by its port, checks that the kernel has done so, and
// returns what was said.
func (s *guested) place(memory string, node int) string {
	s.t.Helper()
	r := s.g.Run(guest.Command{Path: "/sluice", Args: []string{"place", "--port", "8080", "--node", fmt.Sprint(node), "--memory", memory}})
	s.t.Logf("%s\n%s", r.Stdout, r.Stderr)
	if r.Code != 0 {
		s.t.Errorf("placing on node %d ended with %d", node, r.Code)
	}
	if where := s.elsewhere(node); where != "" {
		s.t.Errorf("not on node %d: %s", node, where)
	}
	return r.Stdout
}

func (s *guested) awaitOn(node int) {
	s.t.Helper()
	testkit.Eventually(s.t, fmt.Sprintf("all threads are on node %d", node), func() bool { return s.elsewhere(node) == "" })
}

// elsewhere names threads of Sluice that may run outside of a node.
func (s *guested) elsewhere(node int) (where string) {
	s.t.Helper()
	for _, pid := range append(s.workers(), s.process.PID) {
		for id, cpus := range s.g.Threads(pid) {
			if slices.ContainsFunc(cpus, func(cpu int) bool { return !slices.Contains(s.nodes[node].CPUs, cpu) }) {
				where += fmt.Sprintf("process %d, thread %d on CPUs %v\n", pid, id, cpus)
			}
		}
	}
	return where
}
