package reactor

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// peeker is a job that looks at a connection until it has seen enough.
type peeker struct {
	*Conn
	least int
	runs  int
	seen  string
	err   error
	done  bool
}

func (p *peeker) Run() {
	p.runs++
	var buf [64]byte
	n, err := p.Peek(buf[:], p.least)
	if n == 0 && err == nil {
		p.Idle(p)
		return
	}
	p.seen, p.err, p.done = string(buf[:n]), err, true
}

// peekAt starts a peeker at one end of a pair of sockets of a loop by hand.
func peekAt(t *testing.T, least int) (h byHand, p *peeker, far int) {
	t.Helper()
	h = newByHand(t)
	near, far := socketPair(t)
	t.Cleanup(func() { unix.Close(far) })
	p = &peeker{Conn: h.adopt(t, near), least: least}
	p.Idle(p)
	h.meet()
	return h, p, far
}

// Peek waits for as much as is asked for, each piece wakes it, and nothing is taken.
func TestPeek(t *testing.T) {
	h, p, far := peekAt(t, 5)
	if p.runs != 0 {
		t.Fatal("it looks before there is anything")
	}
	for i, piece := range []string{"a", "bc", "d"} {
		unix.Write(far, []byte(piece))
		h.meet()
		if h.meet(); p.runs != i+1 || p.done {
			t.Fatalf("after %d pieces it has looked %d times; done: %v", i+1, p.runs, p.done)
		}
	}
	unix.Write(far, []byte("efg"))
	h.meet()
	if !p.done || p.seen != "abcdefg" || p.err != nil || !p.Ready() {
		t.Fatalf("done %v: %q, %v, ready %v", p.done, p.seen, p.err, p.Ready())
	}
	p.least = 7
	p.Run()
	if p.seen != "abcdefg" || p.err != nil {
		t.Errorf("a second look: %q, %v", p.seen, p.err)
	}
	h.start(func() {
		var buf [64]byte
		if n, err := p.Read(buf[:]); string(buf[:n]) != "abcdefg" || err != nil {
			t.Errorf("read %q, %v", buf[:n], err)
		}
	})
}

// The end of the stream ends the wait, and what came before it stays.
func TestPeekAtTheEnd(t *testing.T) {
	h, p, far := peekAt(t, 5)
	unix.Write(far, []byte("abc"))
	h.meet()
	unix.Shutdown(far, unix.SHUT_WR)
	h.meet()
	if !p.done || p.seen != "" || p.err != io.EOF {
		t.Errorf("done %v: %q, %v", p.done, p.seen, p.err)
	}
	p.least = 3
	if p.Run(); p.seen != "abc" || p.err != nil {
		t.Errorf("what is there: %q, %v", p.seen, p.err)
	}
	p.Close()
	if p.Run(); p.err != net.ErrClosed {
		t.Errorf("after Close: %v", p.err)
	}
}

// Of an end that epoll has not told yet the same holds.
func TestPeekBeforeTheEndIsKnown(t *testing.T) {
	h, p, far := peekAt(t, 5)
	unix.Write(far, []byte("abc"))
	n := poll(h.epoll, h.batch)
	unix.Shutdown(far, unix.SHUT_WR)
	h.dispatch(h.batch[:n])
	h.runReady()
	if p.done {
		t.Fatalf("%q, %v", p.seen, p.err)
	}
	if h.meet(); p.err != io.EOF {
		t.Errorf("%q, %v", p.seen, p.err)
	}
}

// A reset is told as one.
func TestPeekReset(t *testing.T) {
	h := newByHand(t)
	near, far := tcpPair(t)
	c, err := h.Adopt(near, netip.AddrPort{})
	if err != nil {
		t.Fatal(err)
	}
	unix.SetNonblock(near, true)
	p := &peeker{Conn: c, least: 5}
	p.Idle(p)
	far.SetLinger(0)
	far.Close()
	for range 1000 {
		if h.meet(); p.done {
			break
		}
	}
	mustFail(t, "peek", p.err, unix.ECONNRESET)
}

// A connection may tell the ends of the one that it is a part of.
func TestPose(t *testing.T) {
	l := startLoop(t, Options{})
	c, _ := tcpConn(t, l)
	own := c.LocalAddr().String()
	for _, test := range []struct{ peer, here netip.AddrPort }{
		{netip.MustParseAddrPort("203.0.113.7:1"), netip.MustParseAddrPort("[2001:db8::1]:2")},
		{netip.MustParseAddrPort("203.0.113.8:1"), netip.AddrPort{}},
	} {
		want := own
		if test.here.IsValid() {
			want = test.here.String()
		}
		on(t, l, func() {
			c.Pose(test.peer, test.here)
			if c.Peer() != test.peer || c.RemoteAddr().String() != test.peer.String() || c.LocalAddr().String() != want {
				t.Errorf("%v, %v, %v; want %v and %s", c.Peer(), c.RemoteAddr(), c.LocalAddr(), test.peer, want)
			}
		})
	}
}
