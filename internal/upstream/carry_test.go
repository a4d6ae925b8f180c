package upstream

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/reactor"
)

// fake is a Carrier whose server says what a test says. Loop only.
type fake struct {
	conn        reactor.Stream
	loop        int
	settled     bool
	most, open  int
	leaving     bool
	ended       bool
	freed, gone func()
}

func (f *fake) Settled() bool { return f.settled }
func (f *fake) Open() int     { return f.open }
func (f *fake) Leaving() bool { return f.leaving || f.ended }

func (f *fake) Room() int {
	if f.Leaving() {
		return 0
	}
	return max(0, f.most-f.open)
}

func (f *fake) Call() (reactor.Stream, error) {
	if f.Room() == 0 {
		return nil, errors.New("no room")
	}
	f.open++
	return &fakeCall{Stream: f.conn, of: f}, nil
}

func (f *fake) Leave() {
	if f.leaving = true; f.open == 0 {
		f.end()
	}
}

// end is the end of the connection; requests stay to be closed.
func (f *fake) end() {
	if f.ended {
		return
	}
	f.ended, f.open = true, 0
	f.conn.Close()
	f.gone()
}

// settle is the server's word that it takes so many.
func (f *fake) settle(most int) {
	f.settled, f.most = true, most
	f.freed()
}

// fakeCall is a request on it.
type fakeCall struct {
	reactor.Stream
	of     *fake
	closed bool
}

func (c *fakeCall) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	if f := c.of; !f.ended {
		f.open--
		f.freed()
		if f.leaving && f.open == 0 {
			f.end()
		}
	}
	return nil
}

// fleet is a node whose server is spoken to in HTTP/2, and the connections there are.
type fleet struct {
	*node
	made [][]*fake // by loop
	most int       // requests that a new connection takes; negative: it does not say
}

func newFleet(t *testing.T, loops, most int, farm config.Farm) *fleet {
	farm.Protocol = config.HTTP2
	f := &fleet{node: newNode(t, loops, farm), made: make([][]*fake, loops), most: most}
	for i := range loops {
		f.on(t, i, func(p *Pool) {
			p.CarryBy(func(conn reactor.Stream, _ time.Duration, freed, gone func()) Carrier {
				c := &fake{conn: conn, loop: i, settled: f.most >= 0, most: f.most, freed: freed, gone: gone}
				if f.most < 0 {
					c.most = 1000
				}
				f.made[i] = append(f.made[i], c)
				return c
			})
		})
	}
	t.Cleanup(func() {
		for i := range loops {
			f.on(t, i, func(p *Pool) {
				for _, c := range f.made[i] {
					c.end()
				}
				if n := len(p.at(f.server.State).queued); n > 0 {
					t.Errorf("%d are in line at the end", n)
				}
			})
		}
		f.mustCount(t, 0, 0)
	})
	return f
}

// mustCount compares the figures of open and idle connections.
func (f *fleet) mustCount(t *testing.T, open, idle int64) {
	t.Helper()
	var gotOpen, gotIdle int64
	for i := range f.stats {
		gotOpen += f.stats[i].Open.Load()
		gotIdle += f.stats[i].Idle.Load()
	}
	if gotOpen != open || gotIdle != idle || f.server.open.Load() != open || f.server.waiting.Load() != 0 {
		t.Errorf("open %d (in all loops together %d), idle %d, %d waiting; want open %d, idle %d, none waiting",
			gotOpen, f.server.open.Load(), gotIdle, f.server.waiting.Load(), open, idle)
	}
}

// loan is a request that is begun in a task of its own.
type loan struct {
	done <-chan struct{}
	loop int
	c    *Conn
	how  How
	err  error
}

func (f *fleet) begin(loop int) *loan {
	l := &loan{loop: loop}
	l.done = f.spawn(loop, func(p *Pool) { l.c, l.how, l.err = p.Borrow(f.server, false) })
	return l
}

// got awaits a request's beginning.
func (f *fleet) got(t *testing.T, l *loan) {
	t.Helper()
	if await(t, l.done); l.err != nil {
		t.Fatalf("a request on loop %d: %v", l.loop, l.err)
	}
}

