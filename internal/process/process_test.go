package process

import (
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"sluice/internal/topology/shape"
)

// stat is a line of /proc/PID/stat.
func stat(pid int, name string, state string, parent int) string {
	return fmt.Sprintf("%d (%s) %s %d 1 1 0 -1 4194560 9 0 0 0 0 0 0 0 20 0 1 0 %d 1 2", pid, name, state, parent, 100+pid)
}

// family is a small machine: 10 has the children 11 and 12, and 11 has 13.
var family = shape.Tree{
	"proc/1/stat":   stat(1, "init", "S", 0),
	"proc/10/stat":  stat(10, "nginx: a) b", "S", 1),
	"proc/11/stat":  stat(11, "worker", "R", 10),
	"proc/12/stat":  stat(12, "worker", "Z", 10),
	"proc/13/stat":  stat(13, "cgi", "S", 11),
	"proc/9/stat":   stat(9, "other", "S", 1),
	"proc/14/stat":  "14 (broken",
	"proc/15/stat":  "15 (short) S 1",
	"proc/16/stat":  "x (none) S 1 1 1 0 -1 4194560 9 0 0 0 0 0 0 0 20 0 1 0 1 1 2",
	"proc/stat":     "cpu 1 2 3",
	"proc/self/env": "",
}

func TestFamily(t *testing.T) {
	all, err := All(family.FS())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		roots []int
		want  []int
	}{
		{[]int{10}, []int{10, 11, 12, 13}},
		{[]int{13}, []int{13}},
		{[]int{11, 10}, []int{10, 11, 12, 13}},
		{[]int{1}, []int{1, 9, 10, 11, 12, 13}},
		{[]int{14, 77}, nil},
		{nil, nil},
	} {
		var got []int
		for _, p := range Family(all, c.roots...) {
			got = append(got, p.PID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("the family of %v is %v, want %v", c.roots, got, c.want)
		}
	}
	if p := all[2]; p != (Process{PID: 10, Parent: 1, Name: "nginx: a) b", State: 'S', Born: 110}) {
		t.Errorf("read %+v", p)
	}
	if !all[4].Ended() || all[3].Ended() {
		t.Errorf("12 has ended and 11 has not: %+v", all)
	}
	if _, err := All(shape.Tree{}.FS()); err == nil {
		t.Error("a tree without /proc has a list of processes")
	}
}

func TestThreads(t *testing.T) {
	tree := shape.Tree{
		"proc/10/task/10/status": "Name:\ta\nTgid:\t10\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3",
		"proc/10/task/12/status": "Name:\tb\nCpus_allowed_list:\t7",
		"proc/10/task/11/status": "Name:\tb\nCpus_allowed_list:\t2-4",
		"proc/10/task/13/status": "Name:\tb\nCpus_allowed_list:\tnonsense",
		"proc/10/task/14/comm":   "gone",
		"proc/12/status":         "Name:\tb\nTgid:\t10",
	}.FS()
	threads := Threads(tree, 10)
	if got := fmt.Sprint(threads); got != "[{10 [0 1 2 3]} {11 [2 3 4]} {12 [7]}]" {
		t.Errorf("threads are %s", got)
	}
	if got := CPUs(threads); !slices.Equal(got, []int{0, 1, 2, 3, 4, 7}) {
		t.Errorf("on CPUs %v", got)
	}
	if got := Threads(tree, 99); got != nil {
		t.Errorf("a process that is not there has threads %v", got)
	}
	if a, b := Leader(tree, 12), Leader(tree, 99); a != 10 || b != 0 {
		t.Errorf("leaders are %d and %d", a, b)
	}
}

