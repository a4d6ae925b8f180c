package reactor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Edge-triggered epoll tells of an arrival once: what is there must be read to
// its end, in whatever pieces it came, and the end itself must be seen.
func TestReadToTheEnd(t *testing.T) {
	for _, tc := range []struct {
		name   string
		buffer int   // size of each Read
		writes []int // sizes of the peer's writes, one after another
	}{
		{"less than the buffer", 100, []int{10}},
		{"exactly the buffer", 100, []int{100}},
		{"twice the buffer", 100, []int{200}},
		{"one byte more than the buffer", 100, []int{101}},
		{"much more than the buffer", 512, []int{300_000}},
		{"pieces smaller than the buffer", 4096, []int{1, 10, 100, 1000, 1}},
		{"pieces larger than the buffer", 7, []int{20, 30, 40}},
		{"nothing at all", 100, nil},
	} {
		for how, endsWithData := range map[string]bool{"end with the data": true, "end later": false} {
			t.Run(tc.name+", "+how, func(t *testing.T) {
				l := startLoop(t, Options{})
				c, far := tcpConn(t, l)
				var got []byte // loop only
				var err error
				done := spawn(l, func() {
					p := make([]byte, tc.buffer)
					for n := 0; err == nil; got = append(got, p[:n]...) {
						n, err = c.Read(p)
					}
				})
				var want []byte
				for _, size := range tc.writes {
					want = append(want, random(size)...)
					far.Write(want[len(want)-size:])
					if endsWithData {
						continue
					}
					eventually(t, l, "the reader has read it and waits", func() bool { return len(got) == len(want) && c.reader != nil })
				}
				far.CloseWrite()
				await(t, "the end of the stream is seen", done)
				if err != io.EOF || !bytes.Equal(got, want) {
					t.Errorf("read %d bytes and %v; want %d and %v", len(got), err, len(want), io.EOF)
				}
			})
		}
	}
}

// random is n bytes that do not repeat.
func random(n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(p)
	return p
}

// A peer that has ended sending can still be written to, and is not hung up.
func TestHalfClosedPeerIsAnswered(t *testing.T) {
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	far.Write([]byte("question"))
	far.CloseWrite()
	hungUp := false
	inTask(t, l, func() {
		c.OnHangup(jobFunc(func() { hungUp = true }))
		question, err := io.ReadAll(c)
		if string(question) != "question" || err != nil {
			t.Errorf("read %q, %v", question, err)
		}
		if !c.Ended() {
			t.Error("the end of the peer's stream is not noted")
		}
		if _, err := c.Write([]byte("answer")); err != nil {
			t.Errorf("writing the answer: %v", err)
		}
	})
	on(t, l, func() {
		if hungUp {
			t.Error("a half-close was reported as a hang-up")
		}
		c.Close()
	})
	if answer, err := io.ReadAll(far); string(answer) != "answer" || err != nil {
		t.Errorf("the peer got %q, %v", answer, err)
	}
}

// A write larger than what the kernel takes waits and goes on, to the last byte.
func TestWriteWaitsForTheReader(t *testing.T) {
	const size = 16 << 20
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	sent := random(size)
	waited := false
	writing := spawn(l, func() {
		n, err := c.Write(sent)
		if n != size || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
		c.Close()
	})
	eventually(t, l, "the write waits", func() bool { waited = waited || c.writer != nil; return waited })
	got, err := io.ReadAll(far)
	await(t, "the write ends", writing)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("the peer got %d bytes, %v; want %d", len(got), err, size)
	}
}

// One task reads while another writes, on the same connection.
func TestReadAndWriteAtOnce(t *testing.T) {
	const size = 8 << 20
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	go io.Copy(far, far) // the peer sends everything back
	out := random(size)
	writing := spawn(l, func() { c.Write(out) })
	in := make([]byte, size)
	inTask(t, l, func() {
		if _, err := io.ReadFull(c, in); err != nil {
			t.Error(err)
		}
		c.Close()
	})
	await(t, "the write ends", writing)
	if !bytes.Equal(in, out) {
		t.Error("what came back is not what was sent")
	}
}

