package reactor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Whatever the size of the body and of the pieces in which it comes, exactly its
// bytes arrive, and what follows stays in the source.
func TestSpliceMovesExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 2, pipeBytes - 1, pipeBytes, pipeBytes + 1, turnBytes + 1, 4 << 20}
	for range 10 {
		sizes = append(sizes, rng.IntN(3<<20))
	}
	for _, size := range sizes {
		for _, follows := range []string{"", "and what follows"} {
			t.Run(fmt.Sprint(size, follows), func(t *testing.T) {
				l := startLoop(t, Options{})
				from, sender := tcpConn(t, l)
				to, receiver := tcpConn(t, l)
				body := random(size)
				go func() {
					for rest := append(body[:size:size], follows...); len(rest) > 0; {
						n := min(len(rest), 1+rng.IntN(300<<10))
						sender.Write(rest[:n])
						rest = rest[n:]
					}
				}()
				arrived := make(chan []byte)
				go func() { all, _ := io.ReadAll(receiver); arrived <- all }()
				inTask(t, l, func() { spliceOnce(t, from, to, size, follows) })
				if got := await(t, "the body", arrived); !bytes.Equal(got, body) {
					t.Errorf("%d bytes arrived, want %d, the same", len(got), size)
				}
			})
		}
	}
}

// spliceOnce moves a body, ends the target, and reads what follows the body.
func spliceOnce(t *testing.T, from, to *Conn, size int, follows string) {
	told := 0
	n, fault, err := to.SpliceFrom(from, int64(size), 0, func(moved int) { told += moved })
	if n != int64(size) || fault != nil || err != nil {
		t.Errorf("moved %d of %d bytes, %v", n, size, err)
	}
	if told != size {
		t.Errorf("%d bytes were told piece by piece, %d moved", told, size)
	}
	to.Close()
	rest := make([]byte, len(follows))
	if _, err := io.ReadFull(from, rest); err != nil || string(rest) != follows {
		t.Errorf("%q follows, %v; want %q", rest, err, follows)
	}
	if from.Ready() && follows == "" {
		t.Error("an empty socket seems to have something to read")
	}
}

// Each way in which a body comes to a bad end: who failed, with what, and that
// the pipe, in which a part of the body may be, is not used again.
func TestSpliceFails(t *testing.T) {
	const body = 8 << 20
	given := errors.New("given up")
	reset := func(c *net.TCPConn) { c.SetLinger(0); c.Close() }
	for _, tc := range []struct {
		name     string
		send     int // what the sender sends of the body
		act      func(from, to *Conn, sender, receiver *net.TCPConn)
		ofSource bool
		want     []error
	}{
		{"the source ends too early", 1000, func(_, _ *Conn, s, _ *net.TCPConn) { s.CloseWrite() }, true, []error{io.ErrUnexpectedEOF}},
		{"the source ends before anything", 0, func(_, _ *Conn, s, _ *net.TCPConn) { s.CloseWrite() }, true, []error{io.ErrUnexpectedEOF}},
		{"the source is reset", 0, func(_, _ *Conn, s, _ *net.TCPConn) { reset(s) }, true, []error{syscall.ECONNRESET}},
		{"the source is aborted", 1000, func(f, _ *Conn, _, _ *net.TCPConn) { f.Abort(given) }, true, []error{given}},
		{"the source is silent for too long", 0, func(f, _ *Conn, _, _ *net.TCPConn) { f.SetReadTimeout(1) }, true, []error{os.ErrDeadlineExceeded}},
		{"the target is reset", body, func(_, _ *Conn, _, r *net.TCPConn) { reset(r) }, false, []error{syscall.ECONNRESET, syscall.EPIPE}},
		{"the target is closed by us", body, func(_, c *Conn, _, _ *net.TCPConn) { c.Close() }, false, []error{net.ErrClosed}},
		{"the target is aborted", body, func(_, c *Conn, _, _ *net.TCPConn) { c.Abort(given) }, false, []error{given}},
		{"the target takes nothing for too long", body, func(_, c *Conn, _, _ *net.TCPConn) { c.SetWriteTimeout(1) }, false, []error{os.ErrDeadlineExceeded}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := startLoop(t, Options{})
			before := descriptors()
			from, sender := tcpConn(t, l)
			to, receiver := tcpConn(t, l)
			splicing := spawn(l, func() {
				n, fault, err := to.SpliceFrom(from, body, 0, func(int) {})
				mustFail(t, "splice", err, tc.want...)
				if n >= body || (fault == from) != tc.ofSource || (fault == to) == tc.ofSource {
					t.Errorf("moved %d bytes; the fault is the source's: %v, the target's: %v", n, fault == from, fault == to)
				}
			})
			go sender.Write(make([]byte, tc.send))
			eventually(t, l, "the splice waits", func() bool {
				return tc.ofSource && from.reader != nil && !from.readable || !tc.ofSource && to.writer != nil
			})
			on(t, l, func() { tc.act(from, to, sender, receiver) })
			await(t, "the splice ends", splicing)
			on(t, l, func() {
				if len(l.pipes) != 0 {
					t.Error("a pipe that may hold bytes is kept")
				}
				from.Close()
				to.Close()
			})
			sender.Close()
			receiver.Close()
			wantOpened(t, 0, before)
		})
	}
}

