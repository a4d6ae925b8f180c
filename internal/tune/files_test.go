package tune

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/topology/shape"
)

const (
	irq40 = "proc/irq/40/smp_affinity_list"
	irq41 = "proc/irq/41/smp_affinity_list"
	boot  = "proc/sys/kernel/random/boot_id"
)

func TestCompare(t *testing.T) {
	tree := shape.Tree{"a": "0-3", "b": "00000000,0000000f", "c": "4096", "d": "nonsense"}.FS()
	for _, c := range []struct {
		setting Setting
		want    string
	}{
		{Setting{"a", "0-3", List}, "[] []"},
		{Setting{"a", "0,1,2,3", List}, "[] []"},
		{Setting{"a", "1", List}, "[{a 0-3 1}] []"},
		{Setting{"b", "f", Mask}, "[] []"},
		{Setting{"b", "1,0000000f", Mask}, "[{b 00000000,0000000f 1,0000000f}] []"},
		{Setting{"c", "4096", Count}, "[] []"},
		{Setting{"c", "4095", Count}, "[{c 4096 4095}] []"},
		{Setting{"c", "4095", Floor}, "[] []"},
		{Setting{"c", "4097", Floor}, "[{c 4096 4097}] []"},
		{Setting{"d", "1", List}, "[{d nonsense 1}] []"},
		{Setting{"d", "1", Floor}, "[{d nonsense 1}] []"},
		{Setting{"e", "1", List}, "[] [/e cannot be read, and stays: file does not exist]"},
	} {
		changes, notes := Compare(tree, []Setting{c.setting})
		if got := fmt.Sprint(changes, notes); got != c.want {
			t.Errorf("%v: %s, want %s", c.setting, got, c.want)
		}
	}
}

// place makes a tree of two interrupts, and a store beside it.
func place(t *testing.T) Store {
	t.Helper()
	s := Store{Root: t.TempDir(), Path: filepath.Join(t.TempDir(), "tune.json")}
	if err := (shape.Tree{irq40: "0-3", irq41: "0-3", boot: "one"}).Write(s.Root); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s Store) read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Root, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// What stood there before the first of several changes is what undoing brings back.
func TestApplyTwice(t *testing.T) {
	s := place(t)
	for _, changes := range [][]Change{
		{{irq40, "0-3", "1"}},
		{{irq40, "1", "2"}, {irq41, "0-3", "3"}},
	} {
		if failures, err := s.Apply(changes); err != nil || len(failures) > 0 {
			t.Fatal(failures, err)
		}
	}
	if a, b := s.read(t, irq40), s.read(t, irq41); a != "2" || b != "3" {
		t.Errorf("applied: %s, %s", a, b)
	}
	undone, failures, err := s.Undo()
	if want := "[{" + irq40 + " 2 0-3} {" + irq41 + " 3 0-3}]"; fmt.Sprint(undone) != want || len(failures) > 0 || err != nil {
		t.Errorf("undone %v, %v, %v, want %s", undone, failures, err, want)
	}
	if a, b := s.read(t, irq40), s.read(t, irq41); a != "0-3" || b != "0-3" {
		t.Errorf("undone: %s, %s", a, b)
	}
	if undone, failures, err := s.Undo(); len(undone)+len(failures) > 0 || err != nil {
		t.Errorf("undone again: %v, %v, %v", undone, failures, err)
	}
}

// A file that cannot be written is told, the others are written, and only those are
// undone. One whose card is gone meanwhile has nothing to undo.
func TestFailures(t *testing.T) {
	s := place(t)
	const gone = "sys/class/net/e0/queues/rx-0/rps_cpus"
	const dir = "proc/irq/42/smp_affinity_list" // what cannot be written even by root
	if err := os.MkdirAll(filepath.Join(s.Root, dir), 0o755); err != nil {
		t.Fatal(err)
	}
	failures, err := s.Apply([]Change{{gone, "0", "3"}, {dir, "0-3", "1"}, {irq40, "0-3", "1"}, {irq41, "0-3", "1"}})
	if want := "[/" + gone + ": no such file or directory /" + dir + ": is a directory]"; fmt.Sprint(failures) != want || err != nil {
		t.Errorf("%v, %v, want %s", failures, err, want)
	}
	if got := s.read(t, irq40); got != "1" {
		t.Errorf("the other file has %s", got)
	}
	os.Remove(filepath.Join(s.Root, irq40))
	if err := os.Mkdir(filepath.Join(s.Root, irq40), 0o755); err != nil {
		t.Fatal(err)
	}
	undone, failures, err := s.Undo()
	if len(undone) != 1 || len(failures) != 1 || failures[0].File != irq40 || err != nil {
		t.Errorf("undone %v, %v, %v", undone, failures, err)
	}
	os.Remove(filepath.Join(s.Root, irq40))
	if undone, failures, err := s.Undo(); len(undone)+len(failures) > 0 || err != nil {
		t.Errorf("undone %v, %v, %v", undone, failures, err)
	}
	if _, err := os.Stat(s.Path); err == nil {
		t.Error("old values are still kept")
	}
}

