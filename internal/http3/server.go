package http3

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/internal/reactor"
)

// Config is what connections may do and for how long. Bytes, unless it says else.
// Immutable.
type Config struct {
	Streams int // at once, of one connection

	Head   int // of a field section, as RFC 9114 4.2.2 counts them
	Line   int // of method, target and what HTTP/1.1 would put around them
	Fields int // field lines of a section

	Window int // of content that a stream may send ahead of its reader, at first
	Widest int // the same once it has grown, since its reader keeps up
	Spare  int // by which those of a connection may have grown, and still none stands in another's way

	Handshake  time.Duration // without anything of it coming; and half of what it may take in all
	Handshakes int           // in progress at once
	Header     time.Duration // for a request's head to be whole
	Idle       time.Duration // without a request
	Rate       int           // least bytes per second that a client takes of an answer, besides the stream's time for a stall; 0: no limit
	Parting    time.Duration // for a client to learn that it may not open more streams, and for the last bytes

	TLS *tls.Config // for handshakes; its NextProtos and its least version are set here
}

// Event is what a Server counts. Names are for logs.
type Event uint8

const (
	Retried   Event = iota // addresses of clients that were verified first, since many handshakes were in progress
	Refused                // connections that were refused, since as many handshakes as may be were, or the worker has too much to do
	Resets                 // requests that clients have reset before the answer's end
	Malformed              // requests that break the rules of RFC 9114 4
	Stalled                // streams of whose answer the client takes too little
	Loads                  // connections that end since the client does too much that leads to nothing
	EventCount
)

// Doorman is who a Server tells of what comes. Its methods are called on the loop,
// outside of any task.
type Doorman interface {
	// Connected takes a connection whose handshake is over.
	Connected(*Conn) Owner
	// Failed tells of one whose handshake has failed, and of its client's address.
	Failed(peer netip.AddrPort, err error)
	// Happened tells of n events.
	Happened(e Event, n uint64)
}

// Identity is what the servers of a group of sockets tell apart and share.
type Identity struct {
	// Place of the socket in its group: it stands in all IDs of its connections, and
	// tells the kernel which socket a packet is for.
	Place int
	// Reset and Token are keys of all servers of the group, from which the tokens of a
	// stateless reset and those of verified addresses are made (RFC 9000 10.3, 8.1):
	// another process answers for the connections of one that has died.
	Reset, Token [32]byte
}

// PlaceBytes is how many bytes of a connection ID tell the socket's place, high byte
// first; IDBytes is how long an ID is.
const (
	PlaceBytes = 2
	IDBytes    = 10
)

// ids makes connection IDs for the socket of one place. Who watches the network learns
// by them which connections share a socket, and nothing more (RFC 9000 5.1 asks for
// IDs that do not tie a connection's own to each other).
type ids uint16

// ConnectionIDLen implements quic.ConnectionIDGenerator.
func (ids) ConnectionIDLen() int { return IDBytes }

// GenerateConnectionID implements quic.ConnectionIDGenerator.
func (place ids) GenerateConnectionID() (quic.ConnectionID, error) {
	var b [IDBytes]byte
	binary.BigEndian.PutUint16(b[:], uint16(place))
	rand.Read(b[PlaceBytes:]) // never fails
	return quic.ConnectionIDFromBytes(b[:]), nil
}

// Server serves the connections of one UDP socket, whose requests go to one loop.
type Server struct {
	exec      reactor.Executor
	doorman   Doorman
	refuse    func() bool
	transport *quic.Transport
	listener  *quic.Listener
	config    atomic.Pointer[Config]
	shaking   atomic.Int64 // handshakes in progress
	events    [EventCount]atomic.Uint64
	telling   atomic.Bool // the loop is about to hear of events
	serving   sync.WaitGroup

	mu       sync.Mutex
	conns    map[*Conn]struct{} // those whose handshake is over
	draining bool
	then     func()      // to be called at the end; nil: it is not retiring
	over     *time.Timer // until then at the latest
	gone     bool        // it has retired
}

