package proxy

import "net/netip"

// Visit is a client's connection that carries requests as streams, which somebody else
// reads off the wire (HTTP/3). Loop only.
type Visit session

// Visit makes a client's connection known. conn is drained when the loop drains.
func (p *Proxy) Visit(conn interface{ Drain() }, peer netip.AddrPort, secured *Secured, listener *Listener) *Visit {
	s := p.open(nil, peer, secured, listener)
	s.carrier = conn
	if p.draining {
		conn.Drain()
	}
	return (*Visit)(s)
}

// Serve serves a request of the connection, whose client is at peer now.
func (v *Visit) Serve(stream ClientStream, peer netip.AddrPort) {
	v.peer = peer
	(*session)(v).serveStream(stream)
}

// End says that the connection is gone.
func (v *Visit) End() { (*session)(v).end() }
