package supervisor

import (
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/placement"
)

// awayLimit is how long a listener that waits (steering_away) waits for a worker
// that has died. One that died by chance is back sooner; one that keeps dying
// pauses for as long before its next start, and is not waited for.
const awayLimit = time.Second

// away is what became of a worker that has died and is not back yet. The zero
// value is that of one that serves, or that is started for the first time.
type away struct {
	gone  bool      // it serves nobody
	out   bool      // it is waited for no longer
	outAt time.Time // when that will be; zero: not planned
}

// begin follows from a death, with the pause before the next start.
func (a *away) begin(now time.Time, pause time.Duration) {
	switch {
	case a.out:
	case pause >= awayLimit:
		a.outAt = now
	case !a.gone:
		a.outAt = now.Add(awayLimit)
	}
	a.gone = true
}

// steer has the kernel distribute connections as the configuration says, among
// the workers that are there. What is queued already stays where it is.
func (s *Supervisor) steer() {
	steered := map[*listening]bool{}
	for _, e := range []*edition{s.current, s.target()} { // a listener that stays keeps its way until the next is in force
		for i, wish := range e.config.Listeners {
			for _, l := range []*listening{e.listening[i], e.packets[i]} {
				if l != nil && !steered[l] {
					steered[l] = true
					l.steer(wish, placesOf(s.members), s.absent(wish.Away))
				}
			}
		}
	}
}

// absent says by worker whether a listener passes it over.
func (s *Supervisor) absent(wish string) []bool {
	absent := make([]bool, len(s.members))
	for i, m := range s.members {
		absent[i] = m.away.out || m.away.gone && wish == config.AwaySpread
	}
	return absent
}

// steer gives the kernel the program for wish, if it was given another before. If
// the kernel does not take it, connections go where they went.
func (l *listening) steer(wish config.Listener, workers []placement.Worker, absent []bool) {
	if l.sockets == nil || l.packets && l.count() == 1 {
		return // of one socket the kernel makes no group
	}
	steering := steeringOf(wish.Steering, workers)
	if steering == config.SteerHash && l.steered == nil && !slices.Contains(absent, true) && !l.packets {
		return // the kernel's own way
	}
	program, err := l.compile(partsFor(steering, workers, absent))
	if err == nil && !slices.Equal(program, l.steered) {
		l.steered = program
		err = attach(l.sockets[0][0], program)
	}
	if err != nil {
		slog.Warn("connections are not steered as configured", "listener", wish.Name, "steering", steering, "error", err)
	}
}

// compile makes the program of the group.
func (l *listening) compile(parts []part) ([]unix.SockFilter, error) {
	if !l.packets {
		return compile(parts)
	}
	return compileForPackets(parts, l.count())
}

// count is how many sockets there are.
func (l *listening) count() (n int) {
	for _, sockets := range l.sockets {
		n += len(sockets)
	}
	return n
}

// attach gives a program to the group that a socket belongs to.
func attach(fd int, program []unix.SockFilter) error {
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return os.NewSyscallError("setsockopt SO_ATTACH_REUSEPORT_CBPF",
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &p))
}

// steeringOf is the steering that a wish amounts to with these workers.
func steeringOf(wish string, workers []placement.Worker) string {
	if wish != config.SteerAuto {
		return wish
	}
	for _, w := range workers {
		if w.Node != workers[0].Node {
			return config.SteerNode
		}
	}
	return config.SteerHash
}

// partsFor decides which sockets each CPU's connections go to. Where a worker has CPUs
// of several nodes, a node's go to the loops that are pinned there. A worker that is
// absent gets nothing: its CPUs' connections go to the others of its node, or to
// all if it has none there. CPUs that no worker has go to the workers of their node,
// or to all if it has none. If everybody is absent, everybody is waited for.
func partsFor(steering string, workers []placement.Worker, absent []bool) []part {
	g := groupOf(workers, absent)
	targets := map[int][]int{} // by CPU
	for i, w := range workers {
		if steering == config.SteerHash {
			break
		}
		for _, cpu := range slices.Concat(w.Reserved, w.Unused) {
			targets[cpu] = g.onNode(w.NodeOf(cpu), w.Node)
		}
		for at, cpu := range w.CPUs {
			targets[cpu] = g.onNode(w.NodeOf(cpu), w.Node)
			if steering == config.SteerCPU && !g.absent(i) {
				targets[cpu] = g.onCPU(i, at)
			}
		}
	}
	return partition(targets, g.all)
}

// group is the sockets of a listener, by their places.
type group struct {
	workers []placement.Worker
	places  [][]int       // by worker, by loop; nil: the worker is absent
	nodes   map[int][]int // by the node that a loop is pinned to, else its worker's
	all     []int
}

func groupOf(workers []placement.Worker, absent []bool) *group {
	g := &group{workers: workers, places: make([][]int, len(workers)), nodes: map[int][]int{}}
	everybody := !slices.Contains(absent, false)
	next := 0
	for i, w := range workers {
		for loop := range w.Loops {
			if everybody || !absent[i] {
				node := w.Node
				if w.Pin {
					node = w.NodeOf(w.CPUs[loop%len(w.CPUs)])
				}
				g.places[i] = append(g.places[i], next)
				g.nodes[node] = append(g.nodes[node], next)
			}
			next++
		}
		g.all = append(g.all, g.places[i]...)
	}
	return g
}

func (g *group) absent(worker int) bool { return g.places[worker] == nil }

// onNode is the sockets of the first of some nodes that has any, else all.
func (g *group) onNode(nodes ...int) []int {
	for _, node := range nodes {
		if places := g.nodes[node]; len(places) > 0 {
			return places
		}
	}
	return g.all
}

// onCPU is the sockets of the loops on a worker's CPU, which is loop i on CPU i
// and so on round. If there are fewer loops than CPUs, the CPUs that are left go
// round the loops.
func (g *group) onCPU(worker, at int) []int {
	places, cpus := g.places[worker], len(g.workers[worker].CPUs)
	if at >= len(places) {
		return []int{places[at%len(places)]}
	}
	var here []int
	for i := at; i < len(places); i += cpus {
		here = append(here, places[i])
	}
	return here
}

// partition makes parts of what single CPUs have; the CPUs between have rest.
func partition(targets map[int][]int, rest []int) []part {
	var parts []part
	from := func(first int, sockets []int) {
		if n := len(parts); n == 0 || !slices.Equal(parts[n-1].sockets, sockets) {
			parts = append(parts, part{first, sockets})
		}
	}
	next := 0
	for _, cpu := range slices.Sorted(maps.Keys(targets)) {
		if cpu > next {
			from(next, rest)
		}
		from(cpu, targets[cpu])
		next = cpu + 1
	}
	from(next, rest)
	return parts
}