// Without a place for old values nothing is changed.
func TestNoPlaceForOldValues(t *testing.T) {
	s := place(t)
	s.Path = filepath.Join(s.Root, irq40, "tune.json") // below a file
	if _, err := s.Apply([]Change{{irq41, "0-3", "1"}}); err == nil || s.read(t, irq41) != "0-3" {
		t.Errorf("%v, and the file has %s", err, s.read(t, irq41))
	}
}

// After a start of the machine interrupts have other numbers: nothing is undone.
func TestAnotherBoot(t *testing.T) {
	s := place(t)
	if _, err := s.Apply([]Change{{irq40, "0-3", "1"}}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Root, boot), []byte("two\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if undone, failures, err := s.Undo(); len(undone)+len(failures) > 0 || err != nil || s.read(t, irq40) != "1" {
		t.Errorf("undone %v, %v, %v", undone, failures, err)
	}
}

// A file of old values is followed only if all of it could be ours: a service that
// can write there must not make root write elsewhere.
func TestForeignState(t *testing.T) {
	for file, good := range map[string]bool{
		irq40: true, flowsFile: true, "sys/class/net/eth0.5/queues/tx-12/xps_cpus": true,
		"sys/class/net/e0/queues/rx-0/rps_flow_cnt": true, "sys/class/net/e0/device/channels/3/cpu": true,
		"etc/shadow": false, "/" + irq40: false, "proc/irq/40/../../sys/kernel/core_pattern": false,
		"sys/class/net/../../x/queues/rx-0/rps_cpus": false, "sys/class/net/../queues/rx-0/rps_cpus": false,
		"proc/irq/40/smp_affinity_list\nx": false, "": false,
	} {
		s := place(t)
		text := fmt.Sprintf(`{"boot": "one", "old": {%q: "7"}}`, file)
		if err := os.WriteFile(s.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.Undo()
		if (err == nil) != good || !good && !strings.Contains(err.Error(), "which sluice tune does not write; take it away if nothing is to be undone") {
			t.Errorf("%q: %v", file, err)
		}
		if got := s.read(t, irq40); (got == "7") != (file == irq40) {
			t.Errorf("%q: the interrupt goes to %s", file, got)
		}
	}
	s := place(t)
	if err := os.WriteFile(s.Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply([]Change{{irq40, "0-3", "1"}}); err == nil || !strings.Contains(err.Error(), "is not as sluice tune writes it") || s.read(t, irq40) != "0-3" {
		t.Error(err)
	}
}

func TestFailureSays(t *testing.T) {
	for want, err := range map[string]error{
		"/a: input/output error; the kernel keeps this interrupt where it is": &fs.PathError{Op: "write", Path: "/r/a", Err: syscall.EIO},
		"/a: permission denied; be root, outside of a container":              &fs.PathError{Op: "open", Path: "/r/a", Err: syscall.EACCES},
		"/a: read-only file system; be root, outside of a container":          &fs.PathError{Op: "open", Path: "/r/a", Err: syscall.EROFS},
		"/a: invalid argument": syscall.EINVAL,
	} {
		if got := (Failure{"a", err}).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestDefault(t *testing.T) {
	for _, c := range [][3]string{
		{"/", "", "/var/lib/sluice/tune.json"},
		{"/r", "", "/r/var/lib/sluice/tune.json"},
		{"/", "/s:/t", "/s/tune.json"},
	} {
		if got := Default(c[0], func(string) string { return c[1] }); got != c[2] {
			t.Errorf("below %s with %q: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
