//go:build !race

// The race detector needs a C library, which a guest has not, and would tell
// nothing that the same tests on this machine do not.

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/guest"
	"sluice/internal/testkit"
)

// Where the parts of a test are in its guest.
const (
	guestWeb    = "127.0.0.1:8080"
	guestServer = "127.0.0.1:9000"
	guestAdmin  = "/run/admin"
)

// guested is a running Sluice in a guest.
type guested struct {
	t       testing.TB
	g       *guest.Guest
	process *guest.Process
	nodes   []guest.Node
}

// startGuested runs Sluice in the guest, for a part of a test, and returns when it
// serves. Sections are as in start.
func startGuested(t testing.TB, g *guest.Guest, sections ...string) *guested {
	t.Helper()
	return startGuestedIn(t, g, "", sections...)
}

// startGuestedIn is startGuested in a control group.
func startGuestedIn(t testing.TB, g *guest.Guest, group string, sections ...string) *guested {
	t.Helper()
	s := &guested{t: t, g: g.For(t)}
	sections = append(sections, "log: {access: {path: off}}", "state: off",
		fmt.Sprintf("admin: {listen: %q}", "unix:"+guestAdmin),
		fmt.Sprintf("listeners: [{name: web, address: %q}]", guestWeb))
	s.g.Write("/run/sluice.yaml", strings.Join(sections, "\n")+"\n")
	s.nodes = s.g.Nodes()
	s.process = s.g.Start(guest.Command{Path: "/sluice", Cgroup: group, Args: []string{"run", "--config", "/run/sluice.yaml"}})
	testkit.Eventually(t, "Sluice serves", func() bool {
		if strings.Contains(s.process.Stderr(), "msg=ready") {
			return true
		}
		if len(s.g.Match(fmt.Sprintf("/proc/%d/cmdline", s.process.PID))) == 0 {
			t.Fatal("Sluice has ended")
		}
		return false
	})
	return s
}

