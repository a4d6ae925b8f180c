package http2

import "errors"

// Code is an error code, as RST_STREAM and GOAWAY carry it (RFC 9113 7).
type Code uint32

const (
	NoError Code = iota
	ProtocolError
	InternalError
	FlowControlError
	SettingsTimeout
	StreamClosed
	FrameSizeError
	RefusedStream
	Cancel
	CompressionError
	ConnectError
	EnhanceYourCalm
	InadequateSecurity
	HTTP11Required
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
	return "an unknown error code"
}

// Fault is what is wrong with what the peer has sent. All faults are fixed
// values, so that refusing costs nothing.
type Fault struct {
	Code    Code
	Whole   bool   // the connection ends with it; else one stream
	Rule    string // what would be right
	Section string // where that is written
}

func (f *Fault) Error() string { return f.Rule + " (" + f.Section + ")" }

// whole makes a fault of the connection, single one of a stream.
func whole(c Code, rule, section string) *Fault  { return &Fault{c, true, rule, section} }
func single(c Code, rule, section string) *Fault { return &Fault{c, false, rule, section} }

// Faults of frames and of their order.
var (
	errPreface       = whole(ProtocolError, "a connection must begin with the client preface and SETTINGS", "RFC 9113 3.4")
	errFrameTooLong  = whole(FrameSizeError, "a frame must not be longer than SETTINGS_MAX_FRAME_SIZE", "RFC 9113 4.2")
	errFrameLength   = whole(FrameSizeError, "a frame must have the length that its type demands", "RFC 9113 4.2")
	errPriorityFrame = single(FrameSizeError, "PRIORITY must have 5 bytes", "RFC 9113 6.3")
	errNeedsStream   = whole(ProtocolError, "DATA, HEADERS, PRIORITY, RST_STREAM and CONTINUATION must name a stream", "RFC 9113 6")
	errNeedsNoStream = whole(ProtocolError, "SETTINGS, PING, GOAWAY and PRIORITY_UPDATE must stand on stream 0", "RFC 9113 6")
	errPadding       = whole(ProtocolError, "padding must be shorter than the frame", "RFC 9113 6.1")
	errInterleaved   = whole(ProtocolError, "HEADERS without END_HEADERS must be followed by CONTINUATION of the same stream", "RFC 9113 6.2")
	errContinuation  = whole(ProtocolError, "CONTINUATION must follow HEADERS without END_HEADERS", "RFC 9113 6.10")
	errPush          = whole(ProtocolError, "PUSH_PROMISE must not be sent where push is off", "RFC 9113 8.4")
	errIdleStream    = whole(ProtocolError, "a stream must begin with HEADERS", "RFC 9113 5.1")
	errStreamID      = whole(ProtocolError, "a client must name a new stream by an odd number above all before", "RFC 9113 5.1.1")
	errClosedHead    = whole(StreamClosed, "HEADERS must not follow on a closed stream", "RFC 9113 5.1")
	errClosed        = single(StreamClosed, "nothing but PRIORITY and WINDOW_UPDATE may follow END_STREAM", "RFC 9113 5.1")
	errSelf          = single(ProtocolError, "a stream must not depend on itself", "RFC 7540 5.3.1")
	errZeroUpdate    = single(ProtocolError, "WINDOW_UPDATE must be above 0", "RFC 9113 6.9")
	errZeroUpdates   = whole(ProtocolError, "WINDOW_UPDATE must be above 0", "RFC 9113 6.9")
	errWindow        = single(FlowControlError, "a window must not be above 2^31-1", "RFC 9113 6.9.1")
	errWindows       = whole(FlowControlError, "a window must not be above 2^31-1", "RFC 9113 6.9.1")
	errOverrun       = single(FlowControlError, "DATA must fit the stream's window", "RFC 9113 6.9")
	errOverruns      = whole(FlowControlError, "DATA must fit the connection's window", "RFC 9113 6.9")
	errFrameSize     = whole(ProtocolError, "SETTINGS_MAX_FRAME_SIZE must be 16,384 to 16,777,215", "RFC 9113 6.5.2")
	errEnablePush    = whole(ProtocolError, "SETTINGS_ENABLE_PUSH must be 0 or 1, and a server's 0", "RFC 9113 6.5.2")
	errConnectOn     = whole(ProtocolError, "SETTINGS_ENABLE_CONNECT_PROTOCOL must be 0 or 1, and 1 stay 1", "RFC 8441 3")
	errOldPriority   = whole(ProtocolError, "SETTINGS_NO_RFC7540_PRIORITIES must be 0 or 1", "RFC 9218 2.1")
	errTable         = whole(CompressionError, "a field section must be valid HPACK", "RFC 7541")
	errUnacked       = whole(SettingsTimeout, "SETTINGS must be acknowledged in time", "RFC 9113 6.5.3")
	errUnfinished    = whole(ProtocolError, "a frame, and a head with its CONTINUATION, must be whole in time", "RFC 9113 10.5")
)

