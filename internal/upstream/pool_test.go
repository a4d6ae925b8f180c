package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/reactor"
)

// ask sends a line and expects it back.
func ask(t testing.TB, c *Conn, line string) {
	t.Helper()
	if err := talk(c, line); err != nil {
		t.Errorf("asking %q: %v", line, err)
	}
}

func talk(c *Conn, line string) error {
	got := make([]byte, 100) // longer than any answer: a short read tells that there is no more
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		return err
	}
	n, err := io.ReadAtLeast(c, got, len(line)+1)
	if err == nil && string(got[:n]) != line+"\n" {
		err = fmt.Errorf("answered %q", got[:n])
	}
	return err
}

func mustCome(t *testing.T, what string, got, want How) {
	t.Helper()
	if got != want {
		t.Errorf("%s: a %v connection, want a %v one", what, got, want)
	}
}

// TestReuse: the connection used last is taken first, with its figures.
func TestReuse(t *testing.T) {
	n := newNode(t, 1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	a, how := n.borrow(t, 0)
	mustCome(t, "the first", how, New)
	b, how := n.borrow(t, 0)
	mustCome(t, "while that is in use", how, New)
	n.mustHold(t, 2, 0)
	n.give(t, 0, a)
	n.give(t, 0, b)
	n.mustHold(t, 2, 2)
	again, how := n.borrow(t, 0)
	mustCome(t, "one that was given back", how, Reused)
	if again != b {
		t.Error("not the one used last")
	}
	n.task(t, 0, func(*Pool) { ask(t, again, "hello") })
	n.give(t, 0, again)
	n.task(t, 0, func(p *Pool) {
		c, how, err := p.Borrow(n.server, true)
		if err != nil || how != New {
			t.Errorf("a fresh one was asked for: %v, %v", how, err)
		}
		p.Discard(c)
	})
	n.mustHold(t, 2, 2)
	s := &n.stats[0]
	if s.Connects.Load() != 3 || s.Reused.Load() != 1 || s.ConnectFails.Load() != 0 {
		t.Errorf("connects %d, reused %d, failed %d", s.Connects.Load(), s.Reused.Load(), s.ConnectFails.Load())
	}
}

// TestClosedByServer: an idle connection that the server has closed is never
// handed out, whether or not the loop has heard of it.
func TestClosedByServer(t *testing.T) {
	b := serve(t, "tcp", "127.0.0.1:0")
	n := newNode(t, 1, farmOf(b.url(), nil))
	one, _ := n.borrow(t, 0)
	two, _ := n.borrow(t, 0)
	n.give(t, 0, one)
	n.give(t, 0, two)
	b.hangUp(t, 2)
	n.until(t, 0, "the loop has heard", func(p *Pool) bool { return len(p.at(n.server.State).idle) == 0 })
	n.mustHold(t, 0, 0)

	again, how := n.borrow(t, 0)
	mustCome(t, "after the server has closed all", how, New)
	b.hangUp(t, 3)
	n.until(t, 0, "the loop has heard", func(*Pool) bool { return again.Ready() })
	n.give(t, 0, again) // closed while it was in use
	n.mustHold(t, 0, 0)
}

// TestSpokeOutOfTurn: bytes that nobody asked for make a connection useless.
func TestSpokeOutOfTurn(t *testing.T) {
	n := newNode(t, 1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	c, _ := n.borrow(t, 0)
	n.give(t, 0, c)
	n.task(t, 0, func(*Pool) { c.Write([]byte("nobody will read this\n")) })
	n.until(t, 0, "it is closed", func(p *Pool) bool { return len(p.at(n.server.State).idle) == 0 })
	n.mustHold(t, 0, 0)
}

// TestKeepAlive: an idle connection ends with its time; one that is borrowed and
// given back has all of it again.
func TestKeepAlive(t *testing.T) {
	n := newNode(t, 1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	c, _ := n.borrow(t, 0)
	n.task(t, 0, func(p *Pool) { p.Give(c, time.Millisecond, 1) })
	n.until(t, 0, "its time is over", func(p *Pool) bool { return len(p.at(n.server.State).idle) == 0 })
	n.mustHold(t, 0, 0)
}

// TestIdleBound: at most so many stay.
func TestIdleBound(t *testing.T) {
	for most := range 3 {
		n := newNode(t, 1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), func(f *config.Farm) { f.Connections.Idle = most }))
		var conns []*Conn
		for range most + 1 {
			c, _ := n.borrow(t, 0)
			conns = append(conns, c)
		}
		for _, c := range conns {
			n.give(t, 0, c)
		}
		n.mustHold(t, int64(most), int64(most))
	}
}

// TestRetire: idle connections to a removed server are closed at once, those in
// use when they come back.
func TestRetire(t *testing.T) {
	n := newNode(t, 1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	idle, _ := n.borrow(t, 0)
	used, _ := n.borrow(t, 0)
	n.give(t, 0, idle)
	n.server.gone.Store(true)
	n.on(t, 0, func(p *Pool) { p.Retire(n.server.State) })
	n.mustHold(t, 1, 0)
	n.task(t, 0, func(*Pool) { ask(t, used, "still there") })
	n.give(t, 0, used)
	n.mustHold(t, 0, 0)
}

// nobody listens there: the kernel gives that port to no other test.
const nobody = "127.0.0.1:1"

// TestNoServer: what goes wrong with a connection, and that nothing stays
// counted.
func TestNoServer(t *testing.T) {
	for _, c := range []struct {
		name, url string
		want      error
	}{
		{"nobody listens", "http://" + nobody, syscall.ECONNREFUSED},
		{"no such socket", "http+unix://" + filepath.Join(t.TempDir(), "none"), syscall.ENOENT},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t, 1, farmOf(c.url, nil))
			n.task(t, 0, func(p *Pool) {
				if _, _, err := p.Borrow(n.server, false); !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
			})
			n.mustHold(t, 0, 0)
			if got := n.stats[0].ConnectFails.Load(); got != 1 {
				t.Errorf("%d failures counted", got)
			}
		})
	}
	t.Run("a name without address", func(t *testing.T) {
		n := newNode(t, 1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
		n.server.addresses.Store(nil)
		n.task(t, 0, func(p *Pool) {
			if _, _, err := p.Borrow(n.server, false); !errors.Is(err, ErrUnresolved) {
				t.Errorf("error %v, want ErrUnresolved", err)
			}
		})
		n.mustHold(t, 0, 0)
	})
}

