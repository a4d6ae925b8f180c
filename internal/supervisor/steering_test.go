package supervisor

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/placement"
	"sluice/internal/spec"
	"sluice/internal/testkit"
)

// on is a worker of a node with a loop on each of some CPUs.
func on(node int, cpus ...int) placement.Worker {
	return placement.Worker{Node: node, CPUs: cpus, Loops: len(cpus)}
}

// Which sockets each CPU's connections go to: of its node, of the loop on it, of
// those who are there.
func TestParts(t *testing.T) {
	two := []placement.Worker{on(0, 0, 1), on(1, 2, 3)}
	reserving := []placement.Worker{on(0, 1), on(1, 3)}
	reserving[0].Reserved, reserving[1].Reserved = []int{0}, []int{2}
	granted := []placement.Worker{on(0, 1), on(1, 2, 3)}
	granted[0].Unused = []int{0, 4}
	few := []placement.Worker{{Node: 0, CPUs: []int{0, 1, 2}, Loops: 2}}
	many := []placement.Worker{{Node: 0, CPUs: []int{0, 1}, Loops: 3}, on(1, 2)}
	fed := placement.Worker{Node: 1, CPUs: []int{0, 2, 3}, Unused: []int{1}, Loops: 3, Pin: true, CPUNodes: map[int]int{0: 0, 1: 0, 2: 1, 3: 1}}
	loose, short := fed, fed
	loose.Pin = false
	short.CPUs, short.Unused, short.Loops = []int{2, 3}, []int{0, 1}, 2
	for _, test := range []struct {
		what     string
		workers  []placement.Worker
		steering string
		away     []int
		want     string // first CPU: sockets
	}{
		{"a node each", two, "node", nil, "0:[0 1] 2:[2 3] 4:[0 1 2 3]"},
		{"a loop each", two, "cpu", nil, "0:[0] 1:[1] 2:[2] 3:[3] 4:[0 1 2 3]"},
		{"anyone", two, "hash", nil, "0:[0 1 2 3]"},
		{"CPUs of nodes in turn", []placement.Worker{on(0, 0, 2), on(1, 1, 3)}, "node", nil, "0:[0 1] 1:[2 3] 2:[0 1] 3:[2 3] 4:[0 1 2 3]"},
		{"CPUs that nobody has", []placement.Worker{on(0, 1), on(1, 4)}, "node", nil, "0:[0 1] 1:[0] 2:[0 1] 4:[1] 5:[0 1]"},
		{"CPUs left to interrupts", reserving, "node", nil, "0:[0] 2:[1] 4:[0 1]"},
		{"the same, by CPU", reserving, "cpu", nil, "0:[0] 2:[1] 4:[0 1]"},
		{"CPUs that are not ours", granted, "node", nil, "0:[0] 2:[1 2] 4:[0] 5:[0 1 2]"},
		{"two workers on a node", []placement.Worker{on(0, 0), on(0, 1), on(1, 2)}, "node", nil, "0:[0 1] 2:[2] 3:[0 1 2]"},
		{"fewer loops than CPUs", few, "cpu", nil, "0:[0] 1:[1] 2:[0] 3:[0 1]"},
		{"more loops than CPUs", many, "cpu", nil, "0:[0 2] 1:[1] 2:[3] 3:[0 1 2 3]"},
		{"two nodes of one worker", []placement.Worker{fed, on(2, 4)}, "node", nil, "0:[0] 2:[1 2] 4:[3] 5:[0 1 2 3]"},
		{"the same, by CPU", []placement.Worker{fed, on(2, 4)}, "cpu", nil, "0:[0] 2:[1] 3:[2] 4:[3] 5:[0 1 2 3]"},
		{"the same, its loops not pinned", []placement.Worker{loose, on(2, 4)}, "node", nil, "0:[0 1 2] 4:[3] 5:[0 1 2 3]"},
		{"the same, no loop on one of them", []placement.Worker{short, on(2, 4)}, "node", nil, "0:[0 1] 4:[2] 5:[0 1 2]"},
		{"the same, and it is away", []placement.Worker{fed, on(2, 4)}, "node", []int{0}, "0:[3]"},
		{"a node's only worker is away", two, "node", []int{1}, "0:[0 1]"},
		{"the same, by CPU", two, "cpu", []int{0}, "0:[2 3] 2:[2] 3:[3] 4:[2 3]"},
		{"the same, by hash", two, "hash", []int{0}, "0:[2 3]"},
		{"one of a node's two is away", []placement.Worker{on(0, 0), on(0, 1), on(1, 2)}, "cpu", []int{0}, "0:[1] 2:[2] 3:[1 2]"},
		{"all are away", two, "node", []int{0, 1}, "0:[0 1] 2:[2 3] 4:[0 1 2 3]"},
	} {
		absent := make([]bool, len(test.workers))
		for _, i := range test.away {
			absent[i] = true
		}
		var got []string
		for _, p := range partsFor(test.steering, test.workers, absent) {
			got = append(got, fmt.Sprintf("%d:%v", p.first, p.sockets))
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: got %s, want %s", test.what, text, test.want)
		}
	}
}

