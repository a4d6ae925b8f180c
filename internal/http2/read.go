package http2

import "encoding/binary"

// content is a DATA frame that is coming: it is taken as it comes, not when it is
// whole.
type content struct {
	s    *stream // nil: nobody wants it
	left int     // bytes, with padding
	pad  int     // of these
	end  bool
}

// next takes one frame off b, or a part of one with DATA. It uses nothing if
// there is not enough.
func (c *conn) next(b []byte) (used int, f *Fault) {
	if !c.begun {
		return c.side.prefaced(b)
	}
	if c.content.left > 0 {
		return c.more(b), nil
	}
	if len(b) < headBytes {
		return 0, nil
	}
	h := parseHead(b)
	if f := c.expected(&h); f != nil {
		return 0, f
	}
	if h.kind == frameData {
		return c.dataFrame(h, b)
	}
	if len(b) < headBytes+h.length {
		return 0, nil
	}
	used = headBytes + h.length
	f = h.check()
	if f == nil {
		f = c.frame(h, b[headBytes:used])
	}
	return used, c.judge(h.stream, f)
}

// expected finds the faults that end the connection before the frame is whole.
func (c *conn) expected(h *frameHead) *Fault {
	if f := h.check(); f != nil && f.Whole {
		return f
	}
	switch {
	case !c.settled && (h.kind != frameSettings || h.has(ack)):
		return errPreface
	case c.headOf.stream != 0 && (h.kind != frameContinuation || h.stream != c.headOf.stream):
		return errInterleaved
	case c.headOf.stream == 0 && h.kind == frameContinuation:
		return errContinuation
	}
	return nil
}

// judge has a fault of a stream end that stream. One that ends the connection is
// returned.
func (c *conn) judge(id uint32, f *Fault) *Fault {
	if f == nil || f.Whole {
		return f
	}
	if s := c.find(id); s != nil {
		s.cut(f.Code, f)
	} else if f := c.refuse(id, f.Code); f != nil {
		return f
	}
	if !c.calm.Faults.Spend(1, c.exec.Now()) {
		c.cfg.Count(MadeYouReset)
		return errCalm
	}
	return nil
}

// refuse resets a stream that is not open.
func (c *conn) refuse(id uint32, code Code) *Fault {
	c.noteCut(id)
	return c.reply(appendReset(c.out.make(), id, code))
}

// reply has an answer to a frame sent, if not too many wait already.
func (c *conn) reply(gathered []byte) *Fault {
	c.out.replies += len(gathered) - len(c.out.b)
	c.out.b = gathered
	c.out.soon()
	if c.out.replies > mostReplies {
		c.cfg.Count(UnreadReplies)
		return errReplies
	}
	return nil
}

// frame takes a whole frame that is not DATA.
func (c *conn) frame(h frameHead, payload []byte) *Fault {
	switch h.kind {
	case frameHeaders:
		return c.headersFrame(h, payload)
	case frameContinuation:
		return c.continuationFrame(h, payload)
	case framePriority:
		return c.priorityFrame(h, payload)
	case frameReset:
		return c.resetFrame(h, payload)
	case frameSettings:
		return c.settingsFrame(h, payload)
	case framePush:
		return errPush
	case framePing:
		return c.pingFrame(h, payload)
	case frameGoAway:
		c.side.leaving(binary.BigEndian.Uint32(payload) & streamBits)
		return c.waste(UnknownFrames, 1)
	case frameWindowUpdate:
		return c.windowFrame(h, payload)
	case framePriorityUpdate:
		return c.priorityUpdateFrame(payload)
	}
	return c.waste(UnknownFrames, 1)
}

// isIdle reports whether a stream has not begun. Only clients begin streams.
func (c *conn) isIdle(id uint32) bool { return id%2 == 0 || id > c.last }

// dataFrame takes the head of DATA, and the length of its padding.
func (c *conn) dataFrame(h frameHead, b []byte) (used int, f *Fault) {
	used = headBytes
	pad := 0
	if h.has(padded) {
		switch {
		case h.length == 0:
			return 0, errFrameLength
		case len(b) == headBytes:
			return 0, nil
		}
		used++
		if pad = int(b[headBytes]); pad >= h.length {
			return 0, errPadding
		}
	}
	if c.isIdle(h.stream) {
		return 0, errIdleStream
	}
	if int64(h.length) > c.flow.window {
		return 0, errOverruns
	}
	c.flow.window -= int64(h.length)
	c.content = content{left: headBytes + h.length - used, pad: pad, end: h.has(endStream)}
	f = c.begins(h, pad)
	if c.content.s == nil {
		c.credit(used - headBytes)
	} else {
		c.content.s.credit(used - headBytes)
	}
	if f = c.judge(h.stream, f); f == nil && c.content.left == 0 {
		c.ends()
	}
	return used, f
}

// begins finds the stream that a DATA frame is for.
func (c *conn) begins(h frameHead, pad int) *Fault {
	content := h.length - pad
	if h.has(padded) {
		content--
	}
	s := c.find(h.stream)
	switch {
	case s == nil && c.wasCut(h.stream):
		return c.waste(EmptyFrames, 1) // it was on its way when we gave the stream up
	case s == nil, s.ended:
		return errClosed
	case s.headless:
		return errHeadless
	case int64(h.length) > s.window:
		return errOverrun
	case s.declared >= 0 && s.received+int64(content) > s.declared:
		return errContent
	}
	if s.received == 0 {
		s.since = c.exec.Now()
	}
	s.window -= int64(h.length)
	s.received += int64(content)
	c.content.s = s
	if content == 0 && !h.has(endStream) {
		return c.waste(EmptyFrames, 1)
	}
	c.calm.move(content)
	return nil
}

