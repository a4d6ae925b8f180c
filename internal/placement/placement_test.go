package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/internal/segment"
	"sluice/internal/topology"
)

// machine builds a machine from one word per node: its CPU list and its MiB of
// memory, "0-3:1024"; "4-7:-" is a node without memory, "4-7:?" one whose memory
// is unknown.
func machine(t *testing.T, words ...string) *topology.Machine {
	t.Helper()
	m := &topology.Machine{NUMA: true}
	for id, word := range words {
		list, memory, _ := strings.Cut(word, ":")
		cpus, err := topology.ParseCPUs(list)
		if err != nil {
			t.Fatal(err)
		}
		n := topology.Node{ID: id, CPUs: cpus, HasMemory: memory != "-"}
		if n.HasMemory && memory != "?" {
			var mib int64
			if _, err := fmt.Sscan(memory, &mib); err != nil {
				t.Fatal(err)
			}
			n.MemTotal = mib << 20
		}
		m.Nodes = append(m.Nodes, n)
		m.Online = append(m.Online, cpus...)
	}
	slices.Sort(m.Online)
	return m
}

// transcript writes an assignment, one worker or note in a line.
func transcript(a *Assignment) string {
	var b strings.Builder
	for _, w := range a.Workers {
		fmt.Fprintf(&b, "%d: node %d cpus %s loops %d pin %t memory %s limit %dMiB\n",
			w.Index, w.Node, topology.FormatCPUs(w.CPUs), w.Loops, w.Pin, w.Memory, w.MemoryLimit>>20)
	}
	for _, note := range a.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	return b.String()
}

// usual are the wishes of an operator who configured nothing.
var usual = Wishes{Per: PerNode, Affinity: AffinityHard, Memory: MemoryPrefer}