// For any plan: each CPU's connections go to workers of its node that are there,
// and to each loop of theirs; every socket of a worker that is there is reached.
func TestProgramsKeepThePlan(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		workers, absent := randomCrew(random)
		steering := []string{config.SteerNode, config.SteerCPU, config.SteerHash}[random.IntN(3)]
		program, err := compile(partsFor(steering, workers, absent))
		if err != nil {
			t.Fatal(err)
		}
		ownerOf := map[int]int{} // socket: its worker
		nodeOf, present := map[int]int{}, map[int]bool{}
		everybody := !slices.Contains(absent, false)
		for i, w := range workers {
			for range w.Loops {
				ownerOf[len(ownerOf)] = i
			}
			for _, cpu := range w.CPUs {
				nodeOf[cpu] = w.Node
			}
			present[w.Node] = present[w.Node] || everybody || !absent[i]
		}
		reached := map[int]bool{}
		for cpu := range 70 {
			for _, place := range drawn(t, program, cpu, 80) { // as many lots as there are sockets at most
				owner, ours := ownerOf[place]
				node, known := nodeOf[cpu]
				reached[place] = true
				switch {
				case !ours:
					t.Fatalf("CPU %d: there is no socket %d; %+v", cpu, place, workers)
				case absent[owner] && !everybody:
					t.Fatalf("CPU %d: socket %d is of worker %d, which is away: %v", cpu, place, owner, absent)
				case steering != config.SteerHash && known && present[node] && workers[owner].Node != node:
					t.Fatalf("CPU %d of node %d: socket %d is of node %d; %+v, away %v", cpu, node, place, workers[owner].Node, workers, absent)
				}
			}
		}
		for place, owner := range ownerOf {
			if (everybody || !absent[owner]) && !reached[place] {
				t.Fatalf("%s: no CPU's connections go to socket %d; %+v, away %v", steering, place, workers, absent)
			}
		}
	}
}

// randomCrew is workers on random CPUs below 64, some of them away.
func randomCrew(random *rand.Rand) (workers []placement.Worker, absent []bool) {
	cpus := random.Perm(64)
	for i := range 1 + random.IntN(8) {
		n := 1 + random.IntN(8)
		w := placement.Worker{Index: i, Node: random.IntN(4), CPUs: slices.Sorted(slices.Values(cpus[:n])), Loops: 1 + random.IntN(10)}
		cpus = cpus[n:]
		workers = append(workers, w)
		absent = append(absent, random.IntN(3) == 0)
	}
	return workers, absent
}

func TestSteeringOf(t *testing.T) {
	same, several := []placement.Worker{on(3, 0), on(3, 1)}, []placement.Worker{on(0, 0), on(0, 1), on(2, 2)}
	for _, test := range []struct {
		wish    string
		workers []placement.Worker
		want    string
	}{
		{"auto", same, "hash"}, {"auto", several, "node"}, {"hash", several, "hash"}, {"node", same, "node"}, {"cpu", same, "cpu"},
	} {
		if got := steeringOf(test.wish, test.workers); got != test.want {
			t.Errorf("%s with %+v is %s, want %s", test.wish, test.workers, got, test.want)
		}
	}
}

// onCPU runs f on a thread that stays on a CPU, which then ends with its goroutine.
func onCPU(t *testing.T, cpu int, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		var only unix.CPUSet
		only.Set(cpu)
		err := unix.SchedSetaffinity(0, &only)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("CPU %d: %v", cpu, err)
	}
}

