package admission

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/admission/queue"
	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// crew is workers whose loops are goroutines, and whose bells are channels.
type crew struct {
	shared *segment.Segment
	loops  []*testLoop
	bells  []chan struct{} // by worker
	stop   chan struct{}
	busy   sync.WaitGroup // loops that run
	begun  time.Time
}

// testLoop is one loop: it runs what is submitted to it, and one of its worker
// answers the bell.
type testLoop struct {
	crew   *crew
	mail   chan func()
	bell   chan struct{} // nil: another loop of the worker answers it
	desk   *Desk
	line   *Line
	lines  *Lines
	farm   *upstream.Farm
	random *rand.Rand
}

// Submit never waits: each client of the loop has one function there at most.
func (l *testLoop) Submit(f func()) { l.mail <- f }

// Now is executor time.
func (l *testLoop) now() int64 { return int64(time.Since(l.crew.begun)) }

func (l *testLoop) run() {
	for {
		select {
		case f := <-l.mail:
			f()
		case <-l.bell:
			l.lines.Look(l.desk, l.now())
		case <-l.crew.stop:
			return
		}
	}
}

const (
	crewServers = 2
	clients     = 3 // of each loop
)

func newCrew(t *testing.T, workers, loops int, limit int64) *crew {
	shared, err := segment.Create(segment.Shape{Workers: workers, Loops: loops, Servers: crewServers})
	if err != nil {
		t.Fatal(err)
	}
	c := &crew{shared: shared, stop: make(chan struct{}), begun: time.Now()}
	for slot := range crewServers {
		shared.Gate(slot).Limit.Store(limit)
	}
	for range workers {
		c.bells = append(c.bells, make(chan struct{}, 1))
	}
	for i := range workers {
		c.man(i, loops)
	}
	for _, l := range c.loops {
		c.busy.Go(l.run)
	}
	t.Cleanup(func() {
		close(c.stop)
		c.busy.Wait()
		shared.Close()
	})
	return c
}

// man gives a worker its loops.
func (c *crew) man(worker, loops int) {
	lines := NewLines(func(slot int) *segment.LineStats { return c.shared.Line(worker, slot) })
	farm := &upstream.Farm{Farm: config.Farm{Name: "farm"}}
	farm.Admission.Queue = 1000
	for slot := range crewServers {
		farm.Servers = append(farm.Servers, &upstream.Server{State: &upstream.State{Slot: slot}, Farm: farm, Weight: 1})
	}
	var line *Line
	for i := range loops {
		l := &testLoop{crew: c, lines: lines, farm: farm, mail: make(chan func(), clients+1), random: rand.New(rand.NewPCG(uint64(worker), uint64(i)))}
		office := &Office{
			Worker: worker,
			Gates:  func(slot int) *segment.Gate { l.stumble(); return c.shared.Gate(slot) },
			Ring:   c.ring,
		}
		l.desk = office.NewDesk(func(slot int) *segment.ServerStats { l.stumble(); return c.shared.Server(worker, i, slot) }, 0)
		if i == 0 {
			l.bell = c.bells[worker]
			line = lines.Apply(l.desk, []*upstream.Farm{farm}, 0)[0]
		}
		l.line = line
		c.loops = append(c.loops, l)
	}
}

// stumble lets another goroutine run in the middle of what the loop does, so that
// on few CPUs too the loops meet everywhere.
func (l *testLoop) stumble() {
	if l.random.IntN(4) == 0 {
		runtime.Gosched()
	}
}

// ring is what an eventfd does: several rings may count as one.
func (c *crew) ring(worker int) {
	select {
	case c.bells[worker] <- struct{}{}:
	default:
	}
}

// client sends one request after the other.
type client struct {
	l     *testLoop
	left  int // requests to come
	stays int // turns of the loop until the server has answered
	done  func()
	r     Waiter
}

// next sends a request: it finds a permit, waits for one, or waits and thinks
// better of it.
func (c *client) next() {
	if c.left--; c.left < 0 {
		c.done()
		return
	}
	l := c.l
	c.stays = l.random.IntN(3)
	c.r = Waiter{To: l, Call: c.called}
	c.r.Only = l.random.IntN(crewServers+2) - 2
	if !l.line.Crowded() && c.r.Only < 0 {
		s := l.farm.Servers[l.random.IntN(crewServers)]
		var ok bool
		if c.r.Permit, ok = l.line.Claim(l.desk, s, l.now()); ok {
			c.r.Server = s
			l.Submit(c.called)
			return
		}
	}
	if l.random.IntN(8) == 0 {
		c.r.Deadline = l.now() + int64(20*time.Microsecond) // it may become late
	}
	if v, _ := l.line.Join(l.desk, &c.r, l.now()); v != queue.Held {
		l.Submit(c.next)
		return
	}
	if l.random.IntN(8) == 0 && l.line.Leave(l.desk, &c.r, l.now()) {
		l.Submit(c.next)
	}
}

// called goes on with a permit, or without one.
func (c *client) called() {
	switch {
	case c.r.Server == nil:
		c.next()
	case c.stays > 0:
		c.stays--
		c.l.Submit(c.called)
	default:
		c.l.line.End(c.l.desk, &c.r.Permit, gate.Good, 0, c.l.now())
		c.next()
	}
}

// patience is how long a burst may take on a slow machine.
const patience = 30 * time.Second

// burst has every client of every loop send so many requests. All must come to
// their end although nobody but the loops themselves looks after them.
func (c *crew) burst(t *testing.T, requests int) {
	var under sync.WaitGroup
	under.Add(len(c.loops) * clients)
	for _, l := range c.loops {
		for range clients {
			l.Submit((&client{l: l, left: requests, done: under.Done}).next)
		}
	}
	over := make(chan struct{})
	go func() {
		under.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(patience):
		for slot := range crewServers {
			g := c.shared.Gate(slot)
			t.Errorf("server %d: %d of %d permits are out, workers that wait: %b", slot, g.InFlight.Load(), g.Limit.Load(), g.Waiters.Load())
		}
		t.FailNow()
	}
	for slot := range crewServers {
		g := c.shared.Gate(slot)
		if n, waiters := g.InFlight.Load(), g.Waiters.Load(); n != 0 || waiters != 0 {
			t.Fatalf("server %d: %d in flight, waiters %b when all is over", slot, n, waiters)
		}
	}
}

// TestLoops: loops that run at the same time, of one worker and of several, lose no
// wake-up and no permit. A burst is short, so that nobody comes later to find what
// was lost.
func TestLoops(t *testing.T) {
	for _, c := range []struct {
		workers, loops int
		limit          int64
	}{{1, 1, 1}, {1, 3, 1}, {1, 3, 2}, {2, 1, 1}, {2, 2, 1}, {2, 2, 3}, {4, 2, 2}} {
		well := t.Run(fmt.Sprintf("%d workers of %d loops, limit %d", c.workers, c.loops, c.limit), func(t *testing.T) {
			crew := newCrew(t, c.workers, c.loops, c.limit)
			for range 100 {
				crew.burst(t, 8)
			}
		})
		if !well {
			return // a lost wake-up takes all patience; once is enough
		}
	}
}