func TestPlan(t *testing.T) {
	two := []string{"0-3:1000", "4-7:2000"}
	for _, c := range []struct {
		name  string
		nodes []string
		wish  func(*Wishes, *topology.Machine)
		want  string
	}{
		{"one node needs no memory policy", []string{"0-3:1000"}, nil, `
0: node 0 cpus 0-3 loops 4 pin true memory default limit 700MiB
`},
		{"a worker per node", two, nil, `
0: node 0 cpus 0-3 loops 4 pin true memory prefer limit 700MiB
1: node 1 cpus 4-7 loops 4 pin true memory prefer limit 1400MiB
`},
		{"one worker for the machine", two, func(w *Wishes, _ *topology.Machine) { w.Per = PerMachine }, `
0: node 0 cpus 0-7 loops 8 pin true memory default limit 2100MiB
`},
		{"the machine's worker cannot be bound", two, func(w *Wishes, _ *topology.Machine) { w.Per, w.Memory = PerMachine, MemoryBind }, `
0: node 0 cpus 0-7 loops 8 pin true memory default limit 2100MiB
note: workers.memory: bind: no one node holds the memory of the worker on CPUs 0-7; using default
`},
		{"the machine's worker is on one node", two, func(w *Wishes, _ *topology.Machine) { w.Per, w.Allowed = PerMachine, []int{5, 6} }, `
0: node 1 cpus 5-6 loops 2 pin true memory prefer limit 1400MiB
`},
		{"loops and affinity as wished", two, func(w *Wishes, _ *topology.Machine) { w.Loops, w.Affinity, w.Memory = 1, AffinityNone, MemoryBind }, `
0: node 0 cpus 0-3 loops 1 pin false memory bind limit 700MiB
1: node 1 cpus 4-7 loops 1 pin false memory bind limit 1400MiB
`},
		{"more loops than CPUs as wished", []string{"0:1000"}, func(w *Wishes, _ *topology.Machine) { w.Loops = 3 }, `
0: node 0 cpus 0 loops 3 pin true memory default limit 700MiB
`},
		{"a node of memory only has no worker, but a policy matters", []string{"0-1:1000", ":4000"}, nil, `
0: node 0 cpus 0-1 loops 2 pin true memory prefer limit 700MiB
`},
		{"a node without memory has a worker", []string{"0-1:1000", "2-3:-", ":1000"}, nil, `
0: node 0 cpus 0-1 loops 2 pin true memory prefer limit 700MiB
1: node 1 cpus 2-3 loops 2 pin true memory default limit 0MiB
note: workers.memory: prefer: no one node holds the memory of the worker on CPUs 2-3; using default
`},
		{"unknown memory is no limit", []string{"0-1:?", "2-3:1000"}, nil, `
0: node 0 cpus 0-1 loops 2 pin true memory prefer limit 0MiB
1: node 1 cpus 2-3 loops 2 pin true memory prefer limit 700MiB
`},
		{"only the CPUs we may use", two, func(w *Wishes, _ *topology.Machine) { w.Allowed = []int{7, 2, 3} }, `
0: node 0 cpus 2-3 loops 2 pin true memory prefer limit 700MiB
1: node 1 cpus 7 loops 1 pin true memory prefer limit 1400MiB
`},
		{"a CPU set that the machine's files do not know", two, func(w *Wishes, _ *topology.Machine) { w.Allowed = []int{20, 12, 12} }, `
0: node 0 cpus 12,20 loops 2 pin true memory default limit 0MiB
note: workers.memory: prefer: no one node holds the memory of the worker on CPUs 12,20; using default
`},
		{"a container's limits are shared out", two, func(_ *Wishes, m *topology.Machine) {
			m.Limits = topology.Limits{CPUs: 2.9, Memory: 1000 << 20}
		}, `
0: node 0 cpus 0-3 loops 1 pin true memory prefer limit 350MiB
1: node 1 cpus 4-7 loops 1 pin true memory prefer limit 350MiB
note: node 0: the control group's CPU limit feeds 1 of 4 loops
note: node 1: the control group's CPU limit feeds 1 of 4 loops
`},
		{"limits that limit nothing", two, func(_ *Wishes, m *topology.Machine) {
			m.Limits = topology.Limits{CPUs: 8, Memory: 1 << 50}
		}, `
0: node 0 cpus 0-3 loops 4 pin true memory prefer limit 700MiB
1: node 1 cpus 4-7 loops 4 pin true memory prefer limit 1400MiB
`},
		{"256 loops", []string{"0-255:1000"}, nil, `
0: node 0 cpus 0-255 loops 256 pin true memory default limit 700MiB
`},
		{"257 CPUs", []string{"0-256:1000"}, nil, `
0: node 0 cpus 0-256 loops 256 pin true memory default limit 700MiB
note: node 0: 257 CPUs, but a worker runs at most 256 loops
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, w := machine(t, c.nodes...), usual
			if c.wish != nil {
				c.wish(&w, m)
			}
			a, err := Plan(m, w)
			if err != nil {
				t.Fatal(err)
			}
			if got := transcript(a); got != strings.TrimPrefix(c.want, "\n") {
				t.Errorf("plan\n%swant%s", got, c.want)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	m := machine(t, "0-3:1000")
	for want, w := range map[string]Wishes{
		`workers.per: "": write node or machine`:                {Affinity: AffinityHard, Memory: MemoryPrefer},
		`workers.per: "cluster": write node or machine`:         {Per: "cluster", Affinity: AffinityHard, Memory: MemoryPrefer},
		`workers.affinity: "soft": write hard or none`:          {Per: PerNode, Affinity: "soft", Memory: MemoryPrefer},
		`workers.memory: "near": write prefer, bind or default`: {Per: PerNode, Affinity: AffinityHard, Memory: "near"},
		`workers.loops: -1: write 0 (one per CPU) to 256`:       {Per: PerNode, Affinity: AffinityHard, Memory: MemoryBind, Loops: -1},
		`workers.loops: 257: write 0 (one per CPU) to 256`:      {Per: PerNode, Affinity: AffinityHard, Memory: MemoryBind, Loops: 257},
	} {
		if a, err := Plan(m, w); err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, %v, want %s", w, a, err, want)
		}
	}
}

// TestWorkerBound is the bound at n and n+1.
func TestWorkerBound(t *testing.T) {
	var nodes []string
	for id := range MaxWorkers {
		nodes = append(nodes, fmt.Sprintf("%d:100", id))
	}
	a, err := Plan(machine(t, nodes...), usual)
	if err != nil || len(a.Workers) != MaxWorkers {
		t.Fatalf("%d nodes: %v, %v", MaxWorkers, a, err)
	}
	nodes = append(nodes, "1000:100")
	if a, err := Plan(machine(t, nodes...), usual); err == nil || !strings.Contains(err.Error(), "65 nodes") {
		t.Errorf("%d nodes: %v, %v, want an error", len(nodes), a, err)
	}
	one := usual
	one.Per = PerMachine
	if a, err := Plan(machine(t, nodes...), one); err != nil || len(a.Workers) != 1 {
		t.Errorf("%d nodes, one worker: %v, %v", len(nodes), a, err)
	}
}

// TestSegmentHasRoom: every assignment fits the shared segment.
func TestSegmentHasRoom(t *testing.T) {
	if MaxWorkers > segment.MaxWorkers || MaxLoops > segment.MaxLoops {
		t.Errorf("%d workers of %d loops, but the segment holds %d of %d", MaxWorkers, MaxLoops, segment.MaxWorkers, segment.MaxLoops)
	}
}

// TestPlanProperties plans for many random machines and wishes.
func TestPlanProperties(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		m, w := randomMachine(r), randomWishes(r)
		before := fmt.Sprintf("%+v %+v", m, w)
		a, err := Plan(m, w)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if fault := check(m, w, a); fault != "" {
			t.Fatalf("seed %d: %s\nmachine\n%vwishes %+v\nplan\n%s", seed, fault, m, w, transcript(a))
		}
		if again, _ := Plan(m, w); transcript(again) != transcript(a) {
			t.Fatalf("seed %d: the same question has two answers", seed)
		}
		if after := fmt.Sprintf("%+v %+v", m, w); after != before {
			t.Fatalf("seed %d: Plan changed its input from\n%s\nto\n%s", seed, before, after)
		}
	}
}

// randomMachine has 1 to 8 nodes, some without CPUs, some without memory, and
// at least one CPU, dealt out at random.
func randomMachine(r *rand.Rand) *topology.Machine {
	m := &topology.Machine{NUMA: true, Nodes: make([]topology.Node, 1+r.IntN(8))}
	for i := range m.Nodes {
		m.Nodes[i] = topology.Node{ID: 2 * i, HasMemory: r.IntN(4) > 0}
		if m.Nodes[i].HasMemory {
			m.Nodes[i].MemTotal = r.Int64N(1 << 38)
		}
	}
	for cpu := range 1 + r.IntN(64) {
		n := &m.Nodes[r.IntN(len(m.Nodes))]
		n.CPUs = append(n.CPUs, cpu)
		m.Online = append(m.Online, cpu)
	}
	if r.IntN(2) == 0 {
		m.Limits = topology.Limits{CPUs: 80 * r.Float64(), Memory: r.Int64N(1 << 36)}
	}
	return m
}

func randomWishes(r *rand.Rand) Wishes {
	w := Wishes{
		Per:      []string{PerNode, PerMachine}[r.IntN(2)],
		Affinity: []string{AffinityHard, AffinityNone}[r.IntN(2)],
		Memory:   []string{MemoryPrefer, MemoryBind, MemoryDefault}[r.IntN(3)],
	}
	if r.IntN(2) == 0 {
		w.Loops = r.IntN(MaxLoops + 1)
	}
	if r.IntN(2) == 0 {
		w.Allowed = r.Perm(80)[:1+r.IntN(70)]
	}
	return w
}

// check returns the first broken promise of an assignment, or nothing.
func check(m *topology.Machine, w Wishes, a *Assignment) string {
	if len(a.Workers) == 0 || w.Per == PerMachine && len(a.Workers) != 1 {
		return fmt.Sprintf("%d workers", len(a.Workers))
	}
	used := map[int]bool{}
	for i, worker := range a.Workers {
		if fault := checkWorker(m, w, worker); fault != "" || worker.Index != i {
			return fmt.Sprintf("worker %d: %s", i, fault)
		}
		for _, cpu := range worker.CPUs {
			if used[cpu] {
				return fmt.Sprintf("CPU %d is used twice", cpu)
			}
			used[cpu] = true
		}
	}
	for _, cpu := range m.Online {
		if may := len(w.Allowed) == 0 || slices.Contains(w.Allowed, cpu); may && !used[cpu] {
			return fmt.Sprintf("CPU %d is left over", cpu)
		}
	}
	return ""
}

func checkWorker(m *topology.Machine, w Wishes, worker Worker) string {
	node := slices.IndexFunc(m.Nodes, func(n topology.Node) bool { return n.ID == worker.Node })
	switch {
	case len(worker.CPUs) == 0:
		return "has no CPU"
	case !slices.IsSorted(worker.CPUs):
		return "CPUs are not ascending"
	case node < 0:
		return "is on no node of the machine"
	case worker.Loops < 1 || worker.Loops > MaxLoops:
		return "has too few loops or too many"
	case w.Loops > 0 && worker.Loops != w.Loops:
		return "has not the loops that were wished"
	case w.Loops == 0 && worker.Loops > len(worker.CPUs):
		return "has more loops than CPUs"
	case worker.Pin != (w.Affinity == AffinityHard):
		return "is pinned against the wish"
	case worker.Memory != w.Memory && worker.Memory != MemoryDefault:
		return "has a memory policy that nobody wished"
	case worker.Memory != MemoryDefault && !m.Nodes[node].HasMemory:
		return "wants memory of a node that has none"
	case worker.MemoryLimit < 0:
		return "has a negative memory limit"
	}
	for _, cpu := range worker.CPUs {
		if len(w.Allowed) > 0 && !slices.Contains(w.Allowed, cpu) {
			return fmt.Sprintf("uses CPU %d, which is not ours", cpu)
		}
		if w.Per == PerNode && slices.Contains(m.Online, cpu) && !slices.Contains(m.Nodes[node].CPUs, cpu) {
			return fmt.Sprintf("uses CPU %d of another node", cpu)
		}
	}
	return ""
}
