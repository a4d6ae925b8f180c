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

// webPort is the port of guestWeb, and webEnd its address, as the kernel spells them.
const (
	webPort = ":1F90"
	webEnd  = "0100007F" + webPort
)

// A connection is served on the node on which it arrived. Those of a worker that is
// killed wait for the next one; those of one that stays away go to others, until it
// is back. The kernel's tables of sockets say so.
func steered(t *testing.T, g *guest.Guest) {
	s := startGuested(t, g, farm("http://"+guestServer, "admission: off", "timeouts: {first_byte: 10m}", "fail_for: 0s"))
	const home = 2
	for _, part := range []struct {
		name string
		try  func(s *guested)
	}{
		{"all serve", func(s *guested) { s.arriveAtHome(s.nodes...) }},
		{"one is killed", func(s *guested) {
			v := s.visit()
			victim, _ := s.workerOn(home)
			s.g.Signal(victim, syscall.SIGSTOP)
			v.start(s.nodes[home])
			testkit.Eventually(s.t, "connections wait in its sockets", func() bool { return s.waiting(victim) == v.all })
			s.g.Signal(victim, syscall.SIGKILL)
			v.await()
			v.expect(func(from, at int) bool { return at == home })
			v.leave()
		}},
		{"one stays away", func(s *guested) {
			for try := 1; !s.arriveWithout(home); try++ {
				if try == 5 {
					s.t.Fatal("the worker that is stopped is replaced before all is looked at")
				}
			}
		}},
		{"it is back", func(s *guested) { s.arriveAtHome(s.nodes[home]) }},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.try(&guested{t: t, g: g.For(t), process: s.process, nodes: s.nodes})
		})
	}
}

// arriveAtHome connects from some nodes: each of them serves its own.
func (s *guested) arriveAtHome(from ...guest.Node) {
	s.t.Helper()
	v := s.visit()
	v.start(from...)
	v.await()
	v.expect(func(from, at int) bool { return at == from })
	v.leave()
}

// arriveWithout connects while the worker of a node is away, from that node and from
// another. It reports false if the supervisor lost patience meanwhile, and replaced
// the worker: then there was nothing to see.
func (s *guested) arriveWithout(node int) bool {
	s.t.Helper()
	stopped := s.keepAway(node)
	v := s.visit()
	v.start(s.nodes[0], s.nodes[node])
	v.await()
	last, _ := s.workerOn(node)
	if last == stopped {
		v.expect(func(from, at int) bool {
			if from == node {
				return at >= 0 && at != node
			}
			return at == from
		})
		s.g.Signal(stopped, syscall.SIGCONT)
	}
	v.leave()
	testkit.Eventually(s.t, "all workers serve", func() bool { return s.status().Ready })
	return last == stopped
}

// workerOn is the process of a node's worker, and its state.
func (s *guested) workerOn(node int) (pid int, state string) {
	s.t.Helper()
	for _, w := range s.status().Workers {
		if w.Node == node {
			return w.PID, w.State
		}
	}
	s.t.Fatalf("node %d has no worker", node)
	return 0, ""
}

// waiting is how many connections wait in the listening sockets that a process has.
func (s *guested) waiting(pid int) (n int) {
	s.t.Helper()
	its := s.g.Inodes(pid)
	for _, socket := range s.g.Sockets() {
		if socket.Listening && its[socket.Inode] && strings.HasSuffix(socket.Local, webPort) {
			n += socket.Queue
		}
	}
	return n
}

