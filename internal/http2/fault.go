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

// FaultOf is what is wrong with what the peer has sent, with an error code of its
// protocol: HTTP/2 or HTTP/3. All faults are fixed values, so that refusing costs nothing.
type FaultOf[C any] struct {
	Code    C
	Whole   bool   // the connection ends with it; else one stream
	Rule    string // what would be right
	Section string // where that is written
}

func (f *FaultOf[C]) Error() string { return f.Rule + " (" + f.Section + ")" }

func (f *FaultOf[C]) fault() {}

// AnyFault is a fault of either protocol.
type AnyFault interface {
	error
	fault()
}

// Fault is one of HTTP/2.
type Fault = FaultOf[Code]

// Whole makes a fault of the connection.
func Whole[C any](c C, rule, section string) *FaultOf[C] {
	return &FaultOf[C]{Code: c, Whole: true, Rule: rule, Section: section}
}

// Single makes a fault of one stream.
func Single[C any](c C, rule, section string) *FaultOf[C] {
	return &FaultOf[C]{Code: c, Rule: rule, Section: section}
}

// Faults of frames and of their order.
var (
	errPreface       = Whole(ProtocolError, "a connection must begin with the client preface and SETTINGS", "RFC 9113 3.4")
	errFrameTooLong  = Whole(FrameSizeError, "a frame must not be longer than SETTINGS_MAX_FRAME_SIZE", "RFC 9113 4.2")
	errFrameLength   = Whole(FrameSizeError, "a frame must have the length that its type demands", "RFC 9113 4.2")
	errPriorityFrame = Single(FrameSizeError, "PRIORITY must have 5 bytes", "RFC 9113 6.3")
	errNeedsStream   = Whole(ProtocolError, "DATA, HEADERS, PRIORITY, RST_STREAM and CONTINUATION must name a stream", "RFC 9113 6")
	errNeedsNoStream = Whole(ProtocolError, "SETTINGS, PING, GOAWAY and PRIORITY_UPDATE must stand on stream 0", "RFC 9113 6")
	errPadding       = Whole(ProtocolError, "padding must be shorter than the frame", "RFC 9113 6.1")
	errInterleaved   = Whole(ProtocolError, "HEADERS without END_HEADERS must be followed by CONTINUATION of the same stream", "RFC 9113 6.2")
	errContinuation  = Whole(ProtocolError, "CONTINUATION must follow HEADERS without END_HEADERS", "RFC 9113 6.10")
	errPush          = Whole(ProtocolError, "PUSH_PROMISE must not be sent where push is off", "RFC 9113 8.4")
	errIdleStream    = Whole(ProtocolError, "a stream must begin with HEADERS", "RFC 9113 5.1")
	errStreamID      = Whole(ProtocolError, "a client must name a new stream by an odd number above all before", "RFC 9113 5.1.1")
	errClosedHead    = Whole(StreamClosed, "HEADERS must not follow on a closed stream", "RFC 9113 5.1")
	errClosed        = Single(StreamClosed, "nothing but PRIORITY and WINDOW_UPDATE may follow END_STREAM", "RFC 9113 5.1")
	errSelf          = Single(ProtocolError, "a stream must not depend on itself", "RFC 7540 5.3.1")
	errZeroUpdate    = Single(ProtocolError, "WINDOW_UPDATE must be above 0", "RFC 9113 6.9")
	errZeroUpdates   = Whole(ProtocolError, "WINDOW_UPDATE must be above 0", "RFC 9113 6.9")
	errWindow        = Single(FlowControlError, "a window must not be above 2^31-1", "RFC 9113 6.9.1")
	errWindows       = Whole(FlowControlError, "a window must not be above 2^31-1", "RFC 9113 6.9.1")
	errOverrun       = Single(FlowControlError, "DATA must fit the stream's window", "RFC 9113 6.9")
	errOverruns      = Whole(FlowControlError, "DATA must fit the connection's window", "RFC 9113 6.9")
	errFrameSize     = Whole(ProtocolError, "SETTINGS_MAX_FRAME_SIZE must be 16,384 to 16,777,215", "RFC 9113 6.5.2")
	errEnablePush    = Whole(ProtocolError, "SETTINGS_ENABLE_PUSH must be 0 or 1, and a server's 0", "RFC 9113 6.5.2")
	errConnectOn     = Whole(ProtocolError, "SETTINGS_ENABLE_CONNECT_PROTOCOL must be 0 or 1, and 1 stay 1", "RFC 8441 3")
	errOldPriority   = Whole(ProtocolError, "SETTINGS_NO_RFC7540_PRIORITIES must be 0 or 1", "RFC 9218 2.1")
	errTable         = Whole(CompressionError, "a field section must be valid HPACK", "RFC 7541")
	errUnacked       = Whole(SettingsTimeout, "SETTINGS must be acknowledged in time", "RFC 9113 6.5.3")
	errUnfinished    = Whole(ProtocolError, "a frame, and a head with its CONTINUATION, must be whole in time", "RFC 9113 10.5")
)