// end is the end of requests.
func (f *fleet) end(t *testing.T, loans ...*loan) {
	t.Helper()
	for _, l := range loans {
		if l.c != nil {
			f.give(t, l.loop, l.c)
		}
	}
}

// lined waits until so many are in line.
func (f *fleet) lined(t *testing.T, loop, n int) {
	t.Helper()
	f.until(t, loop, fmt.Sprintf("%d are in line", n), func(p *Pool) bool { return len(p.at(f.server.State).queued) == n })
}

func quick(f *config.Farm) { f.Timeouts.Connect = config.Duration(50 * time.Millisecond) }

// TestRoomOfLinks: requests share a connection as long as it has room; the next opens
// another; room that comes free is used first.
func TestRoomOfLinks(t *testing.T) {
	f := newFleet(t, 1, 2, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	var loans []*loan
	for i, want := range []struct {
		how  How
		open int64
	}{{New, 1}, {Reused, 1}, {New, 2}, {Reused, 2}, {New, 3}} {
		l := f.begin(0)
		f.got(t, l)
		mustCome(t, fmt.Sprint("request ", i), l.how, want.how)
		f.mustCount(t, want.open, 0)
		loans = append(loans, l)
	}
	f.end(t, loans[0])
	again := f.begin(0)
	f.got(t, again)
	mustCome(t, "in the room of one that has ended", again.how, Reused)
	f.end(t, append(loans[1:], again)...)
	f.mustCount(t, 3, 3)
}

// TestOneUntilSettled: before a server has said how many requests it takes it gets one,
// and no second connection; then as many as it takes.
func TestOneUntilSettled(t *testing.T) {
	f := newFleet(t, 1, -1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	first := f.begin(0)
	f.got(t, first)
	var rest []*loan
	for range 3 {
		rest = append(rest, f.begin(0))
	}
	f.lined(t, 0, 3)
	f.mustCount(t, 1, 0)
	f.on(t, 0, func(*Pool) { f.made[0][0].settle(3) })
	f.lined(t, 0, 0)
	for i, l := range rest {
		f.got(t, l)
		if want := []How{Reused, Reused, New}[i]; l.how != want {
			t.Errorf("request %d: %v, want %v", i, l.how, want)
		}
	}
	f.mustCount(t, 2, 0)
	f.end(t, append(rest, first)...)
	f.mustCount(t, 2, 2)
}

// TestOpenFails: those who wait for a connection learn with its opener that there is
// none; who has another waits for room there.
func TestOpenFails(t *testing.T) {
	t.Run("the first", func(t *testing.T) {
		f := newFleet(t, 1, 1, farmOf("http://"+nobody, nil))
		dials := 0
		hold := f.loops[0].NewSignal()
		f.on(t, 0, func(p *Pool) {
			p.dial = func(reactor.Address, time.Duration) (reactor.Stream, error) {
				dials++
				hold.Wait(0)
				return nil, syscall.ECONNREFUSED
			}
		})
		var loans []*loan
		for range 5 {
			loans = append(loans, f.begin(0))
		}
		f.lined(t, 0, 4)
		f.on(t, 0, func(*Pool) { hold.Set() })
		for _, l := range loans {
			if await(t, l.done); !errors.Is(l.err, syscall.ECONNREFUSED) {
				t.Errorf("error %v, want ECONNREFUSED", l.err)
			}
		}
		f.on(t, 0, func(*Pool) {
			if dials != 1 {
				t.Errorf("dialled %d times", dials)
			}
		})
	})
	t.Run("one more", func(t *testing.T) {
		f := newFleet(t, 1, 1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
		one := f.begin(0)
		f.got(t, one)
		hold := f.loops[0].NewSignal()
		f.on(t, 0, func(p *Pool) {
			p.dial = func(reactor.Address, time.Duration) (reactor.Stream, error) {
				hold.Wait(0)
				return nil, syscall.ECONNREFUSED
			}
		})
		opener, waits := f.begin(0), f.begin(0)
		f.lined(t, 0, 1)
		f.on(t, 0, func(*Pool) { hold.Set() })
		if await(t, opener.done); !errors.Is(opener.err, syscall.ECONNREFUSED) {
			t.Errorf("error %v, want ECONNREFUSED", opener.err)
		}
		f.lined(t, 0, 1)
		f.end(t, one)
		f.got(t, waits)
		mustCome(t, "in the room of one that has ended", waits.how, Reused)
		f.end(t, waits)
	})
}

// TestLinkTimeout: who finds no room in time is told why.
func TestLinkTimeout(t *testing.T) {
	for _, c := range []struct {
		name string
		most int
		want error
	}{
		{"every connection is full", 1, ErrFull},
		{"it does not say how many it takes", -1, os.ErrDeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t, 1, c.most, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), func(f *config.Farm) { quick(f); f.Connections.Max = 1 }))
			f.most = c.most
			one := f.begin(0)
			f.got(t, one)
			for range 2 {
				l := f.begin(0)
				if await(t, l.done); !errors.Is(l.err, c.want) {
					t.Errorf("error %v, want %v", l.err, c.want)
				}
			}
			f.mustCount(t, 1, 0)
			f.end(t, one)
			f.mustCount(t, 1, 1)
		})
	}
}

