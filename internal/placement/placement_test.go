package placement

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"sluice/internal/segment"
	"sluice/internal/topology"
	"sluice/internal/topology/shape"
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

// transcript writes an assignment, one worker, note or unmet wish in a line.
func transcript(a *Assignment) string {
	var b strings.Builder
	for _, w := range a.Workers {
		fmt.Fprintf(&b, "%d: node %s", w.Index, topology.FormatCPUs(w.Nodes))
		if fed := w.Node != w.Nodes[0] || w.Memory != MemoryDefault && len(w.Nodes) > 1; fed {
			fmt.Fprintf(&b, " home %d", w.Node)
		}
		fmt.Fprintf(&b, " cpus %s loops %d %s memory %s limit %dMiB", topology.FormatCPUs(w.CPUs), w.Loops, w.Affinity, w.Memory, w.MemoryLimit>>20)
		if len(w.Reserved) > 0 {
			fmt.Fprintf(&b, " reserved %s", topology.FormatCPUs(w.Reserved))
		}
		if len(w.Overflow) > 0 {
			fmt.Fprintf(&b, " overflow %s", topology.FormatCPUs(w.Overflow))
		}
		b.WriteByte('\n')
	}
	for _, note := range a.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	for _, wish := range a.Unmet {
		fmt.Fprintf(&b, "unmet: %s\n", wish)
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
0: node 0 cpus 0-3 loops 4 hard memory default limit 700MiB
`},
		{"a worker per node", two, nil, `
0: node 0 cpus 0-3 loops 4 hard memory prefer limit 700MiB
1: node 1 cpus 4-7 loops 4 hard memory prefer limit 1400MiB
`},
		{"one worker for the machine", two, func(w *Wishes, _ *topology.Machine) { w.Per = PerMachine }, `
0: node 0-1 cpus 0-7 loops 8 hard memory default limit 2100MiB
`},
		{"the machine's worker cannot be bound", two, func(w *Wishes, _ *topology.Machine) { w.Per, w.Memory = PerMachine, MemoryBind }, `
0: node 0-1 cpus 0-7 loops 8 hard memory default limit 2100MiB
unmet: workers.memory: bind: worker 0 spans nodes 0-1, so no one node holds its memory; using default
`},
		{"the machine's worker is on one node", two, func(w *Wishes, _ *topology.Machine) { w.Per, w.Allowed = PerMachine, []int{5, 6} }, `
0: node 1 cpus 5-6 loops 2 hard memory prefer limit 1400MiB
note: CPUs 0-4,7 left out: not granted to this process (its CPU affinity and its cpuset leave it 5-6)
`},
		{"loops and affinity as wished", two, func(w *Wishes, _ *topology.Machine) { w.Loops, w.Affinity, w.Memory = 1, AffinityNone, MemoryBind }, `
0: node 0 cpus 0-3 loops 1 none memory bind limit 700MiB
1: node 1 cpus 4-7 loops 1 none memory bind limit 1400MiB
`},
		{"more loops than CPUs as wished", []string{"0:1000"}, func(w *Wishes, _ *topology.Machine) { w.Loops = 3 }, `
0: node 0 cpus 0 loops 3 hard memory default limit 700MiB
`},
		{"soft threads may go to the other workers' CPUs", two, func(w *Wishes, _ *topology.Machine) { w.Affinity = AffinitySoft }, `
0: node 0 cpus 0-3 loops 4 soft memory prefer limit 700MiB overflow 4-7
1: node 1 cpus 4-7 loops 4 soft memory prefer limit 1400MiB overflow 0-3
`},
		{"soft with one worker", two, func(w *Wishes, _ *topology.Machine) { w.Affinity, w.Per = AffinitySoft, PerMachine }, `
0: node 0-1 cpus 0-7 loops 8 soft memory default limit 2100MiB
unmet: workers.affinity: soft: there is one worker, and so no other's CPU to go to; its threads move within its own
`},
		{"a node of memory only has no worker, but a policy matters", []string{"0-1:1000", ":4000"}, nil, `
0: node 0 cpus 0-1 loops 2 hard memory prefer limit 700MiB
note: node 1 has no CPU online: no worker there, and its memory is in no worker's share
`},
		{"a node without memory belongs to the nearest that has some", []string{"0-1:-", "2-3:1000", "4-5:1000"}, nil, `
0: node 0-1 home 1 cpus 0-3 loops 4 hard memory prefer limit 700MiB
1: node 2 cpus 4-5 loops 2 hard memory prefer limit 700MiB
note: node 0 has no memory: the worker of node 1, from which it comes, has its CPUs 0-1 too
`},
		{"two nodes without memory, and one word for all", []string{"0:-", "1:1000", "2:1000", "3:-"}, func(w *Wishes, m *topology.Machine) {
			w.Memory = MemoryBind
			m.Nodes[0].Distance, m.Nodes[3].Distance = []int{10, 30, 20, 30}, []int{30, 30, 20, 10}
		}, `
0: node 1 cpus 1 loops 1 hard memory bind limit 700MiB
1: node 0,2-3 home 2 cpus 0,2-3 loops 3 hard memory bind limit 699MiB
note: node 0 has no memory: the worker of node 2, from which it comes, has its CPU 0 too
note: node 3 has no memory: the worker of node 2, from which it comes, has its CPU 3 too
`},
		{"a node whose memory comes from where no CPU is", []string{"0-1:1000", "2-3:-", ":1000"}, func(w *Wishes, m *topology.Machine) {
			w.Nodes = "1"
		}, `
0: node 1 cpus 2-3 loops 2 hard memory default limit 700MiB
note: CPUs 0-1 left out: not on workers.nodes 1
note: node 2 has no CPU online: no worker there, and its memory is in no worker's share
unmet: workers.memory: prefer: node 1 of worker 0 has no memory for us; using default, which is the nearest node that has
`},
		{"together more CPUs than a worker has loops for", []string{"0-1:1000", "2-256:-", ":1"}, nil, `
0: node 0 cpus 0-1 loops 2 hard memory prefer limit 5MiB
1: node 1 cpus 2-256 loops 255 hard memory default limit 694MiB
note: node 2 has no CPU online: no worker there, and its memory is in no worker's share
unmet: workers.memory: prefer: node 1 of worker 1 has no memory for us; using default, which is the nearest node that has
`},
		{"together as many CPUs as a worker has loops for", []string{"0-1:1000", "2-255:-"}, nil, `
0: node 0-1 cpus 0-255 loops 256 hard memory default limit 700MiB
note: node 1 has no memory: the worker of node 0, from which it comes, has its CPUs 2-255 too
`},
		{"workers by number keep to their nodes", []string{"0-1:1000", "2-3:-"}, func(w *Wishes, _ *topology.Machine) { w.Per = "2" }, `
0: node 0 cpus 0-1 loops 2 hard memory default limit 350MiB
1: node 1 cpus 2-3 loops 2 hard memory default limit 350MiB
`},
		{"one worker for all, of which one node has memory", []string{"0-1:-", "2-3:1000", ":1000"}, func(w *Wishes, _ *topology.Machine) { w.Per = PerMachine }, `
0: node 0-1 home 1 cpus 0-3 loops 4 hard memory prefer limit 700MiB
note: node 2 has no CPU online: no worker there, and its memory is in no worker's share
`},
		{"the nearest may have no CPU", []string{"0-1:1000", "2-3:-", ":1000"}, func(_ *Wishes, m *topology.Machine) {
			m.Nodes[0].Distance, m.Nodes[1].Distance, m.Nodes[2].Distance = []int{10, 21, 28}, []int{21, 10, 17}, []int{28, 17, 10}
		}, `
0: node 0 cpus 0-1 loops 2 hard memory prefer limit 700MiB
1: node 1 cpus 2-3 loops 2 hard memory default limit 700MiB
unmet: workers.memory: prefer: node 1 of worker 1 has no memory for us; using default, which is the nearest node that has
`},
		{"firmware that finds another node nearer than the node itself", two, func(_ *Wishes, m *topology.Machine) {
			m.Nodes[0].Distance, m.Nodes[1].Distance = []int{20, 10}, []int{10, 20}
		}, `
0: node 0 cpus 0-3 loops 4 hard memory prefer limit 700MiB
1: node 1 cpus 4-7 loops 4 hard memory prefer limit 1400MiB
`},
		{"unknown memory is no limit", []string{"0-1:?", "2-3:1000"}, nil, `
0: node 0 cpus 0-1 loops 2 hard memory prefer limit 0MiB
1: node 1 cpus 2-3 loops 2 hard memory prefer limit 700MiB
`},
		{"memory that the cpuset withholds", two, func(_ *Wishes, m *topology.Machine) { m.Cpuset.Nodes = []int{1} }, `
0: node 0 cpus 0-3 loops 4 hard memory default limit 700MiB
1: node 1 cpus 4-7 loops 4 hard memory default limit 700MiB
`},
		{"a cpuset of nodes without memory was misread", two, func(_ *Wishes, m *topology.Machine) { m.Affinity.Nodes = []int{9} }, `
0: node 0 cpus 0-3 loops 4 hard memory prefer limit 700MiB
1: node 1 cpus 4-7 loops 4 hard memory prefer limit 1400MiB
`},
		{"huge pages are in no share", two, func(_ *Wishes, m *topology.Machine) {
			m.Nodes[0].HugePages = []topology.HugePages{{Size: 2 << 20, Total: 450, Free: 450}}
		}, `
0: node 0 cpus 0-3 loops 4 hard memory prefer limit 70MiB
1: node 1 cpus 4-7 loops 4 hard memory prefer limit 1400MiB
note: node 0: 900 MiB of its 1000 MiB are reserved as huge pages, and in no worker's share
`},
		{"only the CPUs we may use", two, func(w *Wishes, _ *topology.Machine) { w.Allowed = []int{7, 2, 3} }, `
0: node 0 cpus 2-3 loops 2 hard memory prefer limit 700MiB
1: node 1 cpus 7 loops 1 hard memory prefer limit 1400MiB
note: CPUs 0-1,4-6 left out: not granted to this process (its CPU affinity and its cpuset leave it 2-3,7)
`},
		{"a CPU set that the machine's files do not know", two, func(w *Wishes, _ *topology.Machine) { w.Allowed = []int{20, 12, 12} }, `
0: node 0 cpus 12,20 loops 2 hard memory default limit 0MiB
unmet: workers.memory: prefer: the machine does not say which node the CPUs 12,20 of worker 0 are on; using default
`},
		{"the machine's word of what is ours, within the cpuset", two, func(_ *Wishes, m *topology.Machine) {
			m.Affinity.CPUs, m.Cpuset.CPUs = []int{0, 1, 2, 4, 5}, []int{1, 2, 3, 4}
		}, `
0: node 0 cpus 1-2 loops 2 hard memory prefer limit 700MiB
1: node 1 cpus 4 loops 1 hard memory prefer limit 1400MiB
note: CPUs 0,3,5-7 left out: not granted to this process (its CPU affinity and its cpuset leave it 1-2,4)
`},
		{"a cpuset alone", two, func(_ *Wishes, m *topology.Machine) { m.Cpuset.CPUs = []int{4, 5, 6, 7} }, `
0: node 1 cpus 4-7 loops 4 hard memory prefer limit 1400MiB
note: CPUs 0-3 left out: not granted to this process (its CPU affinity and its cpuset leave it 4-7)
`},
		{"a container's limits are shared out", two, func(_ *Wishes, m *topology.Machine) {
			m.Limits = topology.Limits{CPUs: 2.9, Memory: 1000 << 20}
		}, `
0: node 0 cpus 0-3 loops 1 hard memory prefer limit 350MiB
1: node 1 cpus 4-7 loops 1 hard memory prefer limit 350MiB
note: worker 0: the control group's CPU limit of 2.9 feeds 1 of 4 loops
note: worker 1: the control group's CPU limit of 2.9 feeds 1 of 4 loops
`},
		{"limits that limit nothing", two, func(_ *Wishes, m *topology.Machine) {
			m.Limits = topology.Limits{CPUs: 8, Memory: 1 << 50}
		}, `
0: node 0 cpus 0-3 loops 4 hard memory prefer limit 700MiB
1: node 1 cpus 4-7 loops 4 hard memory prefer limit 1400MiB
`},
		{"256 loops", []string{"0-255:1000"}, nil, `
0: node 0 cpus 0-255 loops 256 hard memory default limit 700MiB
`},
		{"257 CPUs", []string{"0-256:1000"}, nil, `
0: node 0 cpus 0-256 loops 256 hard memory default limit 700MiB
note: worker 0: 257 CPUs, but a worker runs at most 256 loops
`},
		{"CPUs by name", two, func(w *Wishes, _ *topology.Machine) { w.CPUs = "1-4,90" }, `
0: node 0 cpus 1-3 loops 3 hard memory prefer limit 700MiB
1: node 1 cpus 4 loops 1 hard memory prefer limit 1400MiB
note: CPUs 0,5-7 left out: not in workers.cpus
unmet: workers.cpus: CPU 90 cannot be used (offline, not granted, not on workers.nodes, or not there); using 1-4
`},
		{"nodes by name", two, func(w *Wishes, _ *topology.Machine) { w.Nodes = "1,5" }, `
0: node 1 cpus 4-7 loops 4 hard memory prefer limit 1400MiB
note: CPUs 0-3 left out: not on workers.nodes 1,5
unmet: workers.nodes: there is no node 5; using the others
`},
		{"offline CPUs", two, func(_ *Wishes, m *topology.Machine) { m.Offline = []int{8, 9} }, `
0: node 0 cpus 0-3 loops 4 hard memory prefer limit 700MiB
1: node 1 cpus 4-7 loops 4 hard memory prefer limit 1400MiB
note: CPUs 8-9 left out: offline
`},
		{"isolated CPUs are left alone", two, func(_ *Wishes, m *topology.Machine) { m.Isolated = []int{3, 6, 7} }, `
0: node 0 cpus 0-2 loops 3 hard memory prefer limit 700MiB
1: node 1 cpus 4-5 loops 2 hard memory prefer limit 1400MiB
note: CPUs 3,6-7 left out: the kernel balances no load onto isolated CPUs; name them in workers.cpus to use them
`},
		{"isolated CPUs by name need no affinity", two, func(w *Wishes, m *topology.Machine) {
			m.Isolated, w.CPUs, w.Allowed = []int{3, 6, 7}, "6-7", []int{0, 1, 2, 4, 5}
		}, `
0: node 1 cpus 6-7 loops 2 hard memory prefer limit 1400MiB
note: CPU 3 left out: not granted to this process (its CPU affinity and its cpuset leave it 0-2,4-7)
note: CPUs 0-2,4-5 left out: not in workers.cpus
`},
		{"isolated CPUs by name need the cpuset's grant", two, func(w *Wishes, m *topology.Machine) {
			m.Isolated, m.Cpuset.CPUs, w.CPUs = []int{6, 7}, []int{0, 6}, "6-7"
		}, `
0: node 1 cpus 6 loops 1 hard memory prefer limit 1400MiB
note: CPUs 1-5,7 left out: not granted to this process (its CPU affinity and its cpuset leave it 0,6)
note: CPU 0 left out: not in workers.cpus
unmet: workers.cpus: CPU 7 cannot be used (offline, not granted, not on workers.nodes, or not there); using 6
`},
		{"threads crowd where nothing is balanced", []string{"0-1:1000"}, func(w *Wishes, m *topology.Machine) {
			m.Isolated, w.Affinity = []int{0, 1}, AffinityNone
		}, `
0: node 0 cpus 0-1 loops 2 none memory default limit 700MiB
unmet: workers.affinity: none: the kernel balances no load onto isolated CPUs, so threads will crowd on one of 0-1; write hard
`},
		{"a CPU of each node for interrupts", []string{"0-3:1000", "4:1000"}, func(w *Wishes, _ *topology.Machine) { w.Reserve = ReserveCPU }, `
0: node 0 cpus 1-3 loops 3 hard memory prefer limit 700MiB reserved 0
1: node 1 cpus 4 loops 1 hard memory prefer limit 700MiB
note: CPU 0 left out: for interrupts (workers.reserve: cpu)
unmet: workers.reserve: cpu: node 1 has one CPU for us; none is left to interrupts there
`},
		{"no siblings to leave", []string{"0-3:1000"}, func(w *Wishes, _ *topology.Machine) { w.Reserve = ReserveSibling }, `
0: node 0 cpus 0-3 loops 4 hard memory default limit 700MiB
unmet: workers.reserve: sibling: no core of node 0 has two threads that are ours; none is left to interrupts there
`},
		{"three workers on two nodes", []string{"0-1:1000", "2-7:3000"}, func(w *Wishes, _ *topology.Machine) { w.Per = "3" }, `
0: node 0 cpus 0-1 loops 2 hard memory prefer limit 700MiB
1: node 1 cpus 2-4 loops 3 hard memory prefer limit 1050MiB
2: node 1 cpus 5-7 loops 3 hard memory prefer limit 1050MiB
`},
		{"more workers than CPUs", []string{"0:1000", "1-2:1000"}, func(w *Wishes, _ *topology.Machine) { w.Per = "5" }, `
0: node 0 cpus 0 loops 1 hard memory prefer limit 700MiB
1: node 1 cpus 1 loops 1 hard memory prefer limit 350MiB
2: node 1 cpus 2 loops 1 hard memory prefer limit 350MiB
unmet: workers.per: 5: there are 3 CPUs, and a worker needs one; 3 workers
`},
		{"fewer workers than nodes: near ones together", []string{"0-1:100", "2-3:100", "4-5:100", "6-7:100"}, func(w *Wishes, m *topology.Machine) {
			w.Per, w.Memory = "2", MemoryBind
			m.Nodes[0].Distance, m.Nodes[1].Distance = []int{10, 30, 20, 30}, []int{30, 10, 30, 20}
			m.Nodes[2].Distance, m.Nodes[3].Distance = []int{20, 30, 10, 30}, []int{30, 20, 30, 10}
		}, `
0: node 0,2 cpus 0-1,4-5 loops 4 hard memory default limit 140MiB
1: node 1,3 cpus 2-3,6-7 loops 4 hard memory default limit 140MiB
note: worker 0 spans nodes 0,2: there are fewer workers than nodes (workers.per: 2)
note: worker 1 spans nodes 1,3: there are fewer workers than nodes (workers.per: 2)
unmet: workers.memory: bind: worker 0 spans nodes 0,2, so no one node holds its memory; using default
unmet: workers.memory: bind: worker 1 spans nodes 1,3, so no one node holds its memory; using default
`},
		{"no cache files, no clusters", two, func(w *Wishes, _ *topology.Machine) { w.Per = PerCluster }, `
0: node 0 cpus 0-3 loops 4 hard memory prefer limit 700MiB
1: node 1 cpus 4-7 loops 4 hard memory prefer limit 1400MiB
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, w := machine(t, c.nodes...), usual
			if c.wish != nil {
				c.wish(&w, m)
			}
			compare(t, m, w, c.want)
		})
	}
}

