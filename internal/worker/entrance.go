package worker

import (
	"net/netip"

	"sluice/internal/proxy"
	"sluice/internal/reactor"
	"sluice/internal/spec"
	"sluice/internal/tlsterm"
)

// entrance is what a listener makes of its connections. Immutable: a reload makes a
// new one.
type entrance struct {
	http *proxy.Listener
	tls  *tlsterm.Terminator // nil: clients speak without TLS
}

// newEntrance is that of the listening socket fd.
func newEntrance(_ *spec.Spec, ln spec.Listener, fd int, terminator *tlsterm.Terminator) *entrance {
	return &entrance{http: &proxy.Listener{Name: ln.Name, Port: []byte(portOf(fd, ln.Address))}, tls: terminator}
}

// renewed is the entrance with other certificates.
func (e *entrance) renewed(terminator *tlsterm.Terminator) *entrance {
	next := *e
	next.tls = terminator
	return &next
}

// enter takes a new connection that this lane is to serve. Loop only.
func (l *lane) enter(c *reactor.Conn, as *entrance) {
	if as.tls != nil {
		c.Close()
		return
	}
	l.begin(c, c.Peer(), as)
}

// begin serves a connection on which nothing of the protocol has been read, and
// whose client is at peer. Loop only.
func (l *lane) begin(c *reactor.Conn, peer netip.AddrPort, as *entrance) {
	l.proxy.Serve(c, peer, as.http)
	if l.draining {
		l.proxy.Drain() // as the others, it may be idle for a moment only
	}
}