// TestNoStreamsAllowed: a server that takes no request gets one connection, not one for
// each request; when it takes some, those who wait go on.
func TestNoStreamsAllowed(t *testing.T) {
	f := newFleet(t, 1, -1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), quick))
	refused := f.begin(0)
	f.got(t, refused)
	f.on(t, 0, func(*Pool) { f.made[0][0].settle(0) })
	f.end(t, refused)
	for range 3 {
		l := f.begin(0)
		if await(t, l.done); !errors.Is(l.err, ErrNoStreams) {
			t.Errorf("error %v, want ErrNoStreams", l.err)
		}
	}
	f.mustCount(t, 1, 1)
	f.server.Farm.Timeouts.Connect = config.Duration(patience)
	l := f.begin(0)
	f.lined(t, 0, 1)
	f.on(t, 0, func(*Pool) { f.made[0][0].settle(1) })
	f.got(t, l)
	f.end(t, l)
}

// TestLinkEnds: a connection that ends with requests open is counted once, and never as
// idle; who waits for room opens another.
func TestLinkEnds(t *testing.T) {
	f := newFleet(t, 1, 2, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), func(f *config.Farm) { f.Connections.Max = 1 }))
	a, b := f.begin(0), f.begin(0)
	f.got(t, a)
	f.got(t, b)
	waits := f.begin(0)
	f.lined(t, 0, 1)
	f.on(t, 0, func(*Pool) { f.made[0][0].end() })
	f.got(t, waits)
	mustCome(t, "after the end of the only connection", waits.how, New)
	f.mustCount(t, 1, 0)
	f.end(t, a, b)
	f.mustCount(t, 1, 0)
	f.end(t, waits)
	f.mustCount(t, 1, 1)
	f.on(t, 0, func(*Pool) { f.made[0][1].end() }) // an idle one
	f.mustCount(t, 0, 0)
}

