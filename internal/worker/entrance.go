package worker

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"sluice/internal/accesslog"
	"sluice/internal/config"
	"sluice/internal/proxy"
	"sluice/internal/reactor"
	"sluice/internal/spec"
	"sluice/internal/tcp"
	"sluice/internal/tlsterm"
)

// entrance is what a listener makes of its connections. Immutable: a reload makes a
// new one.
type entrance struct {
	http  *proxy.Listener
	http1 bool                // clients may speak it
	tls   *tlsterm.Terminator // nil: clients speak without TLS
	tcp   *tcp.Listener       // not nil: bytes go to servers as they are

	header   bool            // each connection begins with a PROXY header
	trust    []config.Prefix // who may send one
	patience time.Duration   // for it
}

// newEntrance is that of the listening socket fd.
func newEntrance(s *spec.Spec, ln spec.Listener, fd int, terminator *tlsterm.Terminator, raw *tcp.Listener) *entrance {
	e := &entrance{http1: true, tcp: raw, http: &proxy.Listener{Name: ln.Name, Port: []byte(portOf(fd, ln.Address)), Secure: terminator != nil}, tls: terminator}
	i := slices.IndexFunc(s.Config.Listeners, func(l config.Listener) bool { return l.Name == ln.Name })
	if i < 0 {
		return e
	}
	as := &s.Config.Listeners[i]
	e.http1 = slices.Contains(as.Protocols, config.HTTP1) || !slices.Contains(as.Protocols, config.HTTP2)
	e.http.HTTP2, e.http.Redirect = slices.Contains(as.Protocols, config.HTTP2), as.Redirect
	if as.TLS != nil {
		e.http.Secure, e.http.HSTS = true, hsts(as.TLS.HSTS)
	}
	if len(ln.Packets) > 0 {
		e.http.AltSvc = altSvc(as.AltSvc, e.http.Port)
	}
	if as.ProxyProtocol == config.ProxyOn {
		e.header, e.trust, e.patience = true, s.Config.Trust, time.Duration(s.Config.Timeouts.Header)
	}
	return e
}

// hsts is the value of Strict-Transport-Security (RFC 6797 6.1); nil: it is not sent.
func hsts(h config.HSTS) []byte {
	if h.MaxAge == 0 {
		return nil
	}
	text := "max-age=" + strconv.FormatInt(int64(time.Duration(h.MaxAge)/time.Second), 10)
	if h.Subdomains {
		text += "; includeSubDomains"
	}
	if h.Preload {
		text += "; preload"
	}
	return []byte(text)
}

// altSvc tells that HTTP/3 is spoken on the same port (RFC 7838 3, RFC 9114 3.1.1);
// nil: it is not said.
func altSvc(keep config.Duration, port []byte) []byte {
	if keep == 0 {
		return nil
	}
	return []byte(`h3=":` + string(port) + `"; ma=` + strconv.FormatInt(int64(time.Duration(keep)/time.Second), 10))
}

// renewed is the entrance with other certificates.
func (e *entrance) renewed(terminator *tlsterm.Terminator) *entrance {
	next := *e
	next.tls = terminator
	return &next
}

// enter takes a new connection that this lane is to serve. Loop only.
func (l *lane) enter(c *reactor.Conn, as *entrance) {
	if as.header {
		l.greet(c, as)
		return
	}
	l.begin(c, c.Peer(), nil, as)
}

// begin serves a connection on which nothing of the protocol has been read, and
// whose client is at peer and has spoken TLS as told; with TLS of the listener, once
// hands are shaken. Loop only.
func (l *lane) begin(c *reactor.Conn, peer netip.AddrPort, told *proxy.Secured, as *entrance) {
	if as.tls != nil {
		l.shake(c, peer, as)
		return
	}
	l.serve(c, peer, told, as)
}

// serve has a client's requests answered, or its bytes moved. Loop only.
func (l *lane) serve(conn reactor.Stream, peer netip.AddrPort, secured *proxy.Secured, as *entrance) {
	if as.tcp != nil {
		var facts *accesslog.TLS
		if secured != nil {
			facts = &secured.TLS
		}
		l.tcp.Serve(conn, peer, facts, as.tcp)
		return
	}
	if !as.http1 {
		l.serveHTTP2(conn, peer, secured, as)
		return
	}
	l.proxy.Serve(conn, peer, secured, as.http)
	if l.draining {
		l.proxy.Drain() // as the others, it may be idle for a moment only
	}
}

// serveHTTP2 does the same for a client that has chosen HTTP/2. Loop only.
func (l *lane) serveHTTP2(conn reactor.Stream, peer netip.AddrPort, secured *proxy.Secured, as *entrance) {
	l.proxy.ServeHTTP2(conn, peer, secured, as.http)
}