// TestSeveralAddresses: a name of which only one address listens works at every
// try, whichever is next.
func TestSeveralAddresses(t *testing.T) {
	b := serve(t, "tcp", "127.0.0.1:0")
	n := newNode(t, 1, farmOf(b.url(), nil))
	both := []reactor.Address{{TCP: netip.MustParseAddrPort(nobody)}, {TCP: b.Addr().(*net.TCPAddr).AddrPort()}}
	for range 4 {
		n.server.addresses.Store(&both)
		c, _ := n.borrow(t, 0)
		n.task(t, 0, func(p *Pool) {
			ask(t, c, "hello")
			p.Discard(c)
		})
	}
	n.server.addresses.Store(&[]reactor.Address{both[0], both[0]})
	n.task(t, 0, func(p *Pool) {
		if _, _, err := p.Borrow(n.server, false); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("none listens: error %v", err)
		}
	})
	n.mustHold(t, 0, 0)
}

// TestFamilies: IPv4, IPv6 and Unix sockets.
func TestFamilies(t *testing.T) {
	for _, c := range []struct{ network, address, scheme string }{
		{"tcp4", "127.0.0.1:0", "http://"},
		{"tcp6", "[::1]:0", "http://"},
		{"unix", filepath.Join(t.TempDir(), "app.sock"), "http+unix://"},
	} {
		t.Run(c.network, func(t *testing.T) {
			b := serve(t, c.network, c.address)
			n := newNode(t, 2, farmOf(c.scheme+b.Addr().String(), nil))
			conn, _ := n.borrow(t, 0)
			n.task(t, 0, func(*Pool) { ask(t, conn, "hello") })
			n.give(t, 0, conn)
			taken, how := n.borrow(t, 1)
			mustCome(t, "the sibling's", how, Taken)
			n.task(t, 1, func(*Pool) { ask(t, taken, "hello again") })
			n.give(t, 1, taken)
			n.mustHold(t, 1, 1)
		})
	}
}

