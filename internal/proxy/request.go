package proxy

import (
	"net/netip"
	"strconv"

	"sluice/internal/config"
	"sluice/internal/grpcweb"
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
		case message.ClientCert, message.ClientCertChain, message.XARRClientCert:
			f.Drop = f.Drop || !x.trusted || x.s.clientCert() != nil // ours is nearer
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

// Names of the fields that Sluice writes.
var (
	nameARRClientCert   = []byte("X-ARR-ClientCert")
	nameClientCert      = []byte("Client-Cert")
	nameConnection      = []byte("Connection")
	nameDate            = []byte("Date")
	nameHSTS            = []byte("Strict-Transport-Security")
	nameAltSvc          = []byte("Alt-Svc")
	nameForwarded       = []byte("Forwarded")
	namePlacement       = []byte("X-Sluice-Placement")
	nameRequestID       = []byte("X-Request-Id")
	nameServerTiming    = []byte("Server-Timing")
	nameVia             = []byte("Via")
	nameXForwardedFor   = []byte("X-Forwarded-For")
	nameXForwardedHost  = []byte("X-Forwarded-Host")
	nameXForwardedPort  = []byte("X-Forwarded-Port")
	nameXForwardedProto = []byte("X-Forwarded-Proto")
)

// composeRequest makes the request that the server is to see, x.out.
func (x *exchange) composeRequest() {
	r, f, out := &x.req, &x.snap.forward, &x.out
	out.Reset()
	x.accepts = ""
	x.words = x.words[:0]
	out.Method, out.MethodName, out.Target, out.Version = r.Method, r.MethodName, r.Target, message.HTTP11
	out.Scheme, out.Host = x.s.scheme(), x.hostForServer()
	if out.Body, out.ContentLength = r.Body, r.ContentLength; r.Method == message.CONNECT {
		out.Body = message.NoBody
	}
	out.ExpectContinue, out.Trailers, out.MaxForwards = r.ExpectContinue, r.Trailers, r.MaxForwards
	if out.Upgrade, out.Protocol = r.Upgrade, r.Protocol; !x.body.Done() {
		out.Upgrade = nil // what it would switch to begins behind the content, which may come late: the wish is one that may be ignored (RFC 9110 7.8)
	}
	if r.Protocol != nil && x.serverStream() == nil {
		x.askInHTTP1()
	}
	if f.XForwarded {
		x.tellXForwarded()
	}
	for i := range r.Fields {
		if !r.Fields[i].Drop {
			out.Fields = append(out.Fields, r.Fields[i])
		}
	}
	if r.Upgrade != nil && x.serverStream() != nil {
		x.askInHTTP2()
	}
	if x.web.kind != grpcweb.None && x.serverStream() != nil {
		x.askInGRPC()
	}
	if f.Forwarded {
		x.tellForwarded() // behind those that came: the last is the nearest (RFC 7239 4)
	}
	if x.snap.via != nil {
		x.tell(nameVia, message.Via, x.snap.via[r.Version])
	}
	if f.RequestID {
		x.tell(nameRequestID, message.XRequestID, x.reqID)
	}
	if x.s.clientCert() != nil {
		x.tellClientCert()
	}
	if f.Placement {
		x.tellPlacement()
	}
}

// tellClientCert tells which certificate the client has shown: between colons, as RFC 9440
// 2.2 writes bytes, or as ARR does.
func (x *exchange) tellClientCert() {
	der := x.s.clientCert()
	switch x.snap.forward.ClientCert {
	case config.ClientCertRFC:
		x.tell(nameClientCert, message.ClientCert, x.spell(func(dst []byte) []byte {
			return append(append(append(dst, ':'), der...), ':')
		}))
	case config.ClientCertARR:
		x.tell(nameARRClientCert, message.XARRClientCert, der)
	}
}

// tell adds a field to the request for the server.
func (x *exchange) tell(name []byte, id message.ID, value []byte) {
	x.out.Fields = append(x.out.Fields, message.Field{Name: name, Value: value, ID: id})
}

// hostForServer is the authority that the server sees.
func (x *exchange) hostForServer() []byte {
	switch h := x.farm.Host; {
	case h == "preserve" && len(x.req.Host) > 0:
		return x.req.Host
	case h == "preserve" || h == "server":
		return x.server.Authority
	default:
		return x.spell(func(dst []byte) []byte { return append(dst, h...) })
	}
}

// spell has a value appended to the exchange's words; it is good until the next
// head is composed.
func (x *exchange) spell(value func(dst []byte) []byte) []byte {
	from := len(x.words)
	x.words = value(x.words)
	return x.words[from:len(x.words):len(x.words)]
}

// tellXForwarded writes X-Forwarded-For with our client at its end, and of the
// others those that no trusted client has sent.
func (x *exchange) tellXForwarded() {
	fs := x.req.Fields
	x.tell(nameXForwardedFor, message.XForwardedFor, x.spell(x.appendForwardedFor))
	if f := fs.Get(message.XForwardedProto); f == nil || f.Drop {
		x.tell(nameXForwardedProto, message.XForwardedProto, x.s.scheme())
	}
	if f := fs.Get(message.XForwardedHost); (f == nil || f.Drop) && len(x.req.Host) > 0 {
		x.tell(nameXForwardedHost, message.XForwardedHost, x.req.Host)
	}
	if f := fs.Get(message.XForwardedPort); f == nil || f.Drop {
		x.tell(nameXForwardedPort, message.XForwardedPort, x.s.port())
	}
}

func (x *exchange) appendForwardedFor(dst []byte) []byte {
	for i := range x.req.Fields {
		if f := &x.req.Fields[i]; x.trusted && f.ID == message.XForwardedFor {
			dst = append(dst, f.Value...)
			dst = append(dst, ", "...)
		}
	}
	return appendAddr(dst, x.s.peer.Addr())
}

// tellForwarded writes an element of Forwarded (RFC 7239 4); a trusted client's
// stand before it in a field of their own.
func (x *exchange) tellForwarded() {
	x.tell(nameForwarded, message.Forwarded, x.spell(x.appendForwarded))
}

func (x *exchange) appendForwarded(dst []byte) []byte {
	dst = append(dst, "for="...)
	if a := x.s.peer.Addr(); a.Is6() {
		dst = append(dst, `"[`...)
		dst = appendAddr(dst, a)
		dst = append(dst, `]"`...)
	} else {
		dst = appendAddr(dst, a)
	}
	dst = append(dst, ";proto="...)
	dst = append(dst, x.s.scheme()...)
	if len(x.req.Host) > 0 {
		dst = append(dst, `;host="`...) // may hold a colon, so it is quoted
		dst = append(dst, x.req.Host...)
		dst = append(dst, '"')
	}
	return dst
}

// tellPlacement tells the server which way the request came.
func (x *exchange) tellPlacement() {
	x.tell(namePlacement, message.XSluicePlacement, x.spell(x.appendPlacement))
}

func (x *exchange) appendPlacement(dst []byte) []byte {
	at := &x.p.place
	dst = append(dst, "worker="...)
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
	return append(dst, x.how.String()...)
}

// appendAddr writes an IP address; "unknown" if there is none (RFC 7239 6.2).
func appendAddr(dst []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return append(dst, "unknown"...)
	}
	return a.WithZone("").AppendTo(dst)
}
