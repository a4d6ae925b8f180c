package proxy

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/http1"
	"sluice/internal/message"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// session is the life of one client connection, or of one stream of a connection
// that carries many, which ends with its first request. While it is idle, or its next
// head is incomplete, it has no task and no buffer: this struct is all. Loop
// only.
type session struct {
	next, prev *session // ring of all connections of the loop
	proxy      *Proxy
	conn       reactor.Stream
	stream     ClientStream     // the same, if it is one; else nil
	wire       reactor.Stream   // the connection that it came on; nil if it is no stream
	own        []*upstream.Conn // to servers that were told of this client
	carrier    carrier          // what serves the connection's streams; nil while that is HTTP/1.1
	peer       netip.AddrPort
	secured    *Secured // the client's TLS; nil: it speaks without
	listener   *Listener

	partial   []byte // what has come of a head that is not complete
	began     int64  // when the first byte of this head came, executor time; 0: none has
	until     int64  // when the patience for the next head ends, executor time
	requests  int
	idle      bool       // no task; waiting for bytes
	collected *collected // a request that waits for its content; else nil
	held      *held      // a request that waits for a permit; else nil
	exchange  *exchange  // what the task works on; nil while there is none
}

// Run serves requests while there are bytes for them, then lets go of its task.
func (s *session) Run() {
	if s.stream != nil {
		s.runStream()
		return
	}
	p := s.proxy
	if s.idle {
		s.idle = false
		p.stats.Idle.Dec()
	}
	in := s.resume()
	if s.collected != nil && !s.collect(&in) {
		s.attend(in)
		return
	}
	x := p.getExchange()
	s.exchange = x
	for alive := true; alive; {
		n, err := s.head(x, &in)
		switch {
		case s.speaksHTTP2(in):
			s.exchange = nil
			p.putExchange(x)
			s.upgrade(in)
			return
		case n > 0 && err == nil:
			if in, alive = s.serve(x, in, n); in == nil {
				return
			}
		case err == nil:
			s.exchange = nil
			p.putExchange(x)
			s.suspend(in)
			return
		case s.answerable(err):
			x.begin(s, in, 0)
			x.turnAway(ofClient(err, ReadingHead))
			in, alive = x.end(), false
		default:
			s.shut(false)
			alive = false
		}
	}
	p.buffers.put(in)
	p.putExchange(x)
	s.end()
}

// serve answers the request whose head is the first n bytes of in. It returns
// what the client has sent beyond, and whether the connection goes on. nil: exchange
// and task are let go of until the request goes on.
func (s *session) serve(x *exchange, in *buffer, n int) (rest *buffer, alive bool) {
	x.begin(s, in, n)
	switch alive = x.run(); {
	case s.held != nil:
		s.park(x, n)
		return nil, true
	case s.collected != nil:
		return s.setAside(x, n), true
	}
	rest = x.end()
	if s.began = 0; rest.r < rest.w {
		s.began = s.proxy.exec.Now()
	}
	if alive && s.stream == nil {
		s.wait()
	}
	return rest, alive
}

// wait sets how long the client may take for what it sends next.
func (s *session) wait() {
	p := s.proxy
	switch {
	case s.began != 0:
		s.waitFor(time.Duration(p.snapshot.timeouts.Header))
	case p.draining:
		s.waitFor(drainGrace)
	default:
		s.waitFor(time.Duration(p.snapshot.timeouts.Idle))
	}
}

func (s *session) waitFor(d time.Duration) {
	s.until = s.proxy.exec.Now() + int64(d)
	s.conn.SetReadTimeout(d)
}

// head reads until a whole request head is at the start of in. n is its length;
// 0 means that the client is silent for now.
func (s *session) head(x *exchange, in **buffer) (n int, err error) {
	snap := s.proxy.snapshot
	if paused := s.paused(); paused != nil {
		snap = paused.snap
	}
	limits := snap.headLimits(s.secure())
	if f := *in; f.r < f.w && s.partial == nil {
		if n, err = s.parse(f, limits, &x.req); n > 0 || err != nil || s.speaksHTTP2(f) {
			return n, err
		}
	}
	s.partial = nil
	for s.conn.Ready() {
		f := s.roomIn(in)
		m, err := s.conn.Read(f.room())
		if err != nil {
			return 0, err
		}
		came := f.b[f.w : f.w+m]
		f.w += m
		first := s.began == 0
		if !first && f.w-f.r <= limits.Line && bytes.IndexByte(came, '\n') < 0 {
			continue // no line has ended: nothing new to be found
		}
		if first {
			s.began = s.proxy.exec.Now()
		}
		if n, err = s.parse(f, limits, &x.req); n > 0 || err != nil || s.speaksHTTP2(f) {
			return n, err
		}
		if first {
			s.wait()
		}
	}
	if s.proxy.exec.Now() >= s.until {
		return 0, os.ErrDeadlineExceeded
	}
	return 0, nil
}