// TestEndsUnsettled: what ends before it has begun to speak HTTP/2 fails those who wait
// for it; they do not try one after another.
func TestEndsUnsettled(t *testing.T) {
	f := newFleet(t, 1, -1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	first := f.begin(0)
	f.got(t, first)
	waits := []*loan{f.begin(0), f.begin(0), f.begin(0)}
	f.lined(t, 0, 3)
	f.on(t, 0, func(*Pool) { f.made[0][0].end() })
	for _, l := range waits {
		if await(t, l.done); !errors.Is(l.err, ErrUnsettled) {
			t.Errorf("error %v, want ErrUnsettled", l.err)
		}
	}
	f.end(t, first)
	f.mustCount(t, 0, 0)
}

// TestPassingOn: while a connection goes away, requests begin on another; those that it
// has go on, and it ends with the last.
func TestPassingOn(t *testing.T) {
	f := newFleet(t, 1, 10, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	old := f.begin(0)
	f.got(t, old)
	f.on(t, 0, func(*Pool) { f.made[0][0].leaving = true }) // GOAWAY
	next := f.begin(0)
	f.got(t, next)
	mustCome(t, "after GOAWAY", next.how, New)
	f.mustCount(t, 2, 0)
	f.end(t, old)
	f.mustCount(t, 1, 0)
	f.end(t, next)
	f.mustCount(t, 1, 1)
}

// TestRetireLinks: after a reload that removes the server, idle connections end at once,
// the others with their last request.
func TestRetireLinks(t *testing.T) {
	f := newFleet(t, 2, 10, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	idle, used, last := f.begin(1), f.begin(0), f.begin(0)
	for _, l := range []*loan{idle, used, last} {
		f.got(t, l)
	}
	f.end(t, idle)
	f.mustCount(t, 2, 1)
	f.server.gone.Store(true)
	for loop := range 2 {
		f.on(t, loop, func(p *Pool) { p.Retire(f.server.State) })
	}
	f.mustCount(t, 1, 0)
	f.end(t, used)
	f.mustCount(t, 1, 0)
	f.end(t, last)
	f.mustCount(t, 0, 0)
}

// TestOwnLinks: a loop begins requests on its own connections only.
func TestOwnLinks(t *testing.T) {
	f := newFleet(t, 2, 10, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	a, b := f.begin(0), f.begin(1)
	f.got(t, a)
	f.got(t, b)
	mustCome(t, "on another loop", b.how, New)
	if len(f.made[0]) != 1 || len(f.made[1]) != 1 || f.takeover[0].Load()+f.takeover[1].Load() != 0 {
		t.Errorf("%d and %d connections, %d taken over", len(f.made[0]), len(f.made[1]), f.takeover[1].Load())
	}
	f.end(t, a, b)
	f.mustCount(t, 2, 2)
}

// TestLimitOfLinks: with connections.max a loop that has none gets one in the place of
// its sibling's: at once if that is idle, else when its requests are over.
func TestLimitOfLinks(t *testing.T) {
	f := newFleet(t, 2, 10, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), func(f *config.Farm) { f.Connections.Max = 1 }))
	a := f.begin(0)
	f.got(t, a)
	f.end(t, a)
	b := f.begin(1)
	f.got(t, b)
	mustCome(t, "in the place of an idle one", b.how, New)
	f.mustCount(t, 1, 0)

	waits := []*loan{f.begin(0), f.begin(0)}
	f.lined(t, 0, 2)
	f.until(t, 1, "it takes no more", func(*Pool) bool { return f.made[1][0].leaving })
	behind := f.begin(1) // must not take the place that is promised
	f.lined(t, 1, 1)
	f.end(t, b)
	for _, l := range waits {
		f.got(t, l)
	}
	f.mustCountWaiting(t, 1)
	f.end(t, waits...)
	f.got(t, behind)
	f.end(t, behind)
	f.mustCount(t, 1, 1)
}

// mustCountWaiting expects one open connection and so many who wait for another.
func (f *fleet) mustCountWaiting(t *testing.T, n int64) {
	t.Helper()
	if open, waiting := f.server.open.Load(), f.server.waiting.Load(); open != 1 || waiting != n {
		t.Errorf("%d open, %d waiting; want 1 and %d", open, waiting, n)
	}
}

// TestChoiceChanges: a server that is free to choose has chosen HTTP/1.1 this time: each
// of those in line gets a connection of its own, and the shared ones end.
func TestChoiceChanges(t *testing.T) {
	f := newFleet(t, 1, 1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), func(f *config.Farm) { f.Connections.Max = 4 }))
	f.server.Farm.Protocol = config.ProtocolAuto // as if by ALPN, which has chosen HTTP/2 until now
	hold := f.loops[0].NewSignal()
	f.on(t, 0, func(p *Pool) {
		carrier := &fake{conn: nil, settled: true, most: 1, open: 1}
		old := &link{Carrier: carrier, server: f.server.State, pool: p}
		carrier.gone, carrier.freed = old.ended, old.freed
		carrier.conn = closing{}
		f.made[0] = append(f.made[0], carrier)
		p.at(f.server.State).links = append(p.at(f.server.State).links, old)
		p.at(f.server.State).stats.Open.Inc()
		f.server.open.Add(1)
		dial := p.dial
		p.dial = func(a reactor.Address, d time.Duration) (reactor.Stream, error) {
			hold.Wait(0)
			hold.Set()
			return dial(a, d)
		}
	})
	loans := []*loan{f.begin(0), f.begin(0), f.begin(0)}
	f.lined(t, 0, 2)
	f.on(t, 0, func(*Pool) { hold.Set() })
	for _, l := range loans {
		if f.got(t, l); l.c.link != nil || l.how != New {
			t.Errorf("a request shares a connection: %v", l.how)
		}
	}
	if f.server.carried() || !f.made[0][0].leaving {
		t.Error("the shared connection stays")
	}
	f.on(t, 0, func(*Pool) { f.made[0][0].end() })
	f.mustHold(t, 3, 0)
	f.end(t, loans...)
	f.mustHold(t, 3, 3)
	f.on(t, 0, func(p *Pool) { p.Retire(f.server.State) })
	f.mustHold(t, 0, 0)
}

