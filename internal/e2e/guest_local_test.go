//go:build !race

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/guest"
	"sluice/internal/testkit"
)

// locals are servers on the nodes of a guest, one on each, and Sluice before them.
type locals struct {
	*guested
	servers []*guest.Process // by node
}

// localAddress is where the server of a node listens.
func localAddress(node int) string { return fmt.Sprintf("127.0.0.1:%d", 9001+node) }

// cpuList are the CPUs of a node in the kernel's list format.
func cpuList(n guest.Node) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(n.CPUs), " ", ","), "[]")
}

// startLocals starts a server on each node, which answers with the node's number,
// and Sluice, and returns when it knows where they are.
func startLocals(t *testing.T, g *guest.Guest, open bool, lines ...string) *locals {
	t.Helper()
	l, urls := &locals{}, []string{}
	for _, n := range g.For(t).Nodes() {
		l.servers = append(l.servers, g.For(t).Serve(localAddress(n.ID), strconv.Itoa(n.ID), open, cpuList(n)))
		urls = append(urls, "http://"+localAddress(n.ID))
	}
	l.guested = startGuested(t, g, farmOf(urls, lines...))
	for node := range l.servers {
		l.isOn(node, node)
	}
	return l
}

// isOn waits until Sluice says that a server is on a node.
func (l *locals) isOn(server, node int) {
	l.t.Helper()
	testkit.Eventually(l.t, fmt.Sprintf("server %d is found on node %d", server, node), func() bool {
		got := l.crossings().Farms[0].Servers[server].Node
		return got != nil && *got == node
	})
}

// crossings is what the status page says of nodes.
func (l *locals) crossings() (st struct {
	Workers []struct {
		Node, Held int
		Crossings  struct{ Local, Remote, Spilled int }
	}
	Farms []struct{ Servers []struct{ Node *int } }
}) {
	l.t.Helper()
	l.page("/status", &st)
	return st
}

// ask sends requests from a CPU of a node, and returns how many each server has
// answered.
func (l *locals) ask(node, count int) map[string]int {
	l.t.Helper()
	return received([]*guest.Process{l.send(node, count)})
}

func (l *locals) send(node, count int) *guest.Process {
	l.t.Helper()
	return l.g.Start(guest.Command{Path: guest.Agent, Args: []string{"ask", guestWeb, strconv.Itoa(count), "/"},
		CPUs: strconv.Itoa(l.nodes[node].CPUs[0])})
}

// A request is answered by the server of the node on which its client is; by others
// while that one is down; by it again when it is back, wherever that is.
func localServers(t *testing.T, g *guest.Guest) {
	const each, victim, other = 20, 2, 0
	l := startLocals(t, g, true, "admission: 100", "fail_for: 10m")
	atHome := func(nodes ...int) {
		t.Helper()
		for _, node := range nodes {
			if got := l.ask(node, each); got[fmt.Sprintf("200 %d", node)] != each {
				t.Errorf("%d requests from node %d: %v", each, node, got)
			}
		}
	}
	atHome(0, 1, 2, 3)
	for _, w := range l.crossings().Workers {
		if w.Crossings.Local != each || w.Crossings.Remote != 0 {
			t.Errorf("worker of node %d: %+v", w.Node, w.Crossings)
		}
	}

	l.servers[victim].Signal(syscall.SIGKILL)
	l.servers[victim].ExitCode()
	got := l.ask(victim, each)
	if good := sum(got, "200 "); good != each || got[fmt.Sprintf("200 %d", victim)] > 0 {
		t.Errorf("while server %d is down: %v", victim, got)
	}
	atHome(other)
	if c := l.crossings().Workers[victim].Crossings; c.Remote != each || c.Spilled != 0 {
		t.Errorf("while server %d is down: %+v", victim, c)
	}

	began := time.Now()
	l.servers[victim] = l.g.Serve(localAddress(victim), strconv.Itoa(victim), true, cpuList(l.nodes[victim]))
	testkit.Eventually(t, "requests come to the server again", func() bool {
		return l.ask(victim, 1)[fmt.Sprintf("200 %d", victim)] == 1
	})
	t.Logf("%.1f s from the start of the server's process to a request there", time.Since(began).Seconds())
	atHome(victim)

	l.servers[victim].Signal(syscall.SIGKILL)
	l.servers[victim].ExitCode()
	l.g.Serve(localAddress(victim), strconv.Itoa(victim), true, cpuList(l.nodes[other]))
	l.isOn(victim, other)
	got = l.ask(other, each)
	if sum(got, "200 ") != each || !slices.Equal(slices.Sorted(maps.Keys(got)), []string{"200 0", "200 2"}) {
		t.Errorf("with two servers on node %d: %v", other, got)
	}
}

// sum counts the answers that begin so.
func sum(answers map[string]int, prefix string) (n int) {
	for answer, count := range answers {
		if strings.HasPrefix(answer, prefix) {
			n += count
		}
	}
	return n
}

// What a node's server has no permit for is spilled to others, or waits, as the farm
// says.
func localSpill(t *testing.T, g *guest.Guest) {
	const limit, all, node = 2, 12, 1
	for _, c := range []struct {
		spill                string
		local, spilled, held int
	}{
		{"20", limit, 3 * limit, all - 4*limit},
		{"off", limit, 0, all - limit},
	} {
		t.Run("spill "+c.spill, func(t *testing.T) {
			l := startLocals(t, g, false, fmt.Sprintf("admission: {limit: %d, timeout: 10m}", limit),
				"spill: "+c.spill, "timeouts: {first_byte: 10m}")
			client := l.send(node, all)
			testkit.Eventually(t, fmt.Sprintf("%d requests are sent, %d spilled, %d held", c.local, c.spilled, c.held), func() bool {
				w := l.crossings().Workers[node]
				return w.Crossings.Local == c.local && w.Crossings.Spilled == c.spilled && w.Held == c.held
			})
			for _, s := range l.servers {
				s.Signal(syscall.SIGUSR1)
			}
			got := received([]*guest.Process{client})
			if sum(got, "200 ") != all {
				t.Errorf("answers: %v", got)
			}
			if c.spill == "off" && got[fmt.Sprintf("200 %d", node)] != all {
				t.Errorf("requests left their node: %v", got)
			}
		})
	}
}