// A hang-up is a reset, or an end both ways of a Unix socket. It is reported
// once, and not after the wish was taken back.
func TestOnHangup(t *testing.T) {
	reset := func(c *net.TCPConn) { c.SetLinger(0); c.Close() }
	halfClose := func(c *net.TCPConn) { c.CloseWrite() }
	for _, tc := range []struct {
		name  string
		early bool // the peer acts before OnHangup is called
		back  bool // the wish is taken back before the peer acts
		peer  func(*net.TCPConn)
		want  int
	}{
		{"reset", false, false, reset, 1},
		{"reset before the wish", true, false, reset, 1},
		{"reset after the wish was taken back", false, true, reset, 0},
		{"half-close", false, false, halfClose, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := startLoop(t, Options{})
			c, far := tcpConn(t, l)
			reports := 0
			wish := func() {
				c.OnHangup(jobFunc(func() { reports++ }))
				if tc.back {
					c.OnHangup(nil)
				}
			}
			if !tc.early {
				on(t, l, wish)
			}
			tc.peer(far)
			eventually(t, l, "the loop sees what the peer did", func() bool { return c.ended })
			if tc.early {
				on(t, l, wish)
			}
			on(t, l, func() {
				if reports != tc.want {
					t.Errorf("%d reports, want %d", reports, tc.want)
				}
				c.Close()
			})
		})
	}
}

func TestOnHangupOfUnixPeer(t *testing.T) {
	h := newByHand(t)
	x, y := socketPair(t)
	a, b := h.adopt(t, x), h.adopt(t, y)
	reports := 0
	a.OnHangup(jobFunc(func() { reports++ }))
	b.Close()
	h.meet()
	shutdownWrite(a.fd) // has the kernel tell again of the same state
	h.meet()
	if reports != 1 {
		t.Errorf("%d reports, want 1", reports)
	}
}

// What a peer sent before it reset the connection may be lost; what it sent
// before it ended it is not.
func TestReadAfterReset(t *testing.T) {
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	far.SetLinger(0)
	far.Close()
	inTask(t, l, func() {
		_, err := c.Read(make([]byte, 1))
		mustFail(t, "read", err, syscall.ECONNRESET)
		_, err = c.Write([]byte("x"))
		mustFail(t, "write", err, syscall.EPIPE, syscall.ECONNRESET)
		if !strings.Contains(err.Error(), "write") {
			t.Errorf("error %q does not say what failed", err)
		}
	})
}

// Abort ends what waits on the connection, and all that comes later, with the
// error it was given first.
func TestAbort(t *testing.T) {
	first := errors.New("the other side has failed")
	waits := map[string]func(c *Conn) error{
		"read":  func(c *Conn) error { _, err := c.Read(make([]byte, 1)); return err },
		"await": func(c *Conn) error { return c.Await() },
		"write": func(c *Conn) error { _, err := c.Write(make([]byte, 16<<20)); return err },
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			l := startLoop(t, Options{})
			c, _ := tcpConn(t, l)
			waiting := spawn(l, func() {
				mustFail(t, "the waiting "+name, wait(c), first)
				for later, wait := range waits {
					mustFail(t, "a later "+later, wait(c), first)
				}
			})
			eventually(t, l, "the task waits", func() bool { return c.reader != nil || c.writer != nil })
			on(t, l, func() { c.Abort(first); c.Abort(errors.New("second")) })
			await(t, "the wait ends", waiting)
		})
	}
}

// A connection that is idle when it is aborted starts its job, which sees why.
func TestAbortWhileIdle(t *testing.T) {
	gone := errors.New("gone")
	l := startLoop(t, Options{})
	c, _ := tcpConn(t, l)
	seen := make(chan error, 1)
	on(t, l, func() {
		c.Idle(jobFunc(func() { seen <- c.Await() }))
		c.Abort(gone)
	})
	mustFail(t, "await", await(t, "the idle job runs", seen), gone)
}

