// Package client is one virtual client: it sends requests over connections that it
// keeps, and says how long each part took. In HTTP/1.1 they go one after another;
// in HTTP/2 and HTTP/3 several goroutines may ask at once, and share one connection.
//
// It is made for load, so it reads of an answer what framing needs and throws the
// rest away, and on a warm connection of HTTP/1.1 it allocates nothing.
//
//	client.go      Do: one request and its answer, over a kept or a new connection
//	connect.go     dialling, the TLS handshake
//	link.go        HTTP/1.1: a connection and its time-outs
//	request.go     the bytes that are sent
//	answer.go      the bytes that come back
//	share.go       HTTP/2, HTTP/3: which connection a request goes by
//	h2.go          HTTP/2: the life of a stream, from request to answer
//	h2out.go       what is sent: blocks of fields, content, windows
//	h2in.go        what comes back: frames
//	h3.go          HTTP/3: a connection of quic-go's, and what the server says about it
//	h3exchange.go  one request and its answer, on a stream
//	fields.go      HTTP/2, HTTP/3: the fields of an answer
//	cookies.go     what the server asked this client to remember
//	failure.go     why there was no answer, by kind
package client

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// DialFunc opens a connection to an address of the form host:port.
type DialFunc func(ctx context.Context, address string) (net.Conn, error)

// Protocol is what a client speaks.
type Protocol int

// The protocols.
const (
	HTTP1 Protocol = iota // the zero value
	HTTP2                 // by ALPN over TLS, else with prior knowledge (RFC 9113, section 3)
	HTTP3                 // https only
)

func (p Protocol) String() string { return [...]string{"HTTP/1.1", "HTTP/2", "HTTP/3"}[p] }

// Options are what the virtual clients of a run have in common. All are immutable.
type Options struct {
	Protocol       Protocol
	Dial           DialFunc      // of HTTP/1.1 and HTTP/2; HTTP/3 has sockets of its own
	TLS            *tls.Config   // for HTTPS; a name in it is taken for that of every server
	Resume         bool          // TLS sessions; each client has its own cache
	Window         int           // HTTP/2: bytes that may be on their way to a client; 0: 1 GiB, no hindrance
	Timeout        time.Duration // for one exchange on an open connection; at most a quarter late
	ConnectTimeout time.Duration // for the connection and its TLS handshake together
	KeepAlive      bool
	Cookies        bool
	Open           *Gauge // counts the open connections of all clients
}

// Client is one virtual client. One goroutine uses it, or many if its protocol has
// streams and connections are kept.
type Client struct {
	ctx    context.Context
	cancel context.CancelFunc
	opts   *Options
	tls    *tls.Config
	jar    jar
	out    []byte // request with cookies, built anew for each
	shared shared // connections of protocols with streams
	unbar  func() bool

	mu      sync.Mutex // guards what follows: the end of ctx comes from elsewhere
	links   []*link    // one for each remote; few, so searched in order
	stopped bool
}

// Answer is what is known of one exchange.
type Answer struct {
	Status   int           // of the final response; 0: none came
	Begin    time.Time     // before connecting
	First    time.Time     // first byte of the response
	End      time.Time     // last byte of the response, or the failure
	Connect  time.Duration // with the TLS handshake
	Sent     int64         // bytes, without those of TLS
	Received int64
	Connects int  // connections opened for it
	Reopened bool // the kept connection turned out to be closed

	Handshake time.Duration // of TLS, if there was one
	Terms     Terms         // what it came to
}

// New makes a client. When ctx ends, an exchange under way fails as Stopped.
func New(ctx context.Context, opts *Options) *Client {
	c := &Client{opts: opts}
	c.ctx, c.cancel = context.WithCancel(ctx)
	if opts.TLS != nil {
		c.tls = opts.TLS.Clone()
		if opts.Resume {
			c.tls.ClientSessionCache = tls.NewLRUClientSessionCache(0)
		}
	}
	c.unbar = context.AfterFunc(c.ctx, c.stop)
	return c
}

// Close closes all connections. Nobody may be in Do.
func (c *Client) Close() {
	c.unbar()
	c.cancel()
	c.shared.running.Wait()
	for _, l := range c.links {
		c.hangUp(l)
	}
}

// Do sends a request and reads its answer into a. A request that the server cannot
// have worked on, since it had closed the kept connection meanwhile, is sent once
// more over a new one: that is no failure.
// An error is always a *Failure.
func (c *Client) Do(r *Request, a *Answer) error {
	*a = Answer{Begin: time.Now()}
	var err error
	if c.opts.Protocol == HTTP1 {
		err = c.alone(r, a)
	} else {
		err = c.share(r, a)
	}
	if err == nil {
		return nil
	}
	a.End = time.Now()
	if c.ctx.Err() != nil {
		return &Failure{Kind: Stopped, Err: c.ctx.Err()}
	}
	return classify(err)
}

// alone is an exchange of HTTP/1.1. There, a connection that ends before the first
// byte of the answer was closed while it was idle.
func (c *Client) alone(r *Request, a *Answer) error {
	l := c.link(r)
	reused := l.conn != nil
	err := c.try(l, r, a)
	if err != nil && reused && l.silent() && closedByPeer(err) {
		a.Reopened = true
		c.hangUp(l)
		err = c.try(l, r, a)
	}
	if err != nil || !l.keep || !c.opts.KeepAlive {
		c.hangUp(l)
	}
	return err
}

// try sends the request over the link, which is opened if it is not, and reads
// the answer.
func (c *Client) try(l *link, r *Request, a *Answer) error {
	if l.conn == nil {
		if err := c.open(l, r, a); err != nil {
			return err
		}
	}
	c.arm(l, a.Begin.Add(a.Connect))
	l.begin()
	jar := c.remember(r)
	writeErr := l.write(c.render(r, jar), a)
	// A server may answer and close before it has read all of a body: the answer
	// counts then, not the failed write.
	err := l.readAnswer(r.noBody, jar, a)
	if writeErr != nil && a.Status == 0 {
		return writeErr
	}
	if writeErr != nil {
		l.keep = false
	}
	return err
}

// stop makes a blocked exchange fail at once, and any later one.
func (c *Client) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	for _, l := range c.links {
		if l.conn != nil {
			l.conn.SetDeadline(past)
		}
	}
}

// Gauge counts what is open now, and the most that was. It may be used by many
// goroutines.
type Gauge struct {
	now, peak atomic.Int64
}

// Peak is the most that was open at once since the last Rewind.
func (g *Gauge) Peak() int64 { return g.peak.Load() }

// Now is what is open.
func (g *Gauge) Now() int64 { return g.now.Load() }

// Rewind forgets the peak.
func (g *Gauge) Rewind() { g.peak.Store(g.now.Load()) }

func (g *Gauge) up() {
	now := g.now.Add(1)
	for peak := g.peak.Load(); now > peak; peak = g.peak.Load() {
		if g.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

func (g *Gauge) down() { g.now.Add(-1) }
