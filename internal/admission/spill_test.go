package admission

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/internal/upstream"
)

// nodes is a world of two workers on nodes 0 and 1, each with clients that send
// their next request when the last was answered, in virtual time. Server i is on
// node homes[i]; -1: on none.
type nodes struct {
	*world
	rotations [2]*upstream.Rotation
	clients   []*caller
	sent      [2][]int // by worker and server
	spilled   int      // of these, sent to another node while a server of the own was up
	most      []int64  // by server: permits out when another node's worker was given one, that one included
}

// caller is one of them.
type caller struct {
	worker int
	r      *request
	ends   int64 // when the server will have answered; 0: it waits
}

func newNodes(t testing.TB, spill int, limits []int64, homes []int) *nodes {
	n := &nodes{world: newWorld(t, 1, 2), most: make([]int64, len(homes))}
	n.spill = spill
	weights := map[int]int{}
	for slot, node := range homes {
		weights[slot] = 1
		n.shared.Home(slot).Settle(node)
		n.shared.Gate(slot).Limit.Store(limits[slot])
	}
	n.farms = []farmPlan{{name: "red", weights: weights, queue: 1000}}
	for i, p := range n.workers {
		p.apply(n.farms)
		n.rotations[i] = upstream.NewRotation(p.inLine[p.byFarm[0]])
		n.sent[i] = make([]int, len(homes))
	}
	return n
}

// crowd adds clients to a worker.
func (n *nodes) crowd(worker, clients int) {
	for range clients {
		c := &caller{worker: worker}
		n.clients = append(n.clients, c)
		n.ask(c)
	}
}

// ask sends a client's next request, as an exchange does.
func (n *nodes) ask(c *caller) {
	p := n.workers[c.worker]
	d, line, turns := p.desks[0], p.byFarm[0], n.rotations[c.worker]
	c.r = &request{p: p, line: line}
	c.r.Only, c.ends = -1, 0
	if !line.Crowded() {
		s, _ := turns.Next(n.now, 0, d.Open)
		if s == nil {
			most := d.SpillBound(p.inLine[line], n.now)
			s = turns.Spill(n.now, 0, func(s *upstream.Server) bool { return d.Spare(s, most) })
		}
		if s != nil {
			c.r.Permit, c.r.called = line.Claim(d, s, n.now)
			c.r.Server = s
			return
		}
	}
	c.r.To, c.r.Call, c.r.waits = c.r, func() { c.r.called = true }, true
	line.Join(d, &c.r.Waiter, n.now)
}

// serve notes the requests that have come to their servers since it was called last.
func (n *nodes) serve() {
	for _, c := range n.clients {
		if c.ends != 0 || !c.r.Permit.Out() {
			continue
		}
		s := c.r.Server
		c.ends = n.now + 1 + int64(n.random.ExpFloat64()*float64(serviceTime))
		n.sent[c.worker][s.Slot]++
		if s.Near() {
			continue
		}
		n.most[s.Slot] = max(n.most[s.Slot], n.shared.Gate(s.Slot).InFlight.Load())
		if n.rotations[c.worker].AtHome(n.now, 0) {
			n.spilled++
		}
	}
}

// run lets time go by, with the supervisor's heartbeat.
func (n *nodes) run(span time.Duration) {
	over := n.now + int64(span)
	for {
		n.settle()
		n.serve()
		var first *caller
		for _, c := range n.clients {
			if c.ends != 0 && (first == nil || c.ends < first.ends) {
				first = c
			}
		}
		if first == nil || first.ends > over {
			n.now = over
			n.changed = true
			n.settle()
			n.serve()
			return
		}
		n.now = first.ends
		n.end(first.r)
		n.ask(first)
	}
}

// fail has a server fail in both workers' eyes, or come back; requests that were at
// it have ended.
func (n *nodes) fail(slot int, fails bool) {
	for _, p := range n.workers {
		if fails {
			p.state(slot).Fail(n.now, time.Hour)
		}
	}
	if !fails {
		n.shared.Home(slot).Began()
	}
	for _, c := range n.clients {
		if fails && c.ends != 0 && c.r.Server.Slot == slot {
			n.end(c.r)
			n.ask(c)
		}
	}
	n.changed = true
	n.settle()
}

// took is how many requests of a worker came to a server since the last call.
func (n *nodes) took(worker, slot int) int {
	was := n.sent[worker][slot]
	n.sent[worker][slot] = 0
	return was
}

// TestStaysAtHome: with servers up and permits to be had, no request leaves its node;
// when all are down it does at once, and comes back as soon as one is up.
func TestStaysAtHome(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	for i := range 20 {
		limit := 2 + random.Int64N(30)
		n := newNodes(t, random.IntN(101), []int64{limit, limit}, []int{0, 1})
		n.crowd(0, 1+random.IntN(int(limit/2)))
		n.crowd(1, 1+random.IntN(int(limit/2)))
		for range 3 {
			n.run(time.Second)
			if a, b := n.took(0, 1), n.took(1, 0); a+b+n.spilled > 0 || n.took(0, 0) == 0 || n.took(1, 1) == 0 {
				t.Errorf("world %d: %d and %d requests left their node", i, a, b)
			}
			n.fail(0, true)
			n.run(time.Second)
			if dead, alive := n.took(0, 0), n.took(0, 1); dead > 0 || alive == 0 || n.spilled > 0 {
				t.Errorf("world %d: server 0 is down, and worker 0 sends %d requests there, %d to the other, %d spilled", i, dead, alive, n.spilled)
			}
			n.fail(0, false)
			n.run(time.Second) // those at server 1 end
			n.took(0, 1)
			n.took(1, 1)
		}
		n.close()
	}
}