// Listen begins to serve a socket, which remains the caller's. refuse, which any
// goroutine calls, tells whether new connections are unwelcome at the moment.
func Listen(socket *net.UDPConn, id Identity, cfg *Config, exec reactor.Executor, doorman Doorman, refuse func() bool) (*Server, error) {
	s := &Server{exec: exec, doorman: doorman, refuse: refuse, conns: map[*Conn]struct{}{}}
	s.Configure(cfg)
	reset, token := quic.StatelessResetKey(id.Reset), quic.TokenGeneratorKey(id.Token)
	s.transport = &quic.Transport{
		Conn:                  socket,
		ConnectionIDGenerator: ids(id.Place),
		StatelessResetKey:     &reset,
		TokenGeneratorKey:     &token,
		VerifySourceAddress:   s.verifies,
		ConnContext:           s.shake,
	}
	// Both configurations are chosen anew for each connection.
	secured := &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return s.config.Load().TLS, nil
	}}
	var err error
	s.listener, err = s.transport.Listen(secured, &quic.Config{GetConfigForClient: func(*quic.ClientInfo) (*quic.Config, error) {
		return s.config.Load().transport(), nil
	}})
	if err != nil {
		return nil, fmt.Errorf("QUIC: %w", err)
	}
	s.serving.Add(1)
	go s.accept()
	return s, nil
}

// Configure changes what connections may do that begin from now on.
func (s *Server) Configure(cfg *Config) {
	own := *cfg
	own.TLS = cfg.TLS.Clone()
	own.TLS.NextProtos, own.TLS.MinVersion = []string{"h3"}, tls.VersionTLS13
	s.config.Store(&own)
}

// idlePings is how many times within the time for an idle connection quic-go asks a
// client whether it is still there. Without that a request that takes longer than an
// idle connection may would lose its connection.
const idlePings = 2

// oneWay is how many one-way streams a client may have: three, and some of types that
// are to be ignored (RFC 9114 6.2).
const oneWay = 10

// connWindow is what all streams of a connection may send ahead of their readers, bytes.
// As quic-go lets a window stay until a quarter of it is read, that much is added.
func (cfg *Config) connWindow() uint64 {
	return uint64(cfg.Streams*cfg.Window+cfg.Spare) * 4 / 3
}

// transport is the configuration as quic-go wants it, which widens the windows of streams
// by itself, each up to Widest; the connection's bounds what they hold together. 0-RTT is off, since what it
// brings can be sent again by others (RFC 9001 9.2).
func (cfg *Config) transport() *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout: cfg.Handshake, MaxIdleTimeout: cfg.Idle, KeepAlivePeriod: cfg.Idle / idlePings,
		InitialStreamReceiveWindow: uint64(cfg.Window), MaxStreamReceiveWindow: uint64(cfg.Widest),
		InitialConnectionReceiveWindow: cfg.connWindow(), MaxConnectionReceiveWindow: cfg.connWindow(),
		MaxIncomingStreams: int64(cfg.Streams), MaxIncomingUniStreams: oneWay,
		RequireStreamCreditRelease: true, // a stream counts until its request is over on the loop as well
	}
}

// accept takes connections whose handshake is over. It is a goroutine.
func (s *Server) accept() {
	defer s.serving.Done()
	for {
		q, err := s.listener.Accept(context.Background())
		if err != nil {
			return
		}
		q.Context().Value(shakingKey{}).(*handshake).end()
		c := newConn(s, q)
		s.mu.Lock()
		s.conns[c] = struct{}{}
		if s.draining {
			c.Drain()
		}
		s.mu.Unlock()
		s.serving.Add(1)
		go c.serve()
	}
}

// forget takes a connection that is gone off the list.
func (s *Server) forget(c *Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	last := s.then != nil && len(s.conns) == 0
	s.mu.Unlock()
	if last {
		go s.retired(false) // which waits for us
	}
}

// handshake is one in progress.
type handshake struct {
	server *Server
	once   sync.Once
}

type shakingKey struct{}

