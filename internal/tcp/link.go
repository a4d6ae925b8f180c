package tcp

import (
	"net/netip"
	"os"
	"time"

	"sluice/internal/accesslog"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/sni"
	"sluice/internal/tunnel"
	"sluice/internal/upstream"
)

// link is the life of one client connection. Loop only.
type link struct {
	s       *Service
	conn    reactor.Stream
	plain   *reactor.Conn  // the same, if it is a plain socket
	secured *accesslog.TLS // the client's TLS, if it ends here or before
	peer    netip.AddrPort
	as      *Listener
	name    []byte // that its TLS asks for, in lower case; empty: none
	entered bool   // it is counted in as.open
	said    bool   // the client was told something, which must not be lost

	need  int   // bytes that a look is worth
	began int64 // executor time
	until int64 // when the patience for the ClientHello ends, executor time

	farm    *upstream.Farm
	server  *upstream.Server
	backend *upstream.Conn // nil: there is none
	retries int
	connect time.Duration // for a connection to the server
}

// wait allows the ClientHello this much time from now.
func (l *link) wait(d time.Duration) {
	l.until = l.s.exec.Now() + int64(d)
	l.conn.SetReadTimeout(d)
}

// Run takes the connection from its ClientHello, if that is awaited, to its tunnel.
func (l *link) Run() {
	if l.need > 0 && !l.hear() {
		return
	}
	if l.farm = l.as.match(l.name); l.farm == nil { // 1
		l.unrecognized()
		return
	}
	if !l.reach() { // 2, 3
		return
	}
	limits := tunnel.Limits{Idle: time.Duration(l.farm.Timeouts.Tunnel), Stall: l.as.stall}
	l.s.tunnels.Join(l.conn, l.backend.Stream, limits, l) // 4
}

// hear looks for the name in the ClientHello. False: it has not come, or the link is
// over.
func (l *link) hear() bool {
	s := l.s
	b := s.look()
	n, err := l.plain.Peek(b, l.need)
	switch {
	case err == nil && n == 0 && s.exec.Now() < l.until:
		l.plain.Idle(l)
		return false
	case err == nil && n == 0:
		err = os.ErrDeadlineExceeded
	case err == nil:
		var name []byte
		name, l.need, err = sni.Name(b[:n])
		if err == nil && l.need > n && l.need <= len(b) {
			l.plain.Idle(l)
			return false
		}
		l.name = lower(append([]byte(nil), name...)) // name is part of what others use too
		if l.need > len(b) {
			err = sni.ErrTooLong
		}
	}
	delete(s.waiting, l)
	l.need = 0
	l.conn.SetReadTimeout(0)
	why := segment.ClientGone
	switch {
	case err == nil || err == sni.ErrNotTLS: // which names nobody
		return true
	case err == os.ErrDeadlineExceeded:
		why = segment.ClientTimeout
	case err == sni.ErrBroken || err == sni.ErrTooLong:
		why = segment.BadRequest
	}
	l.refuse(partyClient, "client_hello", why, err)
	return false
}

// lower puts a name into lower case, where it stands.
func lower(name []byte) []byte {
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			name[i] = c + 'a' - 'A'
		}
	}
	return name
}

// alert is what TLS says of a name that nobody has: a fatal unrecognized_name (RFC 6066
// 3, RFC 8446 6), in a record of its own.
var alert = []byte{21, 3, 3, 0, 2, 2, 112}

// unrecognized refuses a connection that no route wants.
func (l *link) unrecognized() {
	if l.plain != nil && l.secured == nil && len(l.name) > 0 {
		l.conn.SetWriteTimeout(l.as.stall)
		l.conn.Write(alert)
		l.said = true
	}
	l.refuse(partyClient, "route", segment.NoRoute, nil)
}
