package proxy

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"time"

	"sluice/internal/http1"
	"sluice/internal/reactor"
	"sluice/internal/segment"
)

// session is the life of one client connection. While it is idle, or its next
// head is incomplete, it has no task and no buffer: this struct is all. Loop
// only.
type session struct {
	next, prev *session // ring of all sessions of the loop
	proxy      *Proxy
	conn       reactor.Stream
	peer       netip.AddrPort
	listener   *Listener

	partial  []byte // what has come of a head that is not complete
	began    int64  // when the first byte of this head came, executor time; 0: none has
	requests int
	idle     bool      // no task; waiting for bytes
	exchange *exchange // what the task works on; nil while idle
}

// Run serves requests while there are bytes for them, then lets go of its task.
func (s *session) Run() {
	p := s.proxy
	s.idle = false
	p.stats.Idle.Dec()
	x := p.getExchange()
	s.exchange = x
	in := s.resume()
	for alive := true; alive; {
		n, err := s.head(x, &in)
		switch {
		case n > 0 && err == nil:
			in, alive = s.serve(x, in, n)
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
// what the client has sent beyond, and whether the connection goes on.
func (s *session) serve(x *exchange, in *buffer, n int) (rest *buffer, alive bool) {
	x.begin(s, in, n)
	alive = x.run()
	rest = x.end()
	if s.began = 0; rest.r < rest.w {
		s.began = s.proxy.exec.Now()
	}
	return rest, alive
}

// head reads until a whole request head is at the start of in. n is its length;
// 0 means that the client is silent for now.
func (s *session) head(x *exchange, in **buffer) (n int, err error) {
	limits := &s.proxy.snapshot.limits
	if f := *in; f.r < f.w && s.partial == nil {
		if n, err = http1.ParseRequest(f.unread(), limits, &x.req); n > 0 || err != nil {
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
		if first {
			s.began = s.proxy.exec.Now()
		}
		if !first && f.w-f.r <= limits.Line && bytes.IndexByte(came, '\n') < 0 {
			continue // no line has ended: nothing new to be found
		}
		if n, err = http1.ParseRequest(f.unread(), limits, &x.req); n > 0 || err != nil {
			return n, err
		}
	}
	if s.began != 0 && s.headTime() <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return 0, nil
}

// headTime is what is left of the time for a head.
func (s *session) headTime() time.Duration {
	return time.Duration(s.proxy.snapshot.timeouts.Header) - time.Duration(s.proxy.exec.Now()-s.began)
}

// roomIn makes room for a read: a head may outgrow its small buffer.
func (s *session) roomIn(in **buffer) *buffer {
	f := *in
	if len(f.room()) > 0 {
		return f
	}
	if f.r > 0 {
		f.compact(0)
		return f
	}
	large := s.proxy.buffers.getLarge()
	large.r = 0
	large.w = copy(large.b, f.unread())
	s.proxy.buffers.put(f)
	*in = large
	return large
}

// resume gets a buffer that begins with what had come of a head.
func (s *session) resume() *buffer {
	if len(s.partial) <= smallBytes-tailroom {
		in := s.proxy.buffers.getSmall()
		in.w = copy(in.b, s.partial)
		return in
	}
	in := s.proxy.buffers.getLarge()
	in.r = 0
	in.w = copy(in.b, s.partial)
	return in
}

// suspend lets go of buffer and task until the client sends more.
func (s *session) suspend(in *buffer) {
	p := s.proxy
	within := time.Duration(p.snapshot.timeouts.Idle)
	if in.r < in.w {
		s.partial = append([]byte(nil), in.unread()...)
		within = s.headTime()
	} else if p.draining {
		within = drainGrace
	}
	p.buffers.put(in)
	s.rest(within)
	s.conn.Idle(s)
}

// rest marks the session idle for at most within.
func (s *session) rest(within time.Duration) {
	s.idle = true
	s.proxy.stats.Idle.Inc()
	s.conn.SetReadTimeout(within)
}

// answerable reports whether a session that ended with err while its head was
// read deserves an answer: not one that is idle, or gone.
func (s *session) answerable(err error) bool {
	return isFault(err) || s.began != 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// end takes the session, whose connection has been closed or lingers, off the
// loop's ring.
func (s *session) end() {
	s.prev.next, s.next.prev = s.next, s.prev
	s.proxy.stats.Connections.Dec()
}

// Abandon closes the connections of a session whose task has panicked. What its
// exchange held is left to the garbage collector.
func (s *session) Abandon() {
	s.conn.Close()
	s.end()
	if x := s.exchange; x != nil && x.s == s {
		s.proxy.stats.Active.Dec()
		if x.conn != nil {
			x.dropConn()
		}
	}
}

// Abandon ends the exchange that an upload belongs to, when that has panicked.
func (u *upload) Abandon() {
	u.running = false
	u.failure = Failure{Party: Sluice, Phase: ReadingBody, Reason: segment.Internal}
	u.conn.Abort(errUpload)
	u.done.Set()
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