// more takes what has come of a DATA frame.
func (c *conn) more(b []byte) (used int) {
	d := &c.content
	if n := min(len(b), d.left-d.pad); n > 0 {
		if d.s != nil {
			d.s.arrive(b[:n])
		} else {
			c.credit(n)
		}
		used, d.left = n, d.left-n
	}
	if n := min(len(b)-used, d.left); d.left == d.pad && n > 0 {
		if d.s != nil {
			d.s.credit(n)
		} else {
			c.credit(n)
		}
		used, d.left, d.pad = used+n, d.left-n, d.pad-n
	}
	if d.left == 0 {
		c.ends()
	}
	return used
}

// ends is the end of a DATA frame.
func (c *conn) ends() {
	s := c.content.s
	c.content.s = nil
	if s != nil && c.content.end {
		if f := c.judge(s.id, s.end()); f != nil {
			c.fail(f)
		}
	}
}

// headersFrame takes HEADERS: a section, or the beginning of one.
func (c *conn) headersFrame(h frameHead, payload []byte) *Fault {
	payload, f := h.unpad(payload)
	if f != nil {
		return f
	}
	c.onSelf = false
	if h.has(prioritize) {
		if len(payload) < 5 {
			return errFrameLength
		}
		c.onSelf = binary.BigEndian.Uint32(payload)&streamBits == h.stream
		payload = payload[5:]
	}
	if h.has(endHeaders) {
		c.effort += sectionCost(len(payload))
		return c.side.section(h, payload)
	}
	c.headOf, c.continued, c.partialBy = h, 0, 0
	c.head = append(c.head, payload...)
	if len(payload) == 0 {
		return c.waste(EmptyFrames, 1)
	}
	return nil
}

func (c *conn) continuationFrame(h frameHead, payload []byte) *Fault {
	c.continued++
	if c.head = append(c.head, payload...); len(c.head) > 2*c.cfg.Head || c.continued > mostContinued {
		c.cfg.Count(Continuations)
		return errBlock
	}
	if !h.has(endHeaders) {
		return nil
	}
	first, section := c.headOf, c.head
	c.effort += sectionCost(len(section))
	c.headOf, c.head = frameHead{}, nil
	return c.judge(h.stream, c.side.section(first, section))
}

// resetFrame takes RST_STREAM.
func (c *conn) resetFrame(h frameHead, payload []byte) *Fault {
	if c.isIdle(h.stream) {
		return errIdleStream
	}
	s := c.find(h.stream)
	if s == nil {
		return c.waste(RapidReset, 1)
	}
	return c.side.isReset(s, Code(binary.BigEndian.Uint32(payload)))
}

// partingPing marks the PING that goes out with the first GOAWAY: once it comes
// back, the peer has seen both.
var partingPing = [pingBytes]byte{'p', 'a', 'r', 't', 'i', 'n', 'g'}

func (c *conn) pingFrame(h frameHead, payload []byte) *Fault {
	if f := c.waste(PingFlood, pingCost); f != nil {
		return f
	}
	if !h.has(ack) {
		return c.reply(appendPing(c.out.make(), ack, payload))
	}
	if c.parting == warned && [pingBytes]byte(payload) == partingPing {
		c.part()
	}
	return nil
}

func (c *conn) windowFrame(h frameHead, payload []byte) *Fault {
	n := int64(binary.BigEndian.Uint32(payload) & streamBits)
	if f := c.waste(UpdateFlood, 1); f != nil {
		return f
	}
	if h.stream == 0 {
		if n == 0 {
			return errZeroUpdates
		}
		if c.out.window += n; c.out.window > mostWindow {
			return errWindows
		}
		c.out.fill()
		return nil
	}
	if c.isIdle(h.stream) {
		return errIdleStream
	}
	s := c.find(h.stream)
	switch {
	case n == 0:
		return errZeroUpdate
	case s == nil:
		return nil // it may have been on its way when the stream ended
	}
	if s.sendWindow += n; s.sendWindow > mostWindow {
		return errWindow
	}
	c.out.resume(s)
	c.out.fill()
	return nil
}

// priorityFrame takes what RFC 9113 5.3.2 has left of the old priorities: nothing
// but faults.
func (c *conn) priorityFrame(h frameHead, payload []byte) *Fault {
	if binary.BigEndian.Uint32(payload)&streamBits == h.stream {
		return errSelf
	}
	return c.waste(PriorityFlood, 1)
}

// priorityUpdateFrame takes PRIORITY_UPDATE (RFC 9218 7.1).
func (c *conn) priorityUpdateFrame(payload []byte) *Fault {
	id := binary.BigEndian.Uint32(payload) & streamBits
	if id == 0 {
		return errNeedsStream
	}
	if s := c.find(id); s != nil {
		s.priority = ParsePriority(payload[4:])
		c.out.remove(s)
		c.out.resume(s)
	}
	return c.waste(PriorityFlood, 1)
}
