package worker

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit"
)

func TestClearlyMore(t *testing.T) {
	for _, test := range []struct {
		own, others int64
		want        bool
	}{
		{0, 0, false}, {16, 0, false}, {17, 0, true}, {26, 10, false}, {27, 10, true},
		{80, 64, false}, {81, 64, true}, {125, 100, false}, {126, 100, true}, {10, 100, false},
	} {
		if got := clearlyMore(test.own, test.others); got != test.want {
			t.Errorf("%d connections, and a sibling has %d: clearly more is %v", test.own, test.others, got)
		}
	}
}

// crowd opens n connections to an address, one after the other, which stay; each
// has its first request answered. It counts those that loop 1 serves.
func (h *house) crowd(address string, n int) (onSecond int) {
	h.t.Helper()
	for range n {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(func() { conn.Close() })
		if strings.Contains(ask(h.t, conn), "loop=1") {
			onSecond++
		}
	}
	return onSecond
}

// Connections that all arrive at one loop are shared with the other, but for the
// quarter that it may have more; what has few is left alone.
func TestHandOver(t *testing.T) {
	h := newHouse(t, nil, tells(t, "a").URL)
	figures := func() (own, others int64, handed uint64) {
		h.traffic.Probe()
		first, second := h.shared.Loop(0, 0), h.shared.Loop(0, 1)
		return first.Connections.Load(), second.Connections.Load(), first.HandedOver.Load()
	}
	if n := h.crowd(h.at[0], 17); n != 0 {
		t.Errorf("%d of 17 connections were handed over", n)
	}
	if n := h.crowd(h.at[0], 1); n != 1 {
		t.Error("the 18th connection of a loop was not given to the one without any")
	}
	onSecond := 1 + h.crowd(h.at[0], 182)
	own, others, handed := figures()
	if own+others != 200 || int(others) != onSecond || int(handed) != onSecond {
		t.Errorf("loops have %d and %d connections; %d of 200 were answered by the second, %d handed over", own, others, onSecond, handed)
	}
	if clearlyMore(own-lookEach-1, others) || own <= others {
		t.Errorf("loops have %d and %d connections", own, others)
	}
	h.crowd(h.at[1], 100) // now the second has more
	if _, _, again := figures(); again != handed {
		t.Errorf("a loop with fewer handed over %d connections", again-handed)
	}
	if n := h.shared.Loop(0, 1).HandedOver.Load(); n == 0 {
		t.Error("the second gave none back")
	}
	if total := h.shared.Totals(0); total.Accepted.Load() != 300 || total.Requests.Load() != 300 {
		t.Errorf("%d connections and %d requests are counted, of 300", total.Accepted.Load(), total.Requests.Load())
	}
}

// A connection on its way between two loops is counted, so that no drain ends
// without it; and it ends with the drain like the others.
func TestHandOverDuringDrain(t *testing.T) {
	h := newHouse(t, nil, tells(t, "a").URL)
	if h.crowd(h.at[0], 17) != 0 {
		t.Fatal("a connection was handed over too soon")
	}
	second := h.traffic.lanes[1]
	entered, leave := make(chan struct{}), make(chan struct{})
	second.loop.Submit(func() { close(entered); <-leave })
	<-entered
	conn, err := net.Dial("tcp", h.at[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	testkit.Eventually(t, "it is handed over", func() bool { return h.shared.Loop(0, 0).HandedOver.Load() == 1 })
	if n := h.traffic.connections(); n != 18 {
		t.Errorf("%d connections are counted, want 18", n)
	}
	second.loop.Submit(second.drain) // after the arrival
	close(leave)
	testkit.Eventually(t, "it arrives", func() bool { return second.arriving.Load() == 0 })
	if n := h.traffic.connections(); n != 18 {
		t.Errorf("%d connections are counted after the arrival, want 18", n)
	}
	mustEnd(t, conn)
	testkit.Eventually(t, "it is counted no longer", func() bool { return h.traffic.connections() == 17 })
	later, err := net.Dial("tcp", h.at[0]) // comes to a loop that drains
	if err != nil {
		t.Fatal(err)
	}
	defer later.Close()
	mustEnd(t, later)
	if n := h.shared.Loop(0, 0).HandedOver.Load(); n != 2 {
		t.Errorf("%d connections were handed over, want 2", n)
	}
}

// mustEnd checks that a connection without a request ends long before
// timeouts.header, 30 s, is over.
func mustEnd(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := io.Copy(io.Discard, c); n != 0 || err != nil {
		t.Errorf("an idle connection to a loop that drains got %d bytes, %v; want its end", n, err)
	}
}

// Whoever drains serves what waits in his sockets himself.
func TestDrainHandsNothingOver(t *testing.T) {
	h := newHouse(t, nil, tells(t, "a").URL)
	if h.crowd(h.at[0], 17) != 0 {
		t.Fatal("a connection was handed over too soon")
	}
	first := h.traffic.lanes[0]
	entered, leave := make(chan struct{}), make(chan struct{})
	first.loop.Submit(func() { close(entered); <-leave; first.drain() })
	<-entered
	conn, err := net.Dial("tcp", h.at[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	close(leave)
	mustHave(t, ask(t, conn), "a ", "loop=0")
}
