package placement

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/topology"
	"sluice/internal/topology/shape"
)

// twoNodes is a machine at which nothing is wrong: a card on each node, whose
// interrupts stay there.
func twoNodes() shape.Machine {
	return shape.Machine{Sockets: 2, Cores: 4, MemoryMiB: 1000, NICs: []shape.NIC{
		{Name: "eth0", Driver: "ixgbe", PCI: "0000:18:00.0", First: 40, IRQs: []string{"0", "1"}},
		{Name: "eth1", Driver: "ixgbe", PCI: "0000:af:00.0", Node: 1, First: 50, IRQs: []string{"4", "5"}},
	}}
}

// withIRQs is twoNodes with other places for eth0's interrupts, and eth1's.
func withIRQs(eth0, eth1 []string) shape.Machine {
	m := twoNodes()
	m.NICs[0].IRQs, m.NICs[1].IRQs = eth0, eth1
	return m
}

// oneCard is twoNodes with eth0 alone.
func oneCard(irqs ...string) shape.Machine {
	m := twoNodes()
	m.NICs[0].IRQs, m.NICs = irqs, m.NICs[:1]
	return m
}

const (
	eth0Queues = "sys/devices/pci0000:00/0000:18:00.0/net/eth0/queues"
	guestCPU   = "flags : fpu hypervisor"
)

