//go:build !race

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/guest"
)

// arrangements are ways to share a machine of nodes out. The first is what the others
// are compared with, the last is the same once more: what differs there is noise.
var arrangements = []struct{ name, workers string }{
	{"a process per node, hard", "workers: {per: node}"},
	{"a process per node, soft", "workers: {per: node, affinity: soft}"},
	{"one process, hard", "workers: {per: machine}"},
	{"a process per node, hard, again", "workers: {per: node}"},
}

// arranged is what one round of an arrangement did.
type arranged struct {
	rate, cost [2]float64 // requests/s, and µs of workers' CPU time for a request: clients on both nodes, on node 0
	remote     float64    // share of the workers' pages that are not on the node of the loop that looks, 0 to 1
}

// BenchmarkArrangements compares them in guests of two nodes. Emulated CPUs share
// those of this machine, and know no far memory: the shares are true, the rates are
// those of the emulation, and a guest can do more on two nodes than on one only if
// this machine has a CPU for each of its own. Run it as
//
//	go test ./internal/e2e -run '^$' -bench Arrangements -benchtime 1x
func BenchmarkArrangements(b *testing.B) {
	for _, cpus := range []int{4, 1} {
		b.Run(fmt.Sprintf("2 nodes of %d", cpus), func(b *testing.B) { compareArrangements(b, cpus) })
	}
}

// compareArrangements does so in a guest with so many CPUs on each node.
func compareArrangements(b *testing.B, cpus int) {
	const rounds = 4
	g := guest.Boot(b, guest.Options{Nodes: 2, CPUsPerNode: cpus, Files: map[string]string{
		"sluice": guest.Build(b, "cmd/sluice"), "load": compiled(b, "load"), "floor": compiled(b, "floor"),
	}})
	for _, a := range arrangements[:3] {
		b.Run("connections/"+a.name, func(b *testing.B) {
			s := startGuested(b, g, a.workers, farm("http://"+guestServer, "admission: off", "timeouts: {first_byte: 10m}"))
			v := s.visitAll()
			b.ReportMetric(100*v.remote(), "%remote-connections")
			v.leave()
		})
	}
	results := make([][]arranged, len(arrangements))
	for round := range rounds {
		for i := range arrangements {
			at := (i + round) % len(arrangements)
			b.Run(fmt.Sprintf("round %d/%s", round+1, arrangements[at].name), func(b *testing.B) {
				results[at] = append(results[at], arrange(b, g, arrangements[at].workers))
			})
		}
	}
	b.Run("all rounds", func(b *testing.B) { tell(b, results) }) // what is logged outside of parts is not shown
}

// tell logs the medians, and each arrangement's multiple of the first. Ten lines of a
// benchmark's log are shown.
func tell(b *testing.B, results [][]arranged) {
	for i, a := range arrangements {
		remote := 100 * median(results[i], func(r arranged) float64 { return r.remote })
		for scene, clients := range []string{"clients on both nodes", "clients on node 0"} {
			rate := func(r arranged) float64 { return r.rate[scene] }
			cost := func(r arranged) float64 { return r.cost[scene] }
			b.Logf("%s: %.1f %% remote pages; %s: %.0f requests/s, %s; %.0f µs, %s", a.name, remote, clients, median(results[i], rate), against(results[0], results[i], rate),
				median(results[i], cost), against(results[0], results[i], cost))
		}
	}
}

// compiled builds a C program of the benches as a guest can run it.
func compiled(b *testing.B, name string) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), name)
	source := filepath.Join("..", "..", "bench", name, name+".c")
	if output, err := exec.Command("cc", "-O2", "-static", "-o", program, source, "-lm").CombinedOutput(); err != nil {
		b.Fatalf("building %s: %v\n%s", source, err, output)
	}
	return program
}

// arrange runs Sluice before a server on each node, and loads it.
func arrange(b *testing.B, g *guest.Guest, section string) (r arranged) {
	g = g.For(b)
	var urls []string
	for _, n := range g.Nodes() {
		g.Start(guest.Command{Path: "/floor", Args: []string{"be", fmt.Sprint(9001 + n.ID)}, CPUs: cpuList(n)})
		urls = append(urls, "http://"+localAddress(n.ID))
	}
	l := &locals{guested: startGuested(b, g, section, "limits: {requests: 0}", "overload: {latency: 0s}", farmOf(urls, "admission: off"))}
	for node := range urls {
		l.isOn(node, node)
	}
	for scene, nodes := range [][]guest.Node{{l.nodes[0], l.nodes[1]}, {l.nodes[0], l.nodes[0]}} {
		r.rate[scene], r.cost[scene] = l.loaded(nodes)
	}
	workers, homes := l.status().Workers, 0
	for _, w := range workers {
		for _, node := range l.nodes {
			if len(workers) == 1 || w.Node == node.ID {
				r.remote += 1 - l.localShare(w.PID, node.ID)
				homes++
			}
		}
	}
	r.remote /= float64(homes)
	return r
}

// loaded has a client on each of these nodes ask as fast as it can, and returns what
// all of them got, and what that cost.
func (s *guested) loaded(nodes []guest.Node) (rate, cost float64) {
	s.t.Helper()
	used := func() (us float64, requests int) {
		for _, w := range s.status().Workers {
			us += float64(s.g.CPUTime(w.PID).Microseconds())
			requests += w.Requests
		}
		return us, requests
	}
	us, requests := used()
	var clients []*guest.Process
	for _, n := range nodes {
		clients = append(clients, s.g.Start(guest.Command{Path: "/load", Args: []string{"closed", "8080", "32", "/53", "1000", "3000", "keep"}, CPUs: cpuList(n)}))
	}
	for _, c := range clients {
		var said struct {
			Requests, Errors int
			Elapsed          float64 `json:"elapsed_ns"`
		}
		c.ExitCode()
		_, figures, _ := strings.Cut(c.Stdout(), "begin\n")
		if err := json.Unmarshal([]byte(figures), &said); err != nil || said.Errors > 0 || said.Requests == 0 {
			s.t.Fatalf("a client says %q, %s: %v", figures, c.Stderr(), err)
		}
		rate += float64(said.Requests) * 1e9 / said.Elapsed
	}
	usAfter, requestsAfter := used()
	return rate, (usAfter - us) / float64(requestsAfter-requests)
}

// median is that of a figure of some rounds.
func median(rounds []arranged, figure func(arranged) float64) float64 {
	var all []float64
	for _, r := range rounds {
		all = append(all, figure(r))
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// against is a figure as a multiple of the base's, round by round: the geometric mean,
// the least and the greatest.
func against(base, rounds []arranged, figure func(arranged) float64) string {
	low, high, sum := math.Inf(1), 0.0, 0.0
	for i, r := range rounds {
		ratio := figure(r) / figure(base[i])
		low, high, sum = min(low, ratio), max(high, ratio), sum+math.Log(ratio)
	}
	return fmt.Sprintf("× %.2f [%.2f to %.2f]", math.Exp(sum/float64(len(rounds))), low, high)
}