func TestMemory(t *testing.T) {
	tree := shape.Tree{
		"proc/1/numa_maps": "55f0 default file=/bin/a\\040N9=7 mapped=2 N0=2 kernelpagesize_kB=4\n" +
			"7f00 prefer:2 anon=500 dirty=500 N1=20 N2=480 kernelpagesize_kB=4\n" +
			"7f10 bind:1 huge anon=3 N1=3 kernelpagesize_kB=2048\n7f20 default heap anon=1 N0=1\n7f30 default stack",
		"proc/2/numa_maps": "55f0 default N0=x",
		"proc/3/numa_maps": "",
		"proc/5/numa_maps": "55f0 local\n55f1 prefer (many):0-1 anon=1 N0=1\n55f2 prefer=static:1\n55f3 prefer (many):0-1\n55f4\n55f5 default file=/a:b",
	}.FS()
	got, err := Memory(tree, 1)
	if want := map[int]int64{0: 3 << 12, 1: 20<<12 + 3<<21, 2: 480 << 12}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	got, err = Anonymous(tree, 1)
	if want := map[int]int64{0: 1 << 12, 1: 20<<12 + 3<<21, 2: 480 << 12}; err != nil || !maps.Equal(got, want) {
		t.Errorf("of no file %v, %v, want %v", got, err, want)
	}
	if got, err := Memory(tree, 2); err == nil || err.Error() != `memory by node: /proc/2/numa_maps: "N0=x" is no count` {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Memory(tree, 3); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if got := Policies(tree, 5); !slices.Equal(got, []string{"prefer (many):0-1", "prefer=static:1"}) {
		t.Errorf("policies are %q", got)
	}
	if got := Policies(tree, 1); !slices.Equal(got, []string{"bind:1", "prefer:2"}) {
		t.Errorf("policies are %q", got)
	}
	if _, err := Memory(tree, 4); err == nil {
		t.Error("a process that is not there has memory")
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

// Who may own the socket, and does not show it, is counted.
func TestHiddenOwners(t *testing.T) {
	tree := locked{family.With("proc/10/fd/6", shape.Link("socket:[4101]")).FS(), "proc/10/fd"}
	owners, hidden, err := Owners(tree, []Listener{{Inode: 4101}})
	if len(owners) != 0 || hidden != 1 || err != nil {
		t.Errorf("%v, %d hidden, %v", owners, hidden, err)
	}
}

const netTCP = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4101 1 0000 100 0 0 10 0
   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4102 1 0000 100 0 0 10 0
   2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4104 1 0000 100 0 0 10 0
   3: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 4103 1 0000 100 0 0 10 0
   4: nonsense:1F90 00000000:0000 0A 0 0 0 0 0 4105 1`

const netTCP6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4106 1 0000 100 0 0 10 0`

const netUnix = `Num       RefCount Protocol Flags    Type St Inode Path
0000: 00000002 00000000 00010000 0001 01 4107 /run/a b.sock
0000: 00000003 00000000 00000000 0001 03 4108 /run/a b.sock
0000: 00000002 00000000 00010000 0001 01 4109 @abstract
0000: 00000003 00000000 00000000 0001 03 4110`

func TestListeners(t *testing.T) {
	tree := shape.Tree{"proc/net/tcp": netTCP, "proc/net/tcp6": netTCP6, "proc/net/unix": netUnix}
	for _, c := range []struct {
		port uint16
		path string
		want string
	}{
		{8080, "", "[{127.0.0.1:8080  4101} {0.0.0.0:8080  4102} {[::1]:8080  4106}]"},
		{80, "", "[{0.0.0.0:80  4104}]"},
		{81, "", "[]"},
		{0, "/run/a b.sock", "[{invalid AddrPort /run/a b.sock 4107}]"},
		{0, "@abstract", "[{invalid AddrPort @abstract 4109}]"},
		{0, "/run/b.sock", "[]"},
	} {
		found, err := TCP(tree.FS(), c.port)
		if c.path != "" {
			found, err = Unix(tree.FS(), c.path)
		}
		if got := fmt.Sprint(found); err != nil || got != c.want {
			t.Errorf("at %d%s listen %s, %v, want %s", c.port, c.path, got, err, c.want)
		}
	}
	if found, err := TCP(tree.Without("proc/net/tcp6").FS(), 8080); err != nil || len(found) != 2 {
		t.Errorf("without IPv6: %v, %v", found, err)
	}
	if _, err := TCP(shape.Tree{}.FS(), 80); err == nil {
		t.Error("no file of sockets is no error")
	}
	if _, err := Unix(shape.Tree{}.FS(), "/a"); err == nil {
		t.Error("no file of Unix sockets is no error")
	}
}

func TestOwners(t *testing.T) {
	tree := family.With(
		"proc/10/fd/0", shape.Link("/dev/null"), "proc/10/fd/6", shape.Link("socket:[4101]"),
		"proc/11/fd/6", shape.Link("socket:[4101]"), "proc/11/fd/7", shape.Link("socket:[4102]"),
		"proc/13/fd/6", shape.Link("socket:[41011]"), "proc/9/fd/1", shape.Link("/socket:[4101]"))
	for _, c := range []struct {
		inodes, want []int
	}{
		{[]int{4101}, []int{10, 11}},
		{[]int{4102, 4101}, []int{10, 11}},
		{[]int{4102}, []int{11}},
		{[]int{1}, nil},
		{nil, nil},
	} {
		var listeners []Listener
		for _, inode := range c.inodes {
			listeners = append(listeners, Listener{Inode: uint64(inode)})
		}
		owners, hidden, err := Owners(tree.FS(), listeners)
		var got []int
		for _, o := range owners {
			got = append(got, o.PID)
		}
		if !slices.Equal(got, c.want) || hidden != 0 || err != nil {
			t.Errorf("sockets %v belong to %v, %d hidden, %v; want %v", c.inodes, got, hidden, err, c.want)
		}
	}
}

// What the kernel says of this process is what it did.
func TestThisMachine(t *testing.T) {
	here := os.DirFS("/")
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	path := filepath.Join(t.TempDir(), "s")
	unix, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	byPort, err := TCP(here, uint16(tcp.Addr().(*net.TCPAddr).Port))
	if err != nil || len(byPort) != 1 || byPort[0].Address.String() != tcp.Addr().String() {
		t.Errorf("at %v listen %v, %v", tcp.Addr(), byPort, err)
	}
	byPath, err := Unix(here, path)
	if err != nil || len(byPath) != 1 {
		t.Errorf("at %s listen %v, %v", path, byPath, err)
	}
	for _, listeners := range [][]Listener{byPort, byPath} {
		owners, _, err := Owners(here, listeners)
		if err != nil || len(owners) != 1 || owners[0].PID != os.Getpid() || owners[0].Parent != os.Getppid() {
			t.Errorf("%v belong to %v, %v; we are %d", listeners, owners, err, os.Getpid())
		}
	}
	threads := Threads(here, os.Getpid())
	if len(threads) < 2 || threads[0].ID != os.Getpid() || len(threads[0].CPUs) == 0 {
		t.Errorf("our threads are %v", threads)
	}
	if leader := Leader(here, threads[1].ID); leader != os.Getpid() {
		t.Errorf("thread %d is of process %s, and not %d", threads[1].ID, strconv.Itoa(leader), os.Getpid())
	}
}
