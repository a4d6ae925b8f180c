package proxy

import (
	"sluice/internal/grpcweb"
	"sluice/internal/http1"
	"sluice/internal/message"
	"sluice/internal/reactor"
)

// web is what gRPC-Web asks of an exchange whose server speaks HTTP/2, and so gRPC. A
// server of HTTP/1.1 gets gRPC-Web as it came: it cannot speak anything else.
type web struct {
	kind    grpcweb.Kind
	active  bool // the answer is translated
	decoder grpcweb.Decoder
	up      []byte // content for the server, under translation
	down    []byte // and for the client
}

// begin looks whether a request is one of gRPC-Web.
func (w *web) begin(r *message.Request) {
	w.kind, w.active = grpcweb.None, false
	if f := r.Fields.Get(message.ContentType); f != nil {
		kind, _ := grpcweb.Of(f.Value)
		w.kind = kind
	}
}

// askInGRPC makes of the request for the server one of gRPC.
func (x *exchange) askInGRPC() {
	x.web.decoder = grpcweb.Decoder{}
	out := &x.out
	f := out.Fields.Get(message.ContentType)
	_, rest := grpcweb.Of(f.Value)
	f.Value = x.spell(func(dst []byte) []byte { return grpcweb.AppendGRPC(dst, rest) })
	out.Trailers = true
	if x.web.kind == grpcweb.Text && out.Body == message.Length {
		out.Body = message.UntilClose // it will be shorter
	}
}

// webUpload is a server's stream that is sent Base64.
type webUpload struct {
	reactor.Stream
	web *web
}

// Write sends what p says, if that is anything.
func (u webUpload) Write(p []byte) (n int, err error) {
	if u.web.up, err = u.web.decoder.Append(u.web.up[:0], p); err != nil || len(u.web.up) == 0 {
		return 0, err
	}
	return u.Stream.Write(u.web.up)
}

// answerInWeb makes of the server's head one of gRPC-Web, if it is one of gRPC. What is
// in the head alone, as an error is, stays there.
func (x *exchange) answerInWeb() {
	r := &x.resp
	f := r.Fields.Get(message.ContentType)
	if f == nil || !isGRPC(f.Value) || x.serverStream() == nil {
		return
	}
	rest := f.Value[len(grpcType):]
	f.Value = x.spell(func(dst []byte) []byte { return x.web.kind.AppendType(dst, rest) })
	if x.answer.Done() {
		return
	}
	x.web.active, r.ContentLength = true, -1
	if x.framing == message.Length {
		x.framing = message.Chunked
	}
}

// passInWeb sends head and content to the client, and the trailers as its end.
func (x *exchange) passInWeb(head, content []byte, last bool) (n int, err error) {
	b := x.web.kind.AppendContent(x.web.down[:0], content)
	if last {
		b = x.web.kind.AppendContent(b, grpcweb.AppendTrailers(nil, x.serverStream().Trailers()))
	}
	x.web.down = b
	switch stream := x.s.stream; {
	case stream != nil:
		return x.toClient().raw(b, last, nil)
	case x.framing == message.UntilClose:
		head = append(head, b...)
	default:
		if len(b) > 0 {
			head = http1.AppendChunk(head, b)
		}
		if last {
			head = http1.AppendLastChunk(head, nil)
		}
	}
	if len(head) == 0 {
		return 0, nil
	}
	return x.s.conn.Write(head)
}
