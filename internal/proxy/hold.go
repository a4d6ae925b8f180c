package proxy

import (
	"time"

	"sluice/internal/admission"
	"sluice/internal/admission/gate"
	"sluice/internal/admission/queue"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// held is a request that waits for a permit. Where the client's connection can be
// watched without a task it has neither task nor buffer: the session keeps the
// head's bytes, this struct all else, and the head is read anew when it is called.
// Loop only, once it has joined.
type held struct {
	admission.Waiter
	paused
	s    *session
	line *admission.Line
	call reactor.Signal // of a task that waits in place; nil: there is none

	joined, called int64 // executor time
	until          int64 // the end of its patience, or of ours
	deadline       bool  // until is its deadline, not admission.timeout
	gone           bool  // the client left after it had been called
	reason         segment.Reason
}

// hold is step 4, and step 5 with it: the request waits in its farm's line until
// one of the servers has a permit for it. False: it was refused, or it waits and
// the session goes on when it is called.
func (x *exchange) hold() bool {
	if h := x.s.held; h != nil {
		x.s.held = nil
		return x.called(h)
	}
	return x.choose()
}

// choose is step 5: which server.
func (x *exchange) choose() bool {
	if x.fresh { // the same server, on a connection of its own
		return x.take(x.server)
	}
	h := x.house
	if h.line == nil || !x.way.held {
		s, _ := x.turns[x.farm.Index].Next(x.p.exec.Now(), x.tried, nil)
		return x.take(s)
	}
	open := x.p.desk.Open
	if h.line.Crowded() {
		open = nobody
	}
	s, some := x.turns[x.farm.Index].Next(x.p.exec.Now(), x.tried, open)
	if s == nil && some && !h.line.Crowded() {
		s = x.spill()
	}
	if s != nil {
		var ok bool
		if x.permit, ok = h.line.Claim(x.p.desk, s, x.p.exec.Now()); ok {
			return x.take(s)
		}
	}
	if !some {
		return x.take(nil)
	}
	return x.join(h)
}

// nobody passes by those who wait.
func nobody(*upstream.Server) bool { return false }

// take settles for a server. nil: there is none.
func (x *exchange) take(s *upstream.Server) bool {
	switch {
	case s == nil && x.last.failed():
		return x.fail(x.last)
	case s == nil:
		return x.fail(Failure{Party: Sluice, Phase: Routing, Reason: segment.NoServer})
	case x.last.failed():
		x.tries++
		x.p.pool.Stats(x.server.State).Retries.Inc()
	}
	x.server = s
	return true
}

// join puts the request into its farm's line.
func (x *exchange) join(house *house) bool {
	now := x.p.exec.Now()
	h := &held{paused: x.pause(), s: x.s, line: house.line, joined: now}
	h.Waiter.Class, h.Waiter.Tenant = x.class(house), x.tenant(house)
	h.Waiter.Only, h.Waiter.Except = -1, x.tried.Slots(x.farm)
	h.until = now + int64(house.timeout)
	if d := x.patience(house); d > 0 {
		h.Due = x.at.ready + int64(d)
	}
	h.To, h.Call = x.p.exec, h.run
	verdict, drain := h.line.Join(x.p.desk, &h.Waiter, now)
	if h.Due != 0 && h.Deadline < h.until {
		h.until, h.deadline = h.Deadline, true
	}
	if verdict != queue.Held {
		why := refusals[verdict]
		if verdict == queue.Late && !h.deadline { // it could have been served after admission.timeout, and in time
			why = segment.QueueTimeout
		}
		return x.refuseHeld(why, drain)
	}
	x.p.stats.Held.Inc()
	if x.tries == 0 && !x.last.failed() && x.s.conn.Watch(nil) {
		x.s.held = h
		return false
	}
	return x.waitHere(h)
}

// refusals are the reasons of those whom the line refuses or throws out.
var refusals = map[queue.Verdict]segment.Reason{
	queue.Full: segment.QueueFull, queue.Late: segment.DeadlineUnmet, queue.Gone: segment.NoServer,
	queue.Pushed: segment.QueueFull, queue.Stale: segment.QueueDropped,
}

// waitHere waits with task and buffer: for another try, and where a connection
// cannot be watched without a task.
func (x *exchange) waitHere(h *held) bool {
	h.call = x.p.exec.NewSignal()
	x.s.conn.SetReadTimeout(0)
	x.s.conn.Watch((*leaver)(h))
	h.call.Wait(h.left())
	x.s.conn.Watch(nil)
	if h.called == 0 && h.line.Leave(x.p.desk, &h.Waiter, x.p.exec.Now()) {
		h.giveUp()
	}
	if h.called == 0 { // it is on its way
		h.call.Wait(0)
	}
	return x.called(h)
}

// left is how long it may still be held. It is never 0, which would be for ever.
func (h *held) left() time.Duration {
	return time.Duration(max(1, h.until-h.s.proxy.exec.Now()))
}

// called goes on with a request that has been called, or has given up.
func (x *exchange) called(h *held) bool {
	x.at.joined, x.at.called = h.joined, h.called
	x.permit, h.Permit = h.Permit, admission.Permit{}
	switch {
	case h.gone:
		return x.fail(Failure{Party: Client, Phase: Holding, Reason: segment.ClientGone})
	case h.Server == nil:
		drain := h.line.Drain(&h.Waiter, x.p.exec.Now())
		return x.refuseHeld(h.reason, max(drain, time.Duration(h.called-h.joined)))
	}
	return x.take(h.Server)
}

// refuseHeld ends a request that gets no permit. Its client is to try again when the
// line, as it is now, has been served: after a second at least, since how long that
// takes may not be known, and after a minute at most.
func (x *exchange) refuseHeld(why segment.Reason, drain time.Duration) bool {
	if x.last.failed() {
		return x.fail(x.last)
	}
	x.in.gather(&x.body) // content that is all there does not end the connection
	x.retryAfter = min(max(drain, time.Second), time.Minute)
	return x.fail(Failure{Party: Sluice, Phase: Holding, Reason: why})
}

// run is told, on the request's loop, that it has got a permit or was thrown out.
func (h *held) run() {
	if h.Server == nil {
		h.reason = refusals[h.Why]
	}
	h.ended()
	if h.call != nil {
		h.call.Set()
		return
	}
	h.s.conn.Watch(nil)
	h.s.proxy.exec.Go(h.s)
}

// ended counts the end of the wait.
func (h *held) ended() {
	p := h.s.proxy
	h.called = p.exec.Now()
	p.stats.Held.Dec()
	p.stats.Wait.Observe(h.called - h.joined)
	if h.Server != nil {
		p.pool.Stats(h.Server.State).Wait.Observe(h.called - h.joined)
	}
}

// giveUp ends the wait of a request that has left the line.
func (h *held) giveUp() {
	h.reason = segment.QueueTimeout
	if h.deadline {
		h.reason = segment.DeadlineUnmet
	}
	h.ended()
}

// Run is a task: the client has ended its connection, or the time is over.
func (h *held) Run() {
	p := h.s.proxy
	gone := p.exec.Now() < h.until
	if gone {
		p.stats.LeftHeld.Inc()
	}
	h.gone = gone
	if h.line.Leave(p.desk, &h.Waiter, p.exec.Now()) {
		h.giveUp()
		h.s.Run()
	}
}

// Abandon ends the session of a task that has panicked.
func (h *held) Abandon() { h.s.Abandon() }

// leaver is told that the client of a request that waits in place has gone.
type leaver held

// Run is a task.
func (l *leaver) Run() {
	if l.called == 0 {
		l.gone = true
		l.s.proxy.stats.LeftHeld.Inc()
		l.call.Set()
	}
}

// park lets go of exchange and buffer while the request is held; n bytes before
// what is unread are its head.
func (s *session) park(x *exchange, n int) {
	p, h := s.proxy, s.held
	in := x.in
	s.partial = append([]byte(nil), in.b[in.r-n:in.w]...)
	p.buffers.put(x.letGo())
	s.exchange = nil
	p.putExchange(x)
	s.conn.SetReadTimeout(h.left())
	s.conn.Watch(h)
}

// release gives the permit back.
func (x *exchange) release(how gate.Outcome) {
	if x.permit.Out() {
		x.house.line.End(x.p.desk, &x.permit, how, x.house.target, x.p.exec.Now())
	}
}

// outcome is what a server's gate shall learn of this try.
func (x *exchange) outcome() gate.Outcome {
	switch f := &x.failure; {
	case !x.permit.Out():
		return gate.Ignored
	case f.failed() && f.Party != Backend, f.Reason == segment.BadResponse && f.failed():
		return gate.Ignored
	case f.failed(), x.house.saysFailure(&x.resp):
		return gate.Failed
	case x.resp.Status >= 500:
		return gate.Ignored
	}
	return gate.Good
}
