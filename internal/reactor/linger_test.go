package reactor

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A response goes out while the client is still sending, and the connection is
// ended. A plain close sends RST over what the client has not yet fetched; a
// lingering one lets it all arrive. It does not matter whether the client has
// already ended its side.
func TestLingerLetsTheResponseArrive(t *testing.T) {
	const upload, size = 4 << 20, 128 << 10 // the upload is well under lingerBytes
	response := random(size)
	for _, tc := range []struct {
		name  string
		half  bool // the client has sent its upload and closed its side
		end   func(*Conn)
		whole bool
	}{
		{"close", false, func(c *Conn) { c.Close() }, false},
		{"close after half-close", true, func(c *Conn) { c.Close() }, false},
		{"linger", false, func(c *Conn) { c.Linger(time.Minute) }, true},
		{"linger after half-close", true, func(c *Conn) { c.Linger(time.Minute) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := startLoop(t, Options{})
			near, far := narrowPair(t)
			c := adopt(t, l, near)
			if tc.half {
				far.Write(make([]byte, 16<<10)) // as much as the kernel takes unread
				far.CloseWrite()
				eventually(t, l, "the end of the upload is seen", func() bool { return c.ended })
			} else {
				go far.Write(make([]byte, upload))
			}
			inTask(t, l, func() {
				c.Await()
				if _, err := c.Write(response); err != nil {
					t.Error(err)
				}
				tc.end(c)
			})
			got, err := io.ReadAll(far)
			if whole := err == nil && bytes.Equal(got, response); whole != tc.whole {
				t.Errorf("the client got %d of %d bytes, %v", len(got), size, err)
			}
			far.Close()
			eventually(t, l, "the connection is closed", func() bool { return c.closed })
		})
	}
}

// narrowPair is a connection whose near end takes a whole response at once, and
// whose far end takes little of it before it is read.
func narrowPair(t *testing.T) (near int, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
	}}
	peer, err := dialer.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	near = dupFD(t, accepted.(*net.TCPConn))
	unix.SetsockoptInt(near, unix.SOL_SOCKET, unix.SO_SNDBUF, 200<<10)
	return near, peer.(*net.TCPConn)
}

// Lingering ends when the time is over, when the client ends, when it has sent
// lingerBytes, and when it was no good to begin with.
func TestLingerEnds(t *testing.T) {
	const size = 64 << 10
	for _, tc := range []struct {
		name  string
		begin func(h byHand, c, peer *Conn)
		step  func(h byHand, peer *Conn, i int) // between two turns
		steps int                               // after which it is closed
	}{
		{"time", nil, func(h byHand, _ *Conn, _ int) { h.pass(105 * time.Millisecond) }, 10},
		{"time, with a client that sends on", nil, func(h byHand, peer *Conn, _ int) {
			send(peer.fd, make([]byte, size))
			h.pass(105 * time.Millisecond)
		}, 10},
		{"the client ends", nil, func(_ byHand, peer *Conn, i int) {
			if send(peer.fd, make([]byte, size)); i == 3 {
				peer.Close()
			}
		}, 4},
		{"bytes", nil, func(_ byHand, peer *Conn, _ int) { send(peer.fd, make([]byte, size)) }, lingerBytes / size},
		{"aborted before", func(_ byHand, c, _ *Conn) { c.Abort(os.ErrInvalid) }, nil, 0},
		{"the client is gone before", func(h byHand, _, peer *Conn) { peer.Close(); h.turn() }, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newByHand(t)
			x, y := socketPair(t)
			c, peer := h.adopt(t, x), h.adopt(t, y)
			if tc.begin != nil {
				tc.begin(h, c, peer)
			}
			c.Linger(time.Second)
			steps := 0
			for ; !c.closed && steps < 1000; steps++ {
				tc.step(h, peer, steps)
				h.meet()
			}
			if steps != tc.steps {
				t.Errorf("closed after %d steps, want %d", steps, tc.steps)
			}
			c.Linger(time.Second) // on a closed connection does nothing
		})
	}
}

