package proxy

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/grpcweb"
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
			if errors.Is(err, os.ErrDeadlineExceeded) {
				if x.tooLate() {
					return false
				}
				if x.patient() {
					continue
				}
			}
			return x.noAnswer(err)
		}
		if x.back == nil {
			x.back = x.p.buffers.getLarge()
		}
		if len(x.back.room()) == 0 {
			x.back.compact(headroom + 1)
		}
		final, err := x.listen()
		if err != nil {
			return x.noAnswer(err)
		}
		if final {
			x.p.pool.Stats(x.server.State).Response.Observe(max(0, x.at.answered-x.at.requested))
			return true
		}
	}
}

// listen takes in what has come of the answer; it reports whether that has the
// final head.
func (x *exchange) listen() (final bool, err error) {
	if stream := x.serverStream(); stream != nil {
		return x.streamHeads(stream)
	}
	n, err := x.conn.Read(x.back.room())
	if err != nil {
		return false, err
	}
	x.p.pool.Stats(x.server.State).BytesIn.Add(uint64(n))
	if x.back.r == x.back.w {
		x.at.answered = x.p.exec.Now()
	}
	x.back.w += n
	return x.heads()
}

// heads reads response heads from what has come, up to the final one.
func (x *exchange) heads() (final bool, err error) {
	for x.back.r < x.back.w {
		n, err := http1.ParseResponse(x.back.unread(), &x.snap.answer, x.out.Method, &x.resp)
		if err != nil || n == 0 {
			return false, err
		}
		x.back.r += n
		if final, err = x.judge(n); final || err != nil {
			return final, err
		}
	}
	x.back.r, x.back.w = headroom+1, headroom+1 // empty, but heard from
	x.at.answered = 0
	return false, nil
}

// judge looks at a response head of n bytes. One that is not final is passed on.
func (x *exchange) judge(n int) (final bool, err error) {
	if x.resp.Status >= 200 || x.resp.Status == 101 && x.agrees() {
		return true, nil
	}
	if x.interims += n; x.interims > x.snap.answer.Head {
		return false, errInterims
	}
	return false, x.interim()
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
	x.writeInterim(&x.resp)
	return nil
}

// proceed has the client send its body, if it waits for leave.
func (x *exchange) proceed() {
	if !x.req.ExpectContinue || x.proceeded {
		return
	}
	x.proceeded = true
	x.writeInterim(&goOn)
	x.upload.start()
}

var goOn = message.Response{Status: 100, Reason: http1.ReasonOf(100), ContentLength: -1}

// writeInterim sends a 1xx. If that fails, so will what comes after it.
func (x *exchange) writeInterim(r *message.Response) {
	if _, err := x.respond(r, nil); err != nil {
		x.fail(ofClient(err, SendingResponse))
	}
}

// answerWithin is the first time-out of the wait for an answer.
func (x *exchange) answerWithin() time.Duration {
	if x.req.ExpectContinue {
		return max(time.Duration(x.farm.Timeouts.Continue), 1) // 0: at once
	}
	return x.firstByteWithin()
}

// firstByteWithin is how long a server that has the whole request may take.
func (x *exchange) firstByteWithin() time.Duration {
	d := time.Duration(x.farm.Timeouts.FirstByte)
	if left := x.callLeft(); left > 0 {
		d = min(d, left)
	}
	return d
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
	x.conn.SetReadTimeout(x.firstByteWithin())
	return true
}

// noAnswer notes that the wait ended without a response head.
func (x *exchange) noAnswer(err error) bool {
	phase := AwaitingResponse
	if x.heard() {
		phase = ReadingResponse
	}
	x.serverFailed(x.conn.Refused(err), phase)
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

// composeAnswer makes of the server's head the one for the client, and settles how
// the content is framed and whether the connection stays.
func (x *exchange) composeAnswer() {
	r := &x.resp
	x.words = x.words[:0]
	x.close = x.close || x.p.draining
	x.framing = r.Body
	if r.Body == message.Chunked || r.Body == message.UntilClose {
		if x.framing = message.Chunked; x.req.Version == message.HTTP10 {
			x.framing, x.close = message.UntilClose, true
		}
	}
	if x.web.kind != grpcweb.None {
		x.answerInWeb()
	}
	if hsts := x.s.listener.HSTS; hsts != nil && r.Status >= 200 {
		x.replace(r, nameHSTS, hsts)
	}
	if alt := x.altSvc(); alt != nil && r.Status >= 200 {
		x.replace(r, nameAltSvc, alt)
	}
	if x.house.timing {
		r.Fields = append(r.Fields, message.Field{Name: nameServerTiming, Value: x.spell(x.appendTiming)})
	}
	if stream := r.Fields.Get(message.ContentType); stream != nil && bytes.HasPrefix(stream.Value, eventStream) {
		x.release(gate.Ignored)
	}
	if !r.HasDate && r.Status >= 200 {
		r.Fields = append(r.Fields, message.Field{Name: nameDate, Value: x.p.date.at(x.p.exec.Now()), ID: message.Date})
	}
	if x.bodyLeft() {
		x.close, x.linger = true, true // it will not be read to its end
	}
}

// altSvc is where else the client may ask; nil: nowhere, or it is there. What the
// server says of that is about the server's own ports.
func (x *exchange) altSvc() []byte {
	if x.req.Version == message.HTTP3 {
		return nil
	}
	return x.s.listener.AltSvc
}

// replace has the client see this value of a field, and none that the server sent.
func (x *exchange) replace(r *message.Response, name, value []byte) {
	for i := range r.Fields {
		if f := &r.Fields[i]; len(f.Name) == len(name) && bytes.EqualFold(f.Name, name) {
			f.Drop = true
		}
	}
	r.Fields = append(r.Fields, message.Field{Name: name, Value: value})
}

// eventStream is the content that never ends by itself (HTML Living Standard,
// server-sent events): how long it takes says nothing, and it shall keep no permit.
var eventStream = []byte("text/event-stream")

// appendTiming tells the client how long its request was held (W3C Server Timing).
func (x *exchange) appendTiming(dst []byte) []byte {
	dst = append(dst, "queue;dur="...)
	return strconv.AppendFloat(dst, float64(x.at.called-x.at.joined)/1e6, 'f', 3, 64)
}
