package tune

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/placement"
	"sluice/internal/topology"
	"sluice/internal/topology/shape"
)

// card is a card with so many queues whose interrupts may go anywhere.
func card(name string, node, queues, first, cpus int) shape.NIC {
	n := shape.NIC{Name: name, Driver: "ixgbe", PCI: fmt.Sprintf("0000:%02x:00.0", first), Node: node, First: first}
	for range queues {
		n.IRQs = append(n.IRQs, fmt.Sprintf("0-%d", cpus-1))
	}
	return n
}

// down are the files of a card that is down.
func down(tree shape.Tree, pci, name string) shape.Tree {
	return tree.With("sys/devices/pci0000:00/"+pci+"/net/"+name+"/operstate", "down")
}

const channels = "sys/devices/LNXSYSTM:00/vmbus/f8615163/"

// ring are the distances of four nodes, each beside two others.
func ring(from, to int) int { return []int{10, 16, 22, 16}[(to-from+4)%4] }

// machines are planned for. A plan is a line for each card, setting and note.
var machines = []struct {
	name    string
	tree    shape.Tree
	reserve string
	card    string
	want    string
}{
	{"a queue per core", shape.Machine{Sockets: 2, Cores: 2, Threads: 2, MemoryMiB: 512, NICs: []shape.NIC{card("e0", 0, 2, 40, 8), card("e1", 1, 3, 60, 8)}}.Tree(), "", "", `
e0 on node 0, 2 receive queues: interrupts for node 0 go to CPU 0-1
e1 on node 1, 3 receive queues: interrupts for node 1 go to CPU 2-3,6
proc/irq/40/smp_affinity_list 0
proc/irq/41/smp_affinity_list 1
sys/class/net/e0/queues/tx-0/xps_cpus 55
sys/class/net/e0/queues/tx-1/xps_cpus aa
proc/irq/60/smp_affinity_list 2
proc/irq/61/smp_affinity_list 3
proc/irq/62/smp_affinity_list 6
sys/class/net/e1/queues/tx-0/xps_cpus a5
sys/class/net/e1/queues/tx-1/xps_cpus a
sys/class/net/e1/queues/tx-2/xps_cpus 50
note: e0 has 2 receive queues for 4 CPUs: ethtool -l e0 says whether it can have more
note: e1 has 3 receive queues for 4 CPUs: ethtool -l e1 says whether it can have more
`},
	{"threads side by side: cores first", shape.Machine{Cores: 2, Threads: 2, Adjacent: true, MemoryMiB: 512, NICs: []shape.NIC{card("e0", 0, 3, 40, 4)}}.Tree(), "", "", `
e0, 3 receive queues: interrupts for node 0 go to CPU 0-2
proc/irq/40/smp_affinity_list 0
proc/irq/41/smp_affinity_list 2
proc/irq/42/smp_affinity_list 1
sys/class/net/e0/queues/tx-0/xps_cpus 9
sys/class/net/e0/queues/tx-1/xps_cpus 4
sys/class/net/e0/queues/tx-2/xps_cpus 2
note: e0 has 3 receive queues for 4 CPUs: ethtool -l e0 says whether it can have more
`},
	{"more queues than CPUs", shape.Machine{Cores: 2, MemoryMiB: 512, NICs: []shape.NIC{card("e0", 0, 3, 40, 2)}}.Tree(), "", "", `
e0, 3 receive queues: interrupts for node 0 go to CPU 0-1
proc/irq/40/smp_affinity_list 0
proc/irq/41/smp_affinity_list 1
proc/irq/42/smp_affinity_list 0
sys/class/net/e0/queues/tx-0/xps_cpus 1
sys/class/net/e0/queues/tx-1/xps_cpus 2
sys/class/net/e0/queues/tx-2/xps_cpus 1
`},
	{"one card for all nodes, as many queues as CPUs", shape.Machine{Sockets: 2, Cores: 2, MemoryMiB: 512, NICs: []shape.NIC{card("e0", 1, 4, 40, 4)}}.Tree(), "", "", `
e0 on node 1, 4 receive queues: interrupts for node 0-1 go to CPU 0-3
proc/irq/40/smp_affinity_list 2
proc/irq/41/smp_affinity_list 0
proc/irq/42/smp_affinity_list 3
proc/irq/43/smp_affinity_list 1
sys/class/net/e0/queues/tx-0/xps_cpus 4
sys/class/net/e0/queues/tx-1/xps_cpus 1
sys/class/net/e0/queues/tx-2/xps_cpus 8
sys/class/net/e0/queues/tx-3/xps_cpus 2
`},
	{"a card for its node and the nearest without one", shape.Machine{Sockets: 4, Cores: 1, MemoryMiB: 512, Distance: func(from, to int) int {
		return [][]int{{10, 16, 32, 32}, {16, 10, 32, 32}, {32, 32, 10, 16}, {32, 32, 16, 10}}[from][to]
	}, NICs: []shape.NIC{card("e0", 0, 2, 40, 4), card("e1", 3, 2, 60, 4)}}.Tree(), "", "", `
e0 on node 0, 2 receive queues: interrupts for node 0-1 go to CPU 0-1
e1 on node 3, 2 receive queues: interrupts for node 2-3 go to CPU 2-3
proc/irq/40/smp_affinity_list 0
proc/irq/41/smp_affinity_list 1
sys/class/net/e0/queues/tx-0/xps_cpus 5
sys/class/net/e0/queues/tx-1/xps_cpus a
proc/irq/60/smp_affinity_list 3
proc/irq/61/smp_affinity_list 2
sys/class/net/e1/queues/tx-0/xps_cpus 9
sys/class/net/e1/queues/tx-1/xps_cpus 6
`},
	{"one queue: RPS", shape.Machine{Cores: 4, MemoryMiB: 512, NICs: []shape.NIC{card("eth0", -1, 1, 24, 4)}}.Tree(), "", "", `
eth0, 1 receive queue: interrupts for node 0 go to CPU 0
proc/irq/24/smp_affinity_list 0
sys/class/net/eth0/queues/rx-0/rps_cpus f
sys/class/net/eth0/queues/rx-0/rps_flow_cnt 32768
proc/sys/net/core/rps_sock_flow_entries 32768
note: eth0 has 1 receive queue for 4 CPUs: ethtool -l eth0 says whether it can have more
`},
	{"one CPU has nothing to share", shape.Machine{MemoryMiB: 512, NICs: []shape.NIC{card("eth0", -1, 1, 24, 1)}}.Tree(), "", "", `
eth0, 1 receive queue: interrupts for node 0 go to CPU 0
proc/irq/24/smp_affinity_list 0
`},
	{"fewer queues than nodes: RPS reaches the others", shape.Machine{Sockets: 4, Cores: 1, MemoryMiB: 512, Distance: ring, NICs: []shape.NIC{card("e0", 0, 2, 40, 4)}}.Tree(), "", "", `
e0 on node 0, 2 receive queues: interrupts for node 0-3 go to CPU 0-1
proc/irq/40/smp_affinity_list 0
proc/irq/41/smp_affinity_list 1
sys/class/net/e0/queues/tx-0/xps_cpus 5
sys/class/net/e0/queues/tx-1/xps_cpus a
sys/class/net/e0/queues/rx-0/rps_cpus 5
sys/class/net/e0/queues/rx-0/rps_flow_cnt 16384
sys/class/net/e0/queues/rx-1/rps_cpus a
sys/class/net/e0/queues/rx-1/rps_flow_cnt 16384
proc/sys/net/core/rps_sock_flow_entries 32768
note: e0 has 2 receive queues for 4 CPUs: ethtool -l e0 says whether it can have more
`},
	{"RPS that leads away goes off", shape.Machine{Sockets: 2, Cores: 2, MemoryMiB: 512, NICs: []shape.NIC{card("e0", 0, 2, 40, 4), card("e1", 1, 2, 60, 4)}}.Tree().With(
		"sys/devices/pci0000:00/0000:28:00.0/net/e0/queues/rx-0/rps_cpus", "f", "sys/devices/pci0000:00/0000:28:00.0/net/e0/queues/rx-1/rps_cpus", "3"), "", "e0", `
e0 on node 0, 2 receive queues: interrupts for node 0 go to CPU 0-1
proc/irq/40/smp_affinity_list 0
proc/irq/41/smp_affinity_list 1
sys/class/net/e0/queues/tx-0/xps_cpus 5
sys/class/net/e0/queues/tx-1/xps_cpus a
sys/class/net/e0/queues/rx-0/rps_cpus 0
`},
	{"CPUs that are left to interrupts", shape.Machine{Sockets: 2, Cores: 4, MemoryMiB: 512, NICs: []shape.NIC{card("e0", 0, 2, 40, 8), card("e1", 1, 1, 60, 8)}}.Tree(), placement.ReserveCPU, "", `
e0 on node 0, 2 receive queues: interrupts for node 0 go to CPU 0
e1 on node 1, 1 receive queue: interrupts for node 1 go to CPU 4
proc/irq/40/smp_affinity_list 0
proc/irq/41/smp_affinity_list 0
sys/class/net/e0/queues/tx-0/xps_cpus ab
sys/class/net/e0/queues/tx-1/xps_cpus 45
proc/irq/60/smp_affinity_list 4
sys/class/net/e1/queues/rx-0/rps_cpus e0
sys/class/net/e1/queues/rx-0/rps_flow_cnt 32768
proc/sys/net/core/rps_sock_flow_entries 32768
note: e0 has 2 receive queues for 3 CPUs: ethtool -l e0 says whether it can have more
note: e1 has 1 receive queue for 3 CPUs: ethtool -l e1 says whether it can have more
`},
	{"a card that is down is named", down(shape.Machine{Sockets: 2, Cores: 1, MemoryMiB: 512, NICs: []shape.NIC{card("e0", 0, 1, 40, 2), card("e1", 1, 1, 60, 2)}}.Tree(), "0000:3c:00.0", "e1"), "", "", `
e0 on node 0, 1 receive queue: interrupts for node 0-1 go to CPU 0
proc/irq/40/smp_affinity_list 0
sys/class/net/e0/queues/rx-0/rps_cpus 3
sys/class/net/e0/queues/rx-0/rps_flow_cnt 32768
proc/sys/net/core/rps_sock_flow_entries 32768
note: e0 has 1 receive queue for 2 CPUs: ethtool -l e0 says whether it can have more
note: e1 is down: left as it is
`},
	{"a card of a memory node, and one that nobody knows of", shape.Machine{Sockets: 2, Cores: 2, MemoryMiB: 512, MemoryNodes: []int{512}, Distance: func(from, to int) int {
		return [][]int{{10, 20, 30}, {20, 10, 15}, {30, 15, 10}}[from][to]
	}, NICs: []shape.NIC{card("e0", 0, 1, 40, 4), card("e1", 2, 1, 60, 2), card("e2", -1, 1, 80, 2)}}.Tree(), "", "", `
e0 on node 0, 1 receive queue: interrupts for node 0-1 go to CPU 0
e1 on node 2, 1 receive queue: interrupts for node 1 go to CPU 2
e2, 1 receive queue: interrupts for node 1 go to CPU 2
proc/irq/40/smp_affinity_list 0
sys/class/net/e0/queues/rx-0/rps_cpus f
sys/class/net/e0/queues/rx-0/rps_flow_cnt 32768
proc/sys/net/core/rps_sock_flow_entries 32768
proc/irq/60/smp_affinity_list 2
sys/class/net/e1/queues/rx-0/rps_cpus c
sys/class/net/e1/queues/rx-0/rps_flow_cnt 32768
proc/irq/80/smp_affinity_list 2
sys/class/net/e2/queues/rx-0/rps_cpus c
sys/class/net/e2/queues/rx-0/rps_flow_cnt 32768
note: e0 has 1 receive queue for 4 CPUs: ethtool -l e0 says whether it can have more
note: e1 has 1 receive queue for 2 CPUs: ethtool -l e1 says whether it can have more
note: e2 has 1 receive queue for 2 CPUs: ethtool -l e2 says whether it can have more
`},
	{"channels of Hyper-V", shape.Machine{Cores: 2, MemoryMiB: 512}.Tree().With(
		"sys/class/net/eth0", shape.Link("../../devices/LNXSYSTM:00/vmbus/f8615163/net/eth0"),
		channels+"net/eth0/device", shape.Link("../../../f8615163"), channels+"net/eth0/operstate", "up",
		channels+"net/eth0/queues/rx-0/rps_cpus", "0", channels+"net/eth0/queues/rx-1/rps_cpus", "0",
		channels+"channels/14/cpu", "1", channels+"channels/21/cpu", "1"), "", "", `
eth0, 2 receive queues: interrupts for node 0 go to CPU 0-1
sys/class/net/eth0/device/channels/14/cpu 0
sys/class/net/eth0/device/channels/21/cpu 1
`},
	{"virtio: a queue has two interrupts", shape.Machine{Cores: 2, MemoryMiB: 512, NICs: []shape.NIC{
		{Name: "eth0", Driver: "virtio_net", PCI: "0000:00:03.0", Node: -1, First: 24, IRQs: []string{"1", "0-1"}, Virtio: true},
	}}.Tree().With("proc/interrupts", "CPU0 CPU1\n24: 1 1 PCI-MSIX-0000:00:03.0 0-edge virtio0-config\n25: 1 1 PCI-MSIX-0000:00:03.0 1-edge virtio0-input.0\n"+
		"26: 1 1 PCI-MSIX-0000:00:03.0 2-edge virtio0-output.0\n27: 1 1 PCI-MSIX-0000:00:03.0 3-edge virtio0-input.1\n28: 1 1 PCI-MSIX-0000:00:03.0 4-edge virtio0-output.1",
		"proc/irq/26/smp_affinity_list", "0-1", "proc/irq/27/smp_affinity_list", "0-1", "proc/irq/28/smp_affinity_list", "0-1"), "", "", `
eth0, 2 receive queues: interrupts for node 0 go to CPU 0-1
proc/irq/25/smp_affinity_list 0
proc/irq/26/smp_affinity_list 0
proc/irq/27/smp_affinity_list 1
proc/irq/28/smp_affinity_list 1
sys/class/net/eth0/queues/tx-0/xps_cpus 1
sys/class/net/eth0/queues/tx-1/xps_cpus 2
`},
	{"no card", shape.Machine{Cores: 2, MemoryMiB: 512}.Tree(), "", "", `
note: there is no network card with a device behind it
`},
}