// A lingering connection ends sending at once, so that the client sees the end
// of the response; what the client sends then is thrown away without a task.
func TestLingerEndsSending(t *testing.T) {
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	tasks := 0
	on(t, l, func() { c.Linger(time.Minute); tasks = len(l.tasks) - len(l.spare) })
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the client sees %v, want %v", err, io.EOF)
	}
	if tasks != 0 {
		t.Errorf("%d tasks linger", tasks)
	}
	far.Write([]byte("more"))
	far.Close()
	eventually(t, l, "the connection is closed", func() bool { return c.closed })
}

// A connection that is turned away gets its answer with its first bytes, or in
// the end; a peer that sends on reads it too.
func TestDismiss(t *testing.T) {
	const wait = time.Second
	for _, tc := range []struct {
		name  string
		steps []func(h byHand, peer int)
		want  []string // what the peer reads after each: "-" nothing yet, "" the end
	}{
		{"who asks, and goes", []func(byHand, int){
			func(_ byHand, peer int) {},
			func(_ byHand, peer int) { send(peer, []byte("a request")) },
			func(_ byHand, peer int) { send(peer, []byte("the rest of it")) },
			func(_ byHand, peer int) { shutdownWrite(peer) },
		}, []string{"-", "farewell", "", ""}},
		{"who asks, and stays", []func(byHand, int){
			func(_ byHand, peer int) { send(peer, []byte("a request")) },
			func(h byHand, peer int) { h.pass(wait / 2) },
			func(h byHand, peer int) { h.pass(wait) },
		}, []string{"farewell", "", ""}},
		{"who only ends", []func(byHand, int){
			func(_ byHand, peer int) { shutdownWrite(peer) },
		}, []string{"farewell"}},
		{"who is silent", []func(byHand, int){
			func(h byHand, _ int) { h.pass(wait / 2) },
			func(h byHand, _ int) { h.pass(wait) },
		}, []string{"-", "farewell"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newByHand(t)
			near, peer := socketPair(t)
			defer unix.Close(peer)
			c := h.adopt(t, near)
			c.Dismiss([]byte("farewell"), wait)
			for i, step := range tc.steps {
				step(h, peer)
				h.meet()
				if got := hears(peer); got != tc.want[i] {
					t.Fatalf("after step %d the peer reads %q, want %q", i, got, tc.want[i])
				}
				if last := i == len(tc.steps)-1; c.closed != last || (h.denied == 0) != last {
					t.Fatalf("after step %d: closed %v, %d connections wait", i, c.closed, h.denied)
				}
			}
		})
	}
}

// hears is what a peer reads: "-" if there is nothing, "" at the end.
func hears(fd int) string {
	p := make([]byte, 100)
	n, e := recv(fd, p)
	if e == unix.EAGAIN {
		return "-"
	}
	return string(p[:n])
}

// Of a flood only so many wait; the others are answered and closed at once. Who
// has gone makes room.
func TestDismissIsBounded(t *testing.T) {
	h := newByHand(t)
	var peers []int
	dismiss := func(d time.Duration) (heard string, closed bool) {
		near, peer := socketPair(t)
		peers = append(peers, peer)
		c := h.adopt(t, near)
		c.Dismiss([]byte("farewell"), d)
		return hears(peer), c.closed
	}
	for i := range mostDismissed {
		if heard, closed := dismiss(time.Second); heard != "-" || closed {
			t.Fatalf("connection %d reads %q, closed %v; it should wait", i+1, heard, closed)
		}
	}
	if heard, closed := dismiss(time.Second); heard != "farewell" || !closed {
		t.Errorf("connection %d reads %q, closed %v; want it gone at once", mostDismissed+1, heard, closed)
	}
	shutdownWrite(peers[0])
	h.meet()
	if heard, closed := dismiss(time.Second); heard != "-" || closed {
		t.Errorf("after one has gone the next reads %q, closed %v; it should wait", heard, closed)
	}
	h.pass(2 * time.Second)
	if h.denied != 0 {
		t.Errorf("%d connections wait after their time", h.denied)
	}
	if heard, closed := dismiss(0); heard != "farewell" || !closed {
		t.Errorf("without time it reads %q, closed %v; want it gone at once", heard, closed)
	}
	for _, fd := range peers {
		unix.Close(fd)
	}
}
