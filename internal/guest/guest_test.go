package guest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/testkit"
)

type broken struct{ after int }

func (b *broken) Write(p []byte) (int, error) {
	if b.after--; b.after < 0 {
		return 0, os.ErrClosed
	}
	return len(p), nil
}

// An archive that cannot be written says so at its end, wherever it broke.
func TestArchiveThatBreaks(t *testing.T) {
	t.Parallel()
	whole := &archive{to: &bytes.Buffer{}}
	whole.add("a", modeProgram, []byte("b"))
	if err := whole.close(); err != nil {
		t.Fatal(err)
	}
	for after := range 8 { // writes of two entries
		a := &archive{to: &broken{after}}
		a.add("a", modeProgram, []byte("b"))
		if err := a.close(); err != os.ErrClosed {
			t.Errorf("after %d writes: %v", after, err)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options Options
		want    string // words that the arguments hold, in this order, or of the error
		good    bool
	}{
		"plain": {Options{Nodes: 2, CPUsPerNode: 3},
			"cpus=6,maxcpus=6,sockets=2,cores=3,threads=1 768M size=384M nodeid=0,memdev=m0 node-id=0,socket-id=0 nodeid=1,memdev=m1 node-id=1,socket-id=1", true},
		"memory-less and CPU-less": {Options{Nodes: 3, CPUsPerNode: 1, MemoryPerNode: 200, Memoryless: []int{1}, CPUless: 1},
			"cpus=3,maxcpus=3,sockets=3 600M nodeid=1 node-id=1,socket-id=1 nodeid=2,memdev=m2 node-id=2,socket-id=2 nodeid=3,memdev=m3", true},
		"absent": {Options{Nodes: 3, CPUsPerNode: 2, Absent: 1, CPUless: 1},
			"cpus=4,maxcpus=6,sockets=3 1152M nodeid=2 node-id=2,socket-id=2 nodeid=3,memdev=m3", true},
		"distances": {Options{Nodes: 2, CPUsPerNode: 1, Distances: [][]int{{10, 31}, {31, 10}}}, "src=0,dst=0,val=10 src=0,dst=1,val=31 src=1,dst=0,val=31", true},
		"a card":    {Options{Nodes: 2, CPUsPerNode: 1, Card: true, CardOn: 1}, "pxb,id=bus1,bus=pci.0,bus_nr=64,numa_node=1 vmxnet3,bus=bus1", true},

		"no nodes":          {Options{CPUsPerNode: 1}, "a guest of 0 nodes", false},
		"no CPUs":           {Options{Nodes: 1}, "with 0 CPUs", false},
		"nothing to boot":   {Options{Nodes: 1, CPUsPerNode: 1, Absent: 1, CPUless: 1}, "node 0", false},
		"no memory to boot": {Options{Nodes: 2, CPUsPerNode: 1, Memoryless: []int{0}}, "node 0", false},
		"a card nowhere":    {Options{Nodes: 2, CPUsPerNode: 1, Card: true, CardOn: 2}, "a card on node 2", false},
		"too few distances": {Options{Nodes: 2, CPUsPerNode: 1, Distances: [][]int{{10}}}, "distances of 1", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.options.check()
			text := fmt.Sprint(err)
			if c.good && err == nil {
				text = strings.Join(c.options.arguments(), " ")
			}
			rest, words := text, []string{c.want}
			if c.good {
				words = strings.Fields(c.want)
			}
			for _, word := range words {
				at := strings.Index(rest, word)
				if at < 0 {
					t.Fatalf("%q is not, or not there, in\n%s", word, text)
				}
				rest = rest[at+len(word):]
			}
			if (err == nil) != c.good {
				t.Error(err)
			}
		})
	}
}

