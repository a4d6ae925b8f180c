package http3

import (
	"strconv"

	"sluice/internal/http2"
)

// Code is an error code, as streams and connections are ended with it (RFC 9114 8.1,
// RFC 9204 6).
type Code uint64

// The codes that we use.
const (
	NoError              Code = 0x100
	GeneralProtocolError Code = 0x101
	InternalError        Code = 0x102
	StreamCreationError  Code = 0x103
	ClosedCriticalStream Code = 0x104
	FrameUnexpected      Code = 0x105
	FrameError           Code = 0x106
	ExcessiveLoad        Code = 0x107
	IDError              Code = 0x108
	SettingsError        Code = 0x109
	MissingSettings      Code = 0x10a
	RequestRejected      Code = 0x10b
	RequestCancelled     Code = 0x10c
	RequestIncomplete    Code = 0x10d
	MessageError         Code = 0x10e
	DecompressionFailed  Code = 0x200
	EncoderStreamError   Code = 0x201
	DecoderStreamError   Code = 0x202
)

func (c Code) String() string {
	names := map[Code]string{
		NoError: "H3_NO_ERROR", GeneralProtocolError: "H3_GENERAL_PROTOCOL_ERROR", InternalError: "H3_INTERNAL_ERROR",
		StreamCreationError: "H3_STREAM_CREATION_ERROR", ClosedCriticalStream: "H3_CLOSED_CRITICAL_STREAM",
		FrameUnexpected: "H3_FRAME_UNEXPECTED", FrameError: "H3_FRAME_ERROR", ExcessiveLoad: "H3_EXCESSIVE_LOAD",
		IDError: "H3_ID_ERROR", SettingsError: "H3_SETTINGS_ERROR", MissingSettings: "H3_MISSING_SETTINGS",
		RequestRejected: "H3_REQUEST_REJECTED", RequestCancelled: "H3_REQUEST_CANCELLED",
		RequestIncomplete: "H3_REQUEST_INCOMPLETE", MessageError: "H3_MESSAGE_ERROR",
		DecompressionFailed: "QPACK_DECOMPRESSION_FAILED", EncoderStreamError: "QPACK_ENCODER_STREAM_ERROR",
		DecoderStreamError: "QPACK_DECODER_STREAM_ERROR",
	}
	if name := names[c]; name != "" {
		return name
	}
	return "0x" + strconv.FormatUint(uint64(c), 16)
}

// Fault is what is wrong with what a client has sent.
type Fault = http2.FaultOf[Code]

// Faults of frames and of their order.
var (
	errFrame        = http2.Whole(FrameError, "a frame must be as long as it says, and hold what its type demands", "RFC 9114 7.1")
	errUnexpected   = http2.Whole(FrameUnexpected, "a stream must carry only frames of its kind, in their order", "RFC 9114 7.2")
	errFirst        = http2.Whole(FrameUnexpected, "a request must begin with HEADERS", "RFC 9114 4.1")
	errIncomplete   = http2.Single(RequestIncomplete, "a request must have a head", "RFC 9114 4.1.1")
	errSection      = http2.Whole(DecompressionFailed, "a field section must be valid QPACK that uses no dynamic table", "RFC 9204 2.2")
	errLongSection  = http2.Single(ExcessiveLoad, "a field section is far longer than limits.head", "RFC 9114 4.2.2")
	errSettings     = http2.Whole(SettingsError, "SETTINGS must name each setting once, none of HTTP/2, and be true or false where that is meant", "RFC 9114 7.2.4")
	errNoSettings   = http2.Whole(MissingSettings, "a control stream must begin with SETTINGS", "RFC 9114 6.2.1")
	errCritical     = http2.Whole(ClosedCriticalStream, "the control stream and those of QPACK must stay open", "RFC 9114 6.2.1")
	errSecondStream = http2.Whole(StreamCreationError, "there must be one control stream, and one of each kind of QPACK", "RFC 9114 6.2.1")
	errPushStream   = http2.Whole(StreamCreationError, "a client must not push", "RFC 9114 6.2.2")
	errPushID       = http2.Whole(IDError, "no push must be named that was never promised, MAX_PUSH_ID not be lowered, and GOAWAY not be raised", "RFC 9114 5.2, 7.2")
	errPriority     = http2.Whole(IDError, "PRIORITY_UPDATE must name a request", "RFC 9218 7.2")
	errEncoder      = http2.Whole(EncoderStreamError, "nothing must be put into a dynamic table that has no room", "RFC 9204 4.3")
	errDecoder      = http2.Whole(DecoderStreamError, "nothing must be acknowledged of a dynamic table that is not used", "RFC 9204 4.4")
	errLoad         = http2.Whole(ExcessiveLoad, "the client does too much that leads to nothing", "RFC 9114 10.5")
)

// Faults of messages: such a stream is reset (RFC 9114 4.1.2).
var (
	errContent  = http2.Single(MessageError, "content must be as long as content-length says", "RFC 9114 4.1.2")
	errTrailers = http2.Single(ExcessiveLoad, "the trailer section is longer than limits.head", "RFC 9114 4.2.2")
)

// malformed is a fault of a message by rules that are those of HTTP/2 (RFC 9114 4).
func malformed(f *http2.Fault) *Fault { return http2.Single(MessageError, f.Rule, f.Section) }

// ResetError means that the peer has reset the stream; it is the code that it gave
// for that.
type ResetError Code

func (e ResetError) Error() string { return "the peer has reset the stream: " + Code(e).String() }
