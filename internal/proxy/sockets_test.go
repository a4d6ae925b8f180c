package proxy

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/reactor"
)

// TestTranscriptsOverSockets plays the transcripts that tell of no time over a
// real loop and real connections.
func TestTranscriptsOverSockets(t *testing.T) {
	for _, sc := range scripts(t) {
		if !sc.virtual {
			t.Run(sc.name, func(t *testing.T) {
				r := newSockets(t)
				s := newStage(t, r, sc)
				defer s.close()
				s.play(sc)
			})
		}
	}
}

// patience ends tests that would otherwise hang.
const patience = 20 * time.Second

// sockets is a rig over a loop and loopback connections.
type sockets struct {
	t       testing.TB
	loop    *reactor.Loop
	servers []*socketServer
}

// newSockets starts a loop that runs until the test ends.
func newSockets(t testing.TB) *sockets {
	t.Helper()
	l, err := reactor.New(reactor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go l.Run()
	t.Cleanup(l.Close)
	return &sockets{t: t, loop: l}
}

// socketServer is a listening socket and the connections that came in.
type socketServer struct {
	net.Listener
	mu    sync.Mutex
	conns []*wire
}

func (r *sockets) urls(n int) (urls []string) {
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			r.t.Fatal(err)
		}
		s := &socketServer{Listener: ln}
		r.servers = append(r.servers, s)
		var accepting sync.WaitGroup
		accepting.Go(s.accept)
		r.t.Cleanup(func() {
			ln.Close()
			accepting.Wait()
			for _, w := range s.conns {
				w.end()
			}
		})
		urls = append(urls, "http://"+ln.Addr().String())
	}
	return urls
}

func (s *socketServer) accept() {
	for {
		c, err := s.Accept()
		if err != nil {
			return
		}
		w := newWire(c.(*net.TCPConn))
		s.mu.Lock()
		s.conns = append(s.conns, w)
		s.mu.Unlock()
	}
}

func (r *sockets) executor() reactor.Executor { return r.loop }

func (r *sockets) dial(a reactor.Address, timeout time.Duration) (reactor.Stream, error) {
	c, err := r.loop.Dial(a, timeout)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (r *sockets) on(f func()) {
	done := make(chan struct{})
	r.loop.Submit(func() { defer close(done); f() })
	<-done
}

func (r *sockets) wait(time.Duration) {} // what comes is waited for

func (r *sockets) settled(cond func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for over := time.Now().Add(patience); time.Now().Before(over); <-tick.C {
		if cond() {
			return true
		}
	}
	return cond()
}

func (r *sockets) mode(letter byte, mode string) {
	if mode != "refuses" {
		r.t.Fatalf("a socket cannot be told that it %s", mode)
	}
	r.servers[letter-'a'].Close()
}

func (r *sockets) server(letter byte, nth int) party {
	s := r.servers[letter-'a']
	s.mu.Lock()
	defer s.mu.Unlock()
	if nth > len(s.conns) {
		return nil
	}
	return s.conns[nth-1]
}

func (r *sockets) client(s *stage) party {
	near, far := tcpPair(r.t)
	r.on(func() {
		c, err := r.loop.Adopt(near, netip.MustParseAddrPort("127.0.0.1:5001"))
		if err != nil {
			r.t.Error(err)
			return
		}
		s.proxy.Serve(c, c.Peer(), s.script.secured, &s.script.listener)
	})
	w := newWire(far)
	r.t.Cleanup(w.end)
	return w
}

// tcpPair is a loopback connection: a descriptor for the loop, and its peer.
func tcpPair(t testing.TB) (near int, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	raw, err := accepted.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { near, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		t.Fatal(err)
	}
	return near, c.(*net.TCPConn)
}

// wire is a party's end of a real connection. Its reader runs until the end.
type wire struct {
	*net.TCPConn
	reading sync.WaitGroup

	mu   sync.Mutex
	came []byte
	over string // how it ended: end, reset
}

func newWire(c *net.TCPConn) *wire {
	w := &wire{TCPConn: c}
	w.reading.Go(w.read)
	return w
}

func (w *wire) read() {
	buf := make([]byte, 64<<10)
	for {
		n, err := w.Read(buf)
		w.mu.Lock()
		w.came = append(w.came, buf[:n]...)
		switch {
		case err == io.EOF:
			w.over = "end"
		case errors.Is(err, syscall.ECONNRESET):
			w.over = "reset"
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (w *wire) end() {
	w.Close()
	w.reading.Wait()
}

func (w *wire) send(text string) {
	w.SetWriteDeadline(time.Now().Add(patience))
	io.WriteString(w, text) // if it fails, what must come does not
}

func (w *wire) event(what string) {
	switch what {
	case "end":
		w.CloseWrite()
	case "reset":
		w.SetLinger(0)
		w.Close()
	case "close":
		w.Close()
	}
}

func (w *wire) received() (text, ended string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.came), w.over
}

func (w *wire) take(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came = w.came[n:]
}
