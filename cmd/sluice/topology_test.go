package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/topology/shape"
)

var update = flag.Bool("update", false, "write what the commands print into testdata; then read the difference")

const (
	metalCPU = "fpu sse2 avx2"
	guestCPU = "fpu sse2 avx2 hypervisor"
)

// machines are shown by TestTopology; testdata/topology has how, by their names.
var machines = []struct {
	name    string
	tree    shape.Tree
	workers string // of the configuration; empty: none is given
}{
	{"one-node-vm", shape.Machine{Cores: 2, Flags: guestCPU, MemoryMiB: 4096, Model: "Intel(R) Xeon(R) Processor", NICs: []shape.NIC{
		{Name: "eth0", Driver: "virtio_net", PCI: "0000:00:03.0", Node: -1, First: 24, IRQs: []string{"1"}, Virtio: true},
	}}.Tree().With("sys/class/dmi/id/sys_vendor", "QEMU",
		"sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 4194304 kB\nNode 0 MemFree: 1048576 kB\nNode 0 Active(file): 524288 kB\nNode 0 Inactive(file): 262144 kB\nNode 0 SReclaimable: 262144 kB"), ""},
	{"two-sockets", shape.Machine{Sockets: 2, Cores: 4, Threads: 2, Flags: metalCPU, MemoryMiB: 131072, NICs: []shape.NIC{
		{Name: "ens1f0", Driver: "ixgbe", PCI: "0000:18:00.0", First: 40, IRQs: []string{"0", "1", "4", "0-15"}},
		{Name: "ens2f0", Driver: "ixgbe", PCI: "0000:af:00.0", Node: 1, First: 60, IRQs: []string{"4", "5"}},
	}}.Tree().With("sys/devices/pci0000:00/0000:18:00.0/net/ens1f0/queues/rx-0/rps_cpus", "f",
		"sys/devices/pci0000:00/0000:18:00.0/net/ens1f0/queues/tx-1/xps_cpus", "101",
		"sys/devices/pci0000:00/0000:af:00.0/net/ens2f0/operstate", "down",
		"proc/sys/kernel/numa_balancing", "1"), ""},
	{"eight-sockets", shape.Machine{Sockets: 8, Cores: 10, Threads: 2, Flags: metalCPU, Model: "Intel(R) Xeon(R) CPU E7- 4870", MemoryMiB: 131072}.Tree(), ""},
	{"siblings-reserved", shape.Machine{Sockets: 4, Cores: 2, Threads: 2, Flags: metalCPU, MemoryMiB: 131072}.Tree(),
		`{nodes: "0-1", reserve: sibling, memory: bind}`},
	{"cxl", shape.Machine{Sockets: 2, Cores: 2, Flags: metalCPU, MemoryMiB: 65536, MemoryNodes: []int{262144}, Distance: func(from, to int) int {
		return [][]int{{10, 21, 14}, {21, 10, 24}, {14, 24, 10}}[from][to]
	}}.Tree(), ""},
	{"container", shape.Machine{Sockets: 2, Cores: 4, Flags: metalCPU, MemoryMiB: 32768}.Tree().With(
		"proc/self/cgroup", "0::/kubepods.slice/pod7", "sys/fs/cgroup/kubepods.slice/pod7/cpuset.cpus.effective", "2-5",
		"sys/fs/cgroup/kubepods.slice/pod7/memory.max", "4294967296", "sys/fs/cgroup/kubepods.slice/pod7/cpu.max", "250000 100000",
		"sys/fs/cgroup/cpuset.mems.effective", "0", "proc/self/status", "Cpus_allowed_list:\t2-5\nMems_allowed_list:\t0"), ""},
	{"hidden-nodes", shape.Machine{Sockets: 2, Cores: 2, OneNode: true, Flags: guestCPU, MemoryMiB: 65536}.Tree().With(
		"sys/class/dmi/id/sys_vendor", "VMware, Inc."), `{per: cluster}`},
	{"sub-numa", shape.Machine{Sockets: 2, Nodes: 2, Cores: 2, Flags: metalCPU, MemoryMiB: 65536, WideCache: true}.Tree(), `{per: "2", loops: 6}`},
	{"memoryless-isolated-efficient", shape.Machine{Sockets: 2, Cores: 4, Flags: metalCPU, MemoryMiB: 8192}.Tree().With(
		"sys/devices/system/node/node1/meminfo", shape.Meminfo(1, 0), "sys/devices/system/node/has_memory", "0",
		"sys/devices/system/cpu/isolated", "3", "sys/devices/system/cpu/offline", "8-9", "sys/devices/system/cpu/present", "0-9",
		"sys/devices/cpu_core/cpus", "0-5", "sys/devices/cpu_atom/cpus", "6-7"), `{affinity: none}`},
	{"nothing-known", shape.Tree{"proc/stat": "cpu0 1\ncpu1 1"}, ""},
}

