package homes

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"sluice/internal/config"
	"sluice/internal/process"
	"sluice/internal/segment"
	"sluice/internal/testkit"
	"sluice/internal/topology"
	"sluice/internal/topology/shape"
)

// machine has two nodes of two CPUs, and one of memory only.
var machine = []topology.Node{{ID: 0, CPUs: []int{0, 1}}, {ID: 1, CPUs: []int{2, 3}}, {ID: 2}}

// runs adds a process to a tree: the CPUs of its threads, and the sockets that it
// has open.
func runs(t shape.Tree, pid int, cpus string, sockets ...int) shape.Tree {
	t = t.With(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (app) S 1 1 1 0 -1 4194560 9 0 0 0 0 0 0 0 20 0 1 0 5 1 2", pid))
	for i, list := range strings.Fields(cpus) {
		t = t.With(fmt.Sprintf("proc/%d/task/%d/status", pid, pid+i), "Name:\tapp\nCpus_allowed_list:\t"+list+"\n")
	}
	for i, inode := range sockets {
		t = t.With(fmt.Sprintf("proc/%d/fd/%d", pid, i), shape.Link(fmt.Sprintf("socket:[%d]", inode)))
	}
	return t
}

// listens adds a listening socket at an address, as the kernel writes it.
func listens(t shape.Tree, address string, inode int) shape.Tree {
	const heading = "sl local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n"
	name := "proc/net/tcp"
	if len(address) > len("0100007F:0000") {
		name = "proc/net/tcp6"
	}
	for _, file := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		if t[file] == "" {
			t = t.With(file, heading)
		}
	}
	return t.With(name, t[name]+fmt.Sprintf("0: %s 0:0 0A 0:0 0:0 0 0 0 %d 1\n", address, inode))
}

const (
	loopback = "0100007F:2328" // 127.0.0.1:9000
	anyIPv4  = "00000000:2328"
	anyIPv6  = "00000000000000000000000000000000:2328"
	ownIPv6  = "00000000000000000000000001000000:2328" // [::1]:9000
)

// TestLook goes through a server's life: after each step the machine looks like the
// tree, and the server is on the node and was seen to start so often.
func TestLook(t *testing.T) {
	const url = "http://127.0.0.1:9000"
	none := listens(shape.Tree{}, "0100007F:0001", 7)
	on1 := runs(listens(none, loopback, 41), 10, "2-3 2 3", 41)
	for _, c := range []struct {
		name, url string
		node      config.Node
		steps     []shape.Tree
		want      string // after each step, node and starts
	}{
		{"runs before us", url, "auto", []shape.Tree{on1, on1}, "1/0 1/0"},
		{"starts after us", url, "auto", []shape.Tree{none, on1}, "-1/0 1/1"},
		{"ends, and comes back elsewhere", url, "auto",
			[]shape.Tree{on1, none, none, runs(listens(none, loopback, 42), 11, "0", 42)}, "1/0 1/0 1/0 0/1"},
		{"is replaced at once", url, "auto", []shape.Tree{on1, runs(listens(none, loopback, 42), 11, "0-1", 42)}, "1/0 0/1"},
		{"is moved while it runs", url, "auto",
			[]shape.Tree{on1, runs(on1, 10, "0 1 0", 41), runs(on1, 10, "0 1 0", 41), runs(on1, 10, "0 1 0", 41), runs(on1, 10, "0 1 0", 41)}, "1/0 1/0 1/0 1/0 0/0"},
		{"may run anywhere", url, "auto", []shape.Tree{runs(on1, 10, "0-3", 41)}, "-1/0"},
		{"has a thread elsewhere", url, "auto", []shape.Tree{runs(on1, 10, "2 3 0", 41)}, "-1/0"},
		{"may use CPUs that are offline too", url, "auto", []shape.Tree{runs(on1, 10, "2-7", 41)}, "1/0"},
		{"two processes on two nodes", url, "auto", []shape.Tree{runs(runs(on1, 10, "2", 41), 12, "0", 41)}, "-1/0"},
		{"two sockets on one node", url, "auto", []shape.Tree{runs(listens(runs(on1, 10, "2", 41), loopback, 43), 12, "3", 43)}, "1/0"},
		{"a second one starts", url, "auto", []shape.Tree{on1, runs(listens(on1, loopback, 43), 12, "3", 43)}, "1/0 1/1"},
		{"one of two ends", url, "auto", []shape.Tree{runs(listens(on1, loopback, 43), 12, "3", 43), on1}, "1/0 1/0"},
		{"its process may not be looked into", url, "auto", []shape.Tree{listens(none, loopback, 41)}, "-1/0"},
		{"listens everywhere", url, "auto", []shape.Tree{runs(listens(none, anyIPv4, 41), 10, "2", 41)}, "1/0"},
		{"listens everywhere, IPv6 too", url, "auto", []shape.Tree{runs(listens(none, anyIPv6, 41), 10, "2", 41)}, "1/0"},
		{"listens at ::1 only", url, "auto", []shape.Tree{runs(listens(none, ownIPv6, 41), 10, "2", 41)}, "-1/0"},
		{"localhost", "http://localhost:9000", "auto", []shape.Tree{runs(listens(none, ownIPv6, 41), 10, "2", 41)}, "1/0"},
		{"::1", "http://[::1]:9000", "auto", []shape.Tree{runs(listens(none, ownIPv6, 41), 10, "2", 41)}, "1/0"},
		{"the address itself is nearer than all", url, "auto", []shape.Tree{runs(listens(on1, anyIPv4, 44), 13, "0", 44)}, "1/0"},
		{"a Unix socket", "http+unix:///run/a.sock", "auto",
			[]shape.Tree{runs(none.With("proc/net/unix", "Num RefCount Protocol Flags Type St Inode Path\n0: 2 0 10000 1 1 41 /run/a.sock\n"), 10, "2", 41)}, "1/0"},
		{"another machine's", "http://10.0.0.1:9000", "auto", []shape.Tree{runs(listens(none, anyIPv4, 41), 10, "2", 41)}, "-1/0"},
		{"of no node", url, "off", []shape.Tree{none, on1}, "-1/0 -1/1"},
		{"of a given node", url, "0", []shape.Tree{none, on1}, "0/0 0/1"},
		{"of a node that there is not", url, "3", []shape.Tree{on1}, "-1/0"},
		{"of a node of memory only", url, "2", []shape.Tree{on1}, "2/0"},
		{"nothing can be read", url, "auto", []shape.Tree{{}}, "-1/0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			shared := segmentOf(t)
			h := New(nil, machine, shared)
			h.Use([]Server{{Server: config.Server{URL: c.url, Node: c.node}, Farm: "app", Slot: 1}})
			var got []string
			for _, tree := range c.steps {
				h.tree = tree.FS()
				h.look()
				got = append(got, fmt.Sprintf("%d/%d", shared.Home(1).Node(), shared.Home(1).Starts()))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("nodes and starts %v, want %s", got, c.want)
			}
		})
	}
}

