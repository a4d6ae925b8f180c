package proxy

import (
	"io"
	"time"

	"sluice/internal/message"
	"sluice/internal/reactor"
)

// spliceFrom is the least rest of a body that is worth moving with splice(2)
// instead of through a buffer, bytes.
const spliceFrom = 128 << 10

// deliver is step 9: the response's head and body to the client.
func (x *exchange) deliver() {
	x.s.conn.OnHangup(nil)
	x.answer.Start(x.resp.Body, x.resp.ContentLength, 0, &x.snap.answer)
	var head []byte
	ended := false
	for {
		content, err := x.back.gather(&x.answer)
		if err != nil {
			x.serverFailed(err, ReadingResponse)
			return
		}
		if x.status == 0 { // what has come is good, so far as can be seen
			x.composeAnswer()
			x.status = x.resp.Status
			if head, ended, err = x.answerHead(content); err != nil {
				x.fail(ofClient(err, SendingResponse))
				return
			}
		}
		if x.answer.Done() { // the server's part is over, however long the client's takes
			x.release(x.outcome())
		}
		if x.permit.Out() {
			x.s.conn.OnSlow(x.mayDawdle(), (*slowClient)(x))
		}
		if ended || !x.pass(head, content) || x.answer.Done() {
			return
		}
		head = nil
		if x.answer.Left() >= spliceFrom && x.splice() {
			if x.failure.failed() || x.answer.Done() {
				return
			}
		}
		if !x.more() {
			return
		}
	}
}

// pass sends head and content to the client.
func (x *exchange) pass(head, content []byte) bool {
	client := x.s.conn
	client.SetWriteTimeout(x.snap.sendWithin(len(content)))
	done := x.answer.Done()
	if len(head) == 0 && len(content) == 0 && !done {
		return true
	}
	n, err := 0, error(nil)
	if x.web.active {
		n, err = x.passInWeb(head, content, done)
	} else {
		n, err = x.toClient().put(head, x.back, content, done, x.trailers())
	}
	x.p.stats.BytesOut.Add(uint64(n))
	if err != nil {
		return x.fail(ofClient(err, SendingResponse))
	}
	x.sent += int64(len(content))
	return true
}

// trailers are what the client gets of the response's trailer section.
func (x *exchange) trailers() message.Fields {
	if stream := x.serverStream(); stream != nil && x.answer.Done() && x.resp.Body == message.UntilClose {
		return stream.Trailers()
	}
	if x.framing != message.Chunked {
		return nil
	}
	return x.answer.Trailers()
}

// more reads more of the response's body.
func (x *exchange) more() bool {
	f := x.back
	if f.r == f.w {
		f.r, f.w = headroom, headroom
	} else {
		f.compact(headroom)
	}
	if len(f.room()) == 0 {
		return x.fail(ofServer(errLongTrailers, ReadingResponse))
	}
	x.conn.SetReadTimeout(time.Duration(x.farm.Timeouts.Idle))
	if x.call.is && x.permit.Out() { // a stream of messages may last for ever, and be silent
		x.conn.OnSlow(slowAfter, (*slowServer)(x))
	}
	n, err := x.conn.Read(f.room())
	if err == io.EOF {
		if err = x.answer.End(); err == nil {
			x.pass(nil, nil)
			return false
		}
	}
	if err != nil {
		return x.serverFailed(err, ReadingResponse)
	}
	f.w += n
	x.p.pool.Stats(x.server.State).BytesIn.Add(uint64(n))
	return true
}

// splice moves the rest of the body inside the kernel, if both ends are plain
// sockets of this loop; false if they are not.
func (x *exchange) splice() bool {
	client, ok1 := x.s.conn.(*reactor.Conn)
	server, ok2 := x.conn.Stream.(*reactor.Conn)
	if !ok1 || !ok2 || x.framing != message.Length {
		return false
	}
	n, fault, err := client.SpliceFrom(server, x.answer.Left(), time.Duration(x.farm.Timeouts.Idle), func(piece int) {
		client.SetWriteTimeout(x.snap.sendWithin(piece))
	})
	x.answer.Skip(n)
	x.sent += n
	x.p.stats.BytesOut.Add(uint64(n))
	x.p.pool.Stats(x.server.State).BytesIn.Add(uint64(n))
	switch {
	case err == nil:
	case fault == nil: // no pipe was to be had: go on through a buffer
		return false
	case fault == server:
		x.serverFailed(err, ReadingResponse)
	default:
		x.fail(ofClient(err, SendingResponse))
	}
	return true
}