func TestParseList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{
		"": nil, "\n": nil, "0\n": {0}, "0-2,5\n": {0, 1, 2, 5}, "7-7": {7},
	} {
		if got, err := parseList(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"a", "1-", "-1", "3-1", "1 2"} {
		if got, err := parseList(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	pid, state, parent, err := parseStat("12 (a) b (c) S 3 12 12 0")
	if pid != 12 || state != "S" || parent != 3 || err != nil {
		t.Error(pid, state, parent, err)
	}
	for _, text := range []string{"", "12 (a", "12 (a)", "12 (a) S", "x (a) S 3", "12 (a) S x"} {
		if _, _, _, err := parseStat(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func TestCPUTime(t *testing.T) {
	t.Parallel()
	used, err := cpuTime("12 (a) b (c) S 3 12 12 0 -1 4194560 7 0 0 0 150 25 0 0 20 0 1 0 9 1 2")
	if used != 1750*time.Millisecond || err != nil {
		t.Error(used, err)
	}
	for _, text := range []string{"", "12 (a) S 3 12 12 0", "12 (a) S 3 12 12 0 -1 1 7 0 0 0 x 25 0"} {
		if got, err := cpuTime(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestAnonymousPages(t *testing.T) {
	t.Parallel()
	const text = `00400000 default file=/sluice mapped=900 active=0 N0=900 kernelpagesize_kB=4
01200000 prefer:2 file=/sluice anon=30 dirty=30 active=0 N2=30 kernelpagesize_kB=4
c000000000 prefer:2 anon=500 dirty=500 active=0 N1=20 N2=480 kernelpagesize_kB=4
7f0000000000 prefer:2
7f0000100000 prefer:2 stack anon=3 dirty=3 active=0 N2=3 kernelpagesize_kB=4
7f0000200000 prefer:2 file=/memfd:sluice\040(deleted) dirty=8 N0=8 kernelpagesize_kB=4
`
	got, err := anonymousPages(text)
	if want := map[int]int{1: 20, 2: 483}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if got, err := anonymousPages("00 default N0=x\n"); err == nil {
		t.Errorf("a page count of x is read as %v", got)
	}
}

func TestParseSockets(t *testing.T) {
	t.Parallel()
	const heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	got, err := parseSockets(heading +
		"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000010 00:00000000 00000000     0        0 8123 1 00000000d87 100 0 0 10 0\n" +
		"   1: 0100007F:D3A2 0100007F:1F90 01 00000000:00000000 02:00000000 00000000     0        0 8150 2 00000000d88 20 4 30 10 -1\n")
	want := []Socket{{"8123", "0100007F:1F90", "00000000:0000", true, 16}, {"8150", "0100007F:D3A2", "0100007F:1F90", false, 0}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, line := range []string{"0: a b", "0: a b 0A 0:x 0 0 0 0 1", "0: a b 0A 0 0 0 0 0 1"} {
		if got, err := parseSockets(heading + line + "\n"); err == nil {
			t.Errorf("%q is read as %+v", line, got)
		}
	}
}

func TestEpollOf(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]int{
		"232 0x5 0xc000 0x80 0xffffffff": 5, "281 0xb": 11, "281": -1, "0 0x5 0xc000": -1, "running": -1, "running 0x5": -1, "": -1, "232 five": -1,
	} {
		if fd, waiting := epollOf(call); waiting != (want >= 0) || waiting && fd != want {
			t.Errorf("%q: %d, %t, want %d", call, fd, waiting, want)
		}
	}
}

func TestWatched(t *testing.T) {
	t.Parallel()
	got, err := watched("pos:\t0\nino:\t1057\n" +
		"tfd:        7 events: 80002019 data:  100000007  pos:0 ino:1fd8 sdev:8\n" +
		"tfd:       12 events: 80002019 data:  10000000c  pos:0 ino:a sdev:8\n")
	if want := []string{"8152", "10"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, text := range []string{"tfd: 7 events: 1\n", "tfd: 7 ino:\n", "tfd: 7 ino:xyz\n"} {
		if got, err := watched(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// A guest of an odd shape: what was asked for is what its kernel says.
func TestGuest(t *testing.T) {
	packed := map[string]string{} // here, by their paths there
	for n := range 6 {            // entries are padded to four bytes
		packed[fmt.Sprintf("packed/in/%d", n)] = write(t, strings.Repeat("x", n))
	}
	g := Boot(t, Options{
		Nodes: 4, CPUsPerNode: 2, MemoryPerNode: 256, Memoryless: []int{1}, CPUless: 1, Absent: 1,
		Distances: [][]int{{10, 21, 31, 40, 17}, {21, 10, 21, 40, 17}, {31, 21, 10, 40, 28}, {40, 40, 40, 10, 40}, {17, 17, 28, 40, 10}},
		Files:     packed,
	})
	for name, try := range map[string]func(*testing.T, *Guest){
		"shape": shape, "files": files, "processes": processes, "servers and clients": serversAndClients,
	} {
		t.Run(name, func(t *testing.T) { try(t, g.For(t)) })
	}
}

// write makes a file.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func shape(t *testing.T, g *Guest) {
	cpus := map[int][]int{}
	for _, n := range g.Nodes() {
		cpus[n.ID] = n.CPUs
		if hasMemory := n.Memory > 128; hasMemory == (n.ID == 1) {
			t.Errorf("node %d has %d MiB", n.ID, n.Memory)
		}
	}
	if want := (map[int][]int{0: {0, 1}, 1: {2, 3}, 2: {4, 5}, 4: nil}); !reflect.DeepEqual(cpus, want) {
		t.Errorf("CPUs by node are %v, want %v", cpus, want)
	}
	const dir = "/sys/devices/system/node/"
	for name, want := range map[string]string{
		"possible": "0-4", "online": "0-2,4", "has_memory": "0,2,4", "has_cpu": "0-2", "node1/distance": "21 10 21 17",
	} {
		if got := g.Line(dir + name); got != want {
			t.Errorf("%s says %q, want %q", name, got, want)
		}
	}
}

func files(t *testing.T, g *Guest) {
	for path, text := range g.Match("/packed/in/*") {
		if want := strings.Repeat("x", int(path[len(path)-1]-'0')); text != want {
			t.Errorf("%s was packed as %q and is %q", path, want, text)
		}
	}
	if n := len(g.List("/packed/in")); n != 6 {
		t.Errorf("%d of 6 files are there", n)
	}
	g.Mkdir("/tmp/a/b")
	g.Write("/tmp/some", "a=1\nb=2\na=3\n")
	if got := g.readOnly("/tmp/some", "a=.*"); got != "a=1\na=3" {
		t.Errorf("kept %q", got)
	}
	const text = "one\ntwo \"\\ é\n"
	g.Write("/tmp/a/b/c", text)
	g.Write("/tmp/a/b/d", "")
	if got := g.Read("/tmp/a/b/c"); got != text {
		t.Errorf("read %q", got)
	}
	if got := g.List("/tmp/a/b"); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("listed %v", got)
	}
	if got := g.Match("/tmp/a/*/[cx]"); !maps.Equal(got, map[string]string{"/tmp/a/b/c": text}) {
		t.Errorf("matched %v", got)
	}
	long := strings.Repeat("0123456789abcde\n", 5_000) // more than a serial port's buffers hold
	if g.Write("/tmp/long", long); g.Read("/tmp/long") != long {
		t.Error("a long file does not come back as it went")
	}
}

func processes(t *testing.T, g *Guest) {
	if r := g.Run(Command{Path: Agent, Args: []string{"x"}}); r.Code != 1 || r.Stdout != "" || !strings.Contains(r.Stderr, "no such role") {
		t.Errorf("ended with %+v", r)
	}
	var p *Process
	t.Run("its life", func(t *testing.T) {
		p = g.For(t).Serve("127.0.0.1:7000", "a", true, "3-4")
		if cpus, want := g.Threads(p.PID)[p.PID], []int{3, 4}; !slices.Equal(cpus, want) {
			t.Errorf("may run on %v, want %v", cpus, want)
		}
		if pages := g.AnonymousPages(p.PID); len(pages) == 0 || pages[1] > 0 {
			t.Errorf("its pages by node are %v, of which node 1 has none to give", pages)
		}
		if parents := g.Children(1); len(parents) != 1 || !slices.Contains(g.Children(parents[0]), p.PID) {
			t.Errorf("process %d is not among %v, children of %v", p.PID, g.Children(parents[0]), parents)
		}
	})
	if code := p.ExitCode(); code != -1 {
		t.Errorf("after the end of its test it ended with %d", code)
	}
	if status, body := g.Page("tcp", "127.0.0.1:7000", "/"); status != 0 {
		t.Errorf("a server that has ended answers %d %q", status, body)
	}
}

func serversAndClients(t *testing.T, g *Guest) {
	const address = "127.0.0.1:7001"
	server := g.Serve(address, "a", false, "")
	client := g.Start(Command{Path: Agent, Args: []string{"ask", address, "3", "/"}, CPUs: "5"})
	figures := func() string {
		_, body := g.Page("tcp", address, "/figures")
		return body
	}
	testkit.Eventually(t, "all have come", func() bool { return figures() == "requests 3 now 3 most 3" })
	waits := func() bool {
		its, n := g.Inodes(client.PID), 0
		for _, inodes := range g.Waits(client.PID) {
			for _, inode := range inodes {
				if its[inode] && slices.ContainsFunc(g.Sockets(), func(s Socket) bool { return s.Inode == inode }) {
					n++
				}
			}
		}
		return n == 3
	}
	testkit.Eventually(t, "the client waits for its three sockets", waits)
	if client.Stdout() != "" {
		t.Error("a server that is closed has answered")
	}
	server.Signal(syscall.SIGUSR1)
	if code := client.ExitCode(); code != 0 || client.Stdout() != "200 a\n200 a\n200 a\n" {
		t.Errorf("the clients ended with %d and got %q", code, client.Stdout())
	}
	if got := figures(); got != "requests 3 now 0 most 3" {
		t.Errorf("afterwards: %s", got)
	}
}
