package http2

import "time"

// receiving is the connection's window for content that comes. Loop only.
type receiving struct {
	window int64 // bytes that the peer may still send
	size   int64
	owed   int64 // read since the peer was told last
	spare  int64 // by which windows of streams may yet grow
	trip   int64 // ns to the peer and back; 0: not known yet
}

// begin: the peer starts with firstWindow, and is told at once of the rest.
func (r *receiving) begin(cfg *Config) {
	r.window, r.size, r.spare = firstWindow, int64(cfg.ConnWindow), int64(cfg.Spare)
	r.owed = r.size - firstWindow
}

// credit gives n bytes of the connection's window back, once it is worth a frame.
func (c *conn) credit(n int) {
	f := &c.flow
	if f.owed += int64(n); f.owed >= f.size/2 && !c.over {
		c.out.b = appendWindowUpdate(c.out.make(), 0, uint32(f.owed))
		f.window += f.owed
		f.owed = 0
		c.out.soon()
	}
}

// credit gives n bytes of both windows back, once it is worth a frame.
func (s *stream) credit(n int) {
	c := s.c
	c.credit(n)
	if s.owed += int64(n); s.owed < max(1, s.size/2) || s.ended || !s.listed || c.over {
		return
	}
	s.widen()
	c.out.b = appendWindowUpdate(c.out.make(), s.id, uint32(s.owed))
	s.window += s.owed
	s.owed = 0
	c.out.soon()
}

const (
	// quickTrips is within how many round trips half of a window is read that is too
	// small: a sender whom nothing else bounds sends a whole one in each, and one that
	// is at rest for three of four is bounded by something else. It is what quic-go has.
	quickTrips = 2
	// leastTrip is a way on which no window is too small: 64 KiB in each are 64 MB/s.
	leastTrip = int64(time.Millisecond)
)

// widen doubles a window of which half was read in no time, as far as the spare of the
// connection goes: then it is the window that bounds the speed, and neither the sender nor
// the reader.
func (s *stream) widen() {
	c, now := s.c, s.c.exec.Now()
	quick := c.flow.trip >= leastTrip && now-s.since < quickTrips*c.flow.trip
	s.since = now
	if more := min(s.size, int64(c.cfg.Widest)-s.size, c.flow.spare); quick && more > 0 {
		s.size += more
		s.owed += more
		c.flow.spare -= more
	}
}

// measure takes the way there and back from the peer's word that it has our SETTINGS,
// with which the connection has begun.
func (c *conn) measure() {
	if c.settleBy != 0 {
		c.flow.trip = c.exec.Now() - (c.settleBy - int64(c.cfg.Settled))
	}
}

// vacate gives back the stream's room for content on the connection once nothing more
// comes and all that came was read, or thrown away: only then another stream may have it.
func (s *stream) vacate() (did bool) {
	if !s.housed || s.listed || s.queue.n > 0 {
		return false
	}
	s.housed = false
	s.c.housed--
	s.c.flow.spare += s.size - int64(s.c.cfg.Window)
	return true
}

// forget throws away what has come and was not read.
func (s *stream) forget() {
	s.c.credit(s.queue.clear(s.c.pool))
	if s.vacate() {
		s.c.side.left()
	}
}
