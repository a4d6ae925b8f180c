package upstream

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/reactor"
)

// limited is a farm whose server takes most connections, waited for up to wait.
func limited(url string, most int, wait time.Duration) config.Farm {
	return farmOf(url, func(f *config.Farm) {
		f.Connections.Max = most
		f.Timeouts.Connect = config.Duration(wait)
	})
}

// waiting starts a task that borrows, and returns once it waits.
func (n *node) waiting(t *testing.T, loop int, got *How) <-chan struct{} {
	t.Helper()
	before := n.server.waiting.Load()
	done := n.spawn(loop, func(p *Pool) {
		c, how, err := p.Borrow(n.server, false)
		if *got = how; err != nil {
			t.Errorf("the waiting task: %v", err)
			return
		}
		ask(t, c, "hello")
		n.giveBack(p, c)
	})
	if !settle(func() bool { return n.server.waiting.Load() == before+1 }) {
		t.Fatal("the task does not wait")
	}
	return done
}

// TestTakeover: a loop that has no idle connection takes a sibling's, the first
// in order that has one, rather than open another.
func TestTakeover(t *testing.T) {
	n := newNode(t, 3, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	c, _ := n.borrow(t, 2)
	n.give(t, 2, c)
	for _, loop := range []int{0, 1, 2, 1, 0} {
		c, how := n.borrow(t, loop)
		mustCome(t, "a sibling's", how, Taken)
		n.task(t, loop, func(*Pool) { ask(t, c, "hello") })
		n.give(t, loop, c)
		n.mustHold(t, 1, 1)
	}
	var taken uint64
	for i := range n.takeover {
		taken += n.takeover[i].Load()
	}
	if taken != 5 {
		t.Errorf("%d taken over, want 5", taken)
	}
}

// TestTakeoverClosed: once its loop has heard that a server has closed an idle
// connection, no sibling takes that over.
func TestTakeoverClosed(t *testing.T) {
	b := serve(t, "tcp", "127.0.0.1:0")
	n := newNode(t, 2, farmOf(b.url(), nil))
	c, _ := n.borrow(t, 0)
	n.give(t, 0, c)
	b.hangUp(t, 1)
	n.until(t, 0, "the loop has heard", func(*Pool) bool { return n.server.open.Load() == 0 })
	fresh, how := n.borrow(t, 1)
	mustCome(t, "instead of the closed one", how, New)
	n.give(t, 1, fresh)
	n.mustHold(t, 1, 1)
}

// TestMax: the bound holds, and who comes late waits for what comes free: here,
// on a sibling, or room for another.
func TestMax(t *testing.T) {
	for _, c := range []struct {
		name string
		on   int // the loop that waits; loop 0 has the one connection
		free func(p *Pool, n *node, c *Conn)
		want How
	}{
		{"given back on its own loop", 0, func(p *Pool, n *node, c *Conn) { n.giveBack(p, c) }, Reused},
		{"given back on a sibling", 1, func(p *Pool, n *node, c *Conn) { n.giveBack(p, c) }, Taken},
		{"closed on its own loop", 0, func(p *Pool, _ *node, c *Conn) { p.Discard(c) }, New},
		{"closed on a sibling", 1, func(p *Pool, _ *node, c *Conn) { p.Discard(c) }, New},
		{"not to be kept, and so handed on", 1, func(p *Pool, _ *node, c *Conn) { p.Give(c, time.Minute, 0) }, Taken},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, 3, limited(serve(t, "tcp", "127.0.0.1:0").url(), 1, patience))
			held, _ := n.borrow(t, 0)
			var how How
			done := n.waiting(t, c.on, &how)
			n.task(t, 0, func(p *Pool) { c.free(p, n, held) })
			await(t, done)
			mustCome(t, c.name, how, c.want)
			n.mustHold(t, 1, 1)
		})
	}
}

// TestMaxOrder: of those that wait on a loop the first is served first.
func TestMaxOrder(t *testing.T) {
	n := newNode(t, 1, limited(serve(t, "tcp", "127.0.0.1:0").url(), 1, patience))
	held, _ := n.borrow(t, 0)
	var order []int // touched by the loop
	var all []<-chan struct{}
	for i := range 4 {
		all = append(all, n.spawn(0, func(p *Pool) {
			c, _, err := p.Borrow(n.server, false)
			if err != nil {
				t.Errorf("task %d: %v", i, err)
				return
			}
			order = append(order, i)
			n.giveBack(p, c)
		}))
	}
	n.until(t, 0, "all wait", func(*Pool) bool { return n.server.waiting.Load() == 4 })
	n.give(t, 0, held)
	for _, done := range all {
		await(t, done)
	}
	n.on(t, 0, func(*Pool) {
		for i, got := range order {
			if got != i {
				t.Errorf("served in the order %v", order)
				break
			}
		}
	})
	n.mustHold(t, 1, 1)
}

