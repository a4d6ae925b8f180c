package topology

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"sluice/internal/topology/shape"
)

const (
	metal = "fpu sse2 avx2"
	guest = "fpu sse2 avx2 hypervisor"
)

// slit is a distance table.
func slit(rows ...[]int) func(from, to int) int {
	return func(from, to int) int { return rows[from][to] }
}

// shapes are machines that people have. testdata/shapes holds what each is read
// as, by its name.
var shapes = []struct {
	name string
	tree shape.Tree
}{
	{"one node VM", shape.Machine{Cores: 4, Flags: guest, MemoryMiB: 16384}.Tree()},
	{"two sockets", shape.Machine{Sockets: 2, Cores: 16, Threads: 2, Flags: metal, MemoryMiB: 131072, NICs: []shape.NIC{
		{Name: "ens1f0", Driver: "ixgbe", PCI: "0000:18:00.0", First: 40, IRQs: []string{"0", "1", "16", "17"}},
		{Name: "ens2f0", Driver: "ixgbe", PCI: "0000:af:00.0", Node: 1, First: 60, IRQs: []string{"16", "17"}},
	}}.Tree().With("sys/devices/pci0000:00/0000:18:00.0/net/ens1f0/queues/rx-0/rps_cpus", "ff",
		"sys/devices/pci0000:00/0000:18:00.0/net/ens1f0/queues/rx-0/rps_flow_cnt", "4096",
		"sys/devices/pci0000:00/0000:18:00.0/net/ens1f0/queues/tx-1/xps_cpus", "00000001,00000003")},
	{"four nodes", shape.Machine{Sockets: 4, Cores: 2, Flags: guest, MemoryMiB: 512}.Tree()},
	{"eight sockets of ten cores", shape.Machine{
		Sockets: 8, Cores: 10, Threads: 2, Flags: metal, Model: "Intel(R) Xeon(R) CPU E7- 4870", MemoryMiB: 131072,
		Distance: func(from, to int) int { // a cube: neighbours differ in one bit
			return []int{10, 17, 28, 28}[ones(from^to)]
		},
	}.Tree()},
	{"sub-NUMA clustering", shape.Machine{Sockets: 2, Nodes: 2, Cores: 4, Flags: metal, MemoryMiB: 65536, WideCache: true,
		Distance: slit([]int{10, 11, 20, 20}, []int{11, 10, 20, 20}, []int{20, 20, 10, 11}, []int{20, 20, 11, 10})}.Tree()},
	{"EPYC, a node per socket", shape.Machine{Sockets: 2, Caches: 4, Cores: 4, Threads: 2, Flags: metal, MemoryMiB: 262144, Model: "AMD EPYC 9124",
		Distance: func(_, _ int) int { return 32 }}.Tree()},
	{"CXL memory", shape.Machine{Sockets: 2, Cores: 4, Flags: metal, MemoryMiB: 65536, MemoryNodes: []int{262144},
		Distance: slit([]int{10, 21, 14}, []int{21, 10, 24}, []int{14, 24, 10})}.Tree()},
	{"Grace", shape.Machine{Cores: 72, MemoryMiB: 491520, MemoryNodes: []int{98304, 0, 0}, Distance: func(from, to int) int { return 80 }}.Tree().
		With("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f")},
	{"Azure", shape.Machine{Sockets: 2, Cores: 4, Threads: 2, Adjacent: true, Flags: guest, MemoryMiB: 131072}.Tree().With(
		"sys/class/dmi/id/sys_vendor", "Microsoft Corporation", "sys/class/dmi/id/product_name", "Virtual Machine",
		"sys/class/net/eth0", shape.Link("../../devices/LNXSYSTM:00/vmbus/f8615163/net/eth0"),
		"sys/devices/LNXSYSTM:00/vmbus/f8615163/net/eth0/device", shape.Link("../../../f8615163"),
		"sys/devices/LNXSYSTM:00/vmbus/f8615163/net/eth0/operstate", "up",
		"sys/devices/LNXSYSTM:00/vmbus/f8615163/net/eth0/queues/rx-0/rps_cpus", "0000",
		"sys/devices/LNXSYSTM:00/vmbus/f8615163/net/eth0/queues/rx-1/rps_cpus", "0000",
		"sys/devices/LNXSYSTM:00/vmbus/f8615163/uevent", "DRIVER=hv_netvsc",
		"sys/devices/LNXSYSTM:00/vmbus/f8615163/numa_node", "0",
		"sys/devices/LNXSYSTM:00/vmbus/f8615163/channels/14/cpu", "2",
		"sys/devices/LNXSYSTM:00/vmbus/f8615163/channels/14/interrupts", "77",
		"sys/devices/LNXSYSTM:00/vmbus/f8615163/channels/21/cpu", "8")},
	{"EC2", shape.Machine{Sockets: 2, Cores: 24, Threads: 2, Flags: guest, MemoryMiB: 196608, NICs: []shape.NIC{
		{Name: "ens5", Driver: "ena", PCI: "0000:00:05.0", Node: -1, First: 30, IRQs: []string{"0-95", "0-95"}},
	}}.Tree().With("sys/class/dmi/id/sys_vendor", "Amazon EC2", "sys/class/dmi/id/product_name", "m6i.24xlarge",
		"proc/irq/30/effective_affinity_list", "3", "proc/irq/31/effective_affinity_list", "30")},
	{"EC2 metal with Graviton", shape.Machine{Cores: 64, MemoryMiB: 131072}.Tree().With(
		"proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40",
		"sys/class/dmi/id/sys_vendor", "Amazon EC2", "sys/class/dmi/id/product_name", "c7g.metal")},
	{"container with a part of two nodes", shape.Machine{Sockets: 2, Cores: 4, Flags: metal, MemoryMiB: 32768}.Tree().With(
		"proc/self/cgroup", "0::/kubepods.slice/pod7", "sys/fs/cgroup/kubepods.slice/pod7/cpuset.cpus.effective", "2-5",
		"sys/fs/cgroup/kubepods.slice/cpuset.cpus.effective", "0-7", "sys/fs/cgroup/cpuset.mems.effective", "0",
		"proc/self/status", "Name:\tsluice\nCpus_allowed:\t3c\nCpus_allowed_list:\t2-5\nMems_allowed_list:\t0")},
	{"container of version 1", shape.Machine{Cores: 8, Flags: metal, MemoryMiB: 32768}.Tree().With(
		"proc/self/cgroup", "5:cpu,cpuacct:/docker/a\n4:memory:/docker/a\n3:cpuset:/docker/a",
		"sys/fs/cgroup/cpuset/docker/a/cpuset.cpus", "0-2", "sys/fs/cgroup/cpuset/docker/a/cpuset.mems", "0",
		"sys/fs/cgroup/cpuset/cpuset.cpus", "0-7", "sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "1073741824",
		"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712",
		"sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us", "250000", "sys/fs/cgroup/cpu/docker/a/cpu.cfs_period_us", "100000")},
	{"hidden nodes", shape.Machine{Sockets: 4, Cores: 4, OneNode: true, Flags: guest, MemoryMiB: 65536}.Tree()},
	{"offline node", shape.Machine{Sockets: 4, Cores: 2, Flags: metal, MemoryMiB: 8192}.Tree().
		Without("sys/devices/system/node/node2", "sys/devices/system/cpu/cpu4/topology", "sys/devices/system/cpu/cpu5/topology").
		With("sys/devices/system/node/online", "0-1,3", "sys/devices/system/node/has_memory", "0-1,3", "sys/devices/system/cpu/online", "0-3,6-7",
			"sys/devices/system/node/node0/distance", "10 20 30", "sys/devices/system/node/node1/distance", "20 10 30", "sys/devices/system/node/node3/distance", "20 30 10")},
	{"Intel hybrid", shape.Machine{Cores: 8, Flags: metal, MemoryMiB: 32768}.Tree().With(
		"sys/devices/cpu_core/cpus", "0-3", "sys/devices/cpu_atom/cpus", "4-5", "sys/devices/cpu_lowpower/cpus", "6-7")},
	{"big and little", littleCores(shape.Machine{Cores: 8, MemoryMiB: 8192}.Tree().Without("proc/cpuinfo"), 4, 450)},
	{"old kernel", oldFiles(shape.Machine{Sockets: 2, Cores: 2, Threads: 2, Flags: metal, MemoryMiB: 8192}.Tree())},
	{"isolated CPUs and huge pages", shape.Machine{Cores: 4, Flags: metal, MemoryMiB: 8192}.Tree().With(
		"sys/devices/system/cpu/isolated", "2-3", "sys/fs/cgroup/cpuset.cpus.isolated", "1",
		"sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "512",
		"sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "500",
		"sys/devices/system/node/node0/hugepages/hugepages-1048576kB/nr_hugepages", "0",
		"proc/sys/kernel/numa_balancing", "1", "proc/sys/vm/zone_reclaim_mode", "0", "sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never")},
	{"faulty files", shape.Machine{Sockets: 2, Cores: 2, Flags: metal, MemoryMiB: 8192}.Tree().With(
		"sys/devices/system/cpu/cpu1/topology/core_cpus_list", "nonsense", "sys/devices/system/cpu/cpu2/topology/core_cpus_list", "0-1",
		"sys/devices/system/cpu/cpu3/topology/physical_package_id", "-1", "sys/devices/system/cpu/cpu0/cache/index3/shared_cpu_list", "7",
		"sys/devices/system/node/node0/distance", "10", "sys/devices/system/cpu/isolated", "(null)", "sys/class/net/eth0/device/numa_node", "x", "proc/interrupts", "CPU0\nwhat: 1\n9\n12: x y z")},
}

