package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestParseParent(t *testing.T) {
	for _, c := range []struct {
		text        string
		pid, parent int
		fails       bool
	}{
		{text: "42 (nginx) S 41 42 41 0 -1", pid: 42, parent: 41},
		{text: "7 (a (b) c) R 1 7 7", pid: 7, parent: 1},
		{text: "9 (nginx: worker process) S 8 7", pid: 9, parent: 8},
		{text: "9 nginx S 8", fails: true},
		{text: "9 (nginx)", fails: true},
		{text: "x (nginx) S 8 1", fails: true},
		{text: "", fails: true},
	} {
		pid, parent, err := parseParent(c.text)
		if (err != nil) != c.fails || pid != c.pid || parent != c.parent {
			t.Errorf("%q: got %d, %d, %v", c.text, pid, parent, err)
		}
	}
}

func TestDescend(t *testing.T) {
	children := map[int][]int{1: {10, 2}, 10: {11, 30}, 30: {12}, 2: {20}}
	if got := descend(10, children); !slices.Equal(got, []int{10, 11, 12, 30}) {
		t.Errorf("got %v", got)
	}
	if got := descend(99, children); !slices.Equal(got, []int{99}) {
		t.Errorf("a leaf: got %v", got)
	}
}

func TestParseRollup(t *testing.T) {
	const text = "55cce82a5000-7ffdc59ee000 ---p 00000000 00:00 0   [rollup]\n" +
		"Rss:                1644 kB\nPss:                 344 kB\nPss_Dirty:           116 kB\n"
	m, err := parseRollup(text)
	if err != nil || m.RSS != 1644<<10 || m.PSS != 344<<10 {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err := parseRollup("Rss: 1 kB\n"); err == nil {
		t.Error("a rollup without Pss is taken")
	}
}

func TestParseUsage(t *testing.T) {
	all, err := parseUsage("cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 1 50 800 9 2 8 30 0 0\ncpu12 1 0 1 8 0 0 0 0 0 0\nintr 5\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Usage{Busy: 161, Steal: 30, Total: 1000}); all[0] != want || len(all) != 2 {
		t.Errorf("cpu0 is %+v of %d CPUs, want %+v", all[0], len(all), want)
	}
	later := Usage{Busy: 161 + 45, Steal: 30 + 5, Total: 1000 + 100}
	if later.Share(all[0]) != 0.45 || later.StolenShare(all[0]) != 0.05 {
		t.Errorf("busy %v, stolen %v", later.Share(all[0]), later.StolenShare(all[0]))
	}
	if later.Share(later) != 0 {
		t.Error("no time has passed, but the CPU was busy")
	}
	if _, err := parseUsage("cpu0 1 2 x 4 5 6 7 8 9\n"); err == nil {
		t.Error("a word is taken for a count")
	}
}

func TestField(t *testing.T) {
	const text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n"
	if got := field(text, "model name", ":"); got != "Some CPU @ 2 GHz" {
		t.Errorf("got %q", got)
	}
	if got := field(text, "flags", ":"); got != "" {
		t.Errorf("an absent key has the value %q", got)
	}
}

func TestReadMachine(t *testing.T) {
	m := ReadMachine()
	if len(m.CPUs) == 0 || m.Memory == 0 || m.Kernel == "" || m.Nodes < 1 {
		t.Errorf("got %+v", m)
	}
	for _, cpu := range m.CPUs {
		if ReadUsage()[cpu].Total == 0 {
			t.Errorf("CPU %d has no usage", cpu)
		}
	}
}

// TestCPU burns processor time and finds at least that in the process's clock.
func TestCPU(t *testing.T) {
	self := []int{os.Getpid()}
	before, err := CPU(self)
	if err != nil {
		t.Fatal(err)
	}
	for x, end := 1, before+20*time.Millisecond; ; x *= 3 {
		now, err := CPU(self)
		if err != nil || now < before {
			t.Fatalf("the clock went from %v to %v, %v", before, now, err)
		}
		if now > end {
			break
		}
	}
	// PID_MAX_LIMIT of the kernel is the least number that no process has.
	if _, err := CPU([]int{1 << 22}); err == nil {
		t.Error("a process that is not has a clock")
	}
}

// TestProcess starts a shell with a child on one CPU and ends both.
func TestProcess(t *testing.T) {
	cpu := AllowedCPUs()[0]
	ready, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	p, err := Start(Command{
		Path:   "/bin/sh",
		Args:   []string{"-c", "grep Cpus_allowed_list /proc/self/status; sleep 1000 & echo ready; wait"},
		Output: out,
		Log:    filepath.Join(t.TempDir(), "log"),
		CPUs:   []int{cpu},
	})
	out.Close()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	said := readUntil(t, ready, "ready\n")
	if f := strings.Fields(said); len(f) < 2 || f[1] != strconv.Itoa(cpu) {
		t.Errorf("the child may run on %q, want CPU %d", said, cpu)
	}
	tree, err := Tree(p.PID())
	if err != nil || len(tree) != 2 {
		t.Fatalf("tree %v, %v; want shell and child", tree, err)
	}
	if m, err := MemoryOf(tree); err != nil || m.PSS == 0 || m.RSS < m.PSS {
		t.Errorf("memory %+v, %v", m, err)
	}
	p.Stop()
	if p.Wait() == nil {
		t.Error("a process ended by a signal reports success")
	}
	for _, pid := range tree {
		if stat := readText("/proc/" + strconv.Itoa(pid) + "/stat"); stat != "" && !strings.Contains(stat, ") Z ") {
			t.Errorf("process %d lives on: %s", pid, stat)
		}
	}
}

func readUntil(t *testing.T, f *os.File, end string) string {
	t.Helper()
	var all []byte
	for buf := make([]byte, 256); !bytes.HasSuffix(all, []byte(end)); {
		n, err := f.Read(buf)
		if err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		all = append(all, buf[:n]...)
	}
	return string(all)
}