// TestMaxTimeout: the wait for a connection is bounded, and leaves nothing.
func TestMaxTimeout(t *testing.T) {
	n := newNode(t, 2, limited(serve(t, "tcp", "127.0.0.1:0").url(), 1, 20*time.Millisecond))
	held, _ := n.borrow(t, 0)
	for loop := range 2 {
		n.task(t, loop, func(p *Pool) {
			if c, _, err := p.Borrow(n.server, false); c != nil || !errors.Is(err, ErrFull) {
				t.Errorf("loop %d: %v, error %v; want ErrFull", loop, c, err)
			}
		})
	}
	n.mustHold(t, 1, 0)
	n.give(t, 0, held)
	n.mustHold(t, 1, 1)
	if n.server.waiting.Load() != 0 {
		t.Error("someone is counted as waiting")
	}
}

// atRest is a connection that tells when Give is about to make it idle.
type atRest struct {
	*reactor.Conn
	tell func()
}

func (a *atRest) Idle(job reactor.Job) bool {
	if tell := a.tell; job != nil && tell != nil {
		a.tell = nil
		tell()
	}
	return a.Conn.Idle(job)
}

// TestBothLook: a task begins to wait after Give has looked for one that waits,
// and looks itself before the connection is published as idle. It is served all
// the same.
func TestBothLook(t *testing.T) {
	n := newNode(t, 2, limited(serve(t, "tcp", "127.0.0.1:0").url(), 1, patience))
	held, _ := n.borrow(t, 0)
	var how How
	var done <-chan struct{}
	held.Stream = &atRest{held.Stream.(*reactor.Conn), func() {
		done = n.waiting(t, 1, &how)
		n.on(t, 1, func(*Pool) {}) // it has looked
	}}
	n.give(t, 0, held)
	await(t, done)
	mustCome(t, "from the loop that did not see the task", how, Taken)
	n.mustHold(t, 1, 1)
}

// TestNobodyWaitsInVain has many tasks on several loops borrow, use, give back
// and close connections at random, with far fewer connections than tasks. The
// bound always holds; every task gets its connections, since each wait that
// should end does, well before its time; and when all is quiet, what is open is
// what is idle.
func TestNobodyWaitsInVain(t *testing.T) {
	const loops, tasks, rounds = 3, 8, 60
	for _, c := range []struct {
		name       string
		most, idle int
	}{{"one connection", 1, 1}, {"few", 3, 3}, {"few, fewer kept", 4, 1}, {"none kept", 2, 0}, {"no bound", 0, 5}} {
		t.Run(c.name, func(t *testing.T) {
			farm := limited(serve(t, "tcp", "127.0.0.1:0").url(), c.most, patience)
			farm.Connections.Idle = c.idle
			n := newNode(t, loops, farm)
			var over atomic.Int64 // connections beyond the bound that someone saw
			var all sync.WaitGroup
			for i := range loops * tasks {
				done := n.spawn(i%loops, func(p *Pool) { n.toil(t, p, rand.New(rand.NewPCG(uint64(i), 1)), rounds, &over) })
				all.Go(func() { <-done })
			}
			finished := make(chan struct{})
			go func() { defer close(finished); all.Wait() }()
			await(t, finished)
			n.rest(t)
			if got := over.Load(); got > 0 {
				t.Errorf("%d times more than %d connections were open", got, c.most)
			}
		})
	}
}

// toil is one task's random work.
func (n *node) toil(t *testing.T, p *Pool, random *rand.Rand, rounds int, over *atomic.Int64) {
	most := int64(n.server.Farm.Connections.Max)
	for range rounds {
		c, _, err := p.Borrow(n.server, random.IntN(10) == 0)
		if err != nil {
			t.Errorf("borrow: %v", err)
			return
		}
		if most > 0 && n.server.open.Load() > most {
			over.Add(1)
		}
		switch random.IntN(8) {
		case 0: // the exchange failed
			p.Discard(c)
		case 1: // the server closes, which may be seen before or after the connection is back
			c.Write([]byte("quit\n"))
			n.giveBack(p, c)
		case 2: // no use of it at all
			n.giveBack(p, c)
		default:
			if talk(c, "hello") != nil { // the server had just closed it
				p.Discard(c)
				continue
			}
			n.giveBack(p, c)
		}
	}
}

// rest waits until what is under way has arrived, and checks the books.
func (n *node) rest(t *testing.T) {
	t.Helper()
	state := n.server.State
	quiet := func() bool {
		var idle int64
		for i := range n.loops {
			n.on(t, i, func(p *Pool) { idle += int64(len(p.at(state).idle)) })
		}
		return idle == state.open.Load()
	}
	if !settle(quiet) {
		t.Errorf("%d connections are open that nobody has", state.open.Load())
	}
	if got := state.waiting.Load(); got != 0 {
		t.Errorf("%d tasks are counted as waiting", got)
	}
	for i := range n.loops {
		n.on(t, i, func(p *Pool) {
			if at := p.at(state); len(at.waiters) != 0 || p.shared.waiting[0].Load() != 0 {
				t.Errorf("loop %d: tasks are still in line", i)
			}
		})
		if open, idle := n.stats[i].Open.Load(), n.stats[i].Idle.Load(); open < 0 || idle < 0 {
			t.Errorf("loop %d: open %d, idle %d", i, open, idle)
		}
		if got := n.stats[i].Idle.Load(); got != n.stats[i].Open.Load() {
			t.Errorf("loop %d counts %d open and %d idle", i, n.stats[i].Open.Load(), got)
		}
	}
}
