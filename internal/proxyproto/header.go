package proxyproto

import (
	"net/netip"
)

// Origin is what a header says of the connection's other end.
type Origin uint8

// The origins.
const (
	Proxied Origin = iota // Source is the client
	Local                 // the sender speaks for itself: the connection's own addresses hold (LOCAL)
	Unknown               // there is a client, but the header does not tell its address (UNKNOWN, UNSPEC, or no TCP)
)

// Header is what a header says. Its slices are parts of what was parsed.
type Header struct {
	Version             int // 1 or 2
	Origin              Origin
	Source, Destination netip.AddrPort // if Proxied; IPv4 addresses are never in their IPv6 form

	ALPN      []byte // protocol spoken on the connection, in the names of RFC 7301
	Authority []byte // host that the client asked for: of TLS its server_name
	UniqueID  []byte // of the connection, at most 128 bytes
	TLS       TLS
	Checksum  bool // there was a CRC32c, and it was right; or it is to be written
}

// TLS is what a header says of the client's TLS [2.2.6].
type TLS struct {
	On       bool // the client came over TLS
	CertConn bool // it gave a certificate on this connection
	CertSess bool // it gave one in this TLS session
	Verified bool // and that was found good

	Version, Cipher []byte // TLSv1.3, TLS_AES_128_GCM_SHA256
	CommonName      []byte // of its certificate
	SigAlg, KeyAlg  []byte // of ours: SHA256, RSA2048
}

// Fault is a header that breaks the specification.
type Fault struct {
	Rule string // that it breaks
}

// Error says what is wrong.
func (f *Fault) Error() string { return "PROXY header: " + f.Rule }

// The faults. What is ambiguous is one too.
var (
	errNoHeader    = &Fault{"the connection does not begin with one"}
	errLine        = &Fault{"a line is PROXY, a protocol, two addresses and two ports, with one space between them, and ends by CR LF"}
	errLongLine    = &Fault{"a line has at most 107 bytes"}
	errProtocol    = &Fault{"the protocol of a line is TCP4, TCP6 or UNKNOWN"}
	errAddress     = &Fault{"an address is not one of the line's protocol, or not in its plain form"}
	errPort        = &Fault{"a port is a number from 0 to 65535 without leading zeros"}
	errVersion     = &Fault{"the version after the signature is not 2"}
	errCommand     = &Fault{"the command is neither LOCAL nor PROXY"}
	errFamily      = &Fault{"the address family is not one from 0 to 3"}
	errTransport   = &Fault{"the transport is not one from 0 to 2"}
	errTooLong     = &Fault{"it is longer than 16 KiB"}
	errShort       = &Fault{"it is too short for addresses of its family"}
	errVector      = &Fault{"a type-length-value reaches beyond the end of what it is in"}
	errTwice       = &Fault{"a type-length-value stands there twice"}
	errUniqueID    = &Fault{"the unique ID is longer than 128 bytes"}
	errTLSVector   = &Fault{"what it says of TLS has less than 5 bytes"}
	errChecksum    = &Fault{"its CRC32c is not that of its bytes"}
	errChecksumLen = &Fault{"a CRC32c has 4 bytes"}
)

// Lengths, in bytes.
const (
	// MaxBytes is the longest header that is taken. The specification allows 64 KiB;
	// addresses and all that is defined to follow them come to less than 2.
	MaxBytes = 16 << 10
	// LeastBytes is the shortest there is: "PROXY UNKNOWN" and its line end.
	LeastBytes = 15

	maxLine       = 107
	maxUniqueID   = 128
	fixedBytes    = 16 // of version 2, before the addresses
	addressBytes4 = 2*4 + 2*2
	addressBytes6 = 2*16 + 2*2
	addressUnix   = 2 * 108
)

// signature begins version 2.
const signature = "\r\n\r\n\x00\r\nQUIT\n"

// Parse reads the header at the start of b into h. n is its length; if n is more
// than len(b), nothing is known yet, and so many bytes are needed at least. It asks
// for no byte beyond the header. The error is a *Fault.
func Parse(b []byte, h *Header) (n int, err error) {
	*h = Header{}
	switch {
	case len(b) == 0:
		return LeastBytes, nil
	case b[0] == 'P':
		return h.parseLine(b)
	case b[0] == signature[0]:
		return h.parseBinary(b)
	}
	return 0, errNoHeader
}

// begins reports whether b is the start of text, or all of it and more.
func begins(b []byte, text string) bool {
	n := min(len(b), len(text))
	return string(b[:n]) == text[:n]
}