// Pipes are used again, up to keptPipes are kept, and after an error nothing of
// one body is found in the next.
func TestPipesAreReused(t *testing.T) {
	l := startLoop(t, Options{})
	a, b := connPair(t, l)
	c, d := connPair(t, l)
	broken, half := connPair(t, l)
	inTask(t, l, func() {
		for round := range 50 {
			text := fmt.Sprintf("body %02d", round)
			if round%10 == 9 { // a body whose target fails when half of it is in the pipe
				half.Write([]byte("left in the pipe"))
				dead, peer := deadPair(t, l)
				dead.SpliceFrom(broken, 16, 0, func(int) {})
				dead.Close()
				unix.Close(peer)
			}
			a.Write([]byte(text))
			if _, _, err := c.SpliceFrom(b, int64(len(text)), 0, func(int) {}); err != nil {
				t.Error(err)
			}
			got := make([]byte, 64)
			if n, _ := d.Read(got); string(got[:n]) != text {
				t.Errorf("round %d: got %q", round, got[:n])
			}
			if len(l.pipes) != 1 {
				t.Errorf("round %d: %d pipes are kept, want 1", round, len(l.pipes))
			}
		}
	})
	before := descriptors()
	on(t, l, func() {
		var all []pipe
		for range keptPipes + 5 {
			p, err := l.getPipe()
			if err != nil {
				t.Error(err)
			}
			all = append(all, p)
		}
		for _, p := range all {
			l.putPipe(p, true)
		}
		if len(l.pipes) != keptPipes {
			t.Errorf("%d pipes are kept, want %d", len(l.pipes), keptPipes)
		}
	})
	wantOpened(t, 2*(keptPipes-1), before) // one pipe was kept then
}

