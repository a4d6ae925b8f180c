package tlsconn

import (
	"crypto/tls"
	"net"
	"runtime"
	"testing"
	"time"

	"sluice/internal/reactor"
)

// rest makes the stream idle; ran has something when the job has run.
func rest(t *testing.T, l *reactor.Loop, s *Stream) (ran chan struct{}) {
	t.Helper()
	ran = make(chan struct{}, 1)
	on(t, l, func() { s.Idle(jobFunc(func() { ran <- struct{}{} })) })
	return ran
}

// capture has peer's next writes go into a slice, and not to far.
type capture struct {
	net.Conn
	held *[]byte
}

func (c capture) Write(p []byte) (int, error) {
	*c.held = append(*c.held, p...)
	return len(p), nil
}

// recorder is a client whose records a test sends in pieces of its own.
func recorder(t *testing.T, l *reactor.Loop, version uint16) (s *Stream, seal func(text string) []byte, far *net.TCPConn) {
	t.Helper()
	server, client := both(t, version)
	near, far := tcpPair(t)
	s = Server(adopt(t, l, near), server)
	wire := &switched{Conn: far}
	peer := tls.Client(wire, client)
	greet(t, l, s, peer, far)
	seal = func(text string) []byte {
		var held []byte
		wire.Conn = capture{far, &held}
		if _, err := peer.Write([]byte(text)); err != nil {
			t.Error(err)
		}
		wire.Conn = far
		return held
	}
	return s, seal, far
}

type switched struct{ net.Conn }

// A connection whose next record is not whole holds neither a task nor a block, and
// its job runs when it is.
func TestIdleUntilARecordIsWhole(t *testing.T) {
	each(t, func(t *testing.T, version uint16) {
		l := startLoop(t)
		s, seal, far := recorder(t, l, version)
		record := seal("hello")
		ran := rest(t, l, s)
		for i := range record {
			far.Write(record[i : i+1])
			eventually(t, l, "the byte is there", func() bool { return len(s.aside) == i+1 || len(ran) == 1 })
			on(t, l, func() {
				if last := i == len(record)-1; s.block != nil || (len(ran) == 1) != last {
					t.Errorf("byte %d of %d: block %v, %d jobs ran", i+1, len(record), s.block != nil, len(ran))
				}
			})
		}
		await(t, "the job runs", ran)
		inTask(t, l, func() {
			p := make([]byte, 10)
			if n, err := s.Read(p); string(p[:n]) != "hello" || err != nil {
				t.Errorf("read %q, %v", p[:n], err)
			}
			s.Close()
		})
	})
}

// What crypto/tls has decrypted and not delivered counts as ready.
func TestReadyWithPlaintext(t *testing.T) {
	l := startLoop(t)
	s, seal, far := recorder(t, l, 0)
	far.Write(seal("abc"))
	p := make([]byte, 1)
	for i, want := range []struct {
		text  string
		ready bool
	}{{"a", true}, {"b", true}, {"c", false}} {
		inTask(t, l, func() {
			if n, err := s.Read(p); string(p[:n]) != want.text || err != nil {
				t.Errorf("read %d: %q, %v", i, p[:n], err)
			}
			if s.Ready() != want.ready || s.Ready() != want.ready {
				t.Errorf("read %d: ready is not %v", i, want.ready)
			}
		})
	}
	ran := rest(t, l, s)
	far.Write(seal("de"))
	await(t, "the job runs", ran)
	again := rest(t, l, s) // nothing was read: it is still ready
	await(t, "it runs again", again)
	inTask(t, l, func() { s.Close() })
}

// Session tickets are no reason to wake a client that keeps a connection.
func TestTicketsAreNoContent(t *testing.T) {
	l := startLoop(t)
	s, peer, _ := meetServer(t, l, 0)
	ran := rest(t, l, s)
	eventually(t, l, "the ticket has been looked at", func() bool { return s.block == nil && len(s.aside) == 0 })
	on(t, l, func() {
		if s.Ready() || len(ran) > 0 {
			t.Error("a ticket counts as content")
		}
	})
	peer.Write([]byte("x"))
	await(t, "the job runs", ran)
	inTask(t, l, func() { s.Close() })
}