// TestBrokenTrees damages files of each machine at random. Whatever stands in
// them, a Machine keeps its promises.
func TestBrokenTrees(t *testing.T) {
	damage := []string{"", "\x00", "-1", "0-", "0-99999", "4294967296", "99999999999999999999", "0,0,0", "ffffffff,ffffffff", "max", "1 2 3", "none", "7-3"}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		s := shapes[r.IntN(len(shapes))]
		names := slices.Sorted(maps.Keys(s.tree))
		tree := s.tree
		for range 1 + r.IntN(12) {
			if name := names[r.IntN(len(names))]; r.IntN(3) == 0 {
				tree = tree.Without(name)
			} else if !strings.HasPrefix(tree[name], shape.Link("")) {
				tree = tree.With(name, damage[r.IntN(len(damage))])
			}
		}
		m := ReadFS(tree.FS())
		checkMachine(t, m)
		if t.Failed() {
			t.Fatalf("seed %d, %s:\n%v", seed, s.name, m)
		}
	}
}

// TestLastLevel: a cache of instructions is not the last level, if it is the
// first of its level too.
func TestLastLevel(t *testing.T) {
	const cache = "sys/devices/system/cpu/cpu0/cache/"
	tree := shape.Machine{Cores: 2, MemoryMiB: 100}.Tree().Without(cache+"index2", cache+"index3").With(
		cache+"index0/type", "Instruction", cache+"index1/type", "Data", cache+"index1/shared_cpu_list", "0-1", cache+"index1/size", "1M")
	m := ReadFS(tree.FS())
	if len(m.Caches) != 1 || m.Caches[0].Level != 1 || m.Caches[0].Size != 1<<20 || len(m.Caches[0].CPUs) != 2 {
		t.Errorf("caches are %+v, want the data cache", m.Caches)
	}
}

