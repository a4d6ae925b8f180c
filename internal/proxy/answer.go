package proxy

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/http1"
	"sluice/internal/message"
	"sluice/internal/segment"
)

// await is step 8: the head of the response. Interim responses are passed on.
func (x *exchange) await() bool {
	x.s.conn.OnHangup((*hangup)(x))
	x.conn.SetReadTimeout(x.answerWithin())
	for {
		if err := x.conn.Await(); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && x.patient() {
				continue
			}
			return x.noAnswer(err)
		}
		if x.back == nil {
			x.back = x.p.buffers.getLarge()
		}
		if len(x.back.room()) == 0 {
			x.back.compact(headroom + 1)
		}
		n, err := x.conn.Read(x.back.room())
		if err != nil {
			return x.noAnswer(err)
		}
		stats := x.p.pool.Stats(x.server.State)
		stats.BytesIn.Add(uint64(n))
		if x.back.r == x.back.w {
			x.at.answered = x.p.exec.Now()
		}
		x.back.w += n
		final, err := x.heads()
		if err != nil {
			return x.fail(ofServer(err, ReadingResponse))
		}
		if final {
			stats.Response.Observe(max(0, x.at.answered-x.at.requested))
			return true
		}
	}
}

// heads reads response heads from what has come, up to the final one.
func (x *exchange) heads() (final bool, err error) {
	for x.back.r < x.back.w {
		n, err := http1.ParseResponse(x.back.unread(), &x.snap.answer, x.req.Method, &x.resp)
		if err != nil || n == 0 {
			return false, err
		}
		x.back.r += n
		if x.resp.Status >= 200 {
			return true, nil
		}
		if x.interims += n; x.interims > x.snap.answer.Head {
			return false, errInterims
		}
		if err := x.interim(); err != nil {
			return false, err
		}
	}
	x.back.r, x.back.w = headroom+1, headroom+1 // empty, but heard from
	x.at.answered = 0
	return false, nil
}

// interim passes a 1xx response on (RFC 9110 15.2): to no HTTP/1.0 client, and
// 100 only to who waits for it.
func (x *exchange) interim() error {
	switch {
	case x.resp.Status == 101:
		return errSwitched
	case x.resp.Status == 100:
		x.proceed()
		return nil
	case x.req.Version == message.HTTP10:
		return nil
	}
	dst := http1.AppendStatusLine(x.head[:0], x.resp.Status, x.resp.Reason)
	dst = http1.AppendFields(dst, x.resp.Fields)
	x.head = append(dst, "\r\n"...)
	x.writeInterim(x.head)
	return nil
}

// proceed has the client send its body, if it waits for leave.
func (x *exchange) proceed() {
	if !x.req.ExpectContinue || x.proceeded {
		return
	}
	x.proceeded = true
	x.writeInterim(goOn)
	x.upload.start()
}

var goOn = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// writeInterim sends a 1xx. If that fails, so will what comes after it.
func (x *exchange) writeInterim(head []byte) {
	x.s.conn.SetWriteTimeout(x.snap.sendWithin(len(head)))
	if _, err := x.s.conn.Write(head); err != nil {
		x.fail(ofClient(err, SendingResponse))
	}
}

// answerWithin is the first time-out of the wait for an answer.
func (x *exchange) answerWithin() time.Duration {
	if x.req.ExpectContinue {
		return max(time.Duration(x.farm.Timeouts.Continue), 1) // 0: at once
	}
	return time.Duration(x.farm.Timeouts.FirstByte)
}

// patient reports whether a time-out of the wait is not yet a failure: the
// server has not sent the 100 that we can send ourselves, or it has not been sent
// the whole body, which has time-outs of its own.
func (x *exchange) patient() bool {
	switch {
	case x.req.ExpectContinue && !x.proceeded:
		x.proceed()
	case x.upload.running:
	default:
		return false
	}
	x.conn.SetReadTimeout(time.Duration(x.farm.Timeouts.FirstByte))
	return true
}

// noAnswer notes that the wait ended without a response head.
func (x *exchange) noAnswer(err error) bool {
	phase := AwaitingResponse
	if x.heard() {
		phase = ReadingResponse
	}
	x.serverFailed(err, phase)
	if x.failure.Reason == segment.FirstByteTimeout {
		x.server.Fail(x.p.exec.Now(), time.Duration(x.farm.FailFor))
	}
	return false
}

// serverFailed notes the failure of a read from the server: the upload's if that
// is what ended it.
func (x *exchange) serverFailed(err error, phase Phase) bool {
	if errors.Is(err, errUpload) {
		return x.fail(x.upload.failure)
	}
	return x.fail(ofServer(err, phase))
}

// composeAnswer writes the head for the client into x.head and settles how the
// content is framed and whether the connection stays.
func (x *exchange) composeAnswer() {
	r := &x.resp
	dst := http1.AppendStatusLine(x.head[:0], r.Status, r.Reason)
	dst = http1.AppendFields(dst, r.Fields)
	x.close = x.close || x.p.draining
	x.framing = r.Body
	length := r.ContentLength
	switch {
	case r.Body == message.NoBody && length >= 0:
		dst = http1.AppendFraming(dst, message.Length, length)
	case r.Body == message.Chunked || r.Body == message.UntilClose:
		if x.framing = message.Chunked; x.req.Version == message.HTTP10 {
			x.framing, x.close = message.UntilClose, true
		}
	}
	dst = http1.AppendFraming(dst, x.framing, length)
	if x.house.timing {
		dst = x.appendTiming(dst)
	}
	if stream := r.Fields.Get(message.ContentType); stream != nil && bytes.HasPrefix(stream.Value, eventStream) {
		x.release(gate.Ignored)
	}
	if !r.HasDate {
		dst = x.p.date.append(dst, x.p.exec.Now())
	}
	if x.bodyLeft() {
		x.close, x.linger = true, true // it will not be read to its end
	}
	x.head = append(x.appendConnection(dst), "\r\n"...)
}

// eventStream is the content that never ends by itself (HTML Living Standard,
// server-sent events): how long it takes says nothing, and it shall keep no permit.
var eventStream = []byte("text/event-stream")

// appendTiming tells the client how long its request was held (W3C Server Timing).
func (x *exchange) appendTiming(dst []byte) []byte {
	dst = append(dst, "Server-Timing: queue;dur="...)
	dst = strconv.AppendFloat(dst, float64(x.at.called-x.at.joined)/1e6, 'f', 3, 64)
	return append(dst, "\r\n"...)
}

// appendConnection tells the client what becomes of its connection where that is
// not what its version makes it expect (RFC 9112 9.3).
func (x *exchange) appendConnection(dst []byte) []byte {
	switch {
	case x.close && x.req.Version != message.HTTP10:
		return append(dst, "Connection: close\r\n"...)
	case !x.close && x.req.Version == message.HTTP10:
		return append(dst, "Connection: keep-alive\r\n"...)
	}
	return dst
}