// plan reads a tree, and plans for its workers.
func plan(t *testing.T, tree shape.Tree, reserve, card string) (*topology.Machine, *placement.Assignment, *Plan) {
	t.Helper()
	m := topology.ReadFS(tree.FS())
	a, err := placement.Plan(m, placement.Wishes{Per: placement.PerNode, Affinity: placement.AffinityHard, Memory: placement.MemoryPrefer, Reserve: reserve})
	if err != nil {
		t.Fatal(err)
	}
	made, err := Make(m, a, card)
	if err != nil {
		t.Fatal(err)
	}
	return m, a, made
}

func TestMake(t *testing.T) {
	for _, c := range machines {
		t.Run(c.name, func(t *testing.T) {
			_, _, made := plan(t, c.tree, c.reserve, c.card)
			got := made.Cards
			for _, s := range made.Settings {
				got = append(got, s.File+" "+s.Value)
			}
			for _, n := range made.Notes {
				got = append(got, "note: "+n)
			}
			if want := strings.Split(strings.TrimSpace(c.want), "\n"); !slices.Equal(got, want) {
				t.Errorf("planned\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
	m, a, _ := plan(t, machines[0].tree, "", "")
	if _, err := Make(m, a, "e2"); err == nil || err.Error() != `there is no network card "e2" with a device behind it; there are: e0, e1` {
		t.Error(err)
	}
	m, a, _ = plan(t, shape.Machine{MemoryMiB: 512}.Tree(), "", "")
	if _, err := Make(m, a, "lo"); err == nil || err.Error() != `there is no network card "lo", nor any other with a device behind it` {
		t.Error(err)
	}
}

// against are the warnings that a plan cures.
var against = []string{"nic-elsewhere", "nic-remote", "rps-off", "node-deaf", "reserve-idle"}

// Each plan is applied: then there is nothing left to do, nobody warns of the cards,
// and undoing leaves every file as it was.
func TestApplyAndUndo(t *testing.T) {
	for _, c := range machines {
		t.Run(c.name, func(t *testing.T) {
			tree := c.tree.With(flowsFile, "0", "proc/sys/kernel/random/boot_id", "one")
			root := t.TempDir()
			if err := tree.Write(root); err != nil {
				t.Fatal(err)
			}
			store := Store{Root: root, Path: filepath.Join(t.TempDir(), "new", "tune.json")}
			m, a, made := plan(t, tree, c.reserve, c.card)
			changes, unread := Compare(os.DirFS(root), made.Settings)
			if len(unread) > 0 {
				t.Errorf("not read: %q", unread)
			}
			if failures, err := store.Apply(changes); err != nil || len(failures) > 0 {
				t.Fatal(failures, err)
			}
			if left, _ := Compare(os.DirFS(root), made.Settings); len(left) > 0 {
				t.Errorf("left to do: %v", left)
			}
			m, err := topology.Read(root)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range placement.Warnings(m, a) {
				if slices.Contains(against, w.ID) && c.card == "" {
					t.Errorf("still: %s", w.What)
				}
			}
			undone, failures, err := store.Undo()
			if len(undone) != len(changes) || len(failures) > 0 || err != nil {
				t.Errorf("of %d changes %d were undone, %v, %v", len(changes), len(undone), failures, err)
			}
			if got := contents(t, root, tree); !maps.Equal(got, files(tree)) {
				t.Error("undone, and not as before")
			}
			if _, err := os.Stat(store.Path); err == nil {
				t.Error("old values are still kept")
			}
		})
	}
}

// files are a tree's without its links.
func files(tree shape.Tree) map[string]string {
	plain := maps.Clone(map[string]string(tree))
	maps.DeleteFunc(plain, func(_, content string) bool { return strings.HasPrefix(content, "-> ") })
	return plain
}

// contents are what the files of a tree hold now.
func contents(t *testing.T, root string, tree shape.Tree) map[string]string {
	t.Helper()
	now := map[string]string{}
	for name := range files(tree) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		now[name] = strings.TrimSuffix(string(text), "\n")
	}
	return now
}

func TestBalancer(t *testing.T) {
	stat := func(pid, name, state string) string {
		return pid + " (" + name + ") " + state + " 1 1 1 0 -1 4194560 9 0 0 0 0 0 0 0 20 0 1 0 7 1 2"
	}
	for want, tree := range map[string]shape.Tree{
		"[irqbalance runs (process 77) and moves interrupts as it likes: systemctl disable --now irqbalance]": {"proc/77/stat": stat("77", "irqbalance", "S")},
		"[]": {"proc/77/stat": stat("77", "irqbalance", "Z"), "proc/78/stat": stat("78", "irqbalance-ui", "S")},
	} {
		if got := fmt.Sprint(Balancer(tree.FS())); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