// However many clients are slow, the kernel holds no more than lentPipes for them;
// a pipe that comes back may be had again.
func TestPipesInUseAreBounded(t *testing.T) {
	l := startLoop(t, Options{})
	on(t, l, func() {
		var all []pipe
		for range lentPipes {
			p, err := l.getPipe()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		if _, err := l.getPipe(); err != errManyPipes {
			t.Errorf("one more than %d: %v", lentPipes, err)
		}
		for i, p := range all {
			l.putPipe(p, i%2 == 0)
		}
		if p, err := l.getPipe(); err != nil || l.lent != 1 {
			t.Errorf("after all came back: %v, %d in use", err, l.lent)
		} else {
			l.putPipe(p, true)
		}
	})
}

// The source has its time anew for each piece, whatever deadline stood before.
func TestSpliceIdle(t *testing.T) {
	l := startLoop(t, Options{})
	a, b := connPair(t, l)
	c, _ := connPair(t, l)
	inTask(t, l, func() {
		a.Write([]byte("half"))
		b.SetReadTimeout(time.Hour)
		n, fault, err := c.SpliceFrom(b, 8, time.Nanosecond, func(int) {})
		if mustFail(t, "splice", err, os.ErrDeadlineExceeded); n != 4 || fault != b {
			t.Errorf("moved %d bytes, fault %v; want 4 and the source", n, fault)
		}
	})
}

// deadPair is a Conn whose peer does not listen: a write to it fails.
func deadPair(t *testing.T, l *Loop) (dead *Conn, peer int) {
	x, y := socketPair(t)
	unix.Shutdown(y, unix.SHUT_RD)
	dead, err := l.Adopt(x, Address{}.TCP)
	if err != nil {
		t.Error(err)
	}
	return dead, y
}

// Without a descriptor for a pipe nothing is moved and nobody is to blame.
func TestSpliceWithoutPipe(t *testing.T) {
	l := startLoop(t, Options{})
	a, b := connPair(t, l)
	var before unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &before)
	inTask(t, l, func() {
		b.Write([]byte("x"))
		unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: before.Max})
		defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
		n, fault, err := b.SpliceFrom(a, 1, 0, func(int) {})
		if mustFail(t, "splice", err, syscall.EMFILE); n != 0 || fault != nil {
			t.Errorf("moved %d bytes, fault %v; want none", n, fault)
		}
	})
}

// A body that is larger than every buffer on its way waits for its reader.
func TestSpliceIsHeldBack(t *testing.T) {
	const size = 32 << 20
	l := startLoop(t, Options{})
	from, sender := tcpConn(t, l)
	to, receiver := tcpConn(t, l)
	body := random(size)
	go sender.Write(body)
	moved := 0
	splicing := spawn(l, func() {
		to.SpliceFrom(from, size, 0, func(n int) { moved += n })
		to.Close()
	})
	eventually(t, l, "the splice waits for the receiver", func() bool { return to.writer != nil })
	on(t, l, func() {
		if moved >= size {
			t.Errorf("all of %d bytes were taken although nobody reads", moved)
		}
	})
	receiver.SetReadDeadline(time.Now().Add(patience))
	got, err := io.ReadAll(receiver)
	await(t, "the splice ends", splicing)
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes arrived, %v; want %d, the same", len(got), err, size)
	}
}

// A piece is what the source has now: nothing, some, or its end. Neither that nor a
// target that takes nothing holds a pipe.
func TestSplicePiece(t *testing.T) {
	l := startLoop(t, Options{})
	from, sender := tcpConn(t, l)
	to, receiver := tcpConn(t, l)
	move := func(most int) (n int, fault *Conn, err error) {
		inTask(t, l, func() { n, fault, err = to.SplicePiece(from, most) })
		return n, fault, err
	}
	if n, _, err := move(100); n != 0 || err != nil {
		t.Errorf("of a silent source %d bytes, %v", n, err)
	}
	say := "some bytes, and more"
	io.WriteString(sender, say)
	eventually(t, l, "they have come", func() bool { return unread(from.fd) == len(say) })
	for _, want := range []int{10, len(say) - 10, 0} {
		if n, fault, err := move(max(want, 10)); n != want || fault != nil || err != nil {
			t.Errorf("%d bytes, %v, want %d", n, err, want)
		}
	}
	got := make([]byte, len(say))
	if _, err := io.ReadFull(receiver, got); err != nil || string(got) != say {
		t.Errorf("%q arrived, %v", got, err)
	}
	sender.CloseWrite()
	eventually(t, l, "the end has come", func() bool { return from.Ended() })
	if n, fault, err := move(10); n != 0 || fault != from || err != io.EOF {
		t.Errorf("at the end %d bytes, %v", n, err)
	}
	on(t, l, func() {
		if l.lent != 0 || len(l.pipes) != 1 {
			t.Errorf("%d pipes are lent, %d kept", l.lent, len(l.pipes))
		}
		to.Close()
	})
	if _, fault, err := move(10); fault != to || err != net.ErrClosed {
		t.Errorf("into a closed one: %v", err)
	}
}