// Faults of messages: such a stream is reset (RFC 9113 8.1.1).
var (
	errTrailersEnd  = single(ProtocolError, "a head behind the first must be trailers, with END_STREAM", "RFC 9113 8.1")
	errNames        = single(ProtocolError, "a field name must be a token in lower case", "RFC 9113 8.2.1")
	errValues       = single(ProtocolError, "a field value must hold no control characters, and neither begin nor end with space", "RFC 9113 8.2.1")
	errOfConnection = single(ProtocolError, "fields about the connection must not be sent", "RFC 9113 8.2.2")
	errTE           = single(ProtocolError, "TE must say nothing but trailers", "RFC 9113 8.2.2")
	errPseudo       = single(ProtocolError, "pseudo-fields must be those defined, once each, before all others, and not in trailers", "RFC 9113 8.3")
	errPseudos      = single(ProtocolError, "a request must have :method, :scheme and :path; CONNECT has neither :scheme nor :path", "RFC 9113 8.3.1")
	errMethod       = single(ProtocolError, "the method must be a token", "RFC 9110 9.1")
	errScheme       = single(ProtocolError, "the scheme must be http or https", "RFC 9113 8.3.1")
	errPath         = single(ProtocolError, "the path must begin with a slash and be percent-encoded, or be * with OPTIONS", "RFC 9113 8.3.1")
	errAuthority    = single(ProtocolError, "a request must have one valid authority, in :authority or Host; if in both, the same", "RFC 9113 8.3.1")
	errConnect      = single(ProtocolError, "the authority of CONNECT must be host and port", "RFC 9113 8.5")
	errProtocol     = single(ProtocolError, ":protocol must be a token, and only CONNECT has it, where it was announced", "RFC 8441 4")
	errLengths      = single(ProtocolError, "content-length must be one decimal number", "RFC 9113 8.1.1")
	errContent      = single(ProtocolError, "content must be as long as content-length says", "RFC 9113 8.1.1")
	errNoContent    = single(ProtocolError, "TRACE and CONNECT must not have content", "RFC 9110 9.3.6, 9.3.8")
	errMaxForwards  = single(ProtocolError, "Max-Forwards must be a decimal number", "RFC 9110 7.6.2")
	errTrailers     = single(EnhanceYourCalm, "the trailer section is longer than limits.head", "RFC 6585 5")
)

// Faults of answers.
var (
	errHeadless  = single(ProtocolError, "content must follow a final head", "RFC 9113 8.1")
	errStatus    = single(ProtocolError, "an answer must have one :status of three digits, and no other pseudo-field", "RFC 9113 8.3.2")
	errSwitching = single(ProtocolError, "101 has no meaning in HTTP/2", "RFC 9113 8.6")
	errLastHead  = single(ProtocolError, "an interim head must not end its stream", "RFC 9113 8.1")
	errInterims  = single(EnhanceYourCalm, "interim heads must not come faster than they are taken", "RFC 9113 10.5")
	errLongHead  = single(EnhanceYourCalm, "the head is longer than limits.response_head", "RFC 6585 5")
	errPushOn    = whole(ProtocolError, "a server must not switch push on", "RFC 9113 6.5.2")
	errServerID  = whole(ProtocolError, "a server must not begin streams", "RFC 9113 5.1.1")
)

// Faults of quantity.
var (
	errStreams = single(RefusedStream, "no more streams may be open than SETTINGS_MAX_CONCURRENT_STREAMS", "RFC 9113 5.1.2")
	errHeads   = single(RefusedStream, "the heads of requests that are open must not be longer together than 16 times limits.head", "RFC 9113 10.5.1")
	errCalm    = whole(EnhanceYourCalm, "the peer does too much that leads to nothing", "RFC 9113 10.5")
	errBlock   = whole(EnhanceYourCalm, "a field section is far longer than limits.head", "RFC 9113 10.5.1")
	errReplies = whole(EnhanceYourCalm, "the peer asks for answers and does not read them", "RFC 9113 10.5")
)

// ResetError means that the peer has reset the stream; it is the code that it
// gave for that.
type ResetError Code

// Is reports that the request was not processed, if the code says so.
func (e ResetError) Is(target error) bool {
	return target == ErrUnprocessed && Code(e) == RefusedStream
}

func (e ResetError) Error() string { return "the peer has reset the stream: " + Code(e).String() }

var (
	// ErrUnprocessed means that the server has not looked at the request: it may be
	// sent again on another connection, whatever it is (RFC 9113 8.7).
	ErrUnprocessed = errors.New("the server has not processed the request")
)
