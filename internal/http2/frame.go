package http2

import "encoding/binary"

// kind is a frame's type.
type kind uint8

const (
	frameData           kind = 0x0
	frameHeaders        kind = 0x1
	framePriority       kind = 0x2
	frameReset          kind = 0x3
	frameSettings       kind = 0x4
	framePush           kind = 0x5
	framePing           kind = 0x6
	frameGoAway         kind = 0x7
	frameWindowUpdate   kind = 0x8
	frameContinuation   kind = 0x9
	framePriorityUpdate kind = 0x10 // RFC 9218 7.1
)

// flags of a frame; END_STREAM and ACK share a bit.
type flags uint8

const (
	endStream  flags = 0x1
	ack        flags = 0x1
	endHeaders flags = 0x4
	padded     flags = 0x8
	prioritize flags = 0x20
)

const (
	headBytes      = 9       // of a frame's head
	leastFrameSize = 1 << 14 // bytes of payload that everybody takes (RFC 9113 4.2); we take no more
	mostFrameSize  = 1<<24 - 1
	mostWindow     = 1<<31 - 1
	firstWindow    = 1<<16 - 1 // before SETTINGS and WINDOW_UPDATE say otherwise (RFC 9113 6.9.2)
	streamBits     = 1<<31 - 1 // the highest bit is reserved
	settingBytes   = 6
	pingBytes      = 8
)

// preface begins a client's side of a connection (RFC 9113 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Preface is how the bytes of an HTTP/2 client begin, so that who accepts
// connections can tell them from HTTP/1 (prior knowledge, RFC 9113 3.3).
const Preface = preface

// frameHead is the head of a frame (RFC 9113 4.1).
type frameHead struct {
	length int
	kind   kind
	flags  flags
	stream uint32
}

func (h *frameHead) has(f flags) bool { return h.flags&f != 0 }

// parseHead reads a head from the first headBytes of b.
func parseHead(b []byte) frameHead {
	_ = b[headBytes-1]
	return frameHead{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		kind:   kind(b[3]),
		flags:  flags(b[4]),
		stream: binary.BigEndian.Uint32(b[5:]) & streamBits,
	}
}

// check finds the faults that show in a frame's head alone: its length, and
// whether it names a stream.
func (h *frameHead) check() *Fault {
	if h.length > leastFrameSize {
		return errFrameTooLong
	}
	switch h.kind {
	case frameData, frameHeaders, frameContinuation, framePush:
		return h.onStream(h.length)
	case framePriority:
		if f := h.onStream(h.length); f != nil || h.length == 5 {
			return f
		}
		return errPriorityFrame
	case frameReset:
		return h.onStream(4)
	case frameWindowUpdate:
		if h.length != 4 {
			return errFrameLength
		}
	case frameSettings:
		if h.length%settingBytes != 0 || h.has(ack) && h.length != 0 {
			return errFrameLength
		}
		return h.onNone()
	case framePing:
		if h.length != pingBytes {
			return errFrameLength
		}
		return h.onNone()
	case frameGoAway:
		if h.length < 8 {
			return errFrameLength
		}
		return h.onNone()
	case framePriorityUpdate:
		if h.length < 4 {
			return errFrameLength
		}
		return h.onNone()
	}
	return nil
}

// onStream: the frame must name a stream and have this length.
func (h *frameHead) onStream(length int) *Fault {
	switch {
	case h.stream == 0:
		return errNeedsStream
	case h.length != length:
		return errFrameLength
	}
	return nil
}

func (h *frameHead) onNone() *Fault {
	if h.stream != 0 {
		return errNeedsNoStream
	}
	return nil
}

// unpad takes the padding off a payload.
func (h *frameHead) unpad(payload []byte) ([]byte, *Fault) {
	if !h.has(padded) {
		return payload, nil
	}
	if len(payload) == 0 {
		return nil, errFrameLength
	}
	if pad := int(payload[0]); pad < len(payload) {
		return payload[1 : len(payload)-pad], nil
	}
	return nil, errPadding
}

// appendHead appends a frame's head; length bytes of payload follow.
func appendHead(dst []byte, length int, k kind, f flags, stream uint32) []byte {
	return append(dst, byte(length>>16), byte(length>>8), byte(length), byte(k), byte(f),
		byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
}

func appendReset(dst []byte, stream uint32, code Code) []byte {
	return binary.BigEndian.AppendUint32(appendHead(dst, 4, frameReset, 0, stream), uint32(code))
}

func appendWindowUpdate(dst []byte, stream, n uint32) []byte {
	return binary.BigEndian.AppendUint32(appendHead(dst, 4, frameWindowUpdate, 0, stream), n)
}

func appendPing(dst []byte, f flags, data []byte) []byte {
	return append(appendHead(dst, pingBytes, framePing, f, 0), data[:pingBytes]...)
}

// appendGoAway appends a GOAWAY whose debug data is why.
func appendGoAway(dst []byte, last uint32, code Code, why string) []byte {
	dst = appendHead(dst, 8+len(why), frameGoAway, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, last)
	dst = binary.BigEndian.AppendUint32(dst, uint32(code))
	return append(dst, why...)
}

// setting is one parameter of SETTINGS (RFC 9113 6.5.2).
type setting struct {
	id    uint16
	value uint32
}

const (
	settingTable       = 0x1
	settingPush        = 0x2
	settingStreams     = 0x3
	settingWindow      = 0x4
	settingFrame       = 0x5
	settingHead        = 0x6
	settingConnect     = 0x8 // RFC 8441 3
	settingOldPriority = 0x9 // RFC 9218 2.1
)

func appendSettings(dst []byte, settings ...setting) []byte {
	dst = appendHead(dst, len(settings)*settingBytes, frameSettings, 0, 0)
	for _, s := range settings {
		dst = binary.BigEndian.AppendUint16(dst, s.id)
		dst = binary.BigEndian.AppendUint32(dst, s.value)
	}
	return dst
}

func appendSettingsAck(dst []byte) []byte { return appendHead(dst, 0, frameSettings, ack, 0) }

// appendSection appends a field section that starts at dst[from:], behind room for
// one frame's head, as HEADERS and as many CONTINUATION as frames of most bytes
// make necessary.
func appendSection(dst []byte, from int, f flags, stream uint32, most int) []byte {
	section := dst[from+headBytes:]
	if len(section) <= most {
		appendHead(dst[from:from], len(section), frameHeaders, f|endHeaders, stream)
		return dst
	}
	section = append([]byte(nil), section...)
	dst = appendHead(dst[:from], most, frameHeaders, f, stream)
	dst = append(dst, section[:most]...)
	for section = section[most:]; len(section) > 0; {
		n, end := min(len(section), most), flags(0)
		if n == len(section) {
			end = endHeaders
		}
		dst = appendHead(dst, n, frameContinuation, end, stream)
		dst = append(dst, section[:n]...)
		section = section[n:]
	}
	return dst
}
