package http1

// Kind says what sort of fault a message has; the proxy's table turns it into a
// status.
type Kind uint8

const (
	Malformed   Kind = iota // against the grammar, or ambiguous
	HeadTooLong             // more bytes or fields than Limits allow
	LineTooLong             // the request line alone
	BodyTooLong             // more content than allowed
	BadVersion              // not HTTP/1.0 or 1.1
	Misdirected             // https target on a connection without TLS
)

// Fault is what is wrong with a message. All faults are fixed values, so that
// refusing costs nothing.
type Fault struct {
	Kind    Kind
	Rule    string // what would be right
	Section string // where that is written
}

func (f *Fault) Error() string { return f.Rule + " (" + f.Section + ")" }

var (
	errBareLF        = &Fault{Malformed, "a line must end with CR LF", "RFC 9112 2.2"}
	errBareCR        = &Fault{Malformed, "CR may only stand before LF", "RFC 9112 2.2"}
	errRequestLine   = &Fault{Malformed, "the request line must be method, target and version with one space between", "RFC 9112 3"}
	errMethod        = &Fault{Malformed, "the method must be a token", "RFC 9110 9.1"}
	errVersion       = &Fault{BadVersion, "the version must be HTTP/1.0 or HTTP/1.1", "RFC 9110 15.6.6"}
	errVersionSyntax = &Fault{Malformed, "the version must be written HTTP/DIGIT.DIGIT", "RFC 9112 2.3"}
	errTarget        = &Fault{Malformed, "the target must be a path, an http URI, or * with OPTIONS", "RFC 9112 3.2"}
	errAuthority     = &Fault{Malformed, "the target of CONNECT must be host and port", "RFC 9110 9.3.6"}
	errTargetChar    = &Fault{Malformed, "the target has a character that must be percent-encoded, or a broken percent-encoding", "RFC 3986 3.3"}
	errUserinfo      = &Fault{Malformed, "a target must not carry user information", "RFC 9110 4.2.4"}
	errScheme        = &Fault{Misdirected, "an https target needs a TLS connection", "RFC 9110 7.4"}
	errHost          = &Fault{Malformed, "Host must be one valid host with an optional port", "RFC 9112 3.2"}
	errNoHost        = &Fault{Malformed, "an HTTP/1.1 request needs Host", "RFC 9112 3.2"}
	errSeveralHosts  = &Fault{Malformed, "Host may stand once", "RFC 9112 3.2"}
	errName          = &Fault{Malformed, "a field name must be a token, with the colon right after it", "RFC 9112 5.1"}
	errFold          = &Fault{Malformed, "a field line must not be folded", "RFC 9112 5.2"}
	errValue         = &Fault{Malformed, "a field value must not hold control characters", "RFC 9110 5.5"}
	errLine          = &Fault{LineTooLong, "the request line is longer than limits.line", "RFC 9110 15.5.15"}
	errHead          = &Fault{HeadTooLong, "the head is longer than limits.head", "RFC 6585 5"}
	errFields        = &Fault{HeadTooLong, "the head has more fields than limits.fields", "RFC 6585 5"}
	errOptions       = &Fault{HeadTooLong, "Connection must not name more than 64 fields", "RFC 9110 7.6.1"}
	errLengths       = &Fault{Malformed, "Content-Length must be one decimal number", "RFC 9112 6.3"}
	errBothFramings  = &Fault{Malformed, "Content-Length and Transfer-Encoding exclude each other", "RFC 9112 6.1"}
	errCoding        = &Fault{Malformed, "the only transfer coding understood is a single chunked", "RFC 9112 6.1"}
	errCodingVersion = &Fault{Malformed, "HTTP/1.0 has no transfer codings", "RFC 9112 6.1"}
	errNoContent     = &Fault{Malformed, "TRACE and CONNECT must not have content", "RFC 9110 9.3.6, 9.3.8"}
	errMaxForwards   = &Fault{Malformed, "Max-Forwards must be a decimal number", "RFC 9110 7.6.2"}
	errChunkSize     = &Fault{Malformed, "a chunk size must be 1 to 15 hexadecimal digits", "RFC 9112 7.1"}
	errChunkExt      = &Fault{Malformed, "a chunk extension must be ;name or ;name=value", "RFC 9112 7.1.1"}
	errChunkLine     = &Fault{Malformed, "a chunk's size line is too long", "RFC 9112 7.1.1"}
	errExtensions    = &Fault{Malformed, "chunk extensions must not outweigh the content", "RFC 9112 7.1.1"}
	errChunkEnd      = &Fault{Malformed, "a chunk's data must end with CR LF", "RFC 9112 7.1"}
	errTrailers      = &Fault{HeadTooLong, "the trailer section is longer than limits.head", "RFC 6585 5"}
	errBody          = &Fault{BodyTooLong, "the body is longer than limits.body", "RFC 9110 15.5.14"}
	errStatusLine    = &Fault{Malformed, "the status line must be HTTP/1.x, three digits from 100 to 599, and a reason", "RFC 9112 4"}
)
