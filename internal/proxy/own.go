package proxy

import (
	"slices"

	"sluice/internal/upstream"
)

// A server that is told by a PROXY header whose connection it is gets requests of that
// client only on it. So such a connection never goes back to the pool: it stays with the
// client's session, for its next request to that server, and ends with it.

// mostOwn connections stay with a session at most.
const mostOwn = 8

// borrowOwn is step 6 for such a server.
func (x *exchange) borrowOwn() (err error) {
	s := x.s
	if c := s.takeOwn(x.server); c != nil {
		if !x.fresh && !c.Ready() { // else the server has closed it, or speaks out of turn
			x.conn, x.how = c, upstream.Reused
			x.p.pool.Stats(x.server.State).Reused.Inc()
			return nil
		}
		x.p.pool.Discard(c)
	}
	x.head = x.farm.Announce(x.head[:0], s.connection(), s.peer, nil)
	x.conn, err = x.p.pool.Open(x.server, x.head)
	x.how = upstream.New
	return err
}

// takeOwn is the session's own connection to a server; nil if it has none.
func (s *session) takeOwn(to *upstream.Server) *upstream.Conn {
	for i, c := range s.own {
		if c.LeadsTo(to) {
			s.own = slices.Delete(s.own, i, i+1)
			return c
		}
	}
	return nil
}

// keepOwn leaves the connection to the session, if that goes on. Where connections to
// the server are limited it is closed: other clients may wait for its place.
func (x *exchange) keepOwn() {
	s := x.s
	if x.close || s.stream != nil || x.farm.Connections.Max > 0 || len(s.own) == mostOwn {
		x.p.pool.Discard(x.conn)
		return
	}
	x.conn.OnHangup(nil)
	x.conn.SetReadTimeout(0)
	x.conn.SetWriteTimeout(0)
	s.own = append(s.own, x.conn)
}

// endOwn closes what the session has kept.
func (s *session) endOwn() {
	for _, c := range s.own {
		s.proxy.pool.Discard(c)
	}
	s.own = nil
}
