package topology

import (
	"slices"
	"strings"
	"testing"

	"sluice/internal/topology/shape"
)

// TestQueueOf: names of interrupts as drivers give them.
func TestQueueOf(t *testing.T) {
	for name, want := range map[string]int{
		"virtio0-input.0":                0, // virtio_net
		"virtio0-output.11":              11,
		"virtio0-config":                 -1,
		"eth0-TxRx-7":                    7, // ixgbe, igb, iavf
		"eth0-Tx-Rx-3":                   3, // ena
		"ena-mgmnt@pci:0000:00:05.0":     -1,
		"i40e-eth0-TxRx-15":              15,
		"i40e-0000:18:00.0:misc":         -1,
		"i40e-0000:18:00.0:fdir-TxRx-0":  -1,
		"ice-eth0-TxRx-2":                2,
		"mlx5_comp4@pci:0000:81:00.0":    4,
		"mlx5_async0@pci:0000:81:00.0":   -1,
		"mlx5_pages_eq@pci:0000:81:00.0": -1,
		"gve-ntfy-blk3@pci:0000:00:04.0": 3,
		"gve-mgmnt@pci:0000:00:04.0":     -1,
		"mana_q2@pci:7870:00:00.0":       2,
		"mana_hwc@pci:7870:00:00.0":      -1,
		"bnxt_en-eth0-TxRx-1":            1,
		"eth0-rx-0":                      0, // e1000e
		"eth0":                           -1,
		"eth0-99999999999":               -1,
	} {
		if got := queueOf(name, "eth0"); got != want {
			t.Errorf("%q serves queue %d, want %d", name, got, want)
		}
	}
}

func TestMentions(t *testing.T) {
	for _, c := range []struct {
		text, name string
		want       bool
	}{
		{"eth1-rx-0", "eth1", true},
		{"eth10-rx-0", "eth1", false},
		{"veth1", "eth1", false},
		{"eth10, eth1", "eth1", true},
		{"i40e-eth1-TxRx-0", "eth1", true},
		{"mlx5_comp0@pci:0000:81:00.0", "0000:81:00.0", true},
		{"mlx5_comp0@pci:0000:81:00.1", "0000:81:00.0", false},
		{"virtio21-input.0", "virtio2", false},
		{"", "eth1", false},
	} {
		if got := mentions(c.text, c.name); got != c.want {
			t.Errorf("%q mentions %q: %t, want %t", c.text, c.name, got, c.want)
		}
	}
}

