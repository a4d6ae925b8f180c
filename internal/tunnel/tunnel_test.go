package tunnel

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/reactor"
	"sluice/internal/segment"
)

// patience only ends tests that would otherwise hang.
const patience = 30 * time.Second

// rig is a loop with the tunnels that a test has on it.
type rig struct {
	t     *testing.T
	loop  *reactor.Loop
	all   *Tunnels
	stats segment.LoopStats
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t}
	var err error
	r.loop, err = reactor.New(reactor.Options{Panicked: func(job reactor.Job, _ any, _ []byte) { job.(interface{ Abandon() }).Abandon() }})
	if err != nil {
		t.Fatal(err)
	}
	r.all = New(r.loop, &r.stats)
	go r.loop.Run()
	t.Cleanup(r.loop.Close)
	return r
}

// owner collects what a tunnel's owner is told.
type owner struct {
	up, down int64
	ended    chan Ending
	panics   bool
}

func newOwner() *owner { return &owner{ended: make(chan Ending, 2)} }

func (o *owner) Moved(up bool, n int) {
	if o.panics {
		panic("on purpose")
	}
	if up {
		o.up += int64(n)
	} else {
		o.down += int64(n)
	}
}

func (o *owner) Ended(t *Tunnel, e Ending) {
	t.Close(e)
	o.ended <- e
}

// join makes a tunnel between two new connections and gives their far ends. wrap is
// what it sees of each of its own.
func (r *rig) join(limits Limits, o Owner, wrap func(*reactor.Conn) reactor.Stream) (client, server *net.TCPConn, t *Tunnel) {
	r.t.Helper()
	near1, client := r.pair()
	near2, server := r.pair()
	made := make(chan *Tunnel)
	r.loop.Submit(func() {
		a, err1 := r.loop.Adopt(near1, netip.AddrPort{})
		b, err2 := r.loop.Adopt(near2, netip.AddrPort{})
		if err1 != nil || err2 != nil {
			panic("no connections")
		}
		made <- r.all.Join(wrap(a), wrap(b), limits, o)
	})
	return client, server, <-made
}

// pair is a connection: a descriptor for the loop, and its peer.
func (r *rig) pair() (near int, far *net.TCPConn) {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	accepted, err := ln.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	defer accepted.Close()
	raw, err := accepted.(*net.TCPConn).SyscallConn()
	if err != nil {
		r.t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { near, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		r.t.Fatal(err)
	}
	return near, conn.(*net.TCPConn)
}

// over waits for a tunnel's end, which comes once.
func (o *owner) over(t *testing.T) Ending {
	t.Helper()
	select {
	case e := <-o.ended:
		return e
	case <-time.After(patience):
		t.Fatal("the tunnel does not end")
	}
	panic("unreachable")
}

// sound checks that the loop has no tunnel any more, and has counted one that ended so.
func (r *rig) sound(why segment.TunnelEnd) {
	r.t.Helper()
	s := &r.stats
	if s.Tunnels.Load() != 0 || s.Tunneled.Load() != 1 || s.TunnelEnds[why].Load() != 1 {
		r.t.Errorf("%d tunnels open, %d opened, ends %v", s.Tunnels.Load(), s.Tunneled.Load(), s.TunnelEnds)
	}
}

func plain(c *reactor.Conn) reactor.Stream { return c }

// covered is a connection that cannot be spliced.
type covered struct{ *reactor.Conn }

func cover(c *reactor.Conn) reactor.Stream { return covered{c} }

// whole is one that cannot say that no more comes, as long as it is open.
type whole struct{ reactor.Stream }

func noHalf(c *reactor.Conn) reactor.Stream { return whole{c} }

func noise(seed uint64, n int) []byte {
	p := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed)}).Read(p)
	return p
}

// send writes in pieces of all sizes, then says that no more comes.
func send(c *net.TCPConn, p []byte, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for len(p) > 0 {
		n := min(len(p), 1+rng.IntN(1<<rng.IntN(20)))
		c.Write(p[:n])
		p = p[n:]
	}
	c.CloseWrite()
}

