package proxy

import (
	"time"

	"sluice/internal/accesslog"
	"sluice/internal/message"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// finish is step 10: what was borrowed goes back, what happened is counted and
// logged, and the client connection is shut if it does not go on.
func (x *exchange) finish() {
	x.s.conn.OnHangup(nil)
	x.s.conn.OnSlow(0, nil)
	x.at.ended = x.p.exec.Now()
	x.upload.stop()
	if x.bodyLeft() {
		x.close, x.linger = true, true
	}
	x.release(x.outcome())
	x.giveBack()
	x.count()
	if x.p.log != nil {
		x.write()
	}
	switch {
	case x.cut:
		x.s.cutOff()
	case x.s.stream != nil:
		x.s.stream.Close()
	case x.close:
		x.s.shut(x.linger || x.in.r < x.in.w || x.s.conn.Ready())
	}
}

// giveBack returns the connection to the server: to the pool if nothing of this
// exchange can be left on it.
func (x *exchange) giveBack() {
	if x.conn == nil {
		return
	}
	if !x.failure.failed() {
		x.server.Succeed()
	}
	if x.failure.failed() || !x.clean() {
		x.dropConn()
		return
	}
	x.p.pool.Stats(x.server.State).InFlight.Dec()
	if x.farm.Announces() {
		x.keepOwn()
		x.conn = nil
		return
	}
	x.p.pool.Give(x.conn, time.Duration(x.farm.Timeouts.KeepAlive), x.farm.Connections.Idle)
	x.conn = nil
}

// clean reports whether the server has read and written this exchange to its end
// and keeps the connection. After a GET or HEAD with content that is not certain:
// a server that ignores the content would read it as its next request (RFC 9110
// 9.3.1 warns of it).
func (x *exchange) clean() bool {
	switch {
	case !x.resp.KeepAlive, !x.answer.Done(), x.back.r < x.back.w:
		return false
	case !x.body.Done(), x.upload.failure.failed():
		return false
	}
	ignorable := x.req.Method == message.GET || x.req.Method == message.HEAD
	return !ignorable || x.body.Total() == 0
}

// dropConn closes the connection to the server. No upload may be at work on it: a stream
// of it may soon be another request's.
func (x *exchange) dropConn() {
	stats := x.p.pool.Stats(x.server.State)
	stats.InFlight.Dec()
	if x.failure.Party == Backend {
		stats.Failures.Inc()
	}
	x.p.pool.Discard(x.conn)
	x.conn = nil
}

func (x *exchange) count() {
	st := x.p.stats
	st.BytesIn.Add(uint64(x.headBytes) + uint64(x.body.Total())) // those of a tunnel were counted as they came
	if x.status == 0 {
		x.status = statuses[x.failure.Reason]
		st.Status[0].Inc()
	} else {
		st.Status[x.status/100].Inc()
	}
	if x.failure.failed() {
		st.Refused[x.failure.Reason].Inc()
	}
	st.Duration.Observe(x.at.ended - x.at.head)
}

// write writes the access log's line.
func (x *exchange) write() {
	e := &x.p.entry
	r, at := &x.req, &x.at
	*e = accesslog.Entry{
		Wall:   x.p.wall(at.began),
		Client: x.s.peer, RealClient: x.realClient(),
		Listener: x.s.listener.Name,
		Method:   r.MethodName, Scheme: x.s.scheme(), Host: r.Host, Target: r.Target, RequestID: x.reqID,
		Proto:  uint8(r.Version),
		Status: x.status, BytesIn: x.body.Total() + x.tunneled, BytesOut: x.sent,
		HeadTime: time.Duration(at.head - at.began), TotalTime: time.Duration(at.ended - at.began),
		Node: x.p.place.Node, Worker: x.p.place.Worker, Loop: x.p.place.Loop,
		Retries: x.tries,
	}
	if x.s.secured != nil {
		e.TLS = &x.s.secured.TLS
	}
	if f := r.Fields.Get(message.Referer); f != nil {
		e.Referer = f.Value
	}
	if f := r.Fields.Get(message.UserAgent); f != nil {
		e.UserAgent = f.Value
	}
	if x.farm != nil {
		e.Farm = x.farm.Name
	}
	if at.called != 0 {
		e.QueueTime = time.Duration(at.called - at.joined)
	}
	if at.connected != 0 {
		e.Server, e.Reused = x.server.URL, x.how != upstream.New
		e.ConnectTime = time.Duration(at.connected - at.connect)
	}
	if at.answered != 0 {
		e.FirstByteTime = time.Duration(at.answered - at.requested)
	}
	if f := &x.failure; f.failed() {
		e.Party, e.Phase, e.Reason, e.Err = f.Party.String(), f.Phase.String(), segment.ReasonNames[f.Reason], f.Err
	}
	x.p.log.Write(e)
}

// end lets go of all that the exchange held and returns what is left of the
// session's buffer.
func (x *exchange) end() *buffer {
	x.p.stats.Active.Dec()
	return x.letGo()
}

// letGo is the same for a request that is paused, and so goes on.
func (x *exchange) letGo() *buffer {
	p := x.p
	in := x.in
	if x.upload.started {
		p.buffers.put(in)
		in = x.upload.buf
		x.upload.buf, x.upload.started, x.upload.failure = nil, false, none
	}
	p.buffers.put(x.back)
	x.s, x.in, x.snap, x.turns, x.back = nil, nil, nil, nil, nil
	x.farm, x.server, x.conn, x.reqID = nil, nil, nil, nil
	x.way, x.house, x.retryAfter = nil, nil, 0
	x.how, x.tried, x.tries, x.retries, x.fresh, x.last = 0, 0, 0, 0, false, none
	x.begun, x.proceeded, x.status, x.close, x.linger, x.cut = false, false, 0, false, false, false
	x.trusted, x.interims, x.spent, x.told = false, 0, 0, false
	x.failure, x.sent, x.tunneled, x.accepts, x.first = none, 0, 0, "", x.first[:0]
	return in
}
