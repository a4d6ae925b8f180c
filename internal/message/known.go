package message

// ID names a field that a proxy acts on, or that no client may have removed by
// naming it in Connection. Unknown stands for all others.
type ID uint8

const (
	Unknown ID = iota

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
	Accept: "accept", Authorization: "authorization", CacheControl: "cache-control",
	ContentEncoding: "content-encoding", ContentLength: "content-length", ContentType: "content-type",
	Cookie: "cookie", Date: "date", Expect: "expect", Forwarded: "forwarded", Host: "host", Location: "location",
	MaxForwards: "max-forwards", Origin: "origin", Range: "range", Referer: "referer", Server: "server",
	SetCookie: "set-cookie", Trailer: "trailer", UserAgent: "user-agent", Via: "via",
	XForwardedFor: "x-forwarded-for", XForwardedHost: "x-forwarded-host", XForwardedPort: "x-forwarded-port",
	XForwardedProto: "x-forwarded-proto", XRequestID: "x-request-id", XSluicePlacement: "x-sluice-placement",
}

const longestName = 20

// byLength finds the few names that a given one could be.
var byLength = func() (table [longestName][]ID) {
	for id := Unknown + 1; id < idCount; id++ {
		n := len(names[id])
		table[n] = append(table[n], id)
	}
	return table
}()

// Lookup finds the ID of a field name in any case.
func Lookup(name []byte) ID {
	if len(name) >= longestName || len(name) == 0 {
		return Unknown
	}
	first := name[0] | 0x20
	for _, id := range byLength[len(name)] {
		if known := names[id]; known[0] == first && EqualFold(name, known) {
			return id
		}
	}
	return Unknown
}

// OfConnection reports whether the field is about one connection, whether or not
// Connection names it.
func (id ID) OfConnection() bool { return Connection <= id && id <= HTTP2Settings }

// EndToEnd reports whether the field is known to be for all recipients, so that
// naming it in Connection does not remove it (RFC 9110 7.6.1 forbids the naming).
func (id ID) EndToEnd() bool { return id >= Accept }

// String is the field's name in lower case.
func (id ID) String() string { return names[id] }

// EqualFold compares b with lower, which is in lower case, ignoring b's ASCII case.
func EqualFold(b []byte, lower string) bool {
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