// TestConnectTimeout: a server whose backlog is full accepts nothing in time.
func TestConnectTimeout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "full.sock")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, 1, farmOf("http+unix://"+path, func(f *config.Farm) { f.Timeouts.Connect = config.Duration(50 * time.Millisecond) }))
	waiting, _ := n.borrow(t, 0) // takes the one place in the backlog
	n.task(t, 0, func(p *Pool) {
		if _, _, err := p.Borrow(n.server, false); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %v, want os.ErrDeadlineExceeded", err)
		}
		p.Discard(waiting)
	})
	n.mustHold(t, 0, 0)
}

// TestOwnIdleAllocatesNothing: borrowing and giving back a connection of this
// loop.
func TestOwnIdleAllocatesNothing(t *testing.T) {
	for _, loops := range []int{1, 2} {
		n := newNode(t, loops, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
		c, _ := n.borrow(t, 0)
		n.give(t, 0, c)
		var allocs float64
		n.task(t, 0, func(p *Pool) {
			allocs = testing.AllocsPerRun(1000, func() {
				c, how, err := p.Borrow(n.server, false)
				if err != nil || how != Reused {
					t.Errorf("%v, %v", how, err)
					return
				}
				n.giveBack(p, c)
			})
		})
		if allocs != 0 {
			t.Errorf("%v allocations with %d loops", allocs, loops)
		}
	}
}

// TestSlotOfAnother: a server that gets the slot of one that is gone gets none of
// its connections, even while some loop has not heard of the reload.
func TestSlotOfAnother(t *testing.T) {
	n := newNode(t, 2, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil))
	old, _ := n.borrow(t, 0)
	n.give(t, 0, old)
	n.mustHold(t, 1, 1)
	next := newNode(t, 1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), nil)).server
	for _, loop := range []int{1, 0} {
		n.task(t, loop, func(p *Pool) {
			c, how, err := p.Borrow(next, false)
			if err != nil || how != New {
				t.Errorf("loop %d: a %v connection, %v; want a new one", loop, how, err)
				return
			}
			p.Discard(c)
		})
	}
	n.mustHold(t, 0, 0)
}

// TestOpen: a connection is opened although one is idle, its first bytes are those
// asked for, and at the limit it takes the place of one that comes free.
func TestOpen(t *testing.T) {
	n := newNode(t, 1, farmOf(serve(t, "tcp", "127.0.0.1:0").url(), func(f *config.Farm) { f.Connections.Max = 2 }))
	kept, _ := n.borrow(t, 0)
	n.give(t, 0, kept)
	var own *Conn
	n.task(t, 0, func(p *Pool) {
		var err error
		if own, err = p.Open(n.server, []byte("first\n")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 100)
		if m, err := own.Read(got); string(got[:m]) != "first\n" || err != nil {
			t.Errorf("answered %q, %v", got[:m], err)
		}
	})
	n.mustHold(t, 2, 1)
	n.task(t, 0, func(p *Pool) { // the limit is reached: the idle one gives way
		another, err := p.Open(n.server, nil)
		if err != nil || another == kept {
			t.Fatalf("the kept one is given: %v, %v", another == kept, err)
		}
		ask(t, another, "hello")
		p.Discard(another)
		p.Discard(own)
	})
	n.mustHold(t, 0, 0)
	if s := &n.stats[0]; s.Connects.Load() != 3 || s.Reused.Load() != 0 {
		t.Errorf("%d connects, %d reused", s.Connects.Load(), s.Reused.Load())
	}
}