// page reads a page of the admin interface into a value.
func (s *guested) page(path string, into any) {
	s.t.Helper()
	status, body := s.g.Page("unix", guestAdmin, path)
	if status != 200 {
		s.t.Fatalf("%s: status %d: %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		s.t.Fatalf("%s: %v: %s", path, err, body)
	}
}

func (s *guested) status() (st status) {
	s.t.Helper()
	s.page("/status", &st)
	return st
}

func (s *guested) limits() (l limits) {
	s.t.Helper()
	s.page("/limits", &l)
	return l
}

// workers are its workers' process ids, as the kernel knows them.
func (s *guested) workers() []int {
	s.t.Helper()
	return s.g.Children(s.process.PID)
}

// crowd sends a request on each of so many connections from every CPU at once.
func (s *guested) crowd(each int) []*guest.Process {
	s.t.Helper()
	var clients []*guest.Process
	for _, node := range s.nodes {
		clients = append(clients, s.crowdFrom(each, node)...)
	}
	return clients
}

// crowdFrom is crowd from the CPUs of one node.
func (s *guested) crowdFrom(each int, node guest.Node) []*guest.Process {
	s.t.Helper()
	var clients []*guest.Process
	for _, cpu := range node.CPUs {
		clients = append(clients, s.g.Start(guest.Command{Path: guest.Agent,
			Args: []string{"ask", guestWeb, strconv.Itoa(each), "/"}, CPUs: strconv.Itoa(cpu)}))
	}
	return clients
}

// received waits for a crowd, and counts what it got.
func received(clients []*guest.Process) map[string]int {
	got := map[string]int{}
	for _, c := range clients {
		c.ExitCode()
		for line := range strings.Lines(c.Stdout()) {
			got[strings.TrimSpace(line)]++
		}
	}
	return got
}

// siloed checks that a worker is on one node: that its threads may run nowhere
// else, and that each of the node's CPUs has one thread to itself. It returns the
// node, -1 if it is on none.
func (s *guested) siloed(pid int) int {
	s.t.Helper()
	threads := s.g.Threads(pid)
	at := slices.IndexFunc(s.nodes, func(n guest.Node) bool { return slices.Contains(n.CPUs, threads[pid][0]) })
	if at < 0 {
		s.t.Errorf("worker %d may run on CPUs %v", pid, threads[pid])
		return -1
	}
	home, own := s.nodes[at].ID, s.nodes[at].CPUs
	pinned := map[int]int{} // threads by the only CPU that they may use
	for id, cpus := range threads {
		for _, cpu := range cpus {
			if !slices.Contains(own, cpu) {
				s.t.Errorf("worker %d is on node %d, CPUs %v; its thread %d may run on %v", pid, home, own, id, cpus)
			}
		}
		if len(cpus) == 1 {
			pinned[cpus[0]]++
		}
	}
	for _, cpu := range own {
		if pinned[cpu] != 1 && len(own) > 1 || pinned[cpu] == 0 { // with one CPU every thread has it alone
			s.t.Errorf("worker %d of node %d has %d threads that belong to CPU %d, want one loop", pid, home, pinned[cpu], cpu)
		}
	}
	return home
}

// localShare is how much of a worker's anonymous memory is on a node, 0 to 1.
func (s *guested) localShare(pid, node int) float64 {
	s.t.Helper()
	pages, all := s.g.AnonymousPages(pid), 0
	for _, n := range pages {
		all += n
	}
	if all < 100 {
		s.t.Fatalf("worker %d has %d anonymous pages; are these all?", pid, all)
	}
	return float64(pages[node]) / float64(all)
}

// TestGuest boots one machine with nodes for all its parts, since a boot takes
// longer than they do.
func TestGuest(t *testing.T) {
	g := guest.Boot(t, guest.Options{Nodes: 4, CPUsPerNode: 2, Card: true, CardOn: 1,
		Files: map[string]string{"sluice": guest.Build(t, "cmd/sluice")}})
	for _, part := range []struct {
		name string
		try  func(*testing.T, *guest.Guest)
	}{
		{"a worker per node", workerPerNode},
		{"memory is bound", memoryBound},
		{"one worker for the machine", workerPerMachine},
		{"in a control group", inControlGroup},
		{"interrupts are tuned", interruptsTuned},
		{"connections are steered", steered},
		{"servers of the own node first", localServers},
		{"requests are spilled to other nodes", localSpill},
		{"loops roam", loopsRoam},
		{"workers share a limit", sharedLimit},
		{"workers are killed under load", sharedLimitUnderLoad},
		{"place moves a running server", placeMoves},
	} {
		t.Run(part.name, func(t *testing.T) { part.try(t, g) })
	}
}

// Each node has a worker: its threads, its memory, and its share of the requests;
// also a worker that comes after one that was killed.
func workerPerNode(t *testing.T, g *guest.Guest) {
	g.For(t).Serve(guestServer, "a", true, "")
	s := startGuested(t, g, farm("http://"+guestServer))
	workers := s.workers()
	if len(workers) != len(s.nodes) {
		t.Fatalf("%d workers for %d nodes", len(workers), len(s.nodes))
	}
	const each = 8
	for answer, n := range received(s.crowd(each)) {
		if answer != "200 a" {
			t.Errorf("%d requests got %q", n, answer)
		}
	}
	for i, w := range s.status().Workers {
		if w.Requests == 0 {
			t.Errorf("worker %d served none of %d requests from all CPUs", i, 8*each)
		}
	}
	homes := map[int]int{} // node: its worker
	for _, pid := range workers {
		node := s.siloed(pid)
		homes[node] = pid
		s.atHome(pid, node, prefer)
	}
	if len(homes) != len(s.nodes) {
		t.Errorf("workers by node: %v", homes)
	}
	const victim = 2
	s.g.Signal(homes[victim], syscall.SIGKILL)
	testkit.Eventually(t, "another worker serves", func() bool {
		w := s.status().Workers[victim]
		return w.State == "serving" && w.PID != homes[victim]
	})
	if got := received(s.crowd(1)); got["200 a"] != 8 {
		t.Errorf("afterwards: %v", got)
	}
	s.inSilos(prefer, 0, 1, 2, 3)
	for _, pid := range s.workers() {
		if node := s.siloed(pid); slices.Contains(workers, pid) == (node == victim) {
			t.Errorf("after the worker of node %d was killed, worker %d is on node %d; before: %v", victim, pid, node, homes)
		}
	}
}

// The workers of all nodes hold requests for one server whose limit they share: it
// never has more at once, all are served, and a worker that is killed gives back
// what it had.
func sharedLimit(t *testing.T, g *guest.Guest) {
	const limit, each = 4, 5
	for _, kill := range []bool{false, true} {
		t.Run(map[bool]string{false: "all live", true: "one is killed"}[kill], func(t *testing.T) {
			backend := g.For(t).Serve(guestServer, "a", false, "")
			s := startGuested(t, g, farm("http://"+guestServer, fmt.Sprintf("admission: {limit: %d, timeout: 10m}", limit),
				"timeouts: {first_byte: 10m}"))
			all := each * 2 * len(s.nodes)
			clients := s.crowd(each)
			s.awaitHeld(all-limit, limit)
			gone, abandoned := 0, 0
			if kill {
				gone, abandoned = s.killBusy()
				s.awaitHeld(all-limit-gone, limit)
			}
			backend.Signal(syscall.SIGUSR1)
			if got := received(clients); got["200 a"] != all-gone {
				t.Errorf("of %d requests, %d in the hands of a worker that was killed, got: %v", all, gone, got)
			}
			s.quiet()
			// The server may see those of the dead worker end after it sees new ones.
			if most := s.mostAtOnce(); most < limit || most > limit+abandoned {
				t.Errorf("the server had %d at once, want %d", most, limit)
			}
		})
	}
}

// Workers die while all of them claim, wait for and pass on the permits of one
// server: what they had comes back, and nobody waits for a permit that is free.
func sharedLimitUnderLoad(t *testing.T, g *guest.Guest) {
	const limit, each, kills = 3, 20, 4
	server := g.For(t).Serve(guestServer, "a", true, "")
	s := startGuested(t, g, farm("http://"+guestServer, fmt.Sprintf("admission: {limit: %d, timeout: 10m}", limit)))
	for kill := range kills {
		server.Signal(syscall.SIGSTOP) // else all may be served before anybody looks
		clients := s.crowd(each)
		testkit.Eventually(t, "each worker holds requests", func() bool { return s.fewestHeld() > 0 })
		victim := s.busiest()
		server.Signal(syscall.SIGCONT)
		s.g.Signal(victim.PID, syscall.SIGKILL)
		good := 0
		for answer, n := range received(clients) {
			if answer == "200 a" {
				good += n
			} else if !strings.HasPrefix(answer, "failed: ") {
				t.Errorf("kill %d: %d requests got %q", kill, n, answer)
			}
		}
		if all := each * len(clients); good < all/2 {
			t.Errorf("kill %d: %d of %d requests were served", kill, good, all)
		}
		testkit.Eventually(t, "all workers serve", func() bool { return s.status().Ready })
		s.quiet()
	}
	if most := s.mostAtOnce(); most > limit*2 { // a dead worker's connections may end after its permits are given to others
		t.Errorf("the server had %d at once", most)
	}
}

// awaitHeld waits until so many requests are held, and so many are at the server.
func (s *guested) awaitHeld(held, atServer int) {
	s.t.Helper()
	testkit.Eventually(s.t, fmt.Sprintf("%d requests are held and %d permits are out", held, atServer), func() bool {
		l := s.limits()
		return l.Held == held && l.Servers[0].In_flight == atServer
	})
}

// load is what a worker has to do.
type load struct{ PID, Active, Held int }

// loads are those of all workers.
func (s *guested) loads() []load {
	s.t.Helper()
	var st struct{ Workers []load }
	s.page("/status", &st)
	return st.Workers
}

// fewestHeld is how many requests that worker holds which holds the fewest.
func (s *guested) fewestHeld() int {
	s.t.Helper()
	return slices.MinFunc(s.loads(), func(a, b load) int { return a.Held - b.Held }).Held
}

// busiest is the worker that has the most requests at the server.
func (s *guested) busiest() load {
	s.t.Helper()
	workers := s.loads()
	victim := slices.MaxFunc(workers, func(a, b load) int { return a.Active - a.Held - b.Active + b.Held })
	s.t.Logf("of the workers %+v the one with process %d is killed", workers, victim.PID)
	return victim
}

// killBusy kills the busiest worker, and returns how many requests it had, and how
// many of them at the server.
func (s *guested) killBusy() (all, atServer int) {
	s.t.Helper()
	victim := s.busiest()
	s.g.Signal(victim.PID, syscall.SIGKILL)
	return victim.Active, victim.Active - victim.Held
}

// mostAtOnce is how many requests the server has had at once.
func (s *guested) mostAtOnce() (most int) {
	s.t.Helper()
	_, figures := s.g.Page("tcp", guestServer, "/figures")
	if _, err := fmt.Sscanf(figures, "requests %d now %d most %d", new(int), new(int), &most); err != nil {
		s.t.Fatalf("the server's figures are %q", figures)
	}
	return most
}

// quiet checks that nothing is held, no permit is out, and none was ever lost.
func (s *guested) quiet() {
	s.t.Helper()
	testkit.Eventually(s.t, "every permit is back", func() bool {
		l := s.limits()
		return l.Held == 0 && l.Servers[0].In_flight == 0 && l.Servers[0].Waiting == 0
	})
	if l := s.limits(); l.Leaks != 0 || l.Stranded != 0 {
		s.t.Errorf("%d permits leaked, %d queues were stranded", l.Leaks, l.Stranded)
	}
}
