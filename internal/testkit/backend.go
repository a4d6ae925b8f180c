package testkit

import (
	"bufio"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Backend is a server that follows a script: a function that is the whole life of
// each of its connections.
type Backend struct {
	listener net.Listener
	running  sync.WaitGroup // accept, and one goroutine for each connection

	mu       sync.Mutex
	closing  bool       // guarded by mu
	open     []net.Conn // guarded by mu
	accepted int        // guarded by mu
	heard    []*Message // guarded by mu
}

// Peer is a backend's end of a connection. A method that fails ends the script,
// and with it the connection: what a script expects of a proxy is told by the
// test, not by the script.
type Peer struct {
	Number  int // of the connection, from 1
	backend *Backend
	conn    net.Conn
	in      *bufio.Reader
}

// Listen starts a backend on an address of network tcp or unix. The connection is
// closed when the script returns.
func Listen(t testing.TB, network, address string, script func(*Peer)) *Backend {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	b := &Backend{listener: l}
	b.running.Go(func() { b.accept(script) })
	t.Cleanup(b.Close)
	return b
}

// Serve starts a backend on a free port of the loopback interface.
func Serve(t testing.TB, script func(*Peer)) *Backend {
	t.Helper()
	return Listen(t, "tcp", "127.0.0.1:0", script)
}

// Answering is a script that answers each request with the same bytes, on
// connections that stay.
func Answering(response string) func(*Peer) {
	return func(p *Peer) {
		for {
			p.Request()
			p.Send(response)
		}
	}
}

func (b *Backend) accept(script func(*Peer)) {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		if b.closing {
			b.mu.Unlock()
			conn.Close()
			return
		}
		b.accepted++
		b.open = append(b.open, conn)
		p := &Peer{Number: b.accepted, backend: b, conn: conn, in: bufio.NewReader(conn)}
		b.mu.Unlock()
		b.running.Go(func() {
			defer b.closed(conn)
			script(p)
		})
	}
}

func (b *Backend) closed(conn net.Conn) {
	conn.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = slices.DeleteFunc(b.open, func(c net.Conn) bool { return c == conn })
}

// Close ends the backend and its connections. It may be called before the end of
// the test, for a server that goes away.
func (b *Backend) Close() {
	b.listener.Close()
	b.mu.Lock()
	b.closing = true
	for _, conn := range b.open {
		conn.Close()
	}
	b.mu.Unlock()
	b.running.Wait()
}

// Address is where the backend listens: host:port, or a path.
func (b *Backend) Address() string { return b.listener.Addr().String() }

// URL is the backend in a configuration.
func (b *Backend) URL() string {
	if b.listener.Addr().Network() == "unix" {
		return "http+unix://" + b.Address()
	}
	return "http://" + b.Address()
}

// Port is the port that the backend listens on.
func (b *Backend) Port() string { return strconv.Itoa(b.listener.Addr().(*net.TCPAddr).Port) }

// Accepted is how many connections have come.
func (b *Backend) Accepted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.accepted
}

// Open is how many connections have not ended yet.
func (b *Backend) Open() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

// Heard lists the requests that have come, in the order in which they were
// complete.
func (b *Backend) Heard() []*Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.heard)
}

// Request is the nth request that has come, from 0. The test fails if it has not.
func (b *Backend) Request(t testing.TB, n int) *Message {
	t.Helper()
	heard := b.Heard()
	if n >= len(heard) {
		t.Fatalf("the server was to get request %d, and got %d requests", n, len(heard))
	}
	return heard[n]
}

// note keeps a request for the test.
func (b *Backend) note(m *Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = append(b.heard, m)
}

// check ends the script on an error.
func (p *Peer) check(err error) {
	if err != nil {
		runtime.Goexit()
	}
}

func (p *Peer) renew() { p.conn.SetDeadline(time.Now().Add(Patience)) }

// Request reads the next request with its body.
func (p *Peer) Request() *Message {
	p.renew()
	m, err := readRequest(p.in)
	p.check(err)
	p.backend.note(m)
	return m
}

// Head reads the head of the next request, and leaves its body.
func (p *Peer) Head() *Message {
	p.renew()
	m, err := readHead(p.in)
	p.check(err)
	p.backend.note(m)
	return m
}

// Body reads the body that belongs to a head.
func (p *Peer) Body(m *Message) {
	p.renew()
	p.check(readBody(p.in, m, false))
}

// Read reads n bytes.
func (p *Peer) Read(n int) string {
	p.renew()
	text := make([]byte, n)
	_, err := io.ReadFull(p.in, text)
	p.check(err)
	return string(text)
}

// Send sends bytes.
func (p *Peer) Send(text string) {
	p.renew()
	_, err := io.WriteString(p.conn, text)
	p.check(err)
}

// AwaitEnd reads until the other end closes: how a server that never answers
// spends its time.
func (p *Peer) AwaitEnd() {
	p.conn.SetDeadline(time.Time{})
	io.Copy(io.Discard, p.in) // any error is an end
}

// CloseWrite says that nothing more will be sent.
func (p *Peer) CloseWrite() {
	if half, ok := p.conn.(interface{ CloseWrite() error }); ok {
		p.check(half.CloseWrite())
	}
}

// Reset ends the connection by RST, and the script with it.
func (p *Peer) Reset() {
	if tcp, ok := p.conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	p.conn.Close()
	runtime.Goexit()
}

// Echo sends back what comes until the other end closes.
func (p *Peer) Echo() {
	b := make([]byte, 16<<10)
	for {
		p.renew()
		n, err := p.in.Read(b)
		p.check(err)
		_, err = p.conn.Write(b[:n])
		p.check(err)
	}
}