// recorded makes a machine's tree and a configuration file, and returns the
// command line that looks at both.
func recorded(t *testing.T, tree shape.Tree, workers string) []string {
	t.Helper()
	root := t.TempDir()
	if err := tree.Write(root); err != nil {
		t.Fatal(err)
	}
	if workers == "" {
		return []string{"topology", "--root", root}
	}
	text := "workers: " + workers + "\nfarms: {app: {servers: [{url: \"http://a\"}]}}\n"
	return []string{"topology", "--root", root, "--config", file(t, text)}
}

// golden compares a text with a file that a person looked at.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s: %v; printed\n%s\nwant\n%s", name, err, got, want)
	}
}

func TestTopology(t *testing.T) {
	for _, m := range machines {
		t.Run(m.name, func(t *testing.T) {
			args := recorded(t, m.tree, m.workers)
			code, table, faults := command(t.Context(), args...)
			if code != exitOK || faults != "" {
				t.Errorf("exit code %d: %s", code, faults)
			}
			_, drawing, _ := command(t.Context(), append(args, "--tree")...)
			_, encoded, _ := command(t.Context(), append(args, "--json")...)
			golden(t, "topology/"+m.name+".txt", table+"\n"+drawing)
			compareTree(t, drawing, encoded)
		})
	}
}

// compareTree: every online CPU stands in the tree once, whatever the machine.
func compareTree(t *testing.T, drawing, encoded string) {
	t.Helper()
	var l layout
	if err := json.Unmarshal([]byte(encoded), &l); err != nil {
		t.Fatal(err)
	}
	for _, cpu := range l.Machine.Online {
		if n := strings.Count(drawing, "CPU "+whole(cpu)+" ("); n != 1 {
			t.Errorf("CPU %d stands %d times in\n%s", cpu, n, drawing)
		}
	}
	if l.Plan == nil || len(l.Plan.Workers) == 0 || l.Warnings == nil {
		t.Errorf("plan %v, warnings %v", l.Plan, l.Warnings)
	}
}

// Wishes that leave no CPU: the machine is shown all the same, and the fault told.
func TestTopologyWithoutPlan(t *testing.T) {
	args := recorded(t, shape.Machine{Cores: 2, MemoryMiB: 100}.Tree(), `{cpus: "7"}`)
	for flag, shown := range map[string]string{"--json=false": "There is no plan.", "--tree": "CPU 1 (unused)", "--json": `"plan": null`} {
		code, out, faults := command(t.Context(), append(args, flag)...)
		if code != exitFail || faults != "sluice: workers.cpus: 7: none of them is ours to use; we may use 0-1\n" || !strings.Contains(out, shown) {
			t.Errorf("%s: exit code %d, %s%s", flag, code, faults, out)
		}
	}
}

func TestTopologyMisuse(t *testing.T) {
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--json", "--tree"}, exitUsage, "--json and --tree exclude each other"},
		{[]string{"--root", empty}, exitFail, "neither sys/devices/system nor proc is below it"},
		{[]string{"--root", empty + "/none"}, exitFail, "neither sys/devices/system nor proc is below it"},
		{[]string{"--config", empty + "/none.yaml"}, exitFail, "none.yaml"},
		{[]string{"node0"}, exitUsage, `topology does not take "node0"`},
	} {
		if code, _, faults := command(t.Context(), append([]string{"topology"}, c.args...)...); code != c.code || !strings.Contains(faults, c.want) {
			t.Errorf("%v: exit code %d, %s", c.args, code, faults)
		}
	}
}

// On the machine that runs this test, whatever it is.
func TestTopologyHere(t *testing.T) {
	if code, out, faults := command(t.Context(), "topology"); code != exitOK || !strings.Contains(out, "WORKER") {
		t.Errorf("exit code %d: %s%s", code, out, faults)
	}
}