// keepAway kills the worker of a node and stops the next before it serves, until
// the supervisor gives it up for the time. It returns the process that is stopped.
func (s *guested) keepAway(node int) int {
	s.t.Helper()
	const notice = "worker stays away"
	for range 20 {
		before := strings.Count(s.process.Stderr(), notice)
		victim, _ := s.workerOn(node)
		s.g.Signal(victim, syscall.SIGKILL)
		var next int
		testkit.Eventually(s.t, "another process starts", func() bool {
			next, _ = s.workerOn(node)
			return next != victim && next != 0
		})
		s.g.Signal(next, syscall.SIGSTOP)
		var given, serves bool
		testkit.Eventually(s.t, "the supervisor waits for it no longer", func() bool {
			_, state := s.workerOn(node)
			given, serves = strings.Count(s.process.Stderr(), notice) > before, state == "serving"
			return given || serves
		})
		if given && !serves {
			return next
		}
		s.g.Signal(next, syscall.SIGCONT) // it was faster
	}
	s.t.Fatal("each next worker served before it could be stopped")
	return 0
}

// visit is clients whose connections stay until the server answers.
type visit struct {
	*guested
	server  *guest.Process
	clients map[*guest.Process]int // their nodes
	all     int                    // connections
}

// visit starts the server, which answers nothing yet.
func (s *guested) visit() *visit {
	s.t.Helper()
	return &visit{guested: s, server: s.g.Serve(guestServer, "a", false, ""), clients: map[*guest.Process]int{}}
}

// start connects eight times from every CPU of some nodes.
func (v *visit) start(from ...guest.Node) {
	v.t.Helper()
	const each = 8
	for _, node := range from {
		for _, client := range v.crowdFrom(each, node) {
			v.clients[client] = node.ID
			v.all += each
		}
	}
}

// await returns when the server has every request.
func (v *visit) await() {
	v.t.Helper()
	testkit.Eventually(v.t, "the server has every request", func() bool {
		return v.status().Farms[0].Servers[0].In_flight == v.all
	})
}

// expect checks that 99 of 100 connections are at a worker that is good for a client
// of their node. Node -1 is that of no worker.
func (v *visit) expect(good func(from, at int) bool) {
	v.t.Helper()
	workers := map[string]int{} // nodes by inode
	for _, w := range v.status().Workers {
		for inode := range v.g.Inodes(w.PID) {
			workers[inode] = w.Node
		}
	}
	ways, right, found := v.ways(workers), 0, 0
	for way, n := range ways {
		found += n
		if good(way.from, way.at) {
			right += n
		}
	}
	v.t.Logf("connections by the nodes of client and worker: %v", ways)
	if found != v.all || right*100 < v.all*99 {
		v.t.Errorf("of %d connections, %d of which were found, %d are where they should be", v.all, found, right)
	}
}

// way is the node of a client, and that on which its connection is served: -1 if
// nobody is known to.
type way struct{ from, at int }

func (w way) String() string { return fmt.Sprintf("%d → %d", w.from, w.at) }

// ways finds both ends of each connection among the sockets of clients and of those
// who serve, whose nodes are given by the sockets' inodes, and counts.
func (v *visit) ways(serving map[string]int) map[way]int {
	v.t.Helper()
	clients := map[string]int{} // nodes by inode
	for client, node := range v.clients {
		for inode := range v.g.Inodes(client.PID) {
			clients[inode] = node
		}
	}
	from, at := map[string]int{}, map[string]int{} // nodes by the client's address
	for _, socket := range v.g.Sockets() {
		if node, ours := clients[socket.Inode]; ours && socket.Remote == webEnd {
			from[socket.Local] = node
		}
		if node, ours := serving[socket.Inode]; ours && socket.Local == webEnd && !socket.Listening {
			at[socket.Remote] = node
		}
	}
	ways := map[way]int{}
	for address, client := range from {
		node, found := at[address]
		if !found {
			node = -1
		}
		ways[way{client, node}]++
	}
	return ways
}

// leave has the server answer, checks that everybody got that, and ends the server.
func (v *visit) leave() {
	v.t.Helper()
	v.server.Signal(syscall.SIGUSR1)
	if got := received(slices.Collect(maps.Keys(v.clients))); got["200 a"] != v.all {
		v.t.Errorf("of %d requests: %v", v.all, got)
	}
	v.server.Signal(syscall.SIGKILL)
	v.server.ExitCode()
}