// closing is a connection of which nothing is asked.
type closing struct{ reactor.Stream }

func (closing) Close() error { return nil }

// TestKeptBeforeSharing: idle connections of HTTP/1.1, here and with a sibling, make room
// once requests share connections.
func TestKeptBeforeSharing(t *testing.T) {
	for keeper := range 2 {
		f := newFleet(t, 2, 1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), func(f *config.Farm) { f.Connections.Max = 1 }))
		f.server.shares.Store(false)
		f.server.Farm.Protocol = config.ProtocolAuto
		kept, _ := f.borrow(t, keeper)
		f.give(t, keeper, kept)
		f.server.shares.Store(true)
		f.server.Farm.Protocol = config.HTTP2
		l := f.begin(0)
		f.got(t, l)
		if l.c.link == nil || l.how != New {
			t.Errorf("a %v connection of its own", l.how)
		}
		f.mustHold(t, 1, 0)
		f.end(t, l)
		f.mustCount(t, 1, 1)
	}
}

// TestProtocolReloaded: a server whose farm says another protocol is another: what was
// open to the old one ends.
func TestProtocolReloaded(t *testing.T) {
	servers := NewServers()
	defer servers.Close()
	var last *State
	for i, protocol := range []string{config.HTTP1, config.HTTP2, config.HTTP2, config.ProtocolAuto} {
		farm := farmOf("http://127.0.0.1:1", nil)
		farm.Protocol = protocol
		farms, gone := servers.Apply(&config.Config{Farms: config.Farms{farm}}, func(string, string) int { return 0 })
		st := farms[0].Servers[0].State
		if st.carried() != (protocol == config.HTTP2) {
			t.Errorf("%s: requests share connections: %v", protocol, st.carried())
		}
		if stays := i == 0 || i == 2; stays != (len(gone) == 0) || !stays && !slices.Contains(gone, last) {
			t.Errorf("%s: gone are %v", protocol, gone)
		}
		last = st
	}
}

// TestLinkStorm: many tasks of several loops come and go, connections end under them,
// and at the end all figures are what they were.
func TestLinkStorm(t *testing.T) {
	const loops, tasks, rounds = 3, 20, 30
	f := newFleet(t, loops, 3, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), func(f *config.Farm) {
		f.Connections.Max, f.Timeouts.Connect = 4, config.Duration(patience)
	}))
	var done []<-chan struct{}
	for i := range loops * tasks {
		loop := i % loops
		done = append(done, f.spawn(loop, func(p *Pool) {
			pause := f.loops[loop].NewSignal()
			for round := range rounds {
				c, _, err := p.Borrow(f.server, false)
				if err != nil {
					t.Errorf("task %d, round %d: %v", i, round, err)
					return
				}
				if f.server.open.Load() > 4 {
					t.Errorf("%d connections", f.server.open.Load())
				}
				p.exec.Submit(pause.Set)
				pause.Wait(0)
				if (i+round)%17 == 0 {
					c.link.Carrier.(*fake).end()
				}
				f.giveBack(p, c)
			}
		}))
	}
	for _, d := range done {
		await(t, d)
	}
	var open, idle int64
	for i := range loops {
		f.on(t, i, func(p *Pool) { open += int64(len(p.at(f.server.State).links)) })
		idle += f.stats[i].Idle.Load()
	}
	if open != idle {
		t.Errorf("%d open, %d idle, and no request is left", open, idle)
	}
	f.mustCount(t, open, idle)
}
