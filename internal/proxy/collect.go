package proxy

import (
	"errors"
	"io"
	"os"
	"time"

	"sluice/internal/http1"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// paused is what a request keeps while no task works on it: until its content has
// come (collected), then until it has a permit (held). Loop only.
type paused struct {
	snap  *Snapshot            // what the exchange began with
	turns []*upstream.Rotation // the same
	head  int64                // executor time
	ready int64                // executor time
	spent int64                // waiting for its content, ns
	told  bool                 // the client has been told to send its content
}

// paused is what the session's request has kept; nil if none is paused.
func (s *session) paused() *paused {
	switch {
	case s.collected != nil:
		return &s.collected.paused
	case s.held != nil:
		return &s.held.paused
	}
	return nil
}

// pause is what this request is to keep.
func (x *exchange) pause() paused {
	return paused{x.snap, x.turns, x.at.head, x.at.ready, x.spent, x.told}
}

// collected is a request whose content is awaited before it asks for a permit: a
// server is not to be kept waiting by those who are slow to send. While the client
// is silent it has no task and no exchange, but keeps its buffer. Loop only.
type collected struct {
	paused
	in      *buffer    // head and content; nil while a task reads
	body    http1.Body // as far as it has been looked at
	seen    int        // bytes of in, from the head on, of which that is true
	since   int64      // when the present wait began, executor time
	until   int64      // when it is too long; 0: never
	failure Failure
}

// collect has the request wait for its content where permits are limited, until it
// is whole or fills a buffer. Content in chunks may be a stream without an end, of
// which the server is to have the beginning soon: it is awaited for slowAfter. False:
// it failed, or the session goes on when the content is there.
func (x *exchange) collect() bool {
	s := x.s
	if c := s.collected; c != nil {
		s.collected, x.at.ready = nil, x.p.exec.Now()
		if c.failure.failed() {
			x.body = c.body
			return x.fail(c.failure)
		}
		return true
	}
	if s.held != nil || x.body.Done() || x.call.is || !x.limited() {
		return true
	}
	var body http1.Body // one that shares nothing with x.body, whose owner goes on to others
	body.Start(x.req.Body, x.req.ContentLength, x.snap.body, &x.snap.limits)
	n, err := look(&body, x.in.unread())
	switch {
	case err != nil:
		x.body = body
		return x.fail(ofFault(err, ReadingBody))
	case body.Done():
		return true
	case x.req.ExpectContinue:
		x.told = true
		if x.writeInterim(&goOn); x.failure.failed() {
			return false
		}
	}
	s.collected = &collected{paused: x.pause(), body: body, seen: x.headBytes + n}
	return false
}

// limited reports whether permits are scarce where the request goes.
func (x *exchange) limited() bool {
	if x.house.line == nil || !x.way.held {
		return false
	}
	for _, s := range x.farm.Servers {
		if x.p.desk.Limited(s) {
			return true
		}
	}
	return false
}

// look has body see what has come, without taking anything.
func look(body *http1.Body, in []byte) (seen int, err error) {
	for seen < len(in) && !body.Done() {
		_, used, err := body.Next(in[seen:])
		if err != nil {
			return seen, err
		}
		if seen += used; used == 0 {
			break
		}
	}
	return seen, nil
}

// collect reads content of the request whose head is at the start of in. It reports
// whether that was the last to be awaited, or failed; else the client is silent
// for now.
func (s *session) collect(in **buffer) (over bool) {
	c := s.collected
	if c.until == 0 {
		c.await(s)
	}
	for !c.whole(*in) {
		f := s.roomToCollect(in)
		switch {
		case f == nil, c.streams() && c.spent >= int64(slowAfter):
			return true
		case !s.conn.Ready() && (c.until == 0 || s.proxy.exec.Now() < c.until):
			return false
		}
		n, err := 0, os.ErrDeadlineExceeded
		if s.conn.Ready() {
			n, err = s.conn.Read(f.room())
		}
		c.spent += s.proxy.exec.Now() - c.since
		c.await(s)
		f.w += n
		c.note(err)
	}
	return true
}

// whole looks at what has come; it reports whether that is all, or failed.
func (c *collected) whole(f *buffer) bool {
	if c.failure.failed() {
		return true
	}
	n, err := look(&c.body, f.b[f.r+c.seen:f.w])
	c.seen += n
	switch {
	case err != nil:
		c.failure = ofFault(err, ReadingBody)
	case !c.body.Done() && tooSlow(c.snap, c.spent, c.body.Total()):
		c.failure = Failure{Party: Client, Phase: ReadingBody, Reason: segment.ClientTimeout}
	}
	return c.body.Done() || c.failure.failed()
}

// note judges the end of a read. That content in chunks has paused for slowAfter is
// no failure.
func (c *collected) note(err error) {
	switch {
	case err == nil, c.streams() && c.spent >= int64(slowAfter) && errors.Is(err, os.ErrDeadlineExceeded):
	case err == io.EOF && c.body.End() == nil: // the end of a stream's content
	case err == io.EOF:
		c.failure = ofClient(io.ErrUnexpectedEOF, ReadingBody)
	default:
		c.failure = ofClient(err, ReadingBody)
	}
}

// streams reports whether it is not known how much content there will be.
func (c *collected) streams() bool { return c.body.Left() < 0 }

// await sets how long the client may be silent.
func (c *collected) await(s *session) {
	d := time.Duration(c.snap.timeouts.Body)
	if left := slowAfter - time.Duration(c.spent); c.streams() && (d == 0 || left < d) {
		d = max(left, 1)
	}
	c.since, c.until = s.proxy.exec.Now(), 0
	if d > 0 {
		c.until = c.since + int64(d)
	}
	s.conn.SetReadTimeout(d)
}

// roomToCollect makes room for a read; nil if there is none in the largest buffer.
func (s *session) roomToCollect(in **buffer) *buffer {
	if f := *in; len(f.b) > smallBytes && f.r == f.front() && len(f.room()) == 0 {
		return nil
	}
	return s.roomIn(in)
}

// setAside takes up the content of x's request, whose head has n bytes. It returns
// the buffer if that is there already; else nil.
func (s *session) setAside(x *exchange, n int) *buffer {
	in := x.letGo()
	in.r -= n
	if s.collect(&in) {
		return in
	}
	s.exchange = nil
	s.proxy.putExchange(x)
	s.attend(in)
	return nil
}

// attend lets go of the task until more content comes.
func (s *session) attend(in *buffer) {
	s.collected.in = in
	s.conn.Idle(s)
}

// tooSlow reports whether a client that has been waited for so long, ns, has sent so
// little content, bytes, that it is below the least rate.
func tooSlow(snap *Snapshot, waited, content int64) bool {
	rate := int64(snap.timeouts.Rate)
	return rate > 0 && waited > int64(rateAfter) && content < rate*(waited/1e9)
}
