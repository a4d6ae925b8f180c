package client

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// Kind says why a request had no answer.
type Kind int

// The kinds, in the order in which a report lists them.
const (
	Refused     Kind = iota // nobody listens there
	Reset                   // the connection was broken off
	TimedOut                // connecting or answering took too long
	Closed                  // the connection ended before the whole answer
	BadResponse             // what came is not an answer of HTTP/1
	BadTLS                  // the handshake or the certificate failed
	Exhausted               // this machine has no port or descriptor left
	Other
	Stopped // the run ended first: no failure of the server
	Kinds   = int(Stopped)
)

var kindNames = [...]string{"refused", "reset", "timed out", "closed", "bad response", "TLS", "exhausted", "other", "stopped"}

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

// classify finds the kind of an error. The first that fits counts: a handshake
// that timed out is a time-out.
func classify(err error) *Failure {
	var timeout net.Error
	var bad badResponse
	var handshake *handshakeError
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
	case errors.As(err, &bad):
		kind = BadResponse
	case errors.As(err, &handshake):
		kind = BadTLS
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