// Whatever the sizes, both directions at once carry every byte, and each has its end.
func TestBothWays(t *testing.T) {
	for name, wrap := range map[string]func(*reactor.Conn) reactor.Stream{"spliced": plain, "copied": cover} {
		for _, size := range []int{0, 1, bufferBytes - 1, bufferBytes, bufferBytes + 1, 3 << 20} {
			r, o := newRig(t), newOwner()
			client, server, _ := r.join(Limits{Idle: time.Minute, Stall: time.Minute}, o, wrap)
			up, down := noise(1, size), noise(2, size/2)
			go send(client, up, 3)
			go send(server, down, 4)
			arrived := make(chan []byte)
			go func() { all, _ := io.ReadAll(server); arrived <- all }()
			back, err := io.ReadAll(client)
			if err != nil || !bytes.Equal(back, down) {
				t.Errorf("%s, %d bytes: %d came back, want %d, the same; %v", name, size, len(back), len(down), err)
			}
			if got := <-arrived; !bytes.Equal(got, up) {
				t.Errorf("%s, %d bytes: %d arrived", name, size, len(got))
			}
			e := o.over(t)
			if e.Why != segment.TunnelClosed || e.Err != nil || e.Up != int64(len(up)) || e.Down != int64(len(down)) || o.up != e.Up || o.down != e.Down {
				t.Errorf("%s, %d bytes: ended with %+v; the owner was told of %d and %d", name, size, e, o.up, o.down)
			}
			if s := &r.stats; s.TunnelBytesIn.Load() != uint64(len(up)) || s.TunnelBytesOut.Load() != uint64(len(down)) {
				t.Errorf("%s, %d bytes: counted %d in, %d out", name, size, s.TunnelBytesIn.Load(), s.TunnelBytesOut.Load())
			}
			r.sound(segment.TunnelClosed)
		}
	}
}

// One direction that has ended leaves the other as it was.
func TestHalfClose(t *testing.T) {
	r, o := newRig(t), newOwner()
	client, server, _ := r.join(Limits{}, o, plain)
	io.WriteString(client, "question")
	client.CloseWrite()
	if q, err := io.ReadAll(server); string(q) != "question" || err != nil {
		t.Fatalf("%q, %v", q, err)
	}
	for range 3 {
		io.WriteString(server, "answer ")
		mustRead(t, client, "answer ")
	}
	server.Close()
	if rest, err := io.ReadAll(client); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if e := o.over(t); e.Why != segment.TunnelClosed || e.Up != 8 || e.Down != 21 {
		t.Errorf("ended with %+v", e)
	}
}

func mustRead(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v, want %q", got, err, want)
	}
}

// Where the end of one direction cannot be told alone, it is the end of both.
func TestNoHalfClose(t *testing.T) {
	r, o := newRig(t), newOwner()
	client, server, _ := r.join(Limits{}, o, noHalf)
	io.WriteString(client, "question")
	client.CloseWrite()
	if q, err := io.ReadAll(server); string(q) != "question" || err != nil {
		t.Errorf("%q, %v", q, err)
	}
	if rest, err := io.ReadAll(client); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if e := o.over(t); e.Why != segment.TunnelClosed {
		t.Errorf("ended with %+v", e)
	}
}

// A reset goes through, either way.
func TestReset(t *testing.T) {
	for name, why := range map[string]segment.TunnelEnd{"client": segment.TunnelClientFailed, "server": segment.TunnelServerFailed} {
		r, o := newRig(t), newOwner()
		from, to, _ := r.join(Limits{}, o, plain)
		if name == "server" {
			from, to = to, from
		}
		io.WriteString(from, "part")
		mustRead(t, to, "part")
		from.SetLinger(0)
		from.Close()
		if _, err := to.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the %s's reset reaches the other as %v", name, err)
		}
		if e := o.over(t); e.Why != why || e.Err == nil {
			t.Errorf("a reset of the %s: ended with %+v", name, e)
		}
		r.sound(why)
	}
}

// A side that takes nothing ends the tunnel after a while, whichever way bytes are
// moved.
func TestStall(t *testing.T) {
	for _, wrap := range []func(*reactor.Conn) reactor.Stream{plain, cover} {
		r, o := newRig(t), newOwner()
		client, _, _ := r.join(Limits{Stall: 50 * time.Millisecond}, o, wrap)
		client.SetWriteDeadline(time.Now().Add(patience))
		for piece, err := noise(1, 1<<20), error(nil); err == nil; { // until all buffers are full, and then the end is seen
			_, err = client.Write(piece)
		}
		if e := o.over(t); e.Why != segment.TunnelStalled || e.Up == 0 {
			t.Errorf("ended with %+v", e)
		}
		client, server, _ := r.join(Limits{}, newOwner(), wrap) // what was on its way does not get into another
		want := noise(2, 2<<20)
		go send(client, want, 1)
		if got, err := io.ReadAll(server); !bytes.Equal(got, want) {
			t.Errorf("the next tunnel carries %d bytes, want %d, the same; %v", len(got), len(want), err)
		}
	}
}

