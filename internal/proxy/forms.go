package proxy

import (
	"io"

	"sluice/internal/grpcweb"
	"sluice/internal/http1"
	"sluice/internal/message"
)

// appendHead writes the head of an answer as HTTP/1.1, and tells the client what
// becomes of its connection where that is not what its version makes it expect (RFC
// 9112 9.3).
func (x *exchange) appendHead(dst []byte, r *message.Response, f message.Framing) []byte {
	switch {
	case r.Status < 200:
	case x.close && x.req.Version != message.HTTP10:
		r.Fields = append(r.Fields, message.Field{Name: nameConnection, Value: wordClose, ID: message.Connection})
	case !x.close && x.req.Version == message.HTTP10:
		r.Fields = append(r.Fields, message.Field{Name: nameConnection, Value: wordKeepAlive, ID: message.Connection})
	}
	if r.Reason == nil {
		r.Reason = http1.ReasonOf(r.Status)
	}
	return http1.AppendResponse(dst, r, f)
}

var wordClose, wordKeepAlive = []byte("close"), []byte("keep-alive")

// respond sends a whole answer of our own, or an interim head. n counts bytes.
func (x *exchange) respond(r *message.Response, content []byte) (n int, err error) {
	client := x.s.conn
	if stream := x.s.stream; stream != nil {
		client.SetWriteTimeout(x.snap.sendWithin(len(content)))
		if err = stream.Respond(r, r.Status >= 200 && len(content) == 0); err != nil || len(content) == 0 {
			return 0, err
		}
		return outlet{client, message.UntilClose, stream}.raw(content, true, nil)
	}
	x.head = append(x.appendHead(x.head[:0], r, r.Body), content...)
	client.SetWriteTimeout(x.snap.sendWithin(len(x.head)))
	return client.Write(x.head)
}

// answerHead sends the head of the server's answer, or returns it for the first write
// of content to carry. ended: the answer has no more than that.
func (x *exchange) answerHead(content []byte) (head []byte, ended bool, err error) {
	stream := x.s.stream
	if stream == nil {
		x.head = x.appendHead(x.head[:0], &x.resp, x.framing)
		return x.head, false, nil
	}
	if x.resp.Status == 304 {
		x.resp.ContentLength = -1 // golang.org/x/net's client would wait for content
	}
	ended = x.answer.Done() && len(content) == 0 && len(x.trailers()) == 0
	x.s.conn.SetWriteTimeout(x.snap.sendWithin(len(content)))
	return nil, ended, stream.Respond(&x.resp, ended)
}

// toClient is where the answer's content goes.
func (x *exchange) toClient() outlet {
	if stream := x.s.stream; stream != nil {
		return outlet{stream, x.framing, stream}
	}
	return outlet{x.s.conn, x.framing, nil}
}

// serverStream is what the request has of a server's connection that carries many;
// nil if it has the whole connection.
func (x *exchange) serverStream() ServerStream {
	stream, _ := x.conn.Stream.(ServerStream)
	return stream
}

// toServer is where the request's content goes.
func (x *exchange) toServer() outlet {
	if stream := x.serverStream(); stream != nil {
		if x.web.kind == grpcweb.Text {
			return outlet{webUpload{stream, &x.web}, x.out.Body, stream}
		}
		return outlet{stream, x.out.Body, stream}
	}
	return outlet{x.conn, x.out.Body, nil}
}

// encodeRequest writes the request as HTTP/1.1: its head, and the content that has
// come already.
func (x *exchange) encodeRequest() []byte {
	switch out := &x.out; {
	case out.Body == message.UntilClose:
		out.Body = message.Chunked
	case out.Body == message.NoBody && x.s.stream != nil && meansContent(out.Method):
		out.Body, out.ContentLength = message.Length, 0
	}
	x.head = http1.AppendRequest(x.head[:0], &x.out)
	if x.out.Body != message.Chunked {
		x.head = append(x.head, x.first...)
		return x.head
	}
	if len(x.first) > 0 {
		x.head = http1.AppendChunk(x.head, x.first)
	}
	if x.body.Done() {
		x.head = http1.AppendLastChunk(x.head, x.requestTrailers())
	}
	return x.head
}

// meansContent reports whether a request of HTTP/1.1 with this method should say so if
// it has no content (RFC 9110 8.6): some servers answer 411 else.
func meansContent(m message.Method) bool {
	return m == message.POST || m == message.PUT || m == message.PATCH
}

// sendOn sends the same on a stream. n counts bytes of content.
func (x *exchange) sendOn(stream ServerStream) (n int, err error) {
	if x.out.Body == message.Chunked {
		x.out.Body = message.UntilClose
	}
	if x.out.Method == message.CONNECT {
		return 0, x.connectOn(stream)
	}
	whole, trailers := x.body.Done(), x.requestTrailers()
	last := whole && len(x.first) == 0 && len(trailers) == 0
	if err = stream.Send(&x.out, last); err != nil || last {
		return 0, err
	}
	return x.toServer().raw(x.first, whole, trailers)
}

// requestTrailers are what stood behind the request's content, once that is whole.
func (x *exchange) requestTrailers() message.Fields {
	switch stream := x.s.stream; {
	case !x.body.Done():
		return nil
	case stream != nil && x.out.Body != message.Length && x.out.Body != message.NoBody:
		return stream.Trailers()
	case stream != nil:
		return nil
	}
	return x.body.Trailers()
}

// draw takes in the content of a stream that has come already, as far as there is
// room.
func (x *exchange) draw() bool {
	stream := x.s.stream
	if stream == nil {
		return true
	}
	for stream.Ready() && len(x.in.room()) > 0 && !x.body.Done() {
		n, err := stream.Read(x.in.room())
		x.in.w += n
		if err == io.EOF {
			if x.in.r < x.in.w {
				return true // that comes first
			}
			err = x.body.End()
		}
		if err != nil {
			return x.fail(ofClient(err, ReadingBody))
		}
	}
	return true
}

// streamHeads is heads for a stream of a server.
func (x *exchange) streamHeads(stream ServerStream) (final bool, err error) {
	for {
		ok, err := stream.Answer(&x.resp)
		if err != nil || !ok {
			return false, err
		}
		if r := &x.resp; r.Body == message.Length && r.ContentLength > 0 && (x.web.kind != grpcweb.None || r.Fields.Get(message.Trailer) != nil) {
			r.Body, r.ContentLength = message.UntilClose, -1 // only content without a length has trailers in HTTP/1.1
		}
		x.back.r, x.back.w = headroom+1, headroom+1 // empty, but heard from
		x.at.answered = x.p.exec.Now()
		if final, err = x.judge(headBytes(&x.resp)); final || err != nil {
			return final, err
		}
		x.at.answered = 0
	}
}

// headBytes is how long a head is in HTTP/1.1, where even one without fields is something.
func headBytes(r *message.Response) (n int) {
	n = len("HTTP/1.1 103 \r\n\r\n")
	for i := range r.Fields {
		n += len(r.Fields[i].Name) + len(": \r\n") + len(r.Fields[i].Value)
	}
	return n
}
