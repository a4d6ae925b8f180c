package http2

import "encoding/binary"

// peerSettings are what the peer has said in SETTINGS (RFC 9113 6.5.2).
type peerSettings struct {
	window  int64 // of each stream that we send on, at its start
	frame   int   // bytes of payload
	streams uint32
	connect bool // RFC 8441
}

func (p *peerSettings) begin() {
	p.window, p.frame, p.streams = firstWindow, leastFrameSize, 1<<32-1
}

// settingsFrame takes the peer's SETTINGS, or that it has taken ours.
func (c *conn) settingsFrame(h frameHead, payload []byte) *Fault {
	if f := c.waste(SettingsFlood, settingsCost+max(0, int64(h.length/settingBytes)-1)); f != nil {
		return f
	}
	if h.has(ack) {
		c.measure()
		c.settleBy = 0
		c.decoder.Acknowledged()
		return nil
	}
	for ; len(payload) > 0; payload = payload[settingBytes:] {
		s := setting{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint32(payload[2:])}
		if f := c.set(s); f != nil {
			return f
		}
	}
	c.settled = true
	c.side.left()
	return c.reply(appendSettingsAck(c.out.make()))
}

// set takes one setting. The size of a table does not matter to an encoder that
// uses none.
func (c *conn) set(s setting) *Fault {
	switch s.id {
	case settingWindow:
		if s.value > mostWindow {
			return errWindows
		}
		return c.resize(int64(s.value))
	case settingFrame:
		if s.value < leastFrameSize || s.value > mostFrameSize {
			return errFrameSize
		}
		c.peer.frame = int(min(s.value, leastFrameSize)) // no larger: other streams want their turn
	case settingStreams:
		c.peer.streams = s.value
		c.side.left()
	case settingOldPriority:
		if s.value > 1 {
			return errOldPriority
		}
	case settingPush, settingConnect:
		return c.side.settingOf(s)
	}
	return nil
}

// resize gives all streams another window at their start: those that are open get
// the difference, and may owe (RFC 9113 6.9.2).
func (c *conn) resize(window int64) *Fault {
	change := window - c.peer.window
	c.peer.window = window
	for s := range c.all {
		if s.sendWindow += change; s.sendWindow > mostWindow {
			return errWindows
		}
		if change > 0 {
			c.out.resume(s)
		}
	}
	c.out.fill()
	return nil
}
