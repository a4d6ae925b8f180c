package message

import (
	"bytes"
	"encoding/binary"
)

// ID names a field that a proxy acts on, or that no client may have removed by
// naming it in Connection. Unknown stands for all others.
type ID uint8

const (
	Unknown ID = iota

	// Disguised is a known name with underscores for its dashes. A server that hands
	// fields on as CGI does (RFC 3875 4.1.18) would take it for the known field.
	Disguised

	// About this connection only: never forwarded.
	Connection
	KeepAlive
	ProxyConnection
	ProxyAuthenticate
	ProxyAuthorization
	TE
	TransferEncoding
	Upgrade
	HTTP2Settings

	// End-to-end: stay even if named in Connection.
	Accept
	Authorization
	CacheControl
	ClientCert
	ClientCertChain
	ContentEncoding
	ContentLength
	ContentType
	Cookie
	Date
	Expect
	Forwarded
	Host
	Location
	MaxForwards
	Origin
	Range
	Referer
	Server
	SetCookie
	Trailer
	UserAgent
	Via
	XARRClientCert
	XForwardedFor
	XForwardedHost
	XForwardedPort
	XForwardedProto
	XRequestID
	XSluicePlacement

	idCount
)

// names are in lower case, as HTTP/2 writes them.
var names = [idCount]string{
	Connection: "connection", KeepAlive: "keep-alive", ProxyConnection: "proxy-connection",
	ProxyAuthenticate: "proxy-authenticate", ProxyAuthorization: "proxy-authorization", TE: "te",
	TransferEncoding: "transfer-encoding", Upgrade: "upgrade", HTTP2Settings: "http2-settings",
	Accept: "accept", Authorization: "authorization", CacheControl: "cache-control", ClientCert: "client-cert", ClientCertChain: "client-cert-chain",
	ContentEncoding: "content-encoding", ContentLength: "content-length", ContentType: "content-type",
	Cookie: "cookie", Date: "date", Expect: "expect", Forwarded: "forwarded", Host: "host", Location: "location",
	MaxForwards: "max-forwards", Origin: "origin", Range: "range", Referer: "referer", Server: "server",
	SetCookie: "set-cookie", Trailer: "trailer", UserAgent: "user-agent", Via: "via",
	XARRClientCert: "x-arr-clientcert",
	XForwardedFor:  "x-forwarded-for", XForwardedHost: "x-forwarded-host", XForwardedPort: "x-forwarded-port",
	XForwardedProto: "x-forwarded-proto", XRequestID: "x-request-id", XSluicePlacement: "x-sluice-placement",
}

const (
	longestName = 19
	hashSize    = 128
)

// spelling is a name in a form that is compared in three steps whatever its
// length, ignoring ASCII case.
type spelling struct {
	length  int
	lower   words
	letters words // the bit of case where lower has a letter
}

var spellings = func() (table [idCount]spelling) {
	for id := Connection; id < idCount; id++ {
		letters := make([]byte, len(names[id]))
		for i, c := range names[id] {
			if 'a' <= c && c <= 'z' {
				letters[i] = 0x20
			}
		}
		table[id] = spelling{length: len(names[id]), lower: wordsOf([]byte(names[id])), letters: wordsOf(letters)}
	}
	return table
}()

// slots finds IDs by hash; from a taken place the search goes on to the next.
var slots = func() (table [hashSize + int(idCount)]ID) {
	for id := Connection; id < idCount; id++ {
		at := hash([]byte(names[id]))
		for table[at] != Unknown {
			at++
		}
		table[at] = id
	}
	return table
}()

// hash is the same for all cases of a name, and for underscores as for dashes
// (which stand neither first nor last in a known name).
func hash(name []byte) int {
	n := len(name)
	return (n*7 + int(name[0]|0x20)*3 + int(name[n-1]|0x20)*5) % hashSize
}

// words holds all of up to 24 bytes, some of them twice.
type words struct{ first, second, last uint64 }

func wordsOf(b []byte) words {
	switch n := len(b); {
	case n > 16:
		return words{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[n-8:])}
	case n >= 8:
		return words{first: binary.LittleEndian.Uint64(b), last: binary.LittleEndian.Uint64(b[n-8:])}
	case n >= 4:
		return words{first: uint64(binary.LittleEndian.Uint32(b)), last: uint64(binary.LittleEndian.Uint32(b[n-4:]))}
	default:
		return words{uint64(b[0]), uint64(b[n/2]), uint64(b[n-1])}
	}
}

// differ is zero if w spells s, ignoring case.
func (s *spelling) differ(w words) uint64 {
	first := (w.first | s.letters.first) ^ s.lower.first
	second := (w.second | s.letters.second) ^ s.lower.second
	last := (w.last | s.letters.last) ^ s.lower.last
	return first | second | last
}

// Lookup finds the ID of a field name in any case.
func Lookup(name []byte) ID {
	if len(name) > longestName || len(name) == 0 {
		return Unknown
	}
	at := hash(name)
	if slots[at] == Unknown {
		return Unknown
	}
	w := wordsOf(name)
	for ; slots[at] != Unknown; at++ {
		if s := &spellings[slots[at]]; s.length == len(name) && s.differ(w) == 0 {
			return slots[at]
		}
	}
	return disguise(name)
}

// disguise tells Disguised names from Unknown ones.
func disguise(name []byte) ID {
	if bytes.IndexByte(name, '_') < 0 {
		return Unknown
	}
	var dashed [longestName]byte
	n := copy(dashed[:], name)
	for i, c := range dashed[:n] {
		if c == '_' {
			dashed[i] = '-'
		}
	}
	if Lookup(dashed[:n]) != Unknown {
		return Disguised
	}
	return Unknown
}

// OfConnection reports whether the field is about one connection, whether or not
// Connection names it.
func (id ID) OfConnection() bool { return Connection <= id && id <= HTTP2Settings }

// EndToEnd reports whether the field is known to be for all recipients, so that
// naming it in Connection does not remove it (RFC 9110 7.6.1 forbids the naming).
func (id ID) EndToEnd() bool { return id >= Accept }

// String is the field's name in lower case, empty if it has no one name.
func (id ID) String() string { return names[id] }

// EqualFold compares b with lower, which is in lower case, ignoring b's ASCII case.
func EqualFold(b []byte, lower string) bool {
	if string(b) == lower {
		return true
	}
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