func TestIdleEnds(t *testing.T) {
	for name, end := range map[string]func(l *reactor.Loop, s *Stream, peer *tls.Conn, far *net.TCPConn){
		"close_notify": func(_ *reactor.Loop, _ *Stream, peer *tls.Conn, _ *net.TCPConn) { peer.CloseWrite() },
		"FIN":          func(_ *reactor.Loop, _ *Stream, _ *tls.Conn, far *net.TCPConn) { far.CloseWrite() },
		"RST":          func(_ *reactor.Loop, _ *Stream, _ *tls.Conn, far *net.TCPConn) { far.SetLinger(0); far.Close() },
		"deadline": func(l *reactor.Loop, s *Stream, _ *tls.Conn, _ *net.TCPConn) {
			l.Submit(func() { s.SetReadTimeout(1) })
		},
		"half a record and a deadline": func(l *reactor.Loop, s *Stream, _ *tls.Conn, far *net.TCPConn) {
			far.Write([]byte{23, 3, 3, 1})
			l.Submit(func() { s.SetReadTimeout(time.Millisecond) })
		},
		"Abort": func(l *reactor.Loop, s *Stream, _ *tls.Conn, _ *net.TCPConn) {
			l.Submit(func() { s.Abort(net.ErrClosed) })
		},
		"Close": func(l *reactor.Loop, s *Stream, _ *tls.Conn, _ *net.TCPConn) { l.Submit(func() { s.Close() }) },
		"garbage": func(_ *reactor.Loop, _ *Stream, _ *tls.Conn, far *net.TCPConn) {
			far.Write([]byte("GET / HTTP/1.1\r\n"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLoop(t)
			s, peer, far := meet(t, l, 0)
			ran := rest(t, l, s)
			end(l, s, peer, far)
			await(t, "the job runs", ran)
			inTask(t, l, func() {
				if _, err := s.Read(make([]byte, 1)); err == nil {
					t.Error("a read succeeds")
				}
				s.Close()
				if s.block != nil || s.aside != nil {
					t.Error("it holds a buffer after its end")
				}
			})
		})
	}
}

// Idle(nil) takes the job back, also when what it waits for has just come.
func TestIdleTakenBack(t *testing.T) {
	l := startLoop(t)
	s, seal, far := recorder(t, l, 0)
	on(t, l, func() {
		s.Idle(jobFunc(func() { t.Error("a job ran that was taken back") }))
		s.Idle(nil)
	})
	far.Write(seal("x"))
	eventually(t, l, "it is ready", s.Ready)
	on(t, l, func() {
		s.Idle(jobFunc(func() { t.Error("a job ran that was taken back in the same turn") }))
		s.Idle(nil)
	})
	inTask(t, l, func() {
		if n, err := s.Read(make([]byte, 8)); n != 1 || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		s.Close()
	})
}

// Watch tells of the end, and leaves what comes before where it is.
func TestWatch(t *testing.T) {
	l := startLoop(t)
	s, peer, far := meet(t, l, 0)
	ran := make(chan struct{}, 1)
	on(t, l, func() { s.Watch(jobFunc(func() { ran <- struct{}{} })) })
	peer.Write([]byte("kept"))
	eventually(t, l, "bytes are there", s.sock.Ready)
	on(t, l, func() {
		if len(ran) > 0 {
			t.Error("the job ran before the end")
		}
	})
	peer.CloseWrite()
	far.CloseWrite()
	await(t, "the job runs", ran)
	inTask(t, l, func() {
		p := make([]byte, 10)
		if n, err := s.Read(p); string(p[:n]) != "kept" || err != nil {
			t.Errorf("read %q, %v", p[:n], err)
		}
		s.Close()
	})
}

// An idle connection takes a few KiB, also one that has moved large records.
func TestIdleConnectionsAreSmall(t *testing.T) {
	const conns = 300
	const most = 9 << 10 // bytes each, of 12 KiB for the whole program
	for name, talk := range map[string]int{"after the handshake": 0, "after a large upload": 100_000} {
		t.Run(name, func(t *testing.T) {
			l := startLoop(t)
			server, client := both(t, 0)
			streams := make([]*Stream, conns)
			for i := range streams {
				near, far := tcpPair(t)
				streams[i] = Server(adopt(t, l, near), server)
				peer := tls.Client(far, client)
				greet(t, l, streams[i], peer, far)
				exchange(t, l, streams[i], peer, talk)
				rest(t, l, streams[i])
				if streams[i].lent != nil || streams[i].block != nil {
					t.Error("it rests with a buffer")
				}
			}
			with := heapInUse()
			on(t, l, func() {
				for i := range streams {
					streams[i].Idle(nil)
					streams[i].Close()
					streams[i] = nil
				}
			})
			each := (with - heapInUse()) / conns
			t.Logf("%d bytes per idle connection", each)
			if each > most {
				t.Errorf("an idle connection takes %d bytes, want at most %d", each, most)
			}
			if each < 1000 {
				t.Errorf("%d bytes: what is measured is not the connection", each)
			}
		})
	}
}

// What is freed are fields of crypto/tls: a version of Go that has others wants
// another look at trim.go.
func TestFieldsOfTLS(t *testing.T) {
	if rawInput == 0 || input == 0 || hand == 0 {
		t.Errorf("crypto/tls.Conn has no rawInput (%d), input (%d) or hand (%d) as it had", rawInput, input, hand)
	}
}

// exchange has the peer send n bytes, and the stream as many back.
func exchange(t *testing.T, l *reactor.Loop, s *Stream, peer *tls.Conn, n int) {
	t.Helper()
	if n == 0 {
		return
	}
	done := spawn(l, func() {
		p, got := make([]byte, 64<<10), 0
		for got < n {
			m, err := s.Read(p)
			if err != nil {
				t.Error(err)
				return
			}
			got += m
		}
		s.Write(make([]byte, n))
	})
	if _, err := peer.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	for p, got := make([]byte, 64<<10), 0; got < n; {
		m, err := peer.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		got += m
	}
	await(t, "the exchange ends", done)
}

func heapInUse() int64 {
	for range 3 { // pools let go of what two collections have not seen used
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
