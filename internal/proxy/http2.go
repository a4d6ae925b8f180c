package proxy

import (
	"net/netip"
	"time"

	"sluice/internal/http2"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// What a connection to a client may have under way of uploads that were not read, bytes.
// With 100 streams that is 8.25 MiB at most, and whoever is slow holds up none but himself.
const (
	// UploadWindow is what each stream may send ahead at first: as much as nginx reads
	// ahead, so that what waits for a permit, and is not read, costs no more.
	UploadWindow = 64 << 10
	// WidestUpload is what one may that is read as fast as it comes: 20 MB/s over 50 ms.
	WidestUpload = 1 << 20
	// SpareUploads is what all of a connection may have beyond UploadWindow together.
	SpareUploads = 2 << 20
)

// newHTTP2 makes what serves connections of HTTP/2 with a snapshot's limits.
func (p *Proxy) newHTTP2(s *Snapshot) *http2.Server {
	t := &s.timeouts
	return http2.NewServer(p.exec, http2.Config{
		Streams: s.streams, Head: s.limits.Head, Line: s.limits.Line, Fields: s.limits.Fields,
		Window: UploadWindow, Widest: WidestUpload, Spare: SpareUploads,
		Settled: time.Duration(t.Header), Partial: time.Duration(t.Header), Idle: time.Duration(t.Idle),
		Stall: time.Duration(t.Write), Rate: int(t.Rate), Parting: drainGrace,
		ExtendedConnect: true,
		Count:           func(c http2.Class) { p.stats.Abuses[c].Inc() },
	})
}

// newClient makes what speaks HTTP/2 to servers, on connections that end when they have
// had no request for idle.
func (p *Proxy) newClient(s *Snapshot, idle time.Duration) *http2.Client {
	t := &s.timeouts
	return http2.NewClient(p.exec, http2.Config{
		Streams: mostCalls, Head: s.answer.Head, Line: s.answer.Head, Fields: s.answer.Fields,
		Window: callWindow, Widest: widestCall, Spare: spareCalls,
		Settled: time.Duration(t.Header), Partial: time.Duration(t.Header), Idle: idle, Stall: time.Duration(t.Write), Parting: drainGrace,
		Count: func(c http2.Class) { p.stats.Abuses[c].Inc() },
	})
}

const (
	// mostCalls are under way at once on a connection to a server, if that allows as
	// many.
	mostCalls = 250
	// callWindow is the content of an answer that may be under way before it is read,
	// bytes: what a client that reads slowly can have us hold for each of its requests,
	// besides a buffer of either size and the heads.
	callWindow = 64 << 10
	// widestCall is the same of an answer that was read as fast as it came until then:
	// from a server 50 ms away 20 MB/s.
	widestCall = 1 << 20
	// spareCalls is by how much all answers of a connection may be beyond callWindow
	// together: a connection holds 32 MiB at most, half of it for all alike.
	spareCalls = mostCalls * callWindow
)

// Carry makes a new connection to a server one of HTTP/2; it is an upstream.Carry.
func (p *Proxy) Carry(conn reactor.Stream, idle time.Duration, freed, gone func()) upstream.Carrier {
	client := p.clients[idle]
	if client == nil {
		client = p.newClient(p.snapshot, idle)
		p.clients[idle] = client
	}
	return calls{client.Connect(conn, linkOwner{freed, gone})}
}

// calls is a connection of HTTP/2 to a server.
type calls struct{ *http2.Link }

// Call implements upstream.Carrier.
func (c calls) Call() (reactor.Stream, error) {
	call, err := c.Link.Call()
	if err != nil {
		return nil, err
	}
	return call, nil
}

// linkOwner hands on what a connection says.
type linkOwner struct{ freed, gone func() }

// Freed implements http2.LinkOwner.
func (o linkOwner) Freed() { o.freed() }

// Ended implements http2.LinkOwner.
func (o linkOwner) Ended() { o.gone() }

// Every class has its counter.
var _ = [1]struct{}{}[int(http2.ClassCount)-int(segment.AbuseCount)]

// ServeHTTP2 takes a connection whose client has chosen HTTP/2 in its TLS handshake.
func (p *Proxy) ServeHTTP2(conn reactor.Stream, peer netip.AddrPort, secured *Secured, listener *Listener) {
	p.open(conn, peer, secured, listener).carry(nil)
}

// upgrade has the connection go on as HTTP/2, of which in holds the beginning.
func (s *session) upgrade(in *buffer) {
	s.carry(in.unread())
	s.proxy.buffers.put(in)
}

// carry has HTTP/2 take over the connection, of which came has been read.
func (s *session) carry(came []byte) {
	s.carrier = s.proxy.multi.Serve(s.conn, came, (*multiplexed)(s))
	if s.proxy.draining {
		s.carrier.Drain()
	}
}

// multiplexed is a session whose connection carries many requests.
type multiplexed session

// Accept implements http2.Owner.
func (m *multiplexed) Accept(stream *http2.Stream) { (*session)(m).serveStream(stream) }

// Ended implements http2.Owner.
func (m *multiplexed) Ended() { (*session)(m).end() }
