package proxy

import (
	"io"
	"time"

	"sluice/internal/message"
	"sluice/internal/reactor"
	"sluice/internal/segment"
)

// rateAfter is how long a body may trickle before the least rate is asked of it.
const rateAfter = 5 * time.Second

// startBody settles how the request's content is framed. CONNECT has none: what comes is
// for the other end of the tunnel, once there is one.
func (x *exchange) startBody() bool {
	r := &x.req
	x.begun = true
	framing := r.Body
	if r.Method == message.CONNECT {
		framing = message.NoBody
	}
	if err := x.body.Start(framing, r.ContentLength, x.snap.body, &x.snap.limits); err != nil {
		return x.fail(ofFault(err, ReadingBody))
	}
	return true
}

// prepareBody takes the content that came with the head, so that it can go out with
// the head, again if need be.
func (x *exchange) prepareBody() bool {
	r := &x.req
	if x.body.Done() || r.ExpectContinue {
		return true
	}
	if !x.draw() {
		return false
	}
	content, err := x.in.gather(&x.body)
	if err != nil {
		return x.fail(ofFault(err, ReadingBody))
	}
	x.first = append(x.first, content...)
	return x.draw() // it may have been all
}

// upload moves the rest of a request's body to the server while the answer is
// awaited: in a task of its own, since the server may answer before it has read
// everything. Loop only.
type upload struct {
	x       *exchange
	conn    reactor.Stream // to the server
	out     outlet         // the same, framed
	stats   *segment.ServerStats
	buf     *buffer
	done    reactor.Signal
	started bool  // for this exchange: what came first is no longer all of the body
	running bool  // its task has not ended
	stopped bool  // the exchange wants no more of it
	waited  int64 // for the client to send, also before the upload, ns
	failure Failure
}

// start begins the upload.
func (u *upload) start() {
	x := u.x
	u.started, u.running, u.stopped, u.waited, u.failure = true, true, false, x.spent, none
	u.conn, u.out, u.stats = x.conn, x.toServer(), x.p.pool.Stats(x.server.State)
	u.buf = x.p.buffers.getLarge()
	u.buf.w += copy(u.buf.room(), x.in.unread())
	x.in.r = x.in.w
	x.p.exec.Go(u)
}

// Run is the upload's task.
func (u *upload) Run() {
	x := u.x
	if !u.stopped {
		u.failure = u.move()
	}
	u.running = false
	switch {
	case u.stopped:
	case u.failure.Party == Client:
		u.conn.Abort(errUpload) // the answer can no longer be what the client wants
	case u.failure.Reason == segment.ServerTimeout && x.at.answered == 0:
		u.conn.Abort(errUpload) // a server that has taken nothing for so long answers nothing either
	case x.at.answered == 0:
		x.at.requested = x.p.exec.Now()
		u.conn.SetReadTimeout(x.firstByteWithin())
	}
	u.done.Set()
}

// move sends content until the body's end.
func (u *upload) move() Failure {
	x := u.x
	for {
		content, err := u.buf.gather(&x.body)
		if err != nil {
			return ofFault(err, ReadingBody)
		}
		last := x.body.Done()
		if u.stopped { // the connection may be another request's by now
			return none
		}
		if len(content) > 0 || last {
			n, err := u.out.put(nil, u.buf, content, last, x.requestTrailers())
			u.stats.BytesOut.Add(uint64(n))
			if err != nil {
				return ofServer(err, SendingRequest)
			}
		}
		if last || u.stopped { // read would set its deadline anew
			return none
		}
		if tooSlow(x.snap, u.waited, x.body.Total()) { // the server's time is not held against the client
			return Failure{Party: Client, Phase: ReadingBody, Reason: segment.ClientTimeout}
		}
		if f := u.read(); f.failed() {
			return f
		}
	}
}

// read gets more of the body from the client.
func (u *upload) read() Failure {
	x := u.x
	if u.buf.r == u.buf.w {
		u.buf.r, u.buf.w = headroom, headroom
	} else {
		u.buf.compact(headroom)
	}
	if len(u.buf.room()) == 0 {
		return ofFault(errLongTrailers, ReadingBody)
	}
	conn := x.s.conn
	since := x.p.exec.Now()
	conn.SetReadTimeout(time.Duration(x.snap.timeouts.Body))
	if left := x.mayDawdle() - time.Duration(u.waited); left > 0 {
		conn.OnSlow(left, (*slowClient)(x))
	} else if !conn.Ready() {
		x.keptWaiting()
	}
	n, err := conn.Read(u.buf.room())
	u.waited += x.p.exec.Now() - since
	if err == io.EOF && x.body.End() != nil {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && err != io.EOF {
		return ofClient(err, ReadingBody)
	}
	u.buf.w += n
	return none
}

// stop ends the upload if it still runs and waits for its task to be gone. What
// the client sends from then on belongs to no request.
func (u *upload) stop() {
	if !u.started {
		return
	}
	if u.running {
		u.stopped = true
		u.x.s.conn.SetReadDeadline(time.Unix(1, 0))
		u.conn.SetWriteDeadline(time.Unix(1, 0))
	}
	u.done.Wait(0)
}
