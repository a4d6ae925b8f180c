package http2

import (
	"net"
	"time"

	"sluice/internal/http2/hpack"
	"sluice/internal/message"
	"sluice/internal/reactor"
)

// Server serves connections of one loop. Loop only.
type Server struct {
	exec   reactor.Executor
	cfg    Config
	limits hpack.Limits
	pool   pool
}

// NewServer makes a Server, whose connections all have the same configuration.
func NewServer(exec reactor.Executor, cfg Config) *Server {
	return &Server{exec: exec, cfg: cfg.whole(), limits: cfg.sections()}
}

// Conn is a connection from a client. Loop only.
type Conn struct {
	conn
	owner Owner
	live  int // streams that owners have not closed
	heads int // bytes of their heads, and of those that still end, as RFC 9113 6.5.2 counts them
}

// Serve begins to serve a connection of which came has been read already.
func (s *Server) Serve(wire reactor.Stream, came []byte, owner Owner) *Conn {
	c := &Conn{owner: owner, conn: conn{exec: s.exec, wire: wire, pool: &s.pool, cfg: &s.cfg, decoder: hpack.NewDecoder(&s.limits)}}
	c.side = c
	c.start(append([]byte(nil), came...))
	c.greet()
	return c
}

// greet sends SETTINGS, and opens the connection's window as far as it goes.
func (c *Conn) greet() {
	settings := [...]setting{
		{settingStreams, uint32(c.cfg.Streams)}, {settingWindow, uint32(c.cfg.Window)},
		{settingHead, uint32(c.cfg.Head)}, {settingOldPriority, 1}, {settingConnect, 1},
	}
	n := len(settings)
	if !c.cfg.ExtendedConnect {
		n--
	}
	c.out.b = appendSettings(c.out.make(), settings[:n]...)
	c.credit(0)
	c.out.soon()
}

// Drain ends the connection once its streams have come to their end. The client
// is told at once, and may still open streams until it knows (RFC 9113 6.8).
func (c *Conn) Drain() {
	if c.parting != staying || c.over {
		return
	}
	c.parting = warned
	c.out.b = appendPing(appendGoAway(c.out.make(), streamBits, NoError, ""), 0, partingPing[:])
	c.out.soon()
	c.partBy = c.exec.Now() + int64(c.cfg.Parting)
	c.alarm()
}

// Close ends the connection at once.
func (c *Conn) Close() {
	c.lose(net.ErrClosed)
}

// Streams is how many are open.
func (c *Conn) Streams() int { return c.open }

// prefaced takes the client's preface.
func (c *Conn) prefaced(b []byte) (used int, f *Fault) {
	n := min(len(b), len(preface))
	switch {
	case string(b[:n]) != preface[:n]:
		return 0, errPreface
	case n < len(preface):
		return 0, nil
	}
	c.begun = true
	return n, nil
}

// settingOf takes what only a client may say. We push nothing anyway.
func (c *Conn) settingOf(s setting) *Fault {
	switch {
	case s.value > 1 && s.id == settingPush:
		return errEnablePush
	case s.value > 1, s.id == settingConnect && c.peer.connect && s.value == 0:
		return errConnectOn
	case s.id == settingConnect:
		c.peer.connect = s.value == 1
	}
	return nil
}

// leaving: the client opens no more streams, so the connection ends with those
// that there are.
func (c *Conn) leaving(uint32) {
	if c.parting != leaving {
		c.partBy, c.parting = 0, leaving
		c.goAway(NoError, "")
	}
	c.emptied()
}

func (c *Conn) ended() { c.owner.Ended() }

func (c *Conn) left() { c.emptied() }

// isReset: who resets what it has asked for, before there was an answer, makes us
// work for nothing.
func (c *Conn) isReset(s *stream, code Code) *Fault {
	s.fail(ResetError(code))
	if c.calm.Resets.Spend(1, c.exec.Now()) {
		return nil
	}
	c.cfg.Count(RapidReset)
	return errCalm
}

// section takes a request's head, or its trailers.
func (c *Conn) section(h frameHead, block []byte) *Fault {
	if h.stream%2 == 0 {
		return errStreamID
	}
	if s := c.find(h.stream); s != nil {
		return c.trailers(s, &s.self.(*Stream).tail, h, block)
	}
	if h.stream <= c.last {
		return c.late(h, block)
	}
	c.begin(h.stream)
	s := c.pool.getStream()
	s.stream.reset(&c.conn, h.stream)
	f, status := c.accept(s, h, block)
	if f == nil && status == 0 {
		c.add(&s.stream)
		c.live++
		c.heads += s.head.Size
		if h.has(endStream) {
			s.end()
		}
		c.owner.Accept(s)
		return nil
	}
	s.Shut()
	s.released = true
	c.pool.putStream(s)
	if status != 0 {
		return c.turnAway(h, status)
	}
	return f
}

