package proxy

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"time"

	"sluice/internal/http1"
	"sluice/internal/message"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/tunnel"
)

// Some requests ask that the connection, from the answer on, be a tunnel: by
// Upgrade (RFC 9110 7.8), by CONNECT (RFC 9110 9.3.6), or in HTTP/2 and HTTP/3 by
// both in one (RFC 8441). A route says which of them may.

// admits reports whether the route allows what the request would switch to, if it
// asks for that at all.
func (x *exchange) admits() bool {
	r := &x.req
	asked := r.Upgrade
	switch {
	case r.Protocol != nil:
		asked = r.Protocol
	case r.Method == message.CONNECT:
		asked = wordConnect
	}
	if asked == nil {
		return true
	}
	for _, allowed := range x.way.upgrades {
		if only := onlyToken(asked); only != nil && message.EqualFold(only, allowed) {
			return true
		}
	}
	x.close, x.linger = true, true // what follows may be meant for the other end of a tunnel
	return x.fail(Failure{Party: Client, Phase: Routing, Reason: segment.NotImplemented})
}

var wordConnect = []byte("connect")

// onlyToken is the one element of a list; nil if there are several: which of them
// a server would choose is not known.
func onlyToken(list []byte) []byte {
	first, rest := message.NextToken(list)
	if second, _ := message.NextToken(rest); second != nil {
		return nil
	}
	return first
}

// askInHTTP1 makes of a client's extended CONNECT the Upgrade that it means (RFC 8441
// 5). What a WebSocket's client would have made up, its key, is made up here, and is the
// only one.
func (x *exchange) askInHTTP1() {
	out := &x.out
	out.Method, out.MethodName, out.Upgrade = message.GET, wordGet, x.req.Protocol
	out.Protocol = nil
	if !message.EqualFold(out.Upgrade, "websocket") {
		return
	}
	for i := range x.req.Fields {
		if f := &x.req.Fields[i]; len(f.Name) == len(nameWSKey) && bytes.EqualFold(f.Name, nameWSKey) {
			f.Drop = true
		}
	}
	var id [idBytes]byte
	x.p.ids.next(&id)
	key := base64.StdEncoding.EncodeToString(id[:16])
	x.tell(nameWSKey, message.Unknown, []byte(key))
	x.accepts = acceptOf([]byte(key))
}