// parse looks for a head. The beginning of HTTP/2's preface is none.
func (s *session) parse(f *buffer, limits *http1.Limits, r *message.Request) (n int, err error) {
	if s.mayBeHTTP2(f) {
		return 0, nil
	}
	return http1.ParseRequest(f.unread(), limits, r)
}

// roomIn makes room for a read: a head may outgrow its small buffer.
func (s *session) roomIn(in **buffer) *buffer {
	f := *in
	if len(f.room()) > 0 {
		return f
	}
	if f.r > f.front() {
		f.compact(f.front())
		return f
	}
	large := s.proxy.buffers.getLarge()
	large.w += copy(large.room(), f.unread())
	s.proxy.buffers.put(f)
	*in = large
	return large
}

// resume gets a buffer that begins with what had come of a head, or with the whole
// of one that was paused.
func (s *session) resume() (in *buffer) {
	if c := s.collected; c != nil {
		in, c.in = c.in, nil
		return in
	}
	if len(s.partial) <= smallBytes-tailroom {
		in = s.proxy.buffers.getSmall()
		in.w = copy(in.b, s.partial)
	} else {
		in = s.proxy.buffers.getLarge()
		in.w += copy(in.room(), s.partial)
	}
	if s.held != nil {
		s.partial = nil
	}
	return in
}

// suspend lets go of buffer and task until the client sends more.
func (s *session) suspend(in *buffer) {
	if in.r < in.w {
		s.partial = append([]byte(nil), in.unread()...)
	}
	s.proxy.buffers.put(in)
	s.rest()
	s.conn.Idle(s)
}

// rest marks the session idle.
func (s *session) rest() {
	s.idle = true
	s.proxy.stats.Idle.Inc()
}

// answerable reports whether a session that ended with err while its head was
// read deserves an answer: not one that is idle, or gone.
func (s *session) answerable(err error) bool {
	return isFault(err) || s.began != 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// end takes the session, whose connection has been closed or lingers, off the
// loop's ring.
func (s *session) end() {
	s.endOwn()
	s.prev.next, s.next.prev = s.next, s.prev
	s.proxy.stats.Connections.Dec()
}

// Abandon closes the connections of a session whose task has panicked. What its
// exchange held is left to the garbage collector.
func (s *session) Abandon() {
	if s.stream != nil {
		s.stream.Reset()
	} else {
		s.conn.Close()
		s.end()
	}
	x := s.exchange
	if s.paused() != nil || x != nil && x.s == s {
		s.proxy.stats.Active.Dec()
	}
	if h := s.held; h != nil { // called, and not yet taken up again
		h.line.End(s.proxy.desk, &h.Permit, gate.Ignored, 0, s.proxy.exec.Now())
	}
	if x != nil && x.s == s {
		x.upload.stopped = x.upload.running // a stream that it moved content to may be another's soon
		x.release(gate.Ignored)
		if x.conn != nil {
			x.upload.stopped = true
			x.dropConn()
		}
	}
}

// Abandon ends the exchange that an upload belongs to, when that has panicked.
func (u *upload) Abandon() {
	u.running = false
	u.failure = Failure{Party: Sluice, Phase: ReadingBody, Reason: segment.Internal}
	if !u.stopped {
		u.conn.Abort(errUpload)
	}
	u.done.Set()
}

// resetter is a Stream that can end in a way that looks like a failure.
type resetter interface{ Reset() }

// connection is the client's, also of a stream.
func (s *session) connection() reactor.Stream {
	if s.wire != nil {
		return s.wire
	}
	return s.conn
}

// cutOff closes the connection so that nobody takes its end for the content's.
func (s *session) cutOff() {
	if conn, ok := s.conn.(resetter); ok {
		conn.Reset()
		return
	}
	s.conn.Close()
}

// shut closes the connection; linger reads what the client still sends, so that
// the answer is not lost.
func (s *session) shut(linger bool) {
	if linger {
		s.conn.Linger(time.Duration(s.proxy.snapshot.timeouts.Linger))
		return
	}
	s.conn.Close()
}
