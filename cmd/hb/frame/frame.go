// Package frame is HTTP/2's frames as bytes (RFC 9113, sections 4 and 6). It knows
// no connection and keeps no state, so that a client may also send what no
// well-behaved one would.
package frame

import (
	"encoding/binary"
	"fmt"
)

// Sizes in bytes.
const (
	HeadBytes  = 9       // of what stands before each frame's payload
	MaxPayload = 1 << 14 // of a frame, unless the receiver allows more
)

// Preface is what a client sends before all else (section 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Type is a frame's type.
type Type uint8

// The types (section 6).
const (
	Data         Type = 0x0
	Headers      Type = 0x1
	Priority     Type = 0x2
	Reset        Type = 0x3
	Settings     Type = 0x4
	PushPromise  Type = 0x5
	Ping         Type = 0x6
	GoAway       Type = 0x7
	WindowUpdate Type = 0x8
	Continuation Type = 0x9
)

// Flags of a frame; what a bit means depends on the type.
type Flags uint8

// The flags.
const (
	EndStream   Flags = 0x1  // of Data and Headers
	Ack         Flags = 0x1  // of Settings and Ping
	EndHeaders  Flags = 0x4  // of Headers and Continuation
	Padded      Flags = 0x8  // of Data and Headers
	HasPriority Flags = 0x20 // of Headers
)

// Has reports whether all of some flags are set.
func (f Flags) Has(g Flags) bool { return f&g == g }

// Parameters of Settings (section 6.5.2).
const (
	HeaderTableSize      = 0x1
	EnablePush           = 0x2
	MaxConcurrentStreams = 0x3
	InitialWindowSize    = 0x4
	MaxFrameSize         = 0x5
)

// Setting is one parameter and its value.
type Setting struct {
	ID    uint16
	Value uint32
}

// Code says why a stream or a connection ended (section 7).
type Code uint32

// The codes that hb itself sends or looks for.
const (
	NoError       Code = 0x0
	ProtocolError Code = 0x1
	RefusedStream Code = 0x7
	Cancel        Code = 0x8
)

var codeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
	"FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
	"INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %#x", uint32(c))
}

// Head is what stands before a frame's payload.
type Head struct {
	Length int // of the payload
	Type   Type
	Flags  Flags
	Stream uint32 // 0: the connection
}

// ParseHead reads a head from the first HeadBytes of b.
func ParseHead(b []byte) Head {
	return Head{
		Length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		Type:   Type(b[3]),
		Flags:  Flags(b[4]),
		Stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
	}
}

// AppendHead appends a head.
func AppendHead(b []byte, h Head) []byte {
	b = append(b, byte(h.Length>>16), byte(h.Length>>8), byte(h.Length), byte(h.Type), byte(h.Flags))
	return binary.BigEndian.AppendUint32(b, h.Stream)
}

// Append appends a whole frame.
func Append(b []byte, t Type, f Flags, stream uint32, payload []byte) []byte {
	return append(AppendHead(b, Head{len(payload), t, f, stream}), payload...)
}

// AppendHeaders appends a block of fields: one Headers frame, and what does not fit
// into it as Continuations.
func AppendHeaders(b []byte, stream uint32, block []byte, last bool) []byte {
	t, f := Headers, Flags(0)
	if last {
		f = EndStream
	}
	for len(block) > MaxPayload {
		b = Append(b, t, f, stream, block[:MaxPayload])
		t, f, block = Continuation, 0, block[MaxPayload:]
	}
	return Append(b, t, f|EndHeaders, stream, block)
}

// AppendSettings appends a Settings frame.
func AppendSettings(b []byte, all ...Setting) []byte {
	b = AppendHead(b, Head{Length: 6 * len(all), Type: Settings})
	for _, s := range all {
		b = binary.BigEndian.AppendUint16(b, s.ID)
		b = binary.BigEndian.AppendUint32(b, s.Value)
	}
	return b
}

// AppendWindowUpdate appends a frame that lets the peer send so many bytes more.
func AppendWindowUpdate(b []byte, stream, bytes uint32) []byte {
	b = AppendHead(b, Head{Length: 4, Type: WindowUpdate, Stream: stream})
	return binary.BigEndian.AppendUint32(b, bytes)
}

// AppendReset appends a frame that ends a stream.
func AppendReset(b []byte, stream uint32, c Code) []byte {
	b = AppendHead(b, Head{Length: 4, Type: Reset, Stream: stream})
	return binary.BigEndian.AppendUint32(b, uint32(c))
}

// Fault says what is wrong with a frame's payload. It ends the connection.
type Fault string

func (f Fault) Error() string { return string(f) }

const (
	errPadding Fault = "a frame is shorter than its padding or priority says"
	errSize    Fault = "a frame has not the size of its type"
)

// Content is the payload of Data or Headers without padding and priority.
func Content(h Head, payload []byte) ([]byte, error) {
	pad := 0
	if h.Flags.Has(Padded) {
		if len(payload) == 0 {
			return nil, errPadding
		}
		pad, payload = int(payload[0]), payload[1:]
	}
	if h.Type == Headers && h.Flags.Has(HasPriority) {
		if len(payload) < 5 {
			return nil, errPadding
		}
		payload = payload[5:]
	}
	if pad > len(payload) {
		return nil, errPadding
	}
	return payload[:len(payload)-pad], nil
}

// ParseSettings calls yield for each setting of a payload, in order, until one fails.
func ParseSettings(payload []byte, yield func(Setting) error) error {
	if len(payload)%6 != 0 {
		return errSize
	}
	for ; len(payload) > 0; payload = payload[6:] {
		s := Setting{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint32(payload[2:])}
		if err := yield(s); err != nil {
			return err
		}
	}
	return nil
}

// ParseReset reads the payload of Reset.
func ParseReset(payload []byte) (Code, error) {
	if len(payload) != 4 {
		return 0, errSize
	}
	return Code(binary.BigEndian.Uint32(payload)), nil
}

// ParseWindowUpdate reads the payload of WindowUpdate.
func ParseWindowUpdate(payload []byte) (bytes uint32, err error) {
	if len(payload) != 4 {
		return 0, errSize
	}
	return binary.BigEndian.Uint32(payload) &^ (1 << 31), nil
}

// ParseGoAway reads the payload of GoAway: the last stream that was, or might be,
// worked on, and why the connection ends.
func ParseGoAway(payload []byte) (last uint32, c Code, err error) {
	if len(payload) < 8 {
		return 0, 0, errSize
	}
	return binary.BigEndian.Uint32(payload) &^ (1 << 31), Code(binary.BigEndian.Uint32(payload[4:])), nil
}