// acceptOf is the Sec-WebSocket-Accept that answers a Sec-WebSocket-Key (RFC 6455 4.2.2).
func acceptOf(key []byte) string {
	h := sha1.New()
	h.Write(key)
	h.Write([]byte(webSocketID))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// askInHTTP2 makes of a client's Upgrade the extended CONNECT that it means. A WebSocket's
// key stays here, and so does the answer to it (RFC 8441 5). What has content, or lacks
// the key, is no request for a tunnel there: it goes without the wish, which a server is
// free to ignore (RFC 9110 7.8).
func (x *exchange) askInHTTP2() {
	out := &x.out
	out.Upgrade = nil
	if x.req.Method != message.GET || x.req.Body != message.NoBody {
		return
	}
	to := onlyToken(x.req.Upgrade)
	if message.EqualFold(to, "websocket") {
		for i := range out.Fields {
			if f := &out.Fields[i]; len(f.Name) == len(nameWSKey) && bytes.EqualFold(f.Name, nameWSKey) {
				f.Drop = true
				x.accepts = acceptOf(f.Value)
			}
		}
		if x.accepts == "" {
			return
		}
	}
	out.Method, out.MethodName, out.Protocol = message.CONNECT, nameConnect, to
}

// connectOn asks a server of HTTP/2 for a tunnel.
func (x *exchange) connectOn(stream ServerStream) error {
	if x.out.Protocol != nil {
		x.conn.SetWriteTimeout(time.Duration(x.farm.Timeouts.Connect))
		can, err := stream.Tunnels()
		x.conn.SetWriteTimeout(0)
		if err != nil {
			return err
		}
		if !can {
			return errNoTunnels
		}
	}
	return stream.Send(&x.out, false)
}

// webSocketID proves that a server has meant to accept a WebSocket (RFC 6455 1.3).
const webSocketID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

var (
	wordGet      = []byte("GET")
	nameWSKey    = []byte("Sec-WebSocket-Key")
	nameWSAccept = []byte("Sec-WebSocket-Accept")
	nameConnect  = []byte("CONNECT")
)

// switched reports whether the server's answer turns the connection into a tunnel.
func (x *exchange) switched() bool {
	status := x.resp.Status
	if x.out.Upgrade != nil {
		return status == 101
	}
	return x.out.Method == message.CONNECT && status >= 200 && status < 300
}

// mistakable reports whether the client would take the server's answer for a tunnel
// that there is not.
func (x *exchange) mistakable() bool {
	return x.req.Method == message.CONNECT && !x.switched() && x.resp.Status < 300
}

// agrees reports whether a 101 is to what the request has asked for.
func (x *exchange) agrees() bool {
	to := x.resp.Fields.Get(message.Upgrade)
	if x.out.Upgrade == nil || to == nil || !bytes.EqualFold(onlyToken(to.Value), onlyToken(x.out.Upgrade)) {
		return false
	}
	return x.accepts == "" || x.provesWebSocket()
}

// provesWebSocket looks at the server's proof, which is ours alone.
func (x *exchange) provesWebSocket() bool {
	for i := range x.resp.Fields {
		if f := &x.resp.Fields[i]; len(f.Name) == len(nameWSAccept) && bytes.EqualFold(f.Name, nameWSAccept) {
			f.Drop = true
			return string(f.Value) == x.accepts
		}
	}
	return false
}

// startTunnel answers that the connection is a tunnel now.
func (x *exchange) startTunnel() bool {
	x.release(x.outcome())
	x.composeAnswer()
	if x.req.Upgrade != nil && x.resp.Status != 101 {
		x.switchInHTTP1()
	}
	x.close, x.status, x.resp.KeepAlive = true, x.resp.Status, false
	if x.s.stream != nil {
		x.resp.Status = 200 // RFC 8441 5: there is no 101 in HTTP/2
		if err := x.s.stream.Respond(&x.resp, false); err != nil {
			return x.fail(ofClient(err, SendingResponse))
		}
		return true
	}
	if x.resp.Status == 101 {
		x.resp.Fields = append(x.resp.Fields, message.Field{Name: nameConnection, Value: wordUpgrade, ID: message.Connection},
			message.Field{Name: nameUpgrade, Value: onlyToken(x.req.Upgrade), ID: message.Upgrade})
	}
	x.resp.ContentLength = -1
	x.head = http1.AppendResponse(x.head[:0], &x.resp, message.NoBody)
	n, err := x.s.conn.Write(x.head)
	x.p.stats.BytesOut.Add(uint64(n))
	if err != nil {
		return x.fail(ofClient(err, SendingResponse))
	}
	return true
}

// switchInHTTP1 makes of a server's answer to extended CONNECT that to an Upgrade.
func (x *exchange) switchInHTTP1() {
	r := &x.resp
	r.Status, r.Reason = 101, http1.ReasonOf(101)
	if x.accepts != "" {
		x.replace(r, nameWSAccept, []byte(x.accepts))
	}
}

var wordUpgrade, nameUpgrade = []byte("Upgrade"), []byte("Upgrade")

// tunnel is step 9 where the connection has become one: bytes move both ways until
// both ends have ended, or nothing has moved for too long.
func (x *exchange) tunnel() {
	p, client, server := x.p, x.s.conn, x.conn.Stream
	client.OnHangup(nil)
	if !x.startTunnel() || !x.passOn(client, x.back) || !x.passOn(server, x.in) {
		return
	}
	p.buffers.put(x.back)
	x.back = nil
	limits := tunnel.Limits{Idle: time.Duration(x.farm.Timeouts.Tunnel), Stall: time.Duration(x.snap.timeouts.Write)}
	x.endTunnel(p.tunnels.Run(client, server, limits, x.tunneledPiece))
}

// tunneledPiece counts n bytes that went to the server (up), or came from there.
func (x *exchange) tunneledPiece(up bool, n int) {
	stats := x.p.pool.Stats(x.server.State)
	if up {
		x.tunneled += int64(n)
		stats.BytesOut.Add(uint64(n))
		x.p.stats.BytesIn.Add(uint64(n))
		return
	}
	stats.BytesIn.Add(uint64(n))
	x.tunneledDown(n)
}

func (x *exchange) tunneledDown(n int) {
	x.sent += int64(n)
	x.p.stats.BytesOut.Add(uint64(n))
}

// passOn sends on what came with the head of a message, and is no part of it.
func (x *exchange) passOn(to reactor.Stream, f *buffer) bool {
	if f.r == f.w {
		return true
	}
	n, err := to.Write(f.unread())
	f.r = f.w
	if to == x.s.conn {
		x.tunneledDown(n) // and read from the server with its head
		return err == nil || x.fail(ofClient(err, Tunneling))
	}
	x.tunneledPiece(true, n)
	if err != nil {
		return x.fail(ofServer(err, Tunneling))
	}
	return true
}

// endTunnel notes how a tunnel ended. That one end has closed it is how tunnels end;
// which of them, does not matter.
func (x *exchange) endTunnel(e tunnel.Ending) {
	if e.Why == segment.TunnelIdle || e.Why == segment.TunnelStalled {
		x.fail(Failure{Party: Client, Phase: Tunneling, Reason: segment.ClientTimeout, Err: e.Err})
	}
}