func ones(n int) int { return strings.Count(fmt.Sprintf("%b", n), "1") }

// littleCores gives the first CPUs a lower capacity than the rest.
func littleCores(t shape.Tree, little, capacity int) shape.Tree {
	for cpu := range 8 {
		c := 1024
		if cpu < little {
			c = capacity
		}
		t = t.With(fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpu_capacity", cpu), fmt.Sprint(c))
	}
	return t
}

// oldFiles gives each set the name and the form that it had in Linux 2.6.
func oldFiles(t shape.Tree) shape.Tree {
	old := shape.Tree{}
	for name, content := range t {
		cpus, err := ParseCPUs(content)
		switch {
		case strings.HasSuffix(name, "core_cpus_list") && err == nil:
			old[strings.ReplaceAll(name, "core_cpus_list", "thread_siblings")] = FormatMask(cpus)
		case strings.HasSuffix(name, "shared_cpu_list") && err == nil:
			old[strings.ReplaceAll(name, "shared_cpu_list", "shared_cpu_map")] = FormatMask(cpus)
		case strings.HasSuffix(name, "/die_id") || strings.HasSuffix(name, "node/has_memory") || strings.HasSuffix(name, "node/online"):
		case strings.HasSuffix(name, "cpulist") && err == nil:
			old[strings.ReplaceAll(name, "cpulist", "cpumap")] = FormatMask(cpus)
		default:
			old[name] = content
		}
	}
	return old
}

// TestShapes holds each machine against what it was read as when a person looked
// at it.
func TestShapes(t *testing.T) {
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			file := "testdata/shapes/" + strings.ReplaceAll(s.name, " ", "-") + ".txt"
			want, err := os.ReadFile(file)
			if err != nil {
				t.Error(err)
			}
			m := ReadFS(s.tree.FS())
			checkMachine(t, m)
			if got := m.String(); got != string(want) {
				t.Errorf("read\n%swant\n%s", got, want)
			}
		})
	}
}
