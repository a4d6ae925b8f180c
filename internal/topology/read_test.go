package topology

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sluice/internal/topology/shape"
)

// TestRead reads each machine of testdata. A file there holds a story, the
// Machine as String prints it, and then the tree, each file after a line
// "-- path --".
func TestRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			root, want := unpack(t, file)
			m, err := Read(root)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.String(); got != want {
				t.Errorf("read\n%s\nwant\n%s", got, want)
			}
			checkMachine(t, m)
		})
	}
}

// unpack writes the tree to a directory of its own, and returns what the
// machine must print as: the lines from "cpus " to the first file.
func unpack(t *testing.T, file string) (root, want string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, tree, err := shape.Parse(string(data))
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	if err := tree.Write(root); err != nil {
		t.Fatal(err)
	}
	_, want, _ = strings.Cut("\n"+head, "\ncpus ")
	return root, "cpus " + want + "\n"
}

// checkMachine checks what Machine promises of every machine.
func checkMachine(t *testing.T, m *Machine) {
	t.Helper()
	if len(m.Nodes) == 0 || len(m.Online) == 0 {
		t.Fatalf("a machine without node or CPU: %v", m)
	}
	var inNodes []int
	for _, n := range m.Nodes {
		if !slices.IsSorted(n.CPUs) {
			t.Errorf("node %d: CPUs are not ascending: %v", n.ID, n.CPUs)
		}
		if len(n.Distance) > 0 && len(n.Distance) != len(m.Nodes) {
			t.Errorf("node %d: %d distances to %d nodes", n.ID, len(n.Distance), len(m.Nodes))
		}
		inNodes = append(inNodes, n.CPUs...)
		for _, cpu := range n.CPUs {
			if c, found := m.CPU(cpu); !found || c.Node != n.ID || m.NodeOf(cpu) != n.ID {
				t.Errorf("CPU %d of node %d is %+v", cpu, n.ID, c)
			}
		}
	}
	for _, c := range m.CPUs {
		if !slices.Contains(c.Core, c.ID) || !slices.IsSorted(c.Core) {
			t.Errorf("CPU %d is not of its own core %v", c.ID, c.Core)
		}
		if c.Cache >= len(m.Caches) || c.Cache >= 0 && !slices.Contains(m.Caches[c.Cache].CPUs, c.ID) {
			t.Errorf("CPU %d is not of its own cache %d", c.ID, c.Cache)
		}
	}
	slices.Sort(inNodes)
	if !slices.Equal(inNodes, m.Online) {
		t.Errorf("nodes have CPUs %v, online are %v", inNodes, m.Online)
	}
}

// TestReadThisMachine reads the real one; its own view of it is the runtime's.
func TestReadThisMachine(t *testing.T) {
	for _, root := range []string{"", "/"} {
		m, err := Read(root)
		if err != nil {
			t.Fatal(err)
		}
		checkMachine(t, m)
		if len(m.Online) < runtime.NumCPU() {
			t.Errorf("%d CPUs are online, but this process has %d", len(m.Online), runtime.NumCPU())
		}
		if m.Nodes[0].HasMemory && m.Nodes[0].MemTotal == 0 {
			t.Errorf("node %d's memory is unknown: %v", m.Nodes[0].ID, m.Unknown)
		}
		for _, cpu := range Allowed() {
			if !slices.Contains(m.Online, cpu) {
				t.Errorf("CPU %d is ours, but not online", cpu)
			}
		}
	}
}

// TestReadNothing: an empty tree is one node with as many CPUs as we run on.
func TestReadNothing(t *testing.T) {
	m, err := Read(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	checkMachine(t, m)
	if m.NUMA || len(m.Nodes) != 1 || m.Nodes[0].ID != 0 || len(m.Online) != runtime.NumCPU() {
		t.Errorf("read %v", m)
	}
	if m.Limits != (Limits{}) {
		t.Errorf("limits %+v, want none", m.Limits)
	}
}

func TestReadBadRoot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{file, file + "-missing"} {
		if m, err := Read(root); err == nil {
			t.Errorf("Read(%q) made %v, want an error", root, m)
		}
	}
}

// TestAdopt: each online CPU ends in exactly one node, whatever was read.
func TestAdopt(t *testing.T) {
	for _, c := range []struct {
		name        string
		read, after [][]int
	}{
		{"all claimed", [][]int{{0, 1}, {2, 3}}, [][]int{{0, 1}, {2, 3}}},
		{"claimed twice", [][]int{{0, 1, 2}, {2, 3}}, [][]int{{0, 1, 2}, {3}}},
		{"unclaimed", [][]int{nil, {2}, {3}}, [][]int{{}, {0, 1, 2}, {3}}},
		{"none claimed", [][]int{nil, nil}, [][]int{{0, 1, 2, 3}, {}}},
	} {
		var nodes []Node
		for _, cpus := range c.read {
			nodes = append(nodes, Node{CPUs: cpus})
		}
		adopt(nodes, []int{0, 1, 2, 3})
		for i, want := range c.after {
			if !slices.Equal(nodes[i].CPUs, want) {
				t.Errorf("%s: node %d has %v, want %v", c.name, i, nodes[i].CPUs, want)
			}
		}
	}
}

// TestMeminfo: a node's file and the machine's, and lines that are neither.
func TestMeminfo(t *testing.T) {
	for _, c := range []struct {
		text                   string
		total, free, available int64
	}{
		{"Node 3 MemTotal:  8 kB\nNode 3 MemFree:  4 kB\nNode 3 MemUsed:  4 kB\n", 8192, 4096, 0},
		{"MemTotal:  8 kB\nMemFree:  4 kB\nMemAvailable:  6 kB\n", 8192, 4096, 6144},
		{"Node 0 MemTotal: 9 kB\nNode 0 MemFree: 4 kB\nNode 0 Active(file): 1 kB\nNode 0 Inactive(file): 2 kB\nNode 0 SReclaimable: 1 kB\n", 9216, 4096, 8192},
		{"MemFree:  4 kB\nMemTotal:  8 kB", 8192, 4096, 0},
		{"", 0, 0, 0},
		{"MemTotal:\n\nMemFree: many kB\nNode 0\nMemTotal: 7", 0, 0, 0},
		{"MemTotal: 99999999999999999999 kB\nMemFree: -4 kB", 0, 0, 0},
	} {
		var n Node
		n.memoryFrom([]byte(c.text))
		if n.MemTotal != c.total || n.MemFree != c.free || n.MemAvailable != c.available {
			t.Errorf("%q: %+v, want %d, %d, %d", c.text, n, c.total, c.free, c.available)
		}
	}
}

func TestCgroupFiles(t *testing.T) {
	for text, want := range map[string]int64{"max": 0, "": 0, "1048576": 1 << 20, "-1": 0, "12 MB": 0, "9223372036854771712": 0} {
		if got := memoryMax(text); got != want {
			t.Errorf("memory.max %q is %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]float64{"max 100000": 0, "": 0, "50000 100000": 0.5, "300000 100000": 3, "1 0": 0, "1": 0, "x 1": 0, "-1 100000": 0} {
		if got := cpuMax(text); got != want {
			t.Errorf("cpu.max %q is %g, want %g", text, got, want)
		}
	}
	if got := []int64{smaller[int64](0, 0), smaller[int64](0, 7), smaller[int64](7, 0), smaller[int64](7, 3)}; !reflect.DeepEqual(got, []int64{0, 7, 7, 3}) {
		t.Errorf("smaller: %v", got)
	}
}
