// Package message is the one form in which a request or a response stands
// between two codecs, whatever the protocols on either side.
//
// Everything that came from the wire is a slice into the buffer that it was read
// into; a message is valid as long as that buffer is. A Request or a Response is
// used again for the next message after Reset: nothing is allocated per message.
package message

// Field is one field line of a head or a trailer section (RFC 9110 5).
type Field struct {
	Name, Value []byte
	ID          ID
	// Drop means that the field ends here: it belongs to the connection
	// (RFC 9110 7.6.1), to the framing, or is written anew by whoever forwards.
	Drop bool
	// NeverIndexed means that it came as one that nobody on its way may put into a
	// table, and is to be sent on so (RFC 7541 6.2.3).
	NeverIndexed bool
}

// Fields are field lines in the order of arrival.
type Fields []Field

// Get returns the first field with this ID, nil if there is none.
func (fs Fields) Get(id ID) *Field {
	for i := range fs {
		if fs[i].ID == id {
			return &fs[i]
		}
	}
	return nil
}

// Framing is how the end of a body is known (RFC 9112 6.3).
type Framing uint8

const (
	NoBody     Framing = iota
	Length             // as many bytes as Content-Length says
	Chunked            // the chunked transfer coding
	UntilClose         // a response that ends with its connection
)

// Version of the protocol that a message came with.
type Version uint8

const (
	HTTP10 Version = 10
	HTTP11 Version = 11
	HTTP2  Version = 20
	HTTP3  Version = 30
)

// Method tells the methods that a proxy must know apart. All others are Other:
// they are forwarded by name and never sent twice.
type Method uint8

const (
	Other Method = iota
	GET
	HEAD
	POST
	PUT
	DELETE
	OPTIONS
	TRACE
	CONNECT
	PATCH
)

// Idempotent reports whether sending the request twice has the effect of sending
// it once (RFC 9110 9.2.2).
func (m Method) Idempotent() bool {
	switch m {
	case GET, HEAD, PUT, DELETE, OPTIONS, TRACE:
		return true
	}
	return false
}

// Request is a request head and the framing of its body.
type Request struct {
	Method     Method
	MethodName []byte
	Version    Version
	Scheme     []byte // "http" or "https" as an HTTP/2 or HTTP/3 client says it (RFC 9113 8.3.1); nil from others
	// Target is the request target as it is forwarded: origin-form, or "*".
	Target []byte
	// Host is the authority: that of an absolute-form target if there was one,
	// else the Host field's (RFC 9112 3.2.2). Empty only for HTTP/1.0.
	Host   []byte
	Fields Fields

	Body          Framing
	ContentLength int64 // bytes, if Body is Length

	KeepAlive      bool   // the client wants the connection to stay
	ExpectContinue bool   // it waits for 100 before it sends the body (RFC 9110 10.1.1)
	Trailers       bool   // it accepts trailer fields (TE: trailers)
	Upgrade        []byte // what it would switch to, if it asks for more than h2c; nil otherwise
	Protocol       []byte // what an extended CONNECT is for (RFC 8441 4); nil otherwise
	MaxForwards    int    // hops left for OPTIONS and TRACE (RFC 9110 7.6.2); -1: no limit given
	Absolute       bool   // the target came in absolute-form
}

// Reset makes r ready for the next head.
func (r *Request) Reset() {
	fields := r.Fields[:0]
	*r = Request{Fields: fields, MaxForwards: -1}
}

// Response is a response head and the framing of its body.
type Response struct {
	Status  int
	Reason  []byte
	Version Version
	Fields  Fields

	Body          Framing
	ContentLength int64 // bytes: of the body if Body is Length; else what was declared about a body that does not come (HEAD, 304), -1 if nothing was

	KeepAlive bool // the server keeps the connection
	HasDate   bool // it carried Date
}

// Reset makes r ready for the next head.
func (r *Response) Reset() {
	fields := r.Fields[:0]
	*r = Response{Fields: fields, ContentLength: -1}
}