// Faults of messages: such a stream is reset (RFC 9113 8.1.1).
var (
	errTrailersEnd  = Single(ProtocolError, "a head behind the first must be trailers, with END_STREAM", "RFC 9113 8.1")
	errNames        = Single(ProtocolError, "a field name must be a token in lower case", "RFC 9113 8.2.1")
	errValues       = Single(ProtocolError, "a field value must hold no control characters, and neither begin nor end with space", "RFC 9113 8.2.1")
	errOfConnection = Single(ProtocolError, "fields about the connection must not be sent", "RFC 9113 8.2.2")
	errTE           = Single(ProtocolError, "TE must say nothing but trailers", "RFC 9113 8.2.2")
	errPseudo       = Single(ProtocolError, "pseudo-fields must be those defined, once each, before all others, and not in trailers", "RFC 9113 8.3")
	errPseudos      = Single(ProtocolError, "a request must have :method, :scheme and :path; CONNECT has neither :scheme nor :path", "RFC 9113 8.3.1")
	errMethod       = Single(ProtocolError, "the method must be a token", "RFC 9110 9.1")
	errScheme       = Single(ProtocolError, "the scheme must be http or https", "RFC 9113 8.3.1")
	errPath         = Single(ProtocolError, "the path must begin with a slash and be percent-encoded, or be * with OPTIONS", "RFC 9113 8.3.1")
	errAuthority    = Single(ProtocolError, "a request must have one valid authority, in :authority or Host; if in both, the same", "RFC 9113 8.3.1")
	errConnect      = Single(ProtocolError, "the authority of CONNECT must be host and port", "RFC 9113 8.5")
	errProtocol     = Single(ProtocolError, ":protocol must be a token, and only CONNECT has it, where it was announced", "RFC 8441 4")
	errLengths      = Single(ProtocolError, "content-length must be one decimal number", "RFC 9113 8.1.1")
	errContent      = Single(ProtocolError, "content must be as long as content-length says", "RFC 9113 8.1.1")
	errNoContent    = Single(ProtocolError, "TRACE and CONNECT must not have content", "RFC 9110 9.3.6, 9.3.8")
	errMaxForwards  = Single(ProtocolError, "Max-Forwards must be a decimal number", "RFC 9110 7.6.2")
	errTrailers     = Single(EnhanceYourCalm, "the trailer section is longer than limits.head", "RFC 6585 5")
)

// Faults of answers.
var (
	errHeadless  = Single(ProtocolError, "content must follow a final head", "RFC 9113 8.1")
	errStatus    = Single(ProtocolError, "an answer must have one :status of three digits, and no other pseudo-field", "RFC 9113 8.3.2")
	errSwitching = Single(ProtocolError, "101 has no meaning in HTTP/2", "RFC 9113 8.6")
	errLastHead  = Single(ProtocolError, "an interim head must not end its stream", "RFC 9113 8.1")
	errInterims  = Single(EnhanceYourCalm, "interim heads must not come faster than they are taken", "RFC 9113 10.5")
	errLongHead  = Single(EnhanceYourCalm, "the head is longer than limits.response_head", "RFC 6585 5")
	errPushOn    = Whole(ProtocolError, "a server must not switch push on", "RFC 9113 6.5.2")
	errServerID  = Whole(ProtocolError, "a server must not begin streams", "RFC 9113 5.1.1")
)

// Faults of quantity.
var (
	errStreams = Single(RefusedStream, "no more streams may be open than SETTINGS_MAX_CONCURRENT_STREAMS", "RFC 9113 5.1.2")
	errHeads   = Single(RefusedStream, "the heads of requests that are open must not be longer together than 16 times limits.head", "RFC 9113 10.5.1")
	errCalm    = Whole(EnhanceYourCalm, "the peer does too much that leads to nothing", "RFC 9113 10.5")
	errBlock   = Whole(EnhanceYourCalm, "a field section is far longer than limits.head", "RFC 9113 10.5.1")
	errReplies = Whole(EnhanceYourCalm, "the peer asks for answers and does not read them", "RFC 9113 10.5")
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
