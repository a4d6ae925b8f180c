package proxy

import (
	"sluice/internal/message"
	"sluice/internal/reactor"
)

// ClientStream is one request's share of a client connection that carries many
// (HTTP/2, HTTP/3): heads and ends stand apart from content. Read gives the
// request's content as it is, then io.EOF; Write sends the answer's. What Stream
// says of the peer is said of the stream: OnHangup and Watch tell that it was
// reset, or that its connection is gone. Close lets go of what is not at its end;
// Linger does the same.
type ClientStream interface {
	reactor.Stream
	// Request fills in the head, as often as it is asked; slices are good until
	// Close.
	Request(r *message.Request)
	// Fault is why its client wants nothing of it any more: it has reset the stream, or
	// its connection has ended. Nil: neither.
	Fault() error
	// Trailers are those of the request, once Read has returned io.EOF.
	Trailers() message.Fields
	// Respond sends a head: an interim one if its status is below 200. last says
	// that no content follows.
	Respond(r *message.Response, last bool) error
	// End ends the content.
	End(trailers message.Fields) error
	// Reset ends the stream so that nobody takes what came for the whole.
	Reset()
}

// ServerStream is one request's share of a server connection that carries many.
// Read gives the answer's content, then io.EOF; Write sends the request's.
type ServerStream interface {
	reactor.Stream
	// Tunnels reports whether the server takes extended CONNECT (RFC 8441); it waits
	// until that is known.
	Tunnels() (bool, error)
	// Send sends the head. last says that no content follows.
	Send(r *message.Request, last bool) error
	// Answer fills in the next head that has come, interim or final; false: none
	// has. Await says when to ask.
	Answer(r *message.Response) (ok bool, err error)
	// Trailers are those of the answer, once Read has returned io.EOF.
	Trailers() message.Fields
	// End ends the content.
	End(trailers message.Fields) error
	// Reset tells the server that the answer is of no use any more.
	Reset()
}
