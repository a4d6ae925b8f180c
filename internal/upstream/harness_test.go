package upstream

import (
	"bufio"
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/reactor"
	"sluice/internal/segment"
)

// patience ends tests that would otherwise hang; none takes so long.
const patience = 30 * time.Second

// jobFunc makes a Job of a function.
type jobFunc func()

func (f jobFunc) Run() { f() }

// node is the loops of one worker, their pools, and a farm of one server.
type node struct {
	loops    []*reactor.Loop
	pools    []*Pool
	stats    []segment.ServerStats // by loop
	takeover []segment.Counter     // by loop
	server   *Server
}

// newNode starts loops whose pools are siblings.
func newNode(t testing.TB, loops int, farm config.Farm) *node {
	t.Helper()
	return newSecureNode(t, loops, farm, nil)
}

// newSecureNode is newNode for a server that is https://.
func newSecureNode(t testing.TB, loops int, farm config.Farm, secure *tls.Config) *node {
	t.Helper()
	n := &node{stats: make([]segment.ServerStats, loops), takeover: make([]segment.Counter, loops)}
	servers := NewServers()
	t.Cleanup(servers.Close)
	servers.Secure([]*tls.Config{secure})
	farms, _ := servers.Apply(&config.Config{Farms: config.Farms{farm}}, func(string, string) int { return 0 })
	n.server = farms[0].Servers[0]
	for i := range loops {
		l, err := reactor.New(reactor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		go l.Run()
		t.Cleanup(l.Close)
		n.loops = append(n.loops, l)
		dial := func(a reactor.Address, d time.Duration) (reactor.Stream, error) { return stream(l.Dial(a, d)) }
		adopt := func(fd int) (reactor.Stream, error) { return stream(l.Adopt(fd, netip.AddrPort{})) }
		stats := func(int) *segment.ServerStats { return &n.stats[i] }
		n.pools = append(n.pools, NewPool(l, dial, adopt, stats, &n.takeover[i]))
	}
	Join(n.pools)
	return n
}

// stream keeps a nil *Conn from becoming a Stream that is not nil.
func stream(c *reactor.Conn, err error) (reactor.Stream, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// spawn runs f in a task of a loop; the channel is closed when f has returned.
func (n *node) spawn(loop int, f func(p *Pool)) <-chan struct{} {
	done := make(chan struct{})
	l := n.loops[loop]
	l.Submit(func() { l.Go(jobFunc(func() { defer close(done); f(n.pools[loop]) })) })
	return done
}

// task runs f in a task of a loop and returns when f has.
func (n *node) task(t testing.TB, loop int, f func(p *Pool)) {
	t.Helper()
	await(t, n.spawn(loop, f))
}

// on runs f on a loop, outside any task.
func (n *node) on(t testing.TB, loop int, f func(p *Pool)) {
	t.Helper()
	done := make(chan struct{})
	n.loops[loop].Submit(func() { defer close(done); f(n.pools[loop]) })
	await(t, done)
}

func await(t testing.TB, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("a task has not come to its end")
	}
}

// until waits for a condition, evaluated on the loop.
func (n *node) until(t testing.TB, loop int, what string, cond func(p *Pool) bool) {
	t.Helper()
	if !settle(func() (ok bool) { n.on(t, loop, func(p *Pool) { ok = cond(p) }); return ok }) {
		t.Fatalf("%s: not so after some seconds", what)
	}
}

// borrow takes a connection in a task of its own.
func (n *node) borrow(t testing.TB, loop int) (c *Conn, how How) {
	t.Helper()
	n.task(t, loop, func(p *Pool) {
		var err error
		if c, how, err = p.Borrow(n.server, false); err != nil {
			t.Errorf("borrow on loop %d: %v", loop, err)
		}
	})
	if c == nil {
		t.FailNow()
	}
	return c, how
}

// give gives a connection back as the farm says.
func (n *node) give(t testing.TB, loop int, c *Conn) {
	t.Helper()
	n.task(t, loop, func(p *Pool) { n.giveBack(p, c) })
}

func (n *node) giveBack(p *Pool, c *Conn) {
	f := n.server.Farm
	p.Give(c, time.Duration(f.Timeouts.KeepAlive), f.Connections.Idle)
}

// mustHold compares what is counted with what there is.
func (n *node) mustHold(t testing.TB, open, idle int64) {
	t.Helper()
	var gotOpen, gotIdle, kept int64
	for i := range n.stats {
		gotOpen += n.stats[i].Open.Load()
		gotIdle += n.stats[i].Idle.Load()
		n.on(t, i, func(p *Pool) { kept += int64(len(p.at(n.server.State).idle)) })
	}
	if gotOpen != open || gotIdle != idle || kept != idle || n.server.open.Load() != open {
		t.Errorf("counted open %d (in all loops together %d), idle %d, kept %d; want open %d, idle %d",
			gotOpen, n.server.open.Load(), gotIdle, kept, open, idle)
	}
}

// backend is a server that answers each line with itself; at "quit" it closes.
type backend struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn // all that were ever accepted
	ended sync.WaitGroup
}

// serve starts a backend at a loopback address, until the test ends.
func serve(t testing.TB, network, address string) *backend {
	t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{Listener: ln}
	var accepting sync.WaitGroup
	accepting.Go(b.accept)
	t.Cleanup(func() {
		ln.Close()
		accepting.Wait()
		b.hangUp(t, 0)
		b.ended.Wait()
	})
	return b
}

func (b *backend) accept() {
	for {
		c, err := b.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.conns = append(b.conns, c)
		b.mu.Unlock()
		b.ended.Go(func() { echo(c) })
	}
}

func echo(c net.Conn) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for lines.Scan() && lines.Text() != "quit" {
		if _, err := c.Write(append(lines.Bytes(), '\n')); err != nil {
			return
		}
	}
}

// hangUp closes every connection of the backend, once it has accepted so many.
func (b *backend) hangUp(t testing.TB, least int) {
	t.Helper()
	if !settle(func() bool { b.mu.Lock(); defer b.mu.Unlock(); return len(b.conns) >= least }) {
		t.Fatalf("the backend has not got %d connections", least)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.Close()
	}
}

func (b *backend) url() string { return "http://" + b.Addr().String() }

// farmOf is a farm of one server.
func farmOf(url string, change func(*config.Farm)) config.Farm {
	f := config.NewFarm("app", url)
	f.Connections = config.Connections{Max: 0, Idle: 10}
	if change != nil {
		change(&f)
	}
	return f
}