// ourCPUs are those that this process may use.
func ourCPUs(t *testing.T) (cpus []int) {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// arrivals connects n times from a CPU and counts what each socket of l gets.
func arrivals(t *testing.T, l *listening, cpu, n int) string {
	t.Helper()
	onCPU(t, cpu, func() {
		for range n {
			c, err := net.DialTimeout("tcp", l.bound, time.Minute)
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
		}
	})
	counts := make([][]int, len(l.sockets))
	for i, sockets := range l.sockets {
		for _, fd := range sockets {
			counts[i] = append(counts[i], queued(fd))
		}
	}
	return fmt.Sprint(counts)
}

// queued takes all connections of a socket's queue, and counts them.
func queued(fd int) (n int) {
	for {
		c, _, err := unix.Accept(fd)
		if err != nil {
			return n
		}
		unix.Close(c)
		n++
	}
}

// The kernel does as the program says: what arrives on a CPU goes to the sockets
// of its node. The loopback device delivers on the CPU of who sends.
func TestKernelSteers(t *testing.T) {
	const each = 60
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		for _, cpu := range ourCPUs(t) {
			workers := []placement.Worker{on(0, 5000), on(1, cpu, 5001), on(2, 5002)} // CPUs from 5000 on nobody has
			l, err := openListening(config.Listener{Name: "web", Address: address, Backlog: 4 * each}, workers, false)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			for _, test := range []struct {
				steering string
				absent   []bool
				want     string
			}{
				{config.SteerCPU, []bool{false, false, false}, fmt.Sprintf("[[0] [%d 0] [0]]", each)},
				{config.SteerNode, []bool{false, true, true}, fmt.Sprintf("[[%d] [0 0] [0]]", each)},
				{config.SteerHash, []bool{true, true, false}, fmt.Sprintf("[[0] [0 0] [%d]]", each)},
				{config.SteerCPU, []bool{true, false, true}, fmt.Sprintf("[[0] [%d 0] [0]]", each)},
			} {
				l.steer(config.Listener{Name: "web", Steering: test.steering}, workers, test.absent)
				if got := arrivals(t, l, cpu, each); got != test.want {
					t.Errorf("%s, CPU %d, %s, away %v: sockets got %s, want %s", address, cpu, test.steering, test.absent, got, test.want)
				}
			}
			l.steer(config.Listener{Name: "web", Steering: config.SteerNode}, workers, make([]bool, 3))
			var first, second int
			got := arrivals(t, l, cpu, each)
			if n, _ := fmt.Sscanf(got, "[[0] [%d %d] [0]]", &first, &second); n != 2 || first+second != each || first == 0 || second == 0 {
				t.Errorf("%s, CPU %d, by node: sockets got %s, want %d in all for both of worker 1", address, cpu, got, each)
			}
		}
	}
}

