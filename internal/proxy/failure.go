package proxy

import (
	"errors"
	"os"

	"sluice/internal/grpcweb"
	"sluice/internal/http1"
	"sluice/internal/http2"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// Party is who failed.
type Party uint8

const (
	Nobody Party = iota
	Client
	Backend
	Sluice
)

func (p Party) String() string { return [...]string{"", "client", "server", "sluice"}[p] }

// Phase is what was being done when it failed.
type Phase uint8

const (
	ReadingHead Phase = iota
	Routing
	Holding
	Connecting
	SendingRequest
	ReadingBody
	AwaitingResponse
	ReadingResponse
	SendingResponse
	Tunneling
)

func (p Phase) String() string {
	return [...]string{"request_head", "route", "hold", "connect", "send_request", "request_body", "await_response", "response", "send_response", "tunnel"}[p]
}

// Failure is why an exchange did not end as it should.
type Failure struct {
	Party  Party
	Phase  Phase
	Reason segment.Reason
	// Again: the server cannot have acted on the request, whatever its method.
	Again bool
	Err   error // what was met; nil if the reason says it all
}

// none is the absence of failure.
var none = Failure{}

func (f *Failure) failed() bool { return f.Party != Nobody }

// statuses is what each reason means to the client.
var statuses = [segment.ReasonCount]int{
	segment.BadRequest:       400,
	segment.HeadTooLarge:     431,
	segment.LineTooLong:      414,
	segment.BodyTooLarge:     413,
	segment.ClientTimeout:    408,
	segment.ClientGone:       499, // in the log only (nginx's number for it)
	segment.BadVersion:       505,
	segment.NotImplemented:   501,
	segment.NoRoute:          404,
	segment.NoServer:         503,
	segment.ConnectFailed:    502,
	segment.ConnectTimeout:   504,
	segment.BadResponse:      502,
	segment.ServerClosed:     502,
	segment.FirstByteTimeout: 504,
	segment.ServerTimeout:    504,
	segment.Internal:         500,
	segment.Misdirected:      421,
	segment.QueueFull:        503,
	segment.QueueTimeout:     503,
	segment.QueueDropped:     503,
	segment.DeadlineUnmet:    503,
	segment.TLSFailed:        502,
}

// ofFault is the failure of a request that the codec refuses.
func ofFault(err error, phase Phase) Failure {
	f := Failure{Party: Client, Phase: phase, Reason: segment.BadRequest, Err: err}
	var fault *http1.Fault
	if errors.As(err, &fault) {
		f.Reason = [...]segment.Reason{
			http1.Malformed: segment.BadRequest, http1.HeadTooLong: segment.HeadTooLarge,
			http1.LineTooLong: segment.LineTooLong, http1.BodyTooLong: segment.BodyTooLarge,
			http1.BadVersion: segment.BadVersion, http1.Misdirected: segment.Misdirected,
		}[fault.Kind]
	}
	return f
}

// ofClient is the failure of reading from, or writing to, the client.
func ofClient(err error, phase Phase) Failure {
	f := Failure{Party: Client, Phase: phase, Reason: segment.ClientGone, Err: err}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		f.Reason = segment.ClientTimeout
	case isFault(err):
		return ofFault(err, phase)
	}
	return f
}

// ofConnect is the failure to get a connection to a server: the request has not
// been sent.
func ofConnect(err error) Failure {
	f := Failure{Party: Backend, Phase: Connecting, Again: true, Err: err}
	var ours bool
	if f.Reason, ours = upstream.Blame(err); ours {
		f.Party = Sluice
	}
	return f
}

// ofServer is the failure of reading from, or writing to, a server.
func ofServer(err error, phase Phase) Failure {
	f := Failure{Party: Backend, Phase: phase, Reason: segment.ServerClosed, Err: err, Again: errors.Is(err, http2.ErrUnprocessed) || err == errNoTunnels}
	var handshake *upstream.HandshakeError
	switch {
	case errors.As(err, &handshake):
		f.Reason = segment.TLSFailed
	case errors.Is(err, grpcweb.ErrText):
		f.Party, f.Reason = Client, segment.BadRequest
	case errors.Is(err, errClientGone):
		f.Party, f.Reason = Client, segment.ClientGone
	case errors.Is(err, os.ErrDeadlineExceeded) && phase == AwaitingResponse:
		f.Reason = segment.FirstByteTimeout
	case errors.Is(err, os.ErrDeadlineExceeded):
		f.Reason = segment.ServerTimeout
	case isFault(err):
		f.Reason = segment.BadResponse
	}
	return f
}

func isFault(err error) bool {
	var fault *http1.Fault
	var frame http2.AnyFault
	return errors.As(err, &fault) || errors.As(err, &frame)
}

var (
	// errUpload aborts the connection to a server whose request body failed at
	// the client.
	errUpload = errors.New("the request body was not complete")
	// errSwitched: a server may switch protocols only when asked to.
	errSwitched = &http1.Fault{Kind: http1.Malformed, Rule: "101 answers a request to upgrade", Section: "RFC 9110 15.2.2"}
	// errNotSwitched: what in HTTP/1.1 is no tunnel would be one in HTTP/2.
	errNotSwitched = &http1.Fault{Kind: http1.Malformed, Rule: "a server that does not upgrade must not say that all is well", Section: "RFC 8441 5"}
	// errNoTunnels: another server may.
	errNoTunnels = &http1.Fault{Kind: http1.Malformed, Rule: "a server of HTTP/2 must have sent SETTINGS_ENABLE_CONNECT_PROTOCOL to be asked for a WebSocket", Section: "RFC 8441 3"}
	// errInterims: a server could send them for ever, faster than any time-out.
	errInterims = &http1.Fault{Kind: http1.HeadTooLong, Rule: "the interim responses together are longer than limits.response_head", Section: "RFC 9110 15.2"}
	// errLongTrailers: a trailer section does not fit into a buffer.
	errLongTrailers = &http1.Fault{Kind: http1.HeadTooLong, Rule: "the trailer section is longer than limits.head", Section: "RFC 6585 5"}
)

// errClientGone aborts the connection to a server whose client has reset its own.
var errClientGone = errors.New("the client has gone")