// TestWarnings has a case for each warning, and its neighbour that is none.
func TestWarnings(t *testing.T) {
	good := twoNodes().Tree()
	for _, c := range []struct {
		name string
		tree shape.Tree
		wish func(*Wishes)
		want string // "id: what" in lines
	}{
		{"nothing wrong", good, nil, ""},
		{"nothing known", shape.Tree{"proc/stat": "cpu0 1\ncpu1 1"}, nil, ""},

		{"hidden nodes", shape.Machine{Sockets: 2, OneNode: true}.Tree().With("proc/cpuinfo", guestCPU), nil,
			"hidden-nodes: 2 sockets, but one NUMA node: the hypervisor may hide the nodes"},
		{"interleaved nodes", shape.Machine{Sockets: 4, OneNode: true}.Tree(), nil,
			"hidden-nodes: 4 sockets, but one NUMA node: node interleaving in the firmware, or numa=off on the kernel's command line"},
		{"one socket", shape.Machine{Cores: 4, MemoryMiB: 1000}.Tree().With("proc/cpuinfo", guestCPU), nil, ""},

		{"balancing", good.With("proc/sys/kernel/numa_balancing", "1"), nil, "numa-balancing: automatic NUMA balancing is on"},
		{"balancing and tiering", good.With("proc/sys/kernel/numa_balancing", "3"), nil, "numa-balancing: automatic NUMA balancing is on"},
		{"tiering only", good.With("proc/sys/kernel/numa_balancing", "2"), nil, ""},
		{"balancing off", good.With("proc/sys/kernel/numa_balancing", "0"), nil, ""},
		{"balancing one node", shape.Machine{Cores: 4}.Tree().With("proc/sys/kernel/numa_balancing", "1"), nil, ""},

		{"zone reclaim", good.With("proc/sys/vm/zone_reclaim_mode", "1"), nil, "zone-reclaim: zone_reclaim_mode is 1"},
		{"no zone reclaim", good.With("proc/sys/vm/zone_reclaim_mode", "0"), nil, ""},
		{"huge pages always", good.With("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never"), nil, "thp-always: transparent huge pages: always"},
		{"huge pages on demand", good.With("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"), nil, ""},

		{"a cpuset that cuts nodes", good.With("sys/fs/cgroup/cpuset.cpus.effective", "0-1,4-6"), nil,
			"cpuset-partial: the control group's cpuset grants CPUs 0-1 of node 0's 0-3, 4-6 of node 1's 4-7"},
		{"an affinity that cuts a node", good.With("proc/self/status", "Cpus_allowed_list: 0-6"), nil,
			"cpuset-partial: the process's CPU affinity grants CPUs 4-6 of node 1's 4-7"},
		{"a cpuset of a whole node", oneCard("0", "1").Tree().With("sys/fs/cgroup/cpuset.cpus.effective", "0-3"), nil, ""},
		{"an affinity without the isolated", good.With("proc/self/status", "Cpus_allowed_list: 0-6", "sys/devices/system/cpu/isolated", "7"), nil,
			"isolated-idle: no worker uses CPU 7, isolated from the scheduler"},

		{"a node without memory", good.With("sys/devices/system/node/node1/meminfo", shape.Meminfo(1, 0)), nil,
			"memory-none: workers run on node 1, which has no memory"},
		{"two workers on a node without memory", good.With("sys/devices/system/node/node1/meminfo", shape.Meminfo(1, 0)), func(w *Wishes) { w.Per = "4" },
			"memory-none: workers run on node 1, which has no memory"},
		{"a node without memory and worker", good.With("sys/devices/system/node/node1/meminfo", shape.Meminfo(1, 0)), func(w *Wishes) { w.Nodes = "0" },
			"nic-elsewhere: eth1 delivers packets on node 1, where no worker is"},
		{"memory that is not granted", good.With("sys/fs/cgroup/cpuset.mems.effective", "0"), nil,
			"memory-denied: workers run on node 1, whose memory the cpuset does not grant"},

		{"isolated in use", good.With("sys/devices/system/cpu/isolated", "6-7"), func(w *Wishes) { w.CPUs = "0-7" }, ""},
		{"isolated idle", good.With("sys/devices/system/cpu/isolated", "6-7"), nil,
			"isolated-idle: no worker uses CPUs 6-7, isolated from the scheduler"},

		{"interrupts where no worker is", twoNodes().Tree(), func(w *Wishes) { w.CPUs = "0-3" },
			"nic-elsewhere: eth1 delivers packets on node 1, where no worker is"},
		{"interrupts on another node, which has a card", withIRQs([]string{"0", "4"}, []string{"5"}).Tree().With(
			"sys/devices/pci0000:00/0000:af:00.0/net/eth1/queues/rx-0/rps_cpus", "f0"), nil,
			"nic-remote: eth0 is on node 0, but its interrupts 41 go to other nodes"},
		{"interrupts on another node, which has none", oneCard("0", "4").Tree(), nil, ""},
		{"a card that is down", withIRQs([]string{"0", "4"}, []string{"4", "5"}).Tree().With(
			"sys/devices/pci0000:00/0000:18:00.0/net/eth0/operstate", "down"), nil,
			"node-deaf: no network card delivers on node 0"},
		{"an interrupt that goes elsewhere than it may", oneCard("0-7", "0-7").Tree().With(
			"proc/irq/40/effective_affinity_list", "2", "proc/irq/41/effective_affinity_list", "3"), nil,
			"node-deaf: no network card delivers on node 1"},
		{"interrupts that may go anywhere", oneCard("0-7", "0-7").Tree(), nil, ""},

		{"interrupts that may go where no worker is", oneCard("0-7", "0-7").Tree(), func(w *Wishes) { w.Nodes = "0" }, ""},

		{"a node without interrupts", oneCard("0", "1").Tree(), nil, "node-deaf: no network card delivers on node 1"},
		{"a node reached by RPS", oneCard("0", "1").Tree().With(eth0Queues+"/rx-1/rps_cpus", "f0"), nil, ""},
		{"one worker for both nodes", oneCard("0", "1").Tree(), func(w *Wishes) { w.Per = PerMachine }, ""},

		{"one queue", shape.Machine{Cores: 4, NICs: []shape.NIC{{Name: "eth0", PCI: "0000:00:03.0", Virtio: true, First: 9, IRQs: []string{"0-3"}}}}.Tree(), nil,
			"rps-off: eth0 has one receive queue, and RPS is off"},
		{"one queue with RPS", oneCard("0").Tree().With(eth0Queues+"/rx-0/rps_cpus", "ff"), nil, ""},
		{"one queue and one CPU", oneCard("0").Tree(), func(w *Wishes) { w.CPUs = "0" }, ""},

		{"a reserve that interrupts use", withIRQs([]string{"0", "0"}, []string{"4", "4"}).Tree(), func(w *Wishes) { w.Reserve = ReserveCPU }, ""},
		{"a reserve for nothing", withIRQs([]string{"1", "1"}, []string{"4", "4"}).Tree(), func(w *Wishes) { w.Reserve = ReserveCPU },
			"reserve-idle: CPU 0 left to interrupts (workers.reserve), but no network card's go there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := usual
			if c.wish != nil {
				c.wish(&w)
			}
			if got := warned(t, topology.ReadFS(c.tree.FS()), w); got != c.want {
				t.Errorf("warned\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// warned plans, and prints the warnings in lines. Each must say why and what to
// do.
func warned(t *testing.T, m *topology.Machine, w Wishes) string {
	t.Helper()
	a, err := Plan(m, w)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, warning := range Warnings(m, a) {
		if warning.Why == "" || warning.Cure == "" {
			t.Errorf("%+v says not why, or not what to do", warning)
		}
		lines = append(lines, warning.ID+": "+warning.What)
	}
	return strings.Join(lines, "\n")
}

// TestCures: what the cures tell to write is what the kernel's files take.
func TestCures(t *testing.T) {
	reserve := func(w *Wishes) { w.Reserve = ReserveCPU }
	for _, c := range []struct {
		id   string
		m    shape.Machine
		wish func(*Wishes)
		want string // is in the cure
	}{
		{"rps-off", shape.Machine{Cores: 40, NICs: []shape.NIC{{Name: "eth0", PCI: "0000:00:03.0", First: 9, IRQs: []string{"0"}}}}, nil,
			"echo ff,ffffffff > /sys/class/net/eth0/queues/rx-0/rps_cpus"},
		{"node-deaf", oneCard("0", "1"), nil, "echo 4-7 > /proc/irq/N/smp_affinity_list"},
		{"node-deaf", oneCard("0", "1"), reserve, "echo 4 > /proc/irq/N/smp_affinity_list"},
		{"nic-elsewhere", twoNodes(), func(w *Wishes) { w.Nodes = "0" }, "echo 0-3 > /proc/irq/N/smp_affinity_list"},
		{"nic-remote", withIRQs([]string{"0", "4"}, []string{"4", "5"}), nil, "echo 0-3 > /proc/irq/N/smp_affinity_list"},
		{"reserve-idle", withIRQs([]string{"1", "1"}, []string{"4", "4"}), reserve, "echo 0 > /proc/irq/N/smp_affinity_list"},
	} {
		w := usual
		if c.wish != nil {
			c.wish(&w)
		}
		m := topology.ReadFS(c.m.Tree().FS())
		a, err := Plan(m, w)
		if err != nil {
			t.Fatal(err)
		}
		var cures []string
		for _, warning := range Warnings(m, a) {
			if warning.ID == c.id {
				cures = append(cures, warning.Cure)
			}
		}
		if len(cures) != 1 || !strings.Contains(cures[0], c.want) || !strings.HasPrefix(cures[0], "sluice tune --apply, ") {
			t.Errorf("%s: cures are %s, want one by sluice tune, or with %q", c.id, fmt.Sprintf("%q", cures), c.want)
		}
	}
}
