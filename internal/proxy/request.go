package proxy

import (
	"net/netip"
	"strconv"

	"sluice/internal/http1"
	"sluice/internal/message"
)

// identify decides what the request is called and marks what its client may not
// say: it is believed only from trusted addresses.
func (x *exchange) identify() {
	x.trusted = len(x.snap.trust) > 0 && x.snap.trusts(x.s.peer.Addr())
	x.reqID = nil
	for i := range x.req.Fields {
		f := &x.req.Fields[i]
		switch f.ID {
		case message.XForwardedFor: // joined with ours, if ours is written
			f.Drop = f.Drop || !x.trusted || x.snap.forward.XForwarded
		case message.XForwardedProto, message.XForwardedHost, message.XForwardedPort, message.Forwarded:
			f.Drop = f.Drop || !x.trusted
		case message.XRequestID:
			if f.Drop = true; x.trusted && len(f.Value) > 0 && len(f.Value) <= longestID {
				x.reqID = f.Value
			}
		case message.XSluicePlacement:
			f.Drop = true
		}
	}
	if x.reqID == nil {
		x.p.ids.next(&x.id)
		x.reqID = x.id[:]
	}
}

// longestID is the longest X-Request-Id that is taken over, bytes.
const longestID = 128

// composeRequest writes the head for the server into x.head, and the content
// that came with it behind.
func (x *exchange) composeRequest() {
	r, f := &x.req, &x.snap.forward
	dst := http1.AppendRequestLine(x.head[:0], r)
	dst = x.appendHost(dst)
	if f.XForwarded {
		dst = x.appendXForwarded(dst)
	}
	dst = http1.AppendFields(dst, r.Fields)
	if f.Forwarded {
		dst = x.appendForwarded(dst) // behind those that came: the last is the nearest (RFC 7239 4)
	}
	dst = append(dst, x.snap.via...)
	if f.RequestID {
		dst = http1.AppendField(dst, "X-Request-Id", x.reqID)
	}
	if f.Placement {
		dst = x.appendPlacement(dst)
	}
	dst = http1.AppendFraming(dst, r.Body, r.ContentLength)
	if r.ExpectContinue {
		dst = append(dst, "Expect: 100-continue\r\n"...)
	}
	if r.Trailers {
		dst = append(dst, "TE: trailers\r\nConnection: TE\r\n"...)
	}
	if r.MaxForwards >= 0 {
		dst = append(dst, "Max-Forwards: "...)
		dst = strconv.AppendInt(dst, int64(r.MaxForwards), 10)
		dst = append(dst, "\r\n"...)
	}
	dst = append(dst, "\r\n"...)
	x.head = append(dst, x.first...)
}

// appendHost writes the one Host that the server sees.
func (x *exchange) appendHost(dst []byte) []byte {
	switch h := x.farm.Host; {
	case h == "preserve" && len(x.req.Host) > 0:
		return http1.AppendField(dst, "Host", x.req.Host)
	case h == "preserve" || h == "server":
		return http1.AppendField(dst, "Host", x.server.Authority)
	default:
		dst = append(dst, "Host: "...)
		dst = append(dst, h...)
		return append(dst, "\r\n"...)
	}
}

// appendXForwarded writes X-Forwarded-For with our client at its end, and of the
// others those that no trusted client has sent.
func (x *exchange) appendXForwarded(dst []byte) []byte {
	fs := x.req.Fields
	dst = append(dst, "X-Forwarded-For: "...)
	for i := range fs {
		if f := &fs[i]; x.trusted && f.ID == message.XForwardedFor {
			dst = append(dst, f.Value...)
			dst = append(dst, ", "...)
		}
	}
	dst = appendAddr(dst, x.s.peer.Addr())
	dst = append(dst, "\r\n"...)
	if f := fs.Get(message.XForwardedProto); f == nil || f.Drop {
		dst = append(dst, "X-Forwarded-Proto: http\r\n"...)
	}
	if f := fs.Get(message.XForwardedHost); (f == nil || f.Drop) && len(x.req.Host) > 0 {
		dst = http1.AppendField(dst, "X-Forwarded-Host", x.req.Host)
	}
	if f := fs.Get(message.XForwardedPort); f == nil || f.Drop {
		dst = append(dst, "X-Forwarded-Port: "...)
		dst = append(dst, x.s.listener.Port...)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// appendForwarded writes an element of Forwarded (RFC 7239 4); a trusted client's
// stand before it in a field of their own.
func (x *exchange) appendForwarded(dst []byte) []byte {
	dst = append(dst, "Forwarded: for="...)
	if a := x.s.peer.Addr(); a.Is6() {
		dst = append(dst, `"[`...)
		dst = appendAddr(dst, a)
		dst = append(dst, `]"`...)
	} else {
		dst = appendAddr(dst, a)
	}
	dst = append(dst, ";proto=http"...)
	if len(x.req.Host) > 0 {
		dst = append(dst, `;host="`...) // may hold a colon, so it is quoted
		dst = append(dst, x.req.Host...)
		dst = append(dst, '"')
	}
	return append(dst, "\r\n"...)
}

// appendPlacement tells the server which way the request came.
func (x *exchange) appendPlacement(dst []byte) []byte {
	at := &x.p.place
	dst = append(dst, "X-Sluice-Placement: worker="...)
	dst = strconv.AppendInt(dst, int64(at.Worker), 10)
	dst = append(dst, " node="...)
	dst = strconv.AppendInt(dst, int64(at.Node), 10)
	dst = append(dst, " loop="...)
	dst = strconv.AppendInt(dst, int64(at.Loop), 10)
	dst = append(dst, " farm="...)
	dst = append(dst, x.farm.Name...)
	dst = append(dst, " server="...)
	dst = append(dst, x.server.URL...)
	dst = append(dst, " waited_us="...)
	dst = strconv.AppendInt(dst, (x.at.connected-x.at.ready)/1000, 10) // for a permit and a connection
	dst = append(dst, " connection="...)
	dst = append(dst, x.how.String()...)
	return append(dst, "\r\n"...)
}

// appendAddr writes an IP address; "unknown" if there is none (RFC 7239 6.2).
func appendAddr(dst []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return append(dst, "unknown"...)
	}
	return a.WithZone("").AppendTo(dst)
}
