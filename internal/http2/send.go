package http2

import (
	"errors"
	"os"
	"time"

	"sluice/internal/http2/hpack"
	"sluice/internal/message"
)

// usefulRoom is the least that a frame of a longer content may have of a buffer's
// end: smaller pieces cost the peer more than they bring.
const usefulRoom = 512

// sending gathers what goes out in a turn, and sends it in a task of its own.
// Streams whose content has not been taken stand in a line, the most urgent first.
// Loop only.
type sending struct {
	c        *conn
	b        []byte // gathered; nil: nothing
	batch    uint32 // counts these
	replies  int    // bytes of answers to frames in b
	window   int64  // of the connection, for content
	flushing bool   // a task sends, or will
	sized    bool   // a field section has said that we use no table

	first, last *stream   // with content to send and a window for it
	crowd       []*stream // with a head to send, waiting for room
}

func (o *sending) begin(c *conn) { o.c, o.window = c, firstWindow }

// make makes sure that there is a buffer, and returns it to append to.
func (o *sending) make() []byte {
	if o.b == nil {
		o.b = o.c.pool.getOut()
	}
	return o.b
}

func (o *sending) room() int { return outBytes - len(o.b) }

// soon has what is gathered sent at the turn's end.
func (o *sending) soon() {
	if !o.flushing && !o.c.gone {
		o.flushing = true
		o.c.exec.Go(o)
	}
}

// Run sends until nothing is left. The wire is closed here when that was the last.
func (o *sending) Run() {
	c := o.c
	for len(o.b) > 0 && !c.gone {
		b := o.b
		o.b, o.replies = nil, 0
		o.batch++
		o.fill()
		o.admit()
		o.hurry(len(b))
		_, err := c.wire.Write(b)
		c.pool.putOut(b)
		if err != nil {
			o.late(err)
			c.lose(err)
		}
	}
	o.flushing = false
	if c.over {
		c.shut(true)
	}
}

// hurry bounds how long the peer may take for n bytes, whichever streams they are of: who
// opens all windows and then reads byte by byte would hold them for ever
// (CVE-2019-9517). A connection that ends has a limit of its own.
func (o *sending) hurry(n int) {
	if cfg := o.c.cfg; cfg.Rate > 0 && !o.c.over {
		o.c.wire.SetWriteTimeout(cfg.Stall + time.Duration(n)*time.Second/time.Duration(cfg.Rate))
	}
}

// late counts a peer that has taken too little.
func (o *sending) late(err error) {
	if !o.c.over && errors.Is(err, os.ErrDeadlineExceeded) {
		o.c.cfg.Count(Stalls)
	}
}

// Abandon ends the connection when the task has panicked.
func (o *sending) Abandon() { o.c.Abandon() }

// clear throws away what can no longer be sent.
func (o *sending) clear() {
	if o.b != nil {
		o.c.pool.putOut(o.b)
		o.b = nil
	}
	o.admit()
}

// admit wakes who waits for room.
func (o *sending) admit() {
	for i, s := range o.crowd {
		s.Resume()
		o.crowd[i] = nil
	}
	o.crowd = o.crowd[:0]
}

// resume puts a stream in line that has content to send, and a window for it.
func (o *sending) resume(s *stream) {
	if s.inLine || len(s.pending) == 0 || s.sendWindow <= 0 {
		return
	}
	s.inLine = true
	before := o.last
	for before != nil && before.priority.Urgency > s.priority.Urgency {
		before = before.ahead
	}
	o.insert(s, before)
}

// insert puts s behind another; nil: first.
func (o *sending) insert(s, before *stream) {
	s.ahead = before
	if before == nil {
		s.behind, o.first = o.first, s
	} else {
		s.behind, before.behind = before.behind, s
	}
	if s.behind == nil {
		o.last = s
	} else {
		s.behind.ahead = s
	}
}

// remove takes a stream out of the line.
func (o *sending) remove(s *stream) {
	if !s.inLine {
		return
	}
	if s.ahead == nil {
		o.first = s.behind
	} else {
		s.ahead.behind = s.behind
	}
	if s.behind == nil {
		o.last = s.ahead
	} else {
		s.behind.ahead = s.ahead
	}
	s.ahead, s.behind, s.inLine = nil, nil, false
}

// fill takes content from those in line while there is room and a window.
func (o *sending) fill() {
	for s := o.first; s != nil && o.window > 0; s = o.first {
		n := min(len(s.pending), o.c.peer.frame, o.room()-headBytes)
		if n <= 0 || n < len(s.pending) && n < usefulRoom {
			break
		}
		n = int(min(int64(n), s.sendWindow, o.window))
		o.put(s, n)
		switch {
		case len(s.pending) == 0:
			o.remove(s)
			s.Resume()
		case s.sendWindow <= 0:
			o.remove(s)
		case s.priority.Incremental && s.behind != nil:
			o.remove(s)
			o.resume(s)
		}
	}
	if len(o.b) > 0 {
		o.soon()
	}
}

// put takes n bytes of a stream's content.
func (o *sending) put(s *stream, n int) {
	b := o.make()
	s.lastFrame, s.lastBatch = len(b), o.batch
	b = appendHead(b, n, frameData, 0, s.id)
	o.b = append(b, s.pending[:n]...)
	s.pending = s.pending[n:]
	s.sendWindow -= int64(n)
	o.window -= int64(n)
	s.moved()
	o.c.calm.move(n)
}

// end marks the end of a stream's content: on its last frame, if that is still
// here.
func (o *sending) end(s *stream) {
	b := o.make()
	if s.lastFrame >= 0 && s.lastBatch == o.batch {
		b[s.lastFrame+4] |= byte(endStream)
	} else {
		o.b = appendHead(b, 0, frameData, endStream, s.id)
	}
	o.soon()
}

// noHead is room for a frame's head, which is written when its length is known.
var noHead [headBytes]byte

// open begins a field section; it returns where.
func (o *sending) open() (from int) {
	b := o.make()
	from = len(b)
	b = append(b, noHead[:]...)
	if !o.sized {
		o.sized = true
		b = hpack.AppendSizeUpdate(b, 0)
	}
	o.b = b
	return from
}

// close ends a field section that has been appended since open.
func (o *sending) close(s *stream, from int, f flags) {
	o.b = appendSection(o.b, from, f, s.id, o.c.peer.frame)
	o.soon()
}

// appendFields appends the fields that are not to be dropped, and not about a
// connection (RFC 9113 8.2.2).
func appendFields(b []byte, fs message.Fields) []byte {
	for i := range fs {
		switch f := &fs[i]; {
		case f.Drop || f.ID.OfConnection():
		case f.NeverIndexed:
			b = hpack.AppendNeverIndexed(b, f.ID, f.Name, f.Value)
		default:
			b = hpack.AppendField(b, f.ID, f.Name, f.Value)
		}
	}
	return b
}