// Idle(nil) takes the job back: what arrives then is for the next who reads.
func TestIdleTakenBack(t *testing.T) {
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	on(t, l, func() {
		c.Idle(jobFunc(func() { t.Error("a job ran that was taken back") }))
		c.Idle(nil)
	})
	far.Write([]byte("x"))
	inTask(t, l, func() {
		if n, err := c.Read(make([]byte, 8)); n != 1 || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
	})
}

func TestCloseEndsWaits(t *testing.T) {
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	reading := spawn(l, func() {
		_, err := c.Read(make([]byte, 1))
		mustFail(t, "read", err, net.ErrClosed)
	})
	writing := spawn(l, func() {
		_, err := c.Write(make([]byte, 16<<20))
		mustFail(t, "write", err, net.ErrClosed)
	})
	eventually(t, l, "both wait", func() bool { return c.reader != nil && c.writer != nil })
	on(t, l, func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		mustFail(t, "second close", c.Close(), net.ErrClosed)
	})
	await(t, "the read ends", reading)
	await(t, "the write ends", writing)
	if _, err := io.Copy(io.Discard, far); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer sees %v", err)
	}
}

// A connection moves to and fro between two loops while its peer sends. Not a
// byte is lost or told twice.
func TestDetachAndAdopt(t *testing.T) {
	const moves, chunk = 200, 1000
	loops := []*Loop{startLoop(t, Options{}), startLoop(t, Options{})}
	near, far := tcpPair(t)
	go func() {
		defer far.CloseWrite()
		for i := range uint32(moves * chunk / 4) {
			if binary.Write(far, binary.BigEndian, i) != nil {
				return
			}
		}
	}()
	fd, next := near, uint32(0)
	for move := range moves {
		l := loops[move%2]
		inTask(t, l, func() {
			c, err := l.Adopt(fd, netip.AddrPort{})
			if err != nil {
				t.Error(err)
				return
			}
			p := make([]byte, chunk)
			if _, err := io.ReadFull(c, p); err != nil {
				t.Errorf("move %d: %v", move, err)
			}
			for ; len(p) > 0; p = p[4:] {
				if got := binary.BigEndian.Uint32(p); got != next {
					t.Errorf("move %d: number %d came as %d", move, next, got)
				}
				next++
			}
			fd = c.Detach()
			mustFail(t, "await after Detach", c.Await(), net.ErrClosed)
		})
	}
	unix.Close(fd)
}

// A detached connection's events and deadlines no longer reach its old loop.
func TestDetachTakesEverythingAlong(t *testing.T) {
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	var fd int
	on(t, l, func() {
		c.Idle(jobFunc(func() { t.Error("the idle job ran") }))
		c.OnHangup(jobFunc(func() { t.Error("the hang-up was reported") }))
		c.SetReadTimeout(time.Nanosecond)
		if fd = c.Detach(); c.timer.tick != 0 {
			t.Error("its timer is still armed")
		}
	})
	far.SetLinger(0)
	far.Close()
	heir := adopt(t, l, fd)
	eventually(t, l, "the reset is seen", func() bool { return heir.hung })
}

func TestAddresses(t *testing.T) {
	l := startLoop(t, Options{})
	taken := make(chan *Conn, 1)
	_, addr := serveOn(t, l, func(c *Conn) { taken <- c })
	client := dial(t, addr)
	c := await(t, "the connection", taken)
	on(t, l, func() {
		if c.Peer().String() != client.LocalAddr().String() || c.RemoteAddr().String() != client.LocalAddr().String() {
			t.Errorf("peer %v, %v; want %v", c.Peer(), c.RemoteAddr(), client.LocalAddr())
		}
		if c.LocalAddr().String() != addr {
			t.Errorf("local address %v; want %v", c.LocalAddr(), addr)
		}
	})
	a, _ := connPair(t, l)
	on(t, l, func() {
		if got := a.LocalAddr().Network(); got != "unix" || a.Peer().IsValid() {
			t.Errorf("a Unix socket has network %q and peer %v", got, a.Peer())
		}
	})
}

// A connection is one struct of three or four cache lines.
func TestSizeOfConn(t *testing.T) {
	const most = 256
	if size := unsafe.Sizeof(Conn{}); size > most {
		t.Errorf("a Conn takes %d bytes; want at most %d", size, most)
	}
}