// A program as long as a large machine needs is taken by the kernel, also where
// it is given to a group for the second time.
func TestKernelTakesLongPrograms(t *testing.T) {
	var workers []placement.Worker
	for node := range 8 {
		w := placement.Worker{Index: node, Node: node, Loops: 1}
		for cpu := node; cpu < 512; cpu += 8 {
			w.CPUs = append(w.CPUs, cpu)
		}
		workers = append(workers, w)
	}
	l, err := openListening(config.Listener{Address: "127.0.0.1:0", Backlog: 1}, workers, false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, steering := range []string{config.SteerNode, config.SteerCPU} {
		program, err := compile(partsFor(steering, workers, make([]bool, 8)))
		if err == nil {
			err = attach(l.sockets[0][0], program)
		}
		if err != nil {
			t.Errorf("%s: %d instructions: %v", steering, len(program), err)
		}
	}
}

// steered tells by CPU which sockets of the only listener its connections go to:
// "0|1 2" if those of CPU 0 go to socket 0, and those of CPU 1 to 1 or 2.
func (st *stage) steered() string {
	synctest.Wait()
	defer st.s.deliver(nil) // no event: what the event loop writes next comes after this read, and the race detector sees it
	var text []string
	for cpu := range len(st.s.members) {
		places := drawn(st.T, st.s.current.listening[0].steered, cpu, 12)
		text = append(text, strings.Trim(fmt.Sprint(slices.Compact(places)), "[]"))
	}
	return strings.Join(text, "|")
}

// Connections of a worker that died wait for it, for a second; those of one that
// keeps dying go to the others, and come back with it.
func TestSteeringAroundDeaths(t *testing.T) {
	for _, test := range []struct{ away, after, late string }{
		{config.AwayWait, "0|1|2", "0|0 2|2"},
		{config.AwaySpread, "0|0 2|2", "0|0 2|2"},
	} {
		play(t, 3, func(st *stage) {
			st.config.Listeners[0].Away = test.away
			var dies atomic.Bool
			st.answer = func(w, _ int, m *spec.Message) string {
				if w == 1 && dies.Load() && (m == nil || m.Kind == spec.KindSpec) {
					return "die"
				}
				return ""
			}
			st.run()
			expect := func(when, want string) {
				st.Helper()
				if got := st.steered(); got != want {
					st.Errorf("%s, %s: steered to %s, want %s", test.away, when, got, want)
				}
			}
			expect("all serve", "0|1|2")
			dies.Store(true)
			st.s.members[1].process.end()
			st.after(0)
			expect("worker 1 died", test.after)
			st.after(999 * time.Millisecond)
			expect("a moment before a second", test.after)
			st.after(time.Millisecond)
			expect("a second later", test.late)
			st.after(time.Minute)
			expect("it keeps dying", test.late)
			dies.Store(false)
			st.after(mostPause)
			expect("it is back", "0|1|2")
			dies.Store(true)
			st.s.members[1].process.end()
			st.after(0)
			expect("it died at once, and must pause for a second", test.late)
		})
	}
}

// One that is back before the second is over is never left out.
func TestSteeringWaitsForTheNext(t *testing.T) {
	play(t, 2, func(st *stage) {
		st.run()
		st.s.members[1].process.end()
		st.after(2 * awayLimit)
		if got := st.steered(); got != "0|1" || !st.s.Ready() {
			st.Errorf("steered to %s, want 0|1; ready %v", got, st.s.Ready())
		}
	})
}

// A reload changes the steering of a listener that stays when it is in force, not
// before; a new listener is steered from the start. An address that is spelled
// otherwise is the same listener: its sockets stay, and their order.
func TestSteeringOverReloads(t *testing.T) {
	port := testkit.FreePort(t)
	play(t, 2, func(st *stage) {
		st.run()
		reload := func(address, steering, want string) {
			st.Helper()
			cfg := testConfig(address)
			cfg.Listeners[0].Steering = steering
			st.next(cfg, nil)
			if err := st.s.Reload(); err != nil {
				st.Fatal(err)
			}
			synctest.Wait()
			if got := st.steered(); got != want {
				st.Errorf("%s, steering %s: steered to %s, want %s", address, steering, got, want)
			}
		}
		reload("localhost:"+port, config.SteerCPU, "0|1")
		sockets := st.s.current.listening[0]
		reload("127.0.0.1:"+port, config.SteerHash, "0 1|0 1")
		if st.s.current.listening[0] != sockets {
			st.Error("the same address in another spelling was opened anew")
		}
		st.answer = func(w, _ int, m *spec.Message) string {
			if w == 1 && m != nil && m.Kind == spec.KindSpec && m.Spec.Generation == 4 {
				return "refuse"
			}
			return ""
		}
		st.next(testConfig("127.0.0.1:"+port), nil)
		if err := st.s.Reload(); err == nil {
			st.Error("a reload that a worker refuses succeeded")
		}
		if got := st.steered(); got != "0 1|0 1" {
			st.Errorf("after a reload that failed: steered to %s", got)
		}
	})
}

func TestSameAddress(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{":80", ":80", true}, {"localhost:80", "127.0.0.1:80", true}, {"[::1]:80", "[0:0::1]:80", true}, {"127.0.0.1:0", "127.0.0.1:0", true},
		{":80", "[::]:80", false}, {":80", "0.0.0.0:80", false}, {"127.0.0.1:80", "127.0.0.1:81", false}, {"127.0.0.1:80", "127.0.0.2:80", false},
		{"localhost:0", "127.0.0.1:0", false},
	} {
		if got := sameAddress(test.a, test.b); got != test.want {
			t.Errorf("%s and %s are the same: %v", test.a, test.b, got)
		}
	}
}
