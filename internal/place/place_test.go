package place

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/affinity"
	"sluice/internal/placement"
	"sluice/internal/process"
	"sluice/internal/topology"
	"sluice/internal/topology/shape"
)

// four is a machine of 4 nodes with 2 CPUs, a fifth with memory only, and one CPU
// that is isolated.
var four = topology.ReadFS(shape.Machine{Sockets: 4, Cores: 2, MemoryMiB: 512, MemoryNodes: []int{1024}}.Tree().With(
	"sys/devices/system/cpu/isolated", "7", "sys/devices/system/node/possible", "0-5").FS())

// bare has a node without memory: 1.
var bare = topology.ReadFS(shape.Machine{Sockets: 2, Cores: 2, MemoryMiB: 512}.Tree().With(
	"sys/devices/system/node/node1/meminfo", shape.Meminfo(1, 0), "sys/devices/system/node/has_memory", "0").FS())

func TestAim(t *testing.T) {
	for _, c := range []struct {
		name    string
		machine *topology.Machine
		node    int
		only    []int
		memory  string
		want    string // the target, or the error
	}{
		{"a node", four, 2, nil, placement.MemoryPrefer, "CPUs 4-5 from 0-1,3-4 []"},
		{"bound", four, 0, nil, placement.MemoryBind, "CPUs 0-1 from 1-4 []"},
		{"memory stays", four, 0, nil, placement.MemoryDefault, "CPUs 0-1 from  []"},
		{"an isolated CPU is left out", four, 3, nil, placement.MemoryDefault, "CPUs 6 from  []"},
		{"but if it is named", four, 3, []int{7}, placement.MemoryDefault, "CPUs 7 from  []"},
		{"no memory", bare, 1, nil, placement.MemoryPrefer, "CPUs 2-3 from  [node 1 has no memory: pages stay where they are]"},
		{"only one with memory", bare, 0, nil, placement.MemoryPrefer, "CPUs 0-1 from  []"},

		{"no memory to bind to", bare, 1, nil, placement.MemoryBind, "node 1 has no memory to bind to; nodes with memory: 0"},
		{"no CPUs", four, 4, nil, placement.MemoryPrefer, "node 4 has memory and no CPUs; nodes with CPUs: 0-3"},
		{"no such node", four, 6, nil, placement.MemoryPrefer, "there is no node 6; this machine has 0-4"},
		{"an offline node", four, 5, nil, placement.MemoryPrefer, "node 5 is offline; nodes that are online: 0-4"},
		{"another node's CPU", four, 2, []int{4, 6}, placement.MemoryPrefer, "CPU 6 is not on node 2; its CPUs are 4-5"},
	} {
		target, err := Aim(c.machine, c.node, c.only, c.memory)
		got := fmt.Sprintf("CPUs %s from %s %v", topology.FormatCPUs(target.CPUs), topology.FormatCPUs(target.From), target.Notes)
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// crowd is a machine in a directory: process 10 of two threads on CPUs 0-7, its
// child 11 with a thread that it keeps on CPU 5, and a stranger.
func crowd(t *testing.T, more ...string) *pretence {
	t.Helper()
	p := &pretence{t: t, root: t.TempDir(), refuse: map[int]error{}}
	tree := shape.Tree{
		"proc/1/stat": stat(1, "systemd", 0), "proc/10/stat": stat(10, "app", 1), "proc/11/stat": stat(11, "child", 10), "proc/20/stat": stat(20, "stranger", 1),
		"proc/10/task/10/status": cpus("0-7"), "proc/10/task/100/status": cpus("0-7"),
		"proc/11/task/11/status": cpus("0-7"), "proc/11/task/111/status": cpus("5"), "proc/11/task/112/status": cpus("3"),
		"proc/20/task/20/status": cpus("0-7"),
		"proc/10/numa_maps":      "7f00 default anon=9 N0=6 N2=3 kernelpagesize_kB=4", "proc/11/numa_maps": "7f00 default",
		"proc/10/cgroup": "0::/a.slice/app.service", "proc/11/cgroup": "0::/a.slice/app.service",
		"sys/fs/cgroup/cgroup.controllers": "cpuset cpu memory", "sys/fs/cgroup/a.slice/cgroup.subtree_control": "cpu cpuset",
	}
	if err := tree.With(more...).Write(p.root); err != nil {
		t.Fatal(err)
	}
	return p
}

func stat(pid int, name string, parent int) string {
	return fmt.Sprintf("%d (%s) S %d 1 1 0 -1 4194560 9 0 0 0 0 0 0 0 20 0 1 0 %d 1 2", pid, name, parent, 100+pid)
}

func cpus(list string) string { return "Name:\tx\nCpus_allowed_list:\t" + list }

// pretence is a kernel that writes what it is told into the tree.
type pretence struct {
	t      *testing.T
	root   string
	refuse map[int]error
	moves  []string
	moved  func(thread int) // after a thread has moved
}

func (p *pretence) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.root, name)
	os.MkdirAll(filepath.Dir(path), 0o755)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pretence) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(p.root, name))
	return strings.TrimSpace(string(text))
}