// TestInterrupts: lines of /proc/interrupts from several machines, and what is no
// line of a device's.
func TestInterrupts(t *testing.T) {
	tree := shape.Tree{"proc/interrupts": `           CPU0       CPU3
  1:          0          9  IR-IO-APIC    1-edge      i8042
 38:         10         13 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 40:          1          0     GICv3  25 Level     arch_timer
 41:          1          2  ITS-PCI-MSIX-0000:01:00.0   4 Edge      eth0-TxRx-3
 42:          5          5   IO-APIC  16-fasteoi   ehci_hcd:usb1, eth1
 43:          5
NMI:          3          4   Non-maskable interrupts
ERR:          0`}
	var got []irqLine
	for _, irq := range (&reader{tree: tree.FS()}).interrupts() {
		got = append(got, irq)
	}
	want := []irqLine{
		{1, 9, "i8042"}, {38, 23, "virtio2-input.0"}, {40, 1, "arch_timer"}, {41, 3, "eth0-TxRx-3"}, {42, 10, "ehci_hcd:usb1, eth1"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("read\n%v\nwant\n%v", got, want)
	}
}

// TestOldCard: one interrupt for everything serves the one queue. A second one
// that serves a queue makes it one for control.
func TestOldCard(t *testing.T) {
	tree := shape.Machine{Cores: 2, MemoryMiB: 100, NICs: []shape.NIC{
		{Name: "eth0", Driver: "e1000", PCI: "0000:00:03.0", First: 11, IRQs: []string{"0-1"}},
	}}.Tree().With("proc/interrupts", "CPU0 CPU1\n11: 1 2 IO-APIC 11-fasteoi eth0")
	nics := ReadFS(tree.FS()).NICs
	if len(nics) != 1 || len(nics[0].IRQs) != 1 || nics[0].IRQs[0].Queue != 0 {
		t.Errorf("read %+v, want one interrupt for queue 0", nics)
	}
	nics = ReadFS(tree.With("proc/interrupts", "CPU0 CPU1\n11: 1 2 MSI 1-edge eth0\n12: 1 2 MSI 2-edge eth0-rx-0").FS()).NICs
	if len(nics) != 1 || len(nics[0].IRQs) != 2 || nics[0].IRQs[0].Queue != -1 {
		t.Errorf("read %+v, want the first interrupt for control", nics)
	}
}

// TestPin: the pin of a card is its interrupt only if it has no messages.
func TestPin(t *testing.T) {
	const function = "sys/devices/pci0000:00/0000:00:03.0"
	tree := shape.Machine{Cores: 2, MemoryMiB: 100, NICs: []shape.NIC{
		{Name: "eth0", Driver: "ixgbe", PCI: "0000:00:03.0", First: 30, IRQs: []string{"0"}},
	}}.Tree().With(function+"/irq", "9", "proc/interrupts", "CPU0 CPU1\n9: 1 2 IO-APIC 9-fasteoi acpi\n30: 1 2 MSI 1-edge eth0-0")
	numbers := func(tree shape.Tree) string {
		var list []int
		for _, irq := range ReadFS(tree.FS()).NICs[0].IRQs {
			list = append(list, irq.Number)
		}
		return FormatCPUs(list)
	}
	if got := numbers(tree); got != "30" {
		t.Errorf("with messages its interrupts are %s, want 30", got)
	}
	if got := numbers(tree.Without(function+"/msi_irqs").With("proc/interrupts", "CPU0 CPU1\n9: 1 2 IO-APIC 9-fasteoi mine")); got != "9" {
		t.Errorf("without messages its interrupts are %s, want 9", got)
	}
}

// TestPlainTree: a tree copied without its links tells less, and nothing wrong.
func TestPlainTree(t *testing.T) {
	tree := shape.Machine{Cores: 2, MemoryMiB: 100}.Tree().With(
		"sys/class/net/eth0/operstate", "up", "sys/class/net/eth0/device/numa_node", "0",
		"sys/class/net/eth0/device/uevent", "MAJOR=1\nDRIVER=ixgbe", "sys/class/net/eth0/device/msi_irqs/31", "msix",
		"sys/class/net/eth0/queues/rx-0/rps_cpus", "0", "sys/class/net/eth0/queues/tx-0/xps_cpus", "0",
		"proc/interrupts", "CPU0 CPU1\n31: 0 5 PCI-MSI 1-edge renamed-TxRx-0\n32: 0 0 PCI-MSI 2-edge other",
		"proc/irq/31/smp_affinity", "2")
	got := ReadFS(tree.FS()).String()
	want := `nic eth0 driver ixgbe node 0 up true rx 1 tx 1
  irq 31 renamed-TxRx-0 queue 0 cpus 1 effective none count 5
`
	if !strings.HasSuffix(got, want) {
		t.Errorf("read\n%swant at the end\n%s", got, want)
	}
}

// TestHost: hypervisors and containers by their marks.
func TestHost(t *testing.T) {
	const x86, arm = "flags\t: fpu hypervisor", "CPU implementer\t: 0x41\nCPU part\t: 0xd0c"
	for _, c := range []struct {
		name                  string
		tree                  shape.Tree
		hypervisor, container string
	}{
		{"bare metal", shape.Tree{"proc/cpuinfo": "flags\t: fpu", "sys/class/dmi/id/sys_vendor": "Google"}, "", ""},
		{"Arm guest of QEMU", shape.Tree{"proc/cpuinfo": arm, "sys/class/dmi/id/product_name": "KVM Virtual Machine"}, "KVM", ""},
		{"Arm instance", shape.Tree{"proc/cpuinfo": arm, "sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "c7g.large"}, "Amazon EC2", ""},
		{"Arm board", shape.Tree{"proc/cpuinfo": arm, "sys/class/dmi/id/sys_vendor": "GIGABYTE"}, "", ""},
		{"Arm guest by device tree", shape.Tree{"proc/cpuinfo": arm, "proc/device-tree/hypervisor/compatible": "linux,kvm\x00"}, "KVM", ""},
		{"unknown hypervisor", shape.Tree{"proc/cpuinfo": x86}, "unknown", ""},
		{"systemd's container", shape.Tree{"run/systemd/container": "systemd-nspawn"}, "", "systemd-nspawn"},
		{"pod", shape.Tree{"run/secrets/kubernetes.io/serviceaccount/token": "", ".dockerenv": ""}, "", "kubernetes"},
		{"docker by its group", shape.Tree{"proc/self/cgroup": "0::/system.slice/docker-0a1b.scope"}, "", "docker"},
		{"a service beside docker", shape.Tree{"proc/self/cgroup": "0::/system.slice/docker.service"}, "", ""},
		{"podman", shape.Tree{"run/.containerenv": ""}, "", "podman"},
	} {
		m := ReadFS(c.tree.FS())
		if m.Hypervisor != c.hypervisor || m.Container != c.container {
			t.Errorf("%s: hypervisor %q, container %q, want %q and %q", c.name, m.Hypervisor, m.Container, c.hypervisor, c.container)
		}
	}
}

// TestLookups: what is not there is said to be unknown.
func TestLookups(t *testing.T) {
	m := ReadFS(shape.Machine{Sockets: 2, Cores: 2, MemoryMiB: 100, Distance: func(from, to int) int { return 20 + from }}.Tree().FS())
	if c, found := m.CPU(3); !found || c.Node != 1 || c.Socket != 1 {
		t.Errorf("CPU 3 is %+v, %t", c, found)
	}
	if c, found := m.CPU(4); found {
		t.Errorf("there is a CPU 4: %+v", c)
	}
	if m.Node(2) != nil || m.Node(1).ID != 1 || m.NodeOf(2) != 1 || m.NodeOf(9) != -1 {
		t.Errorf("nodes are not found by number: %v, %v, %d, %d", m.Node(2), m.Node(1), m.NodeOf(2), m.NodeOf(9))
	}
	for _, c := range [][3]int{{0, 1, 20}, {1, 0, 21}, {1, 1, 10}, {5, 5, 10}, {0, 5, 20}, {5, 0, 20}} {
		if got := m.DistanceBetween(c[0], c[1]); got != c[2] {
			t.Errorf("from node %d to %d it is %d, want %d", c[0], c[1], got, c[2])
		}
	}
	irq := IRQ{CPUs: []int{0, 1}}
	if got := irq.Targets(); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("targets %v", got)
	}
	irq.Effective = []int{1}
	if got := irq.Targets(); !slices.Equal(got, []int{1}) {
		t.Errorf("targets %v, want the effective one", got)
	}
}