// TestSpill: requests of a node whose servers have no permit left.
func TestSpill(t *testing.T) {
	const limit = 20
	for _, c := range []struct {
		name     string
		spill    int
		limits   []int64
		homes    []int
		crowds   [2]int // of clients
		spills   bool
		atOthers int64 // permits of server 1 out at most when worker 0 is given one
	}{
		{"the other is idle", 20, []int64{limit, limit}, []int{0, 1}, [2]int{100, 0}, true, 17},
		{"the threshold is higher", 60, []int64{limit, limit}, []int{0, 1}, [2]int{100, 0}, true, 9},
		{"there is no threshold", 0, []int64{limit, limit}, []int{0, 1}, [2]int{100, 0}, true, 20},
		{"only to an idle server", 100, []int64{limit, limit}, []int{0, 1}, [2]int{100, 0}, true, 1},
		{"the other is as full", 20, []int64{limit, limit}, []int{0, 1}, [2]int{100, 100}, false, 0},
		{"the other has just enough to do", 20, []int64{limit, limit}, []int{0, 1}, [2]int{100, 17}, false, 0},
		{"never", -1, []int64{limit, limit}, []int{0, 1}, [2]int{100, 0}, false, 0},
		{"the other has no limit", 20, []int64{limit, 0}, []int{0, 1}, [2]int{100, 0}, true, 80},
		{"the own has no limit", 20, []int64{0, limit}, []int{0, 1}, [2]int{100, 0}, false, 0},
		{"one for everybody", 20, []int64{limit, limit, 200}, []int{0, 1, -1}, [2]int{100, 0}, false, 0},
		{"one for everybody is full too", 20, []int64{limit, limit, 5}, []int{0, 1, -1}, [2]int{100, 0}, true, 17},
		{"the lower limit", 20, []int64{limit, 4}, []int{0, 1}, [2]int{100, 0}, true, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNodes(t, c.spill, c.limits, c.homes)
			defer n.close()
			n.crowd(1, c.crowds[1])
			n.crowd(0, c.crowds[0])
			n.run(2 * time.Second)
			left := n.sent[0][1]
			if n.spilled != left+n.sent[1][0] || (left > 0) != c.spills {
				t.Errorf("of worker 0 %d requests came to node 1, of worker 1 %d to node 0; %d were spilled", left, n.sent[1][0], n.spilled)
			}
			if n.most[1] != c.atOthers {
				t.Errorf("with that of worker 0 up to %d permits of server 1 were out, want %d", n.most[1], c.atOthers)
			}
			if !c.spills {
				return
			}
			own := min(int64(c.crowds[0]), c.limits[0])
			if share, least := float64(left)/float64(n.sent[0][0]), 0.6*float64(c.atOthers)/float64(own); share < least {
				t.Errorf("%d requests stayed, %d left: the permits of the other were not used", n.sent[0][0], left)
			}
		})
	}
}

// TestSpillEnds: what is spilled goes home as soon as there is room, and nobody is
// left waiting when the others need their permits.
func TestSpillEnds(t *testing.T) {
	n := newNodes(t, 20, []int64{10, 10}, []int{0, 1})
	defer n.close()
	n.crowd(0, 30)
	n.run(time.Second)
	before := n.spilled
	if before == 0 {
		t.Fatal("nothing was spilled")
	}
	n.crowd(1, 30)
	n.run(time.Second)
	before = n.spilled
	n.run(time.Second)
	if n.spilled != before {
		t.Errorf("%d requests were spilled to a node that is full", n.spilled-before)
	}
	n.shared.Gate(0).Limit.Store(40)
	n.ringAll(n.shared.Gate(0).Waiters.Load())
	n.run(time.Second)
	n.took(0, 1)
	n.run(time.Second)
	if left, held := n.took(0, 1), n.workers[0].byFarm[0].queue.Len(); left+held > 0 {
		t.Errorf("%d requests left and %d wait, of a node with permits", left, held)
	}
}

func ExampleDesk_SpillBound() {
	n := newNodes(new(testing.T), 20, []int64{10, 10}, []int{0, 1})
	defer n.close()
	d, farm := n.workers[0].desks[0], n.workers[0].inLine[n.workers[0].byFarm[0]]
	for _, inFlight := range []int64{0, 9, 10, 12} {
		n.shared.Gate(0).InFlight.Store(inFlight)
		fmt.Print(d.SpillBound(farm, n.now), " ")
	}
	// Output: -1 -1 80 100
}
