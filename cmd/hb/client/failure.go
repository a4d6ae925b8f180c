package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/quic-go/quic-go/http3"

	"sluice/cmd/hb/frame"
)

// Kind says why a request had no answer.
type Kind int

// The kinds, in the order in which a report lists them.
const (
	Refused       Kind = iota // nobody listens there
	Reset                     // the connection was broken off
	TimedOut                  // connecting or answering took too long
	Closed                    // the connection ended before the whole answer
	StreamReset               // HTTP/2, HTTP/3: the server broke off the request alone
	StreamRefused             // the same, before it had begun to work on it (REFUSED_STREAM, H3_REQUEST_REJECTED)
	GoneAway                  // the server ended the connection with an error
	BadResponse               // what came is not an answer of the protocol
	BadTLS                    // the handshake or the certificate failed
	Exhausted                 // this machine has no port or descriptor left
	Other
	Stopped // the run ended first: no failure of the server
	Kinds   = int(Stopped)
)

var kindNames = [...]string{"refused", "reset", "timed out", "closed", "stream reset", "stream refused", "GOAWAY", "bad response", "TLS", "exhausted", "other", "stopped"}

func (k Kind) String() string { return kindNames[k] }

// Failure is why a request had no answer.
type Failure struct {
	Kind Kind
	Err  error
}

func (f *Failure) Error() string { return f.Kind.String() + ": " + f.Err.Error() }

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// badResponse says how an answer is not one.
type badResponse string

func (b badResponse) Error() string { return string(b) }

// handshakeError is a failure of the TLS handshake.
type handshakeError struct{ error }

func (h *handshakeError) Unwrap() error { return h.error }

// streamReset is an answer that the server broke off, the connection living on.
type streamReset struct{ code fmt.Stringer }

func (s streamReset) Error() string { return "the server reset the stream: " + s.code.String() }

func (s streamReset) kind() Kind {
	if s.code == frame.RefusedStream || s.code == http3.ErrCodeRequestRejected {
		return StreamRefused
	}
	return StreamReset
}

// goneAway is a connection on which the server takes no more requests.
type goneAway struct{ code fmt.Stringer }

func (g goneAway) Error() string { return "the server ends the connection: " + g.code.String() }

// unprocessed is the failure of a request that the server has not begun to work on,
// and that is its to expect again on another connection (RFC 9113, section 6.8).
type unprocessed struct {
	error
	useful bool // the connection has carried other requests
}

func (u unprocessed) Unwrap() error { return u.error }

// classify finds the kind of an error. The first that fits counts: a handshake
// that timed out is a time-out.
func classify(err error) *Failure {
	var timeout net.Error
	var bad badResponse
	var handshake *handshakeError
	var reset streamReset
	var gone goneAway
	var fault frame.Fault
	kind := Other
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		kind = TimedOut
	case errors.Is(err, syscall.ECONNREFUSED):
		kind = Refused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		kind = Reset
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.EADDRNOTAVAIL):
		kind = Exhausted
	case errors.As(err, &bad), errors.As(err, &fault):
		kind = BadResponse
	case errors.As(err, &handshake):
		kind = BadTLS
	case errors.As(err, &reset):
		kind = reset.kind()
	case errors.As(err, &gone):
		kind = GoneAway
	case closedByPeer(err):
		kind = Closed
	}
	return &Failure{kind, err}
}

// closedByPeer reports whether the other side ended the connection.
func closedByPeer(err error) bool {
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}