// compare plans, and holds the transcript against what is wanted.
func compare(t *testing.T, m *topology.Machine, w Wishes, want string) {
	t.Helper()
	a, err := Plan(m, w)
	if err != nil {
		t.Fatal(err)
	}
	if got := transcript(a); got != strings.TrimPrefix(want, "\n") {
		t.Errorf("plan\n%swant%s", got, want)
	}
}

// TestPlanShapes plans for machines as topology reads them.
func TestPlanShapes(t *testing.T) {
	epyc := shape.Machine{Caches: 2, Cores: 2, Threads: 2, MemoryMiB: 1000}.Tree()
	clustered := shape.Machine{Nodes: 2, Cores: 2, MemoryMiB: 1000, WideCache: true}.Tree()
	hybrid := shape.Machine{Cores: 6, MemoryMiB: 1000}.Tree().With("sys/devices/cpu_core/cpus", "0-3", "sys/devices/cpu_atom/cpus", "4-5")
	alternating := shape.Machine{Cores: 4, MemoryMiB: 1000}.Tree()
	for cpu, sharers := range []string{"0,2", "1,3", "0,2", "1,3"} {
		alternating = alternating.With(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index3/shared_cpu_list", cpu), sharers)
	}
	for _, c := range []struct {
		name string
		tree shape.Tree
		wish func(*Wishes)
		want string
	}{
		{"a worker per cache", epyc, func(w *Wishes) { w.Per = PerCluster }, `
0: node 0 cpus 0-1,4-5 loops 4 hard memory default limit 350MiB
1: node 0 cpus 2-3,6-7 loops 4 hard memory default limit 350MiB
`},
		{"parts follow caches and cores", epyc, func(w *Wishes) { w.Per = "4" }, `
0: node 0 cpus 0,4 loops 2 hard memory default limit 175MiB
1: node 0 cpus 1,5 loops 2 hard memory default limit 175MiB
2: node 0 cpus 2,6 loops 2 hard memory default limit 175MiB
3: node 0 cpus 3,7 loops 2 hard memory default limit 175MiB
`},
		{"cores are cut only where they are too few", epyc, func(w *Wishes) { w.Per, w.CPUs = "4", "0,1,4,5" }, `
0: node 0 cpus 0 loops 1 hard memory default limit 175MiB
1: node 0 cpus 1 loops 1 hard memory default limit 175MiB
2: node 0 cpus 4 loops 1 hard memory default limit 175MiB
3: node 0 cpus 5 loops 1 hard memory default limit 175MiB
note: CPUs 2-3,6-7 left out: not in workers.cpus
`},
		{"second threads for interrupts", epyc, func(w *Wishes) { w.Per, w.Reserve = PerCluster, ReserveSibling }, `
0: node 0 cpus 0-1 loops 2 hard memory default limit 350MiB reserved 4-7
1: node 0 cpus 2-3 loops 2 hard memory default limit 350MiB reserved 4-7
note: CPUs 4-7 left out: for interrupts (workers.reserve: sibling)
`},
		{"a cache that spans nodes is cut by them", clustered, func(w *Wishes) { w.Per = PerCluster }, `
0: node 0 cpus 0-1 loops 2 hard memory prefer limit 700MiB
1: node 1 cpus 2-3 loops 2 hard memory prefer limit 700MiB
`},
		{"caches whose CPUs alternate", alternating, func(w *Wishes) { w.Per = PerCluster }, `
0: node 0 cpus 0,2 loops 2 hard memory default limit 350MiB
1: node 0 cpus 1,3 loops 2 hard memory default limit 350MiB
`},
		{"parts follow caches whose CPUs alternate", alternating, func(w *Wishes) { w.Per = "2" }, `
0: node 0 cpus 0,2 loops 2 hard memory default limit 350MiB
1: node 0 cpus 1,3 loops 2 hard memory default limit 350MiB
`},
		{"caches of one core are no clusters", shape.Machine{Caches: 4, Threads: 2, MemoryMiB: 1000}.Tree(), func(w *Wishes) { w.Per = PerCluster }, `
0: node 0 cpus 0-7 loops 8 hard memory default limit 700MiB
unmet: workers.per: cluster: no cache of node 0 that the kernel shows is shared by two cores; one worker for the node
`},
		{"efficiency cores are left alone", hybrid, nil, `
0: node 0 cpus 0-3 loops 4 hard memory default limit 700MiB
note: CPUs 4-5 left out: efficiency cores; name them in workers.cpus to use them
`},
		{"efficiency cores by name", hybrid, func(w *Wishes) { w.CPUs = "0-5" }, `
0: node 0 cpus 0-5 loops 6 hard memory default limit 700MiB
`},
		{"nothing but efficiency cores", hybrid.With("proc/self/status", "Cpus_allowed_list:\t4-5"), nil, `
0: node 0 cpus 4-5 loops 2 hard memory default limit 700MiB
note: CPUs 0-3 left out: not granted to this process (its CPU affinity and its cpuset leave it 4-5)
`},
		{"a card's memory is nobody's", shape.Machine{Cores: 4, MemoryMiB: 1000, MemoryNodes: []int{500, 0}}.Tree(), nil, `
0: node 0 cpus 0-3 loops 4 hard memory prefer limit 700MiB
note: node 1 has no CPU online: no worker there, and its memory is in no worker's share
`},
		{"eight sockets, four workers", shape.Machine{Sockets: 8, Threads: 2, MemoryMiB: 100, Distance: func(from, to int) int {
			return 10 + 10*bits.OnesCount(uint(from^to))
		}}.Tree(), func(w *Wishes) { w.Per = "4" }, `
0: node 0-1 cpus 0-1,8-9 loops 4 hard memory default limit 140MiB
1: node 2-3 cpus 2-3,10-11 loops 4 hard memory default limit 140MiB
2: node 4-5 cpus 4-5,12-13 loops 4 hard memory default limit 140MiB
3: node 6-7 cpus 6-7,14-15 loops 4 hard memory default limit 140MiB
note: worker 0 spans nodes 0-1: there are fewer workers than nodes (workers.per: 4)
note: worker 1 spans nodes 2-3: there are fewer workers than nodes (workers.per: 4)
note: worker 2 spans nodes 4-5: there are fewer workers than nodes (workers.per: 4)
note: worker 3 spans nodes 6-7: there are fewer workers than nodes (workers.per: 4)
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := usual
			if c.wish != nil {
				c.wish(&w)
			}
			compare(t, topology.ReadFS(c.tree.FS()), w, c.want)
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	m := machine(t, "0-3:1000")
	for want, wish := range map[string]func(*Wishes){
		`workers.per: "": write node, cluster, machine or a number of workers from 1 to 64`:   func(w *Wishes) { w.Per = "" },
		`workers.per: "0": write node, cluster, machine or a number of workers from 1 to 64`:  func(w *Wishes) { w.Per = "0" },
		`workers.per: "65": write node, cluster, machine or a number of workers from 1 to 64`: func(w *Wishes) { w.Per = "65" },
		`workers.per: "-1": write node, cluster, machine or a number of workers from 1 to 64`: func(w *Wishes) { w.Per = "-1" },
		`workers.affinity: "loose": write hard, soft or none`:                                 func(w *Wishes) { w.Affinity = "loose" },
		`workers.memory: "near": write prefer, bind or default`:                               func(w *Wishes) { w.Memory = "near" },
		`workers.reserve: "core": write none, cpu or sibling`:                                 func(w *Wishes) { w.Reserve = "core" },
		`workers.loops: -1: write 0 (one per CPU) to 256`:                                     func(w *Wishes) { w.Loops = -1 },
		`workers.loops: 257: write 0 (one per CPU) to 256`:                                    func(w *Wishes) { w.Loops = 257 },
		`workers.cpus: CPU list "all": "all" is not a number; write a list as "0-7,16"`:       func(w *Wishes) { w.CPUs = "all" },
		`workers.nodes: CPU list "1-0": range "1-0" runs backwards; write a list as "0-1,3"`:  func(w *Wishes) { w.Nodes = "1-0" },
		`workers.cpus: 4-5: none of them is ours to use; we may use 0-3`:                      func(w *Wishes) { w.CPUs = "4-5" },
		`workers.nodes: 1: no CPU of these nodes is ours to use; this machine has nodes 0, with CPUs 0-3 for us`: func(w *Wishes) {
			w.Nodes = "1"
		},
	} {
		w := usual
		wish(&w)
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
