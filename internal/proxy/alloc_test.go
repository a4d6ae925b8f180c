package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/accesslog"
	"sluice/internal/admission/gate"
	"sluice/internal/config"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// bare is a loop with one client and one server, whose ends the test holds as
// descriptors: it reads and writes them without an allocation of its own.
type bare struct {
	loop    *reactor.Loop
	proxy   *Proxy
	figures segment.LoopStats
	server  *segment.ServerStats
	lobby   *lobby
	client  int
	backend int
	wrap    func(*reactor.Conn) reactor.Stream // what the proxy sees of the connection to the server; nil: itself
	buf     [64 << 10]byte
}

// newBare starts it. The access log goes to a file, or is off; so may the limit be.
func newBare(t testing.TB, logPath string, limit config.Limit) *bare {
	t.Helper()
	servers := make([]segment.ServerStats, 1)
	b := &bare{server: &servers[0], lobby: newLobby(t, servers)}
	var err error
	if b.loop, err = reactor.New(reactor.Options{Panicked: b.panicked}); err != nil {
		t.Fatal(err)
	}
	go b.loop.Run()
	t.Cleanup(b.loop.Close)
	dialled := 0
	dialled, b.backend = socketPair(t)
	t.Cleanup(func() { unix.Close(b.backend) })
	dial := func(reactor.Address, time.Duration) (reactor.Stream, error) {
		c, err := b.loop.Adopt(dialled, netip.AddrPort{})
		if err == nil && b.wrap != nil {
			return b.wrap(c), nil
		}
		return c, err
	}
	cfg, err := config.Simple(":8080", "http://127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Limits.Requests = 0
	held := &cfg.Farms[0].Admission
	held.Limit, held.Queue, held.Timeout = limit, heldSessions, config.Duration(24*time.Hour) // longer than any wait that is predicted
	known := upstream.NewServers()
	farms, _ := known.Apply(cfg, func(string, string) int { return firstSlot })
	known.Close() // nothing is resolved, and the resolver allocates
	snapshot, err := NewSnapshot(cfg, farms, b.lobby.apply(farms, b.loop.Clock()))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Log.Access.Path = logPath
	log, err := accesslog.Open(cfg.Log.Access, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	near := 0
	near, b.client = socketPair(t)
	t.Cleanup(func() { unix.Close(b.client) })
	b.on(func() {
		pool := upstream.NewPool(b.loop, dial, nil, func(int) *segment.ServerStats { return b.server }, new(segment.Counter))
		b.proxy = New(b.loop, pool, b.lobby.desk, &b.figures, Place{})
		b.proxy.LogTo(log.Writer(0, &b.figures.LogDropped))
		b.proxy.Apply(snapshot)
		if c, err := b.loop.Adopt(near, netip.AddrPort{}); err == nil {
			b.serve(c)
		}
	})
	return b
}

// overTLS is one for all, so that a session costs here what it costs without.
var overTLS = &Secured{TLS: accesslog.TLS{Version: "TLSv1.3", Cipher: "TLS_AES_128_GCM_SHA256", Group: "X25519", SNI: "a.test", ALPN: "http/1.1"}}

// serve hands a client's connection to the proxy, as one of TLS, which the log then
// tells of. On the loop.
func (b *bare) serve(s reactor.Stream) {
	b.proxy.Serve(s, netip.MustParseAddrPort("192.0.2.1:5001"), overTLS, &Listener{Name: "web", Port: []byte("8080"), HTTP2: true})
}

// on runs f on the loop and returns when it has run.
func (b *bare) on(f func()) {
	done := make(chan struct{})
	b.loop.Submit(func() { defer close(done); f() })
	<-done
}

// panicked is what a worker does with a panic.
func (b *bare) panicked(job reactor.Job, _ any, _ []byte) {
	b.figures.Panics.Inc()
	if job, ok := job.(interface{ Abandon() }); ok {
		job.Abandon()
	}
}

// socketPair is two connected sockets: one for the loop, and a blocking one for
// the test, which closes it.
func socketPair(t testing.TB) (near, far int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		t.Fatal(err)
	}
	return fds[0], fds[1]
}

// pass sends bytes into one end and awaits n bytes at the other.
func (b *bare) pass(from int, bytes []byte, to, n int) error {
	if _, err := unix.Write(from, bytes); err != nil {
		return err
	}
	for got := 0; got < n; {
		m, err := unix.Read(to, b.buf[got:])
		if m <= 0 {
			return fmt.Errorf("%d of %d bytes came: %w", got, n, err)
		}
		got += m
	}
	return nil
}

// TestExchangeAllocatesNothing: whole exchanges on warm connections.
func TestExchangeAllocatesNothing(t *testing.T) {
	for _, c := range []struct{ name, request, response string }{
		{"GET", crlf("GET /a?b=c HTTP/1.1|Host: www.example|User-Agent: test|Accept: */*||"), crlf("HTTP/1.1 200 OK|Content-Length: 5|Content-Type: text/plain||hello")},
		{"small POST", crlf("POST /a HTTP/1.1|Host: www.example|Content-Length: 5||hello"), crlf("HTTP/1.1 200 OK|Content-Length: 5||hello")},
		{"chunked POST", crlf("POST /a HTTP/1.1|Host: www.example|Transfer-Encoding: chunked||5|hello|0||"), crlf("HTTP/1.1 200 OK|Content-Length: 5||hello")},
		{"chunked response", crlf("GET / HTTP/1.1|Host: www.example||"), crlf("HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|3|you|0||")},
		{"HEAD", crlf("HEAD / HTTP/1.1|Host: www.example||"), crlf("HTTP/1.1 200 OK|Content-Length: 5||")},
		{"large head", crlf("GET / HTTP/1.1|Host: www.example|Cookie: " + strings.Repeat("a", 6000) + "||"), crlf("HTTP/1.1 200 OK|Content-Length: 5||hello")},
	} {
		for _, log := range []string{"off", "file"} {
			for _, limit := range []config.Limit{"off", "1"} {
				t.Run(c.name+", log "+log+", limit "+string(limit), func(t *testing.T) {
					path := log
					if log == "file" {
						path = t.TempDir() + "/access.log"
					}
					mustAllocateNothing(t, newBare(t, path, limit), []byte(c.request), []byte(c.response))
				})
			}
		}
	}
}

// TestPiecesAllocateNothing: bodies whose pieces come one by one, and go on at once.
func TestPiecesAllocateNothing(t *testing.T) {
	b := newBare(t, "off", "off")
	steps := []struct {
		from, to *int
		bytes    []byte
	}{
		{&b.client, &b.backend, []byte(crlf("POST / HTTP/1.1|Host: x|Transfer-Encoding: chunked||"))},
		{&b.client, &b.backend, []byte(crlf("5|hello|"))},
		{&b.client, &b.backend, []byte(crlf("0||"))},
		{&b.backend, &b.client, []byte(crlf("HTTP/1.1 200 OK|Transfer-Encoding: chunked||"))},
		{&b.backend, &b.client, []byte(crlf("5|hello|"))},
		{&b.backend, &b.client, []byte(crlf("0||"))},
	}
	mustNotAllocate(t, b, func() (err error) {
		for _, s := range steps {
			err = errors.Join(err, b.pass(*s.from, s.bytes, *s.to, 1))
		}
		return err
	})
}

func mustAllocateNothing(t *testing.T, b *bare, request, response []byte) {
	t.Helper()
	toServer, toClient := lengths(t, b, request, response)
	mustNotAllocate(t, b, func() error {
		if err := b.pass(b.client, request, b.backend, toServer); err != nil {
			return err
		}
		return b.pass(b.backend, response, b.client, toClient)
	})
}

func mustNotAllocate(t *testing.T, b *bare, once func() error) {
	t.Helper()
	var failed error
	exchange := func() {
		if err := once(); err != nil && failed == nil {
			failed = err
		}
	}
	for range 100 { // every buffer and list has its size
		exchange()
	}
	n := testing.AllocsPerRun(500, exchange)
	if failed != nil {
		t.Fatal(failed)
	}
	if n != 0 {
		t.Errorf("%v allocations for an exchange", n)
	}
	if got := b.server.Reused.Load(); got < 600 {
		t.Errorf("the connection was used again %d times", got)
	}
}

// lengths lets one exchange pass and tells how long its messages are on the other
// side: they come in one write each.
func lengths(t *testing.T, b *bare, request, response []byte) (toServer, toClient int) {
	t.Helper()
	once := func(from int, bytes []byte, to int) int {
		if _, err := unix.Write(from, bytes); err != nil {
			t.Fatal(err)
		}
		n, err := unix.Read(to, b.buf[:])
		if err != nil || n == 0 {
			t.Fatalf("nothing came: %v", err)
		}
		return n
	}
	return once(b.client, request, b.backend), once(b.backend, response, b.client)
}

// BenchmarkExchange is a GET and its small answer, socket calls of all four sides
// included: without a limit, and with one that never binds.
func BenchmarkExchange(b *testing.B) {
	for _, limit := range []config.Limit{"off", "2"} {
		b.Run("limit="+string(limit), func(b *testing.B) {
			r := newBare(b, "off", limit)
			request := []byte(crlf("GET / HTTP/1.1|Host: www.example||"))
			response := []byte(crlf("HTTP/1.1 200 OK|Content-Length: 5|Date: now||hello"))
			b.ReportAllocs()
			for b.Loop() {
				if err := r.pass(r.client, request, r.backend, 1); err != nil {
					b.Fatal(err)
				}
				if err := r.pass(r.backend, response, r.client, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPermit is what a limit that never binds adds to an exchange: a server
// is looked at, a permit claimed and given back.
func BenchmarkPermit(b *testing.B) {
	r := newBare(b, "off", "2")
	r.on(func() {
		p := r.proxy
		house, server := &p.snapshot.houses[0], p.snapshot.farms[0].Servers[0]
		b.ReportAllocs()
		for b.Loop() {
			if house.line.Crowded() || !p.desk.Open(server) {
				b.Error("the limit binds")
			}
			permit, _ := house.line.Claim(p.desk, server, p.exec.Now())
			house.line.End(p.desk, &permit, gate.Good, house.target, p.exec.Now())
		}
	})
}

// idleBytes is the most that an idle session may cost: its struct, its
// connection's, and its share of the loop's tables.
const idleBytes = 1 << 10

// TestIdleSession: ten thousand connections that have been served and now wait,
// and as many that have sent a part of a head.
func TestIdleSession(t *testing.T) {
	for name, partial := range map[string]string{"between requests": "", "within a head": "GET / HTTP/1.1\r\nHost: www.exam"} {
		t.Run(name, func(t *testing.T) { measureIdle(t, partial) })
	}
}

func measureIdle(t *testing.T, partial string) {
	b := newBare(t, "off", "off")
	before := inUse()
	clients := b.idle(t, heldSessions)
	defer closeAll(clients)
	for _, fd := range clients {
		unix.Write(fd, []byte(partial))
	}
	sessions := int64(len(clients))
	rest := func() bool { return b.resting(partial) == sessions }
	if r := (&sockets{t: t, loop: b.loop}); !r.settled(rest) {
		t.Errorf("%d sessions rest with %q, want %d", b.resting(partial), partial, sessions)
	}
	b.on(func() {
		if tasks := len(b.proxy.spare); tasks != 1 {
			t.Errorf("%d exchanges were made for one request at a time", tasks)
		}
	})
	if idle := b.figures.Idle.Load(); idle != sessions+1 {
		t.Errorf("%d sessions are idle, want %d", idle, sessions+1)
	}
	if each := (inUse() - before) / sessions; each > idleBytes {
		t.Errorf("%d bytes for each of %d idle sessions, want at most %d", each, sessions, idleBytes)
	} else {
		t.Logf("%d bytes for each of %d idle sessions", each, sessions)
	}
	runtime.KeepAlive(b)
}

// resting counts the sessions, but for the client's that came first, that have let
// go of their task with this much of a head.
func (b *bare) resting(partial string) (n int64) {
	b.on(func() {
		ring := &b.proxy.sessions
		for s := ring.next.next; s != ring; s = s.next {
			if s.idle && string(s.partial) == partial {
				n++
			}
		}
	})
	return n
}

// idle makes sessions that have been served and now wait, as many as the process
// may have descriptors for, and gives their clients' ends.
func (b *bare) idle(t *testing.T, sessions int) (clients []int) {
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &most); err != nil {
		t.Fatal(err)
	}
	most.Cur = most.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &most); err != nil {
		t.Fatal(err)
	}
	if room := int(most.Max)/2 - 100; room < sessions {
		sessions = room
	}
	request := []byte(crlf("GET / HTTP/1.1|Host: www.example||"))
	response := []byte(crlf("HTTP/1.1 200 OK|Content-Length: 5|Date: now||hello"))
	for range sessions {
		near, far := socketPair(t)
		clients = append(clients, far)
		b.on(func() {
			if c, err := b.loop.Adopt(near, netip.AddrPort{}); err == nil {
				b.serve(c)
			}
		})
		if err := b.pass(far, request, b.backend, 1); err != nil {
			t.Fatal(err)
		}
		if err := b.pass(b.backend, response, far, 1); err != nil {
			t.Fatal(err)
		}
	}
	return clients
}

func closeAll(descriptors []int) {
	for _, fd := range descriptors {
		unix.Close(fd)
	}
}

// inUse is the memory in use for objects and stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