func (p *pretence) moveThread(thread int, to []int) error {
	files, _ := filepath.Glob(filepath.Join(p.root, fmt.Sprintf("proc/*/task/%d/status", thread)))
	if err := p.refuse[thread]; err != nil || len(files) == 0 {
		return err
	}
	p.moves = append(p.moves, fmt.Sprint(thread))
	err := os.WriteFile(files[0], []byte(cpus(topology.FormatCPUs(to))), 0o644)
	if p.moved != nil {
		p.moved(thread)
	}
	return err
}

func (p *pretence) moveMemory(pid int, from []int, to int) (int, error) {
	if err := p.refuse[-pid]; err != nil {
		return 0, err
	}
	if pid == 10 {
		p.write("proc/10/numa_maps", fmt.Sprintf("7f00 default anon=9 N0=1 N%d=8 kernelpagesize_kB=4", to))
		return 1, nil
	}
	return 0, nil
}

func (p *pretence) mover(memory string) *Mover {
	p.t.Helper()
	target, err := Aim(four, 2, nil, memory)
	if err != nil {
		p.t.Fatal(err)
	}
	return &Mover{Root: p.root, Target: target, Groups: true, Kernel: Kernel{p.moveThread, p.moveMemory}}
}

// told is a line for each outcome.
func told(outcomes []Outcome) string {
	var b strings.Builder
	for _, o := range outcomes {
		fmt.Fprintf(&b, "%d %s threads %d moved %d cpus %s>%s memory %v>%v stayed %d", o.Process.PID, o.Process.Name, o.Threads, o.Moved,
			topology.FormatCPUs(o.Before), topology.FormatCPUs(o.After), o.Held, o.Holds, o.Stayed)
		if o.Ended {
			b.WriteString(" ended")
		}
		if len(o.Policies) > 0 {
			fmt.Fprintf(&b, " policies %q", o.Policies)
		}
		for _, f := range o.Faults {
			b.WriteString("\n   " + f)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// expect compares, line by line.
func expect(t *testing.T, what string, outcomes []Outcome, err error, want string) {
	t.Helper()
	if got := told(outcomes); err != nil || got != strings.TrimPrefix(want, "\n") {
		t.Errorf("%s: %v\n%swant%s", what, err, got, want)
	}
}

func TestPlace(t *testing.T) {
	p := crowd(t)
	m := p.mover(placement.MemoryPrefer)
	plan, err := m.Plan(10)
	expect(t, "the plan", plan, err, `
10 app threads 2 moved 0 cpus 0-7>4-5 memory map[0:24576 2:12288]>map[2:36864] stayed 0
11 child threads 3 moved 0 cpus 0-7>4-5 memory map[]>map[] stayed 0
`)
	if len(p.moves) != 0 {
		t.Errorf("a plan moves %v", p.moves)
	}
	made := false
	p.moved = func(int) { // a thread is made by one that has not moved yet
		if !made {
			made = true
			p.write("proc/10/task/101/status", cpus("0-7"))
		}
	}
	outcomes, err := m.Place(10)
	expect(t, "placed", outcomes, err, `
10 app threads 3 moved 3 cpus 0-7>4-5 memory map[0:24576 2:12288]>map[0:4096 2:32768] stayed 1
11 child threads 3 moved 2 cpus 0-7>4-5 memory map[]>map[] stayed 0
`)
	if want := []string{"10", "100", "11", "112", "101"}; !slices.Equal(p.moves, want) {
		t.Errorf("threads were moved as %v, want %v: 111 is kept on CPU 5 by its program", p.moves, want)
	}
	if p.read("proc/20/task/20/status") != cpus("0-7") {
		t.Error("a stranger was moved")
	}
	if _, err := os.Stat(filepath.Join(p.root, "sys/fs/cgroup/a.slice/sluice-place-10")); err == nil {
		t.Error("a group was made, and nobody needs it")
	}
}

// A family that was placed on one of the node's CPUs gets all of them again.
func TestPlaceWidens(t *testing.T) {
	p := crowd(t, "proc/10/task/10/status", cpus("4"), "proc/10/task/100/status", cpus("4"),
		"proc/11/task/11/status", cpus("4-5"), "proc/11/task/112/status", cpus("4"))
	outcomes, err := p.mover(placement.MemoryDefault).Place(10)
	expect(t, "placed", outcomes, err, `
10 app threads 2 moved 2 cpus 4>4-5 memory map[0:24576 2:12288]>map[0:24576 2:12288] stayed 0
11 child threads 3 moved 0 cpus 4-5>4-5 memory map[]>map[] stayed 0
`)
}

// A policy that the program has set for itself is told if it leads elsewhere.
func TestPolicies(t *testing.T) {
	p := crowd(t, "proc/11/numa_maps", "7f00 bind:0-1 anon=1 N0=1\n7f01 prefer:2 anon=1 N2=1\n7f02 interleave:0-3\n7f03 prefer:0")
	outcomes, err := p.mover(placement.MemoryPrefer).Place(11)
	expect(t, "placed", outcomes, err, `
11 child threads 3 moved 2 cpus 0-7>4-5 memory map[0:4096 2:4096]>map[0:4096 2:4096] stayed 0 policies ["bind:0-1" "prefer:0"]
`)
	outcomes, err = p.mover(placement.MemoryBind).Place(11)
	expect(t, "bound", outcomes, err, `
11 child threads 3 moved 0 cpus 4-5>4-5 memory map[0:4096 2:4096]>map[0:4096 2:4096] stayed 0
`)
	outcomes, err = p.mover(placement.MemoryDefault).Place(11)
	expect(t, "placed, and memory is as it was", outcomes, err, `
11 child threads 3 moved 0 cpus 4-5>4-5 memory map[0:4096 2:4096]>map[0:4096 2:4096] stayed 0
`)
}

func TestRefusals(t *testing.T) {
	p := crowd(t, "proc/12/stat", stat(12, "gone", 10))
	p.refuse = map[int]error{10: syscall.EPERM, 100: syscall.EPERM, -10: syscall.EPERM, 11: syscall.EINVAL, 112: syscall.ESRCH, -11: syscall.ENOMEM}
	outcomes, err := p.mover(placement.MemoryPrefer).Place(10)
	expect(t, "refused", outcomes, err, `
10 app threads 2 moved 0 cpus 0-7>0-7 memory map[0:24576 2:12288]>map[0:24576 2:12288] stayed 0
   CPUs 4-5: operation not permitted; be root, or the user that it runs as
   memory to node 2: operation not permitted; be root, or the user that it runs as; and its control group's cpuset.mems must have the node
11 child threads 3 moved 0 cpus 0-7>0-7 memory map[]>map[] stayed 0
   CPUs 4-5: invalid argument; the kernel keeps this thread, or its control group's cpuset.cpus has none of them
   memory to node 2: cannot allocate memory
12 gone threads 0 moved 0 cpus > memory map[]>map[] stayed 0 ended
`)
	if _, err := p.mover(placement.MemoryPrefer).Place(99); err == nil {
		t.Error("nobody was placed, without an error")
	}
}

func TestBind(t *testing.T) {
	const dir = "sys/fs/cgroup/a.slice/sluice-place-10/"
	p := crowd(t)
	if err := os.MkdirAll(filepath.Join(p.root, "sys/fs/cgroup/a.slice/sluice-place-7"), 0o755); err != nil {
		t.Fatal(err)
	}
	outcomes, err := p.mover(placement.MemoryBind).Place(10)
	if err != nil || len(outcomes[0].Faults)+len(outcomes[1].Faults) > 0 {
		t.Errorf("%v: %s", err, told(outcomes))
	}
	for name, want := range map[string]string{
		dir + "cpuset.cpus": "4-5", dir + "cpuset.mems": "2", dir + "cgroup.procs": "11", // the last one to join
		"sys/fs/cgroup/cgroup.subtree_control":         "+cpuset",
		"sys/fs/cgroup/a.slice/cgroup.subtree_control": "cpu cpuset",
	} {
		if got := p.read(name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(p.root, "sys/fs/cgroup/a.slice/sluice-place-7")); err == nil {
		t.Error("the group of a family that has ended is still there")
	}

	// The same family goes elsewhere: its group lets it.
	for _, pid := range []string{"10", "11"} {
		p.write("proc/"+pid+"/cgroup", "0::/a.slice/sluice-place-10\n")
	}
	if outcomes, err := p.mover(placement.MemoryPrefer).Place(10); err != nil || len(outcomes[0].Faults) > 0 {
		t.Errorf("%v: %s", err, told(outcomes))
	}
	if cpus, mems := p.read(dir+"cpuset.cpus"), p.read(dir+"cpuset.mems"); cpus != "4-5" || mems != "0-4" {
		t.Errorf("the group has CPUs %q and memory of %q", cpus, mems)
	}
}

// Without a group memory is not bound, which is a fault; all else is done.
func TestBindWithoutGroups(t *testing.T) {
	for name, c := range map[string]struct{ controllers, want string }{
		"no controller": {"cpu memory", "the cpuset controller is not in version 2 of control groups (/sys/fs/cgroup/cgroup.controllers)"},
		"not mounted":   {"", "version 2 of control groups is not mounted on /sys/fs/cgroup"},
	} {
		p := crowd(t)
		p.write("sys/fs/cgroup/cgroup.controllers", c.controllers)
		if c.controllers == "" {
			os.Remove(filepath.Join(p.root, "sys/fs/cgroup/cgroup.controllers"))
		}
		outcomes, err := p.mover(placement.MemoryBind).Place(10)
		want := "its memory is not bound, as there is no control group: " + c.want + "; pages move, and new ones come from node 2 first"
		if err != nil || len(outcomes) != 2 || !slices.Equal(outcomes[0].Faults, []string{want}) || topology.FormatCPUs(outcomes[0].After) != "4-5" {
			t.Errorf("%s: %v, %s", name, err, told(outcomes))
		}
	}
}

// Who joins the family is moved, who leaves the CPUs is brought back, whose parent
// has ended still belongs to it, and who is within the CPUs is left alone.
func TestLook(t *testing.T) {
	p := crowd(t)
	m := p.mover(placement.MemoryPrefer)
	if _, err := m.Place(10); err != nil {
		t.Fatal(err)
	}
	moved, size, err := m.Look()
	if expect(t, "nothing new", moved, err, "\n"); size != 2 {
		t.Errorf("the family has %d", size)
	}
	p.write("proc/12/stat", stat(12, "new", 11))
	p.write("proc/12/task/12/status", cpus("0-7"))
	p.write("proc/10/task/100/status", cpus("4"))
	p.write("proc/11/task/112/status", cpus("6"))
	moved, size, err = m.Look()
	if expect(t, "joined", moved, err, `
11 child threads 3 moved 1 cpus 4-6>4-5 memory map[]>map[] stayed 0
12 new threads 1 moved 1 cpus 0-7>4-5 memory map[]>map[] stayed 0
`); size != 3 {
		t.Errorf("the family has %d", size)
	}
	os.RemoveAll(filepath.Join(p.root, "proc/11"))
	os.RemoveAll(filepath.Join(p.root, "proc/10"))
	p.write("proc/10/stat", strings.Replace(stat(10, "another", 1), " 110 ", " 999 ", 1)) // the number is used again
	p.write("proc/10/task/10/status", cpus("0-7"))
	p.write("proc/12/stat", stat(12, "new", 1))
	p.write("proc/13/stat", stat(13, "newer", 12))
	p.write("proc/13/task/13/status", cpus("0-7"))
	p.refuse[13] = syscall.EPERM
	moved, size, err = m.Look()
	if expect(t, "orphaned", moved, err, `
13 newer threads 1 moved 0 cpus 0-7>0-7 memory map[]>map[] stayed 0
   CPUs 4-5: operation not permitted; be root, or the user that it runs as
`); size != 2 {
		t.Errorf("the family has %d", size)
	}
	moved, _, err = m.Look()
	expect(t, "a refusal is told once", moved, err, "\n")
	os.RemoveAll(filepath.Join(p.root, "proc/12"))
	os.RemoveAll(filepath.Join(p.root, "proc/13"))
	if moved, size, err := m.Look(); size != 0 || len(moved) != 0 || err != nil {
		t.Errorf("the family has %d, %v, %v", size, moved, err)
	}
}

func TestByPID(t *testing.T) {
	tree := shape.Tree{
		"proc/10/stat": stat(10, "app", 1), "proc/10/status": "Tgid:\t10",
		"proc/11/stat": stat(11, "thread", 1), "proc/11/status": "Tgid:\t10",
		"proc/12/stat": strings.Replace(stat(12, "do\x1bne", 10), " S ", " Z ", 1), "proc/12/status": "Tgid:\t12",
	}.FS()
	for pid, want := range map[int]string{
		10: "<nil>", 11: "11 is a thread of process 10; place that one", 99: "there is no process 99",
		12: "process 12 (do?ne) has ended; its parent 10 has not read its exit code yet",
	} {
		if err := ByPID(tree, pid); fmt.Sprint(err) != want {
			t.Errorf("%d: %v, want %s", pid, err, want)
		}
	}
}

func TestByPort(t *testing.T) {
	head := "  sl  local_address rem_address   st\n"
	socket := func(port, inode int) string {
		return fmt.Sprintf("   0: 00000000:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 %d 1\n", port, inode)
	}
	tree := shape.Tree{
		"proc/net/tcp": head + socket(80, 1) + socket(81, 2) + socket(82, 3) + socket(83, 4),
		"proc/1/stat":  stat(1, "systemd", 0), "proc/10/stat": stat(10, "app", 1), "proc/11/stat": stat(11, "child", 10),
		"proc/1/fd/3": shape.Link("socket:[1]"), "proc/10/fd/3": shape.Link("socket:[1]"), "proc/11/fd/3": shape.Link("socket:[1]"),
		"proc/1/fd/4": shape.Link("socket:[2]"), "proc/10/fd/4": shape.Link("socket:[3]"),
	}
	for port, want := range map[uint16]string{
		80: "[10 11] <nil>",
		81: "[] only process 1 (systemd) has TCP port 81, and would take the whole machine along; start the service behind it, or name its process",
		82: "[10] <nil>",
		83: "[] TCP port 83 belongs to no process that shows here; it may be in another container",
		84: "[] nobody listens on TCP port 84 in this network name space; ss -ltn lists the ports",
	} {
		pids, err := ByPort(tree.FS(), port)
		if got := fmt.Sprint(pids, err); got != want {
			t.Errorf("%d: %s, want %s", port, got, want)
		}
	}
	shut := locked{tree.FS(), "proc/10/fd"}
	if _, err := ByPort(shut, 82); fmt.Sprint(err) != "TCP port 82 belongs to one of the processes that you may not look into, 1 in all; be root, or the user that it runs as" {
		t.Error(err)
	}
	if pids, err := ByPort(tree.With("proc/1/stat", stat(1, "node", 0)).FS(), 81); err != nil || !slices.Equal(pids, []int{1}) {
		t.Errorf("the only process of a container: %v, %v", pids, err)
	}
}

// locked is a tree with a directory that we may not look into.
type locked struct {
	fs.FS
	dir string
}

func (l locked) Open(name string) (fs.File, error) {
	if name == l.dir {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return l.FS.Open(name)
}

// The kernel says that a real family is where it was placed.
func TestThisMachine(t *testing.T) {
	machine, err := topology.Read("/")
	if err != nil {
		t.Fatal(err)
	}
	allowed := topology.Allowed()
	last := allowed[len(allowed)-1]
	node := machine.NodeOf(last)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := listener.(*net.TCPListener).File()
	listener.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	parent := exec.Command("sh", "-c", "sleep 1000 <&3 & echo $!; read line; kill $!; wait")
	parent.ExtraFiles = []*os.File{file}
	stdin, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer parent.Wait()
	defer stdin.Close()
	var child int
	if _, err := fmt.Fscan(stdout, &child); err != nil {
		t.Fatal(err)
	}

	here := os.DirFS("/")
	owners, err := ByPort(here, uint16(listener.Addr().(*net.TCPAddr).Port))
	if want := []int{parent.Process.Pid, child}; err != nil || !slices.Contains(owners, want[0]) || !slices.Contains(owners, want[1]) {
		t.Fatalf("the port belongs to %v, %v; want %v", owners, err, want)
	}
	for _, only := range [][]int{{last}, nil} {
		target, err := Aim(machine, node, only, placement.MemoryPrefer)
		if err != nil {
			t.Fatal(err)
		}
		target.CPUs = slices.DeleteFunc(slices.Clone(target.CPUs), func(cpu int) bool { return !slices.Contains(allowed, cpu) })
		m := &Mover{Root: "/", Target: target, Kernel: Kernel{affinity.MoveThread, affinity.MoveMemory}}
		outcomes, err := m.Place(parent.Process.Pid)
		if err != nil || len(outcomes) != 2 || len(outcomes[0].Faults)+len(outcomes[1].Faults) > 0 {
			t.Errorf("%v\n%s", err, told(outcomes))
		}
		for _, pid := range []int{parent.Process.Pid, child} {
			if got := process.CPUs(process.Threads(here, pid)); !slices.Equal(got, target.CPUs) {
				t.Errorf("process %d may run on %v, want %v", pid, got, target.CPUs)
			}
		}
	}
}
