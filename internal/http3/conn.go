package http3

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/internal/http2"
)

// Owner is who has a connection served. Its methods are called on the loop, outside of
// any task.
type Owner interface {
	// Accept takes a request. It must not park.
	Accept(*Stream)
	// Ended says that the connection is gone. Its streams fail; they still want to be
	// closed.
	Ended()
}

// Conn is a connection from a client.
type Conn struct {
	server *Server
	quic   *quic.Conn
	cfg    *Config
	began  time.Time
	owner  Owner // loop only; nil before the loop has heard of it, and once it is gone

	requests sync.WaitGroup   // its goroutines but serve
	control  *quic.SendStream // ours; serve's, then part's
	parting  chan struct{}    // closed when Drain is called
	parted   sync.Once
	loads    sync.Once // the count of its end for what the client does

	mu     sync.Mutex
	open   openRequests  // whose Stream somebody has
	next   quic.StreamID // the first that the client has not opened
	told   priorities    // by PRIORITY_UPDATE
	left   bool          // GOAWAY has said so: no more are served
	kinds  uint64        // of one-way streams that have come: a bit each
	idle   *time.Timer   // runs while none is open
	quiet  chan struct{} // a token: none is open any more
	calm   http2.Calm
	silent bool // the timer is to be left alone
}

func newConn(s *Server, q *quic.Conn) *Conn {
	c := &Conn{server: s, quic: q, cfg: s.config.Load(), began: time.Now(), calm: http2.NewCalm(0), parting: make(chan struct{}), quiet: make(chan struct{}, 1)}
	return c
}

// serve is the life of a connection whose handshake is over. It is a goroutine.
func (c *Conn) serve() {
	defer c.server.serving.Done()
	defer c.server.forget(c)
	defer c.contain()
	c.server.exec.Submit(func() { c.owner = c.server.doorman.Connected(c) })
	defer c.server.exec.Submit(c.end)
	defer c.requests.Wait()
	ctx := c.quic.Context()
	var err error
	if c.control, err = c.quic.OpenUniStreamSync(ctx); err == nil {
		_, err = c.control.Write(appendGreeting(nil, c.cfg))
	}
	if err != nil {
		return
	}
	c.idle = time.AfterFunc(c.cfg.Idle, c.Drain)
	defer c.still()
	c.requests.Add(2)
	go c.acceptCritical(ctx)
	go c.part(ctx)
	for {
		q, err := c.quic.AcceptStream(ctx)
		if err != nil {
			return
		}
		if !c.admit(q) {
			q.CancelRead(quic.StreamErrorCode(RequestRejected))
			q.CancelWrite(quic.StreamErrorCode(RequestRejected))
			q.ReleaseStreamCredit()
			continue
		}
		c.requests.Add(1)
		go c.request(q)
	}
}

// end tells the owner. Loop only.
func (c *Conn) end() {
	owner := c.owner
	c.owner = nil
	owner.Ended()
}

// contain keeps a panic from ending more than the connection.
func (c *Conn) contain() {
	if v := recover(); v != nil {
		slog.Error("a connection of HTTP/3 ended by a panic", "panic", v, "stack", string(debug.Stack()))
		c.lose(InternalError, "")
	}
}

// acceptCritical takes the streams that carry no request. It is a goroutine.
func (c *Conn) acceptCritical(ctx context.Context) {
	defer c.requests.Done()
	for {
		q, err := c.quic.AcceptUniStream(ctx)
		if err != nil {
			return
		}
		c.requests.Add(1)
		go c.critical(q)
	}
}

// admit notes a request that begins; false: it comes too late.
func (c *Conn) admit(q *quic.Stream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return false
	}
	c.enlist(q)
	if len(c.open) == 1 {
		c.idle.Stop()
	}
	return true
}

// quit notes that a request is over.
func (c *Conn) quit(q *quic.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calm.Ended()
	if c.delist(q); len(c.open) > 0 {
		return
	}
	if !c.silent {
		c.idle.Reset(c.cfg.Idle)
	}
	select {
	case c.quiet <- struct{}{}:
	default:
	}
}

// still stops the timer for good.
func (c *Conn) still() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = true
	c.idle.Stop()
}

// Drain ends the connection once its requests have come to their end. The client is
// told at once, and may still open streams until it knows (RFC 9114 5.2). Any
// goroutine may call it.
func (c *Conn) Drain() { c.parted.Do(func() { close(c.parting) }) }

// endlessID is above all requests that there can be (RFC 9114 5.2).
const endlessID = maxVarint - 3

// part ends the connection after Drain. It is a goroutine, and ends with the
// connection.
func (c *Conn) part(ctx context.Context) {
	defer c.requests.Done()
	select {
	case <-c.parting:
	case <-ctx.Done():
		return
	}
	c.goAway(endlessID)
	c.pause(ctx, c.cfg.Parting)
	c.mu.Lock()
	c.left = true
	next := c.next
	c.mu.Unlock()
	c.goAway(next)
	for c.busy() {
		select {
		case <-c.quiet:
		case <-ctx.Done():
			return
		}
	}
	c.pause(ctx, c.cfg.Parting) // for what is under way to be acknowledged; most clients end the connection first
	c.lose(NoError, "")
}

func (c *Conn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) > 0
}

// goAway tells the client that no request from id on is served.
func (c *Conn) goAway(id quic.StreamID) {
	payload := appendVarint(nil, uint64(id))
	c.control.Write(append(appendFrame(nil, frameGoAway, len(payload)), payload...)) // that it fails is the connection's end
}

// pause waits for d, or for the connection's end.
func (c *Conn) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// lose ends the connection at once. Any goroutine may call it.
func (c *Conn) lose(code Code, why string) {
	if code == ExcessiveLoad {
		c.loads.Do(func() { c.server.tally(Loads) })
	}
	c.quic.CloseWithError(quic.ApplicationErrorCode(code), why)
}

// Close ends the connection at once.
func (c *Conn) Close() { c.lose(NoError, "") }

// Peer is the client's address, which may change.
func (c *Conn) Peer() netip.AddrPort { return addrOf(c.quic.RemoteAddr()) }

// addrOf is an address of UDP; invalid if it is another.
func addrOf(of net.Addr) netip.AddrPort {
	if a, ok := of.(*net.UDPAddr); ok {
		at := a.AddrPort()
		return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	}
	return netip.AddrPort{}
}

// TLS is what came of the handshake.
func (c *Conn) TLS() tls.ConnectionState { return c.quic.ConnectionState().TLS }
