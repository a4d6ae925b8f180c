package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/topology/shape"
)

// tuned are machines whose cards TestTune plans for; testdata/tune has what it
// prints, by their names.
var tuned = []struct {
	name    string
	tree    shape.Tree
	workers string
}{
	{"one-queue", shape.Machine{Cores: 2, Flags: guestCPU, MemoryMiB: 4096, NICs: []shape.NIC{
		{Name: "eth0", Driver: "virtio_net", PCI: "0000:00:03.0", Node: -1, First: 24, IRQs: []string{"0-1"}, Virtio: true},
	}}.Tree().With("proc/sys/net/core/rps_sock_flow_entries", "0",
		"proc/77/stat", "77 (irqbalance) S 1 1 1 0 -1 4194560 9 0 0 0 0 0 0 0 20 0 1 0 7 1 2"), ""},
	{"two-sockets", shape.Machine{Sockets: 2, Cores: 4, Threads: 2, Flags: metalCPU, MemoryMiB: 131072, NICs: []shape.NIC{
		{Name: "ens1f0", Driver: "ixgbe", PCI: "0000:18:00.0", First: 40, IRQs: []string{"0", "1", "4", "0-15"}},
		{Name: "ens2f0", Driver: "ixgbe", PCI: "0000:af:00.0", Node: 1, First: 60, IRQs: []string{"0", "1"}},
		{Name: "ens3f0", Driver: "ixgbe", PCI: "0000:b0:00.0", Node: 1, First: 70, IRQs: []string{"0"}},
	}}.Tree().With("sys/devices/pci0000:00/0000:b0:00.0/net/ens3f0/operstate", "down"), ""},
	{"one-card-for-all-nodes", shape.Machine{Sockets: 4, Cores: 2, Flags: metalCPU, MemoryMiB: 8192, NICs: []shape.NIC{
		{Name: "eth0", Driver: "mlx5_core", PCI: "0000:18:00.0", Node: 2, First: 40, IRQs: []string{"0-7", "0-7", "0-7", "0-7", "0-7", "0-7"}},
	}}.Tree().Without("sys/devices/pci0000:00/0000:18:00.0/net/eth0/queues/tx-5/xps_cpus").With(
		"sys/devices/pci0000:00/0000:18:00.0/net/eth0/queues/tx-5/traffic_class", "0"), `{reserve: cpu}`},
}

// A card's life: planned, set, nothing more to do, and taken back.
func TestTune(t *testing.T) {
	for _, m := range tuned {
		t.Run(m.name, func(t *testing.T) {
			state := t.TempDir()
			t.Setenv("STATE_DIRECTORY", state)
			args := append([]string{"tune"}, recorded(t, m.tree, m.workers)[1:]...)
			root := args[2]
			before := allFiles(t, root)
			var all strings.Builder
			for _, step := range [][]string{args, append(args, "--apply"), args, {"tune", "--root", root, "--undo"}, {"tune", "--root", root, "--undo"}} {
				code, stdout, stderr := command(t.Context(), step...)
				if code != 0 || stderr != "" {
					t.Errorf("%q: exit code %d: %s", step, code, stderr)
				}
				shown := strings.Join(step[:1], " ")
				if len(step) > len(args) || len(step) == 4 && step[3] == "--undo" {
					shown += " " + step[len(step)-1]
				}
				all.WriteString("$ sluice " + shown + "\n" + strings.ReplaceAll(stdout, state, "STATE"))
			}
			golden(t, "tune/"+m.name+".txt", all.String())
			if after := allFiles(t, root); after != before {
				t.Errorf("after it all is\n%s\nand before was\n%s", after, before)
			}
		})
	}
}

// allFiles is what stands below a root.
func allFiles(t *testing.T, root string) string {
	t.Helper()
	tree := shape.Tree{}
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		tree[strings.TrimPrefix(path, root)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree.Format()
}

// What cannot be written is told, and the exit code says so.
func TestTuneInPart(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	args := recorded(t, tuned[0].tree, "")
	root := args[2]
	const file = "sys/class/net/eth0/queues/rx-0/rps_flow_cnt"
	if err := os.Remove(filepath.Join(root, file)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/self/comm/none", filepath.Join(root, file)); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(t.Context(), "tune", "--root", root, "--apply")
	if code != 0 || !strings.Contains(stdout, "Note: /"+file+" cannot be read, and stays") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	irq := filepath.Join(root, "proc/irq/24/smp_affinity_list")
	os.Remove(irq)
	if err := os.Mkdir(irq, 0o755); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = command(t.Context(), "tune", "--root", root, "--undo")
	if code != 1 || !strings.Contains(stdout, "2 values taken back.\n/proc/irq/24/smp_affinity_list: is a directory\n") ||
		stderr != "sluice: a part was not done: 1 value could not be written, see above\n" {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestTuneMisuse(t *testing.T) {
	args := recorded(t, tuned[1].tree, "")
	root := args[2]
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--apply --undo", 2, "--apply and --undo exclude each other"},
		{"--undo --dev eth0", 2, "--undo takes back all that --apply wrote, without --dev or --config"},
		{"eth0", 2, `tune does not take "eth0": sluice tune`},
		{"--root " + root + " --dev eth0", 1, `there is no network card "eth0" with a device behind it; there are: ens1f0, ens2f0, ens3f0`},
		{"--root " + root + "/none --undo", 1, "neither sys/devices/system nor proc is below it"},
		{"--root " + root + "/none", 1, "neither sys/devices/system nor proc is below it"},
	} {
		code, stdout, stderr := command(t.Context(), append([]string{"tune"}, strings.Fields(c.args)...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("tune %s: exit code %d: %s%s", c.args, code, stdout, stderr)
		}
	}
}