// End ends it, once, at any time.
func TestEnd(t *testing.T) {
	r, o := newRig(t), newOwner()
	client, server, tunnel := r.join(Limits{}, o, plain)
	io.WriteString(client, "x")
	mustRead(t, server, "x")
	r.loop.Submit(func() { tunnel.End(); tunnel.End() })
	if e := o.over(t); e.Why != segment.TunnelStopped || e.Up != 1 {
		t.Errorf("ended with %+v", e)
	}
	for _, c := range []net.Conn{client, server} {
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("read: %v", err)
		}
	}
	r.loop.Submit(tunnel.End)
	r.sound(segment.TunnelStopped)
	if len(o.ended) > 0 {
		t.Error("the end is told twice")
	}
}

// A fault of ours ends the tunnel that met it, and no more.
func TestPanic(t *testing.T) {
	r, o := newRig(t), newOwner()
	o.panics = true
	client, server, _ := r.join(Limits{}, o, plain)
	io.WriteString(client, "x")
	mustRead(t, server, "x")
	if _, err := io.ReadAll(client); err != nil {
		t.Error(err)
	}
	if e := o.over(t); e.Why != segment.TunnelStopped {
		t.Errorf("ended with %+v", e)
	}
	r.sound(segment.TunnelStopped)
}

// Time without a byte is counted over both directions.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exec, stats, o := reactor.NewGoroutines(), new(segment.LoopStats), newOwner()
		client, near1 := net.Pipe()
		server, near2 := net.Pipe()
		New(exec, stats).Join(reactor.Blocking(near1), reactor.Blocking(near2), Limits{Idle: 10 * time.Second}, o)
		began := time.Now()
		for i := range 6 { // one way only, then the other
			from, to := net.Conn(client), net.Conn(server)
			if i >= 3 {
				from, to = to, from
			}
			<-time.After(9 * time.Second)
			go io.WriteString(from, "x")
			if b, err := io.ReadAll(io.LimitReader(to, 1)); string(b) != "x" || err != nil {
				t.Fatalf("byte %d: %q, %v", i, b, err)
			}
		}
		if e := <-o.ended; e.Why != segment.TunnelIdle || time.Since(began) != 64*time.Second {
			t.Errorf("ended after %v with %+v", time.Since(began), e)
		}
		for _, c := range []net.Conn{client, server} {
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("read: %v", err)
			}
		}
		exec.Wait()
	})
}

// A tunnel in which nothing moves costs little memory: no task, no buffer.
func TestIdleMemory(t *testing.T) {
	const tunnels, most = 500, 6 << 10
	r := newRig(t)
	far := make([][2]int, 0, tunnels)
	before, tasks := memory(), runtime.NumGoroutine()
	for range tunnels {
		a, b := unixPair(t), unixPair(t)
		far = append(far, [2]int{a[1], b[1]})
		done := make(chan struct{})
		r.loop.Submit(func() {
			client, err1 := r.loop.Adopt(a[0], netip.AddrPort{})
			server, err2 := r.loop.Adopt(b[0], netip.AddrPort{})
			if err1 != nil || err2 != nil {
				panic("no connections")
			}
			r.all.Join(client, server, Limits{Idle: time.Hour, Stall: time.Hour}, nobody{})
			close(done)
		})
		<-done
	}
	for _, pair := range far { // each has moved something
		unix.Write(pair[0], []byte("x"))
		var b [1]byte
		for n := 0; n != 1; {
			n, _ = unix.Read(pair[1], b[:])
			runtime.Gosched()
		}
	}
	if each := (memory() - before) / tunnels; each > most {
		t.Errorf("%d bytes for each tunnel, want %d at most", each, most)
	}
	if n := runtime.NumGoroutine() - tasks; n > tunnels/10 { // the loop keeps some for what comes next
		t.Errorf("%d tasks for %d tunnels", n, tunnels)
	}
	runtime.KeepAlive(r)
}

// memory is what is in use, stacks too.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func unixPair(t *testing.T) [2]int {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[1]) })
	return fds
}

// nobody is an owner that takes no notice.
type nobody struct{}

func (nobody) Moved(bool, int)       {}
func (nobody) Ended(*Tunnel, Ending) {}

// A byte there and back allocates nothing.
func TestMovingAllocatesNothing(t *testing.T) {
	r := newRig(t)
	client, server, _ := r.join(Limits{Idle: time.Hour, Stall: time.Hour}, nobody{}, plain)
	b := make([]byte, 1)
	round := func() {
		client.Write(b)
		io.ReadFull(server, b)
		server.Write(b)
		io.ReadFull(client, b)
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n > 0.1 {
		t.Errorf("%v allocations for each round", n)
	}
}

// Names are as many as ends.
func TestNames(t *testing.T) {
	for end, name := range segment.TunnelEndNames {
		if name == "" || strings.ContainsAny(name, " -") {
			t.Errorf("end %d is called %q", end, name)
		}
	}
}