func segmentOf(t *testing.T) *segment.Segment {
	t.Helper()
	shared, err := segment.Create(segment.Shape{Workers: 1, Loops: 1, Servers: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	return shared
}

// TestUse goes through reloads.
func TestUse(t *testing.T) {
	shared := segmentOf(t)
	h := New(runs(listens(shape.Tree{}, loopback, 41), 10, "2", 41).FS(), machine, shared)
	server := func(node config.Node, slot int) Server {
		return Server{Server: config.Server{URL: "http://127.0.0.1:9000", Node: node, Weight: 1}, Farm: "app", Slot: slot}
	}
	heavier := server("auto", 1)
	heavier.Weight = 2
	for i, step := range []struct {
		servers []Server
		look    bool
		want    string // nodes of slots 1 and 2
	}{
		{[]Server{server("auto", 1)}, true, "1 -1"},
		{[]Server{heavier, server("0", 2)}, false, "1 0"},              // what was found stays
		{[]Server{server("off", 1), server("auto", 1)}, false, "-1 0"}, // the first of two in a slot
		{[]Server{server("auto", 1)}, false, "-1 0"},                   // found anew
		{[]Server{server("auto", 1), server("auto", 2)}, true, "1 1"},  //
		{[]Server{server("1", 1), server("off", 2)}, true, "1 -1"},     //
		{nil, true, "1 -1"}, //
		{[]Server{server("auto", 2), server("auto", 1)}, false, "-1 -1"}, // they come back as strangers
	} {
		h.Use(step.servers)
		if step.look {
			h.look()
		}
		if got := fmt.Sprint(shared.Home(1).Node(), shared.Home(2).Node()); got != step.want {
			t.Errorf("step %d: nodes %s, want %s", i, got, step.want)
		}
	}
	before := h.servers[0]
	h.look()
	before.home.Settle(-1)
	before.sockets = nil
	h.Use(nil)
	h.visit(before) // by a look that was under way
	if shared.Home(before.Slot).Node() != -1 {
		t.Error("the node of a server that is configured no more was found")
	}
}

// TestOneNode: where there is one node, nothing is looked for.
func TestOneNode(t *testing.T) {
	shared := segmentOf(t)
	h := New(runs(listens(shape.Tree{}, loopback, 41), 10, "0", 41).FS(), machine[:1], shared)
	h.Use([]Server{{Server: config.Server{URL: "http://127.0.0.1:9000", Node: "auto"}, Slot: 1}})
	if h.look(); shared.Home(1).Node() != -1 {
		t.Errorf("node %d", shared.Home(1).Node())
	}
}

// TestRun finds this very process, by the real files of the kernel.
func TestRun(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	own := topology.Node{ID: 5, CPUs: process.CPUs(process.Threads(os.DirFS("/"), os.Getpid()))}
	shared := segmentOf(t)
	h := New(os.DirFS("/"), []topology.Node{own, {ID: 6, CPUs: []int{99_999}}}, shared)
	h.Use([]Server{{Server: config.Server{URL: "http://" + listener.Addr().String(), Node: "auto"}, Slot: 1}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); h.Run(ctx) }()
	testkit.Eventually(t, "the server is found", func() bool { return shared.Home(1).Node() == 5 })
	cancel()
	<-ended
}

func TestOnThisMachine(t *testing.T) {
	for url, want := range map[string]bool{
		"http://127.0.0.1:80": true, "http://127.9.9.9": true, "http://[::1]:80": true, "http://localhost": true, "http+unix:///a": true,
		"http://10.0.0.1:80": false, "http://[2001:db8::1]:80": false, "http://app.example": false, "http://localhost.example": false, "http://0.0.0.0:1": false,
	} {
		if got := onThisMachine(config.Server{URL: url}.Endpoint()); got != want {
			t.Errorf("%s: %v", url, got)
		}
	}
}
