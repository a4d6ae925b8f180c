package proxy

import (
	"time"

	"sluice/internal/message"
)

// carrier serves the streams of a connection that carries many.
type carrier interface {
	// Drain lets streams end, opens no more, and then closes the connection.
	Drain()
}

// serveStream serves the one request of a stream that came on s's connection.
func (s *session) serveStream(stream ClientStream) {
	p := s.proxy
	stream.SetStall(time.Duration(p.snapshot.timeouts.Write))
	t := p.getSession()
	t.conn, t.stream, t.wire, t.began = stream, stream, s.conn, p.exec.Now()
	t.peer, t.secured, t.listener = s.peer, s.secured, s.listener
	p.exec.Go(t)
}

// runStream serves the request of a stream, or goes on with it. What the task had
// is let go of meanwhile.
func (s *session) runStream() {
	p := s.proxy
	in := s.resume()
	if s.collected != nil && !s.collect(&in) {
		s.attend(in)
		return
	}
	x := p.getExchange()
	s.exchange = x
	for again := true; again; again = s.collected != nil { // its content was there already
		s.stream.Request(&x.req)
		if r := &x.req; r.Body == message.Length && r.Fields.Get(message.Trailer) != nil {
			r.Body, r.ContentLength = message.UntilClose, 0 // in HTTP/1.1 only chunks have trailers
		}
		if in, again = s.serve(x, in, 0); in == nil {
			return
		}
	}
	p.buffers.put(in)
	p.putExchange(x)
	p.putSession(s)
}

// getSession gives a session for a stream.
func (p *Proxy) getSession() *session {
	if n := len(p.streams); n > 0 {
		s := p.streams[n-1]
		p.streams = p.streams[:n-1]
		return s
	}
	return &session{proxy: p}
}

// putSession takes it back. Who was told of it too late still finds its proxy.
func (p *Proxy) putSession(s *session) {
	*s = session{proxy: p}
	if len(p.streams) < keptSessions {
		p.streams = append(p.streams, s)
	}
}

// keptSessions of streams are kept by a loop.
const keptSessions = 256

// preface is what a client sends that speaks HTTP/2 (RFC 9113 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// speaksHTTP2 reports whether the connection has begun with the whole preface of
// HTTP/2.
func (s *session) speaksHTTP2(f *buffer) bool {
	return f.w-f.r >= len(preface) && s.mayBeHTTP2(f)
}

// mayBeHTTP2 reports whether what has come begins that preface. Over TLS who has not
// chosen HTTP/2 by ALPN does not speak it (RFC 9113 3.2).
func (s *session) mayBeHTTP2(f *buffer) bool {
	if s.requests > 0 || !s.listener.HTTP2 || s.listener.Secure || f.b[f.r] != preface[0] {
		return false
	}
	n := min(f.w-f.r, len(preface))
	return string(f.b[f.r:f.r+n]) == preface[:n]
}