// end takes it off the count; true: it had been on it.
func (h *handshake) end() (was bool) {
	h.once.Do(func() {
		h.server.shaking.Add(-1)
		was = true
	})
	return was
}

// verifies reports whether a client must show first that it is where its packet says
// it is, by a Retry (RFC 9000 8.1.2): from a sixteenth of the handshakes that may be in
// progress. Until it has, it gets no more than thrice what it has sent (8.1). Each takes
// some 40 KB and a key exchange, which one packet with a false address is enough for; a
// Retry takes a client of good will one round trip.
func (s *Server) verifies(net.Addr) bool {
	if s.shaking.Load() < int64(max(1, s.config.Load().Handshakes/16)) {
		return false
	}
	s.tally(Retried)
	return true
}

var errRefused = errors.New("too much is going on")

// shake takes a connection that begins, or refuses it.
func (s *Server) shake(ctx context.Context, from *quic.ClientInfo) (context.Context, error) {
	unwelcome := s.refuse() || s.drains()
	if s.shaking.Add(1) > int64(s.config.Load().Handshakes) || unwelcome {
		s.shaking.Add(-1)
		s.tally(Refused)
		return nil, errRefused
	}
	h, peer := &handshake{server: s}, addrOf(from.RemoteAddr)
	ctx = context.WithValue(ctx, shakingKey{}, h)
	context.AfterFunc(ctx, func() {
		if h.end() {
			cause := whyNot(context.Cause(ctx))
			s.exec.Submit(func() { s.doorman.Failed(peer, cause) })
		}
	})
	return ctx, nil
}

// whyNot is why a handshake has failed, without what is QUIC's own about it: the
// error of crypto/tls, a *net.OpError named "remote error" as crypto/tls itself makes
// one where the client has refused, os.ErrDeadlineExceeded, or net.ErrClosed.
func whyNot(err error) error {
	var transport *quic.TransportError
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return os.ErrDeadlineExceeded
	case !errors.As(err, &transport) || !transport.ErrorCode.IsCryptoError():
		return net.ErrClosed
	case transport.Remote:
		return &net.OpError{Op: "remote error", Err: errors.New(transport.Error())}
	}
	for _, cause := range transport.Unwrap() {
		if cause != nil && cause != net.ErrClosed {
			return cause
		}
	}
	return errors.New(transport.Error())
}

func (s *Server) drains() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// tally counts an event, and tells the loop soon.
func (s *Server) tally(e Event) {
	s.events[e].Add(1)
	if s.telling.CompareAndSwap(false, true) {
		s.exec.Submit(s.tell)
	}
}

// tell tells the doorman. Loop only.
func (s *Server) tell() {
	s.telling.Store(false)
	for e := range EventCount {
		if n := s.events[e].Swap(0); n > 0 {
			s.doorman.Happened(e, n)
		}
	}
}

// Drain refuses new connections, and has those that there are drain. Any goroutine may
// call it.
func (s *Server) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for c := range s.conns {
		c.Drain()
	}
}

// Retire is Drain, and Close once the last connection is gone or the time is over. It
// does not wait; then is called at last, on a goroutine. Revive takes it back.
func (s *Server) Retire(within time.Duration, then func()) {
	s.Drain()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.then = then
	s.over = time.AfterFunc(within, func() { s.retired(true) })
	go s.retired(false)
}

// retired ends a server that is retiring, if its time is over or nothing is left of it.
func (s *Server) retired(over bool) {
	s.mu.Lock()
	then := s.then
	if then == nil || !over && len(s.conns) > 0 {
		s.mu.Unlock()
		return
	}
	s.then, s.gone = nil, true
	s.over.Stop()
	s.mu.Unlock()
	s.Close()
	then()
}

// Revive has a server that is retiring serve new connections again; those that it had
// come to their end all the same. False: it is too late.
func (s *Server) Revive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return false
	}
	s.over.Stop()
	s.then, s.draining = nil, false
	return true
}

// Close ends all connections at once, and returns when all goroutines have ended.
func (s *Server) Close() {
	s.listener.Close()
	s.transport.Close()
	s.serving.Wait()
}