// accept judges a new stream. A status is the answer to one that is well-formed
// but too long.
func (c *Conn) accept(s *Stream, h frameHead, block []byte) (f *Fault, status int) {
	long, f := c.decode(block, &s.head)
	switch {
	case f != nil:
		return f, 0
	case c.parting == leaving:
		return errStreams, 0
	case c.onSelf:
		return errSelf, 0
	case c.open >= c.cfg.Streams, c.live >= 2*c.cfg.Streams:
		return c.crowded(), 0
	case long:
		return nil, 431
	}
	end := h.has(endStream)
	if s.joined, f = request(s.head.Fields, end, c.cfg.ExtendedConnect, &s.request, s.joined); f != nil {
		c.cfg.Count(Malformed)
		return f, 0
	}
	if c.heads+s.head.Size > mostHeads*c.cfg.Head {
		c.cfg.Count(HeadBombs)
		return errHeads, 0
	}
	r := &s.request
	if len(r.MethodName)+len(r.Target)+len("  HTTP/1.1") > c.cfg.Line {
		return nil, 414
	}
	if r.Body == message.Length {
		s.declared = r.ContentLength
	}
	s.priority, _ = PriorityOf(r.Fields)
	return nil, 0
}

// crowded refuses a stream above the limit: no fault of a client that may not know
// of it yet, nor of one that has reset streams whose owners have not closed them.
func (c *Conn) crowded() *Fault {
	c.cfg.Count(RefusedStreams)
	class := MadeYouReset
	if c.open < c.cfg.Streams {
		class = RapidReset
	} else if c.settleBy == 0 {
		return errStreams
	}
	if !c.calm.Resets.Spend(1, c.exec.Now()) {
		c.cfg.Count(class)
		return errCalm
	}
	c.calm.Faults.Earn(1)
	return errStreams
}

// turnAway answers a request that goes to nobody.
func (c *Conn) turnAway(h frameHead, status int) *Fault {
	o := &c.out
	from := o.open()
	o.b = hpack.AppendStatus(o.b, status)
	o.b = hpack.AppendField(o.b, message.ContentLength, contentLength, []byte("0"))
	o.b = appendSection(o.b, from, endStream, h.stream, c.peer.frame)
	o.soon()
	if f := c.waste(HeadBombs, idlePerStream); f != nil || h.has(endStream) {
		return f
	}
	return c.refuse(h.stream, NoError)
}

// Stream is one request and its answer. It is good until Close: then it is used
// for another. Loop only.
type Stream struct {
	stream
	head    hpack.Head
	tail    hpack.Head
	request message.Request
	joined  []byte   // a cookie that came in parts
	digits  [20]byte // of a content-length
}

// Conn is the connection that it belongs to.
func (s *Stream) Conn() *Conn { return s.c.side.(*Conn) }

// ID is the stream's number.
func (s *Stream) ID() uint32 { return s.id }

// Request fills in the request's head, as often as it is asked.
func (s *Stream) Request(r *message.Request) {
	fields := append(r.Fields[:0], s.request.Fields...)
	*r = s.request
	r.Fields = fields
}

// Trailers are those of the request, once Read has returned io.EOF.
func (s *Stream) Trailers() message.Fields { return s.tail.Fields }

// Close implements net.Conn: it gives up what is not at its end. A request that was
// answered in full may end in order, for a moment.
func (s *Stream) Close() error {
	if s.done {
		return s.quit(NoError)
	}
	return s.quit(Cancel)
}

// CloseWrite ends what is sent; the client may still send.
func (s *Stream) CloseWrite() error { return s.End(nil) }

// Linger does what Close does: there is nothing that a reset could overtake.
func (s *Stream) Linger(time.Duration) { s.Close() }

// Reset ends the stream so that nobody takes what came for the whole.
func (s *Stream) Reset() { s.quit(InternalError) }

func (s *Stream) giveBack() {
	s.Conn().heads -= s.head.Size
	s.c.pool.putStream(s)
}

func (s *Stream) lost() {}

func (s *Stream) quit(code Code) error {
	if s.Closed() {
		return net.ErrClosed
	}
	c := s.Conn()
	if c.live--; code == NoError && s.listed { // answered before the content had come: what is under way leads to nothing
		c.calm.Ended()
	}
	return s.close(code)
}
