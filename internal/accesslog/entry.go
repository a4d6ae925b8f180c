package accesslog

import (
	"net/netip"
	"time"
)

// Entry is what is known of one request at its end. The slices may point into read
// buffers; Write copies what it needs. A zero field means that the request did not
// get so far.
type Entry struct {
	Wall       int64          // the request's first byte, Unix time in ns
	Client     netip.AddrPort // the other end of the connection
	RealClient netip.Addr     // who a trusted proxy says the client is; invalid if it says nothing

	Listener, Farm, Server string
	Method, Scheme, Host   []byte
	Target                 []byte // as the client sent it
	Referer, UserAgent     []byte
	RequestID              []byte
	Proto                  uint8 // 10, 11, 20, 30: HTTP/1.0 to HTTP/3.0; ProtoTCP
	TLS                    *TLS  // nil: the client speaks without

	Status   int   // 0: none was sent; 499: the client had gone
	BytesIn  int64 // of the request's body
	BytesOut int64 // of the response's body

	HeadTime      time.Duration // first byte of the request to its head's last
	QueueTime     time.Duration // held back at the gate
	ConnectTime   time.Duration // opening a connection; 0 for a kept one
	FirstByteTime time.Duration // request sent to the response's first byte
	TotalTime     time.Duration // first byte of the request to the last of the response

	Node, Worker, Loop int
	Retries            int  // tries after the first
	Reused             bool // the answer came on a kept connection

	Party         string // who failed: client, server, sluice; empty: nobody
	Phase, Reason string // where and why
	Err           error  // what was met; nil if the reason says it all
}

// TLS is what was settled with a client in its handshake. Empty: not known, or there
// is none. Immutable.
type TLS struct {
	Version, Cipher string // TLSv1.3, TLS_AES_128_GCM_SHA256
	Group           string // of the key exchange: X25519MLKEM768
	SNI             string // the name that the client asked for
	ALPN            string // h2, http/1.1
	Resumed         bool   // the session goes on from an earlier connection
	Told            bool   // it ends at the proxy before us, which told it in a PROXY header

	Subject     string // of the client's certificate, RFC 4514
	Fingerprint string // its SHA-256, in hexadecimal digits
}

// ProtoTCP is the Proto of a connection without HTTP: the entry is of all of it.
const ProtoTCP = 1

// client is the address to name: the real one if a trusted proxy has told it.
func (e *Entry) client() netip.Addr {
	if e.RealClient.IsValid() {
		return plain(e.RealClient)
	}
	return plain(e.Client.Addr())
}

// plain gives the form that people search for: an IPv4 address as such, though it
// came in by an IPv6 socket, and no zone, which names an interface of this machine
// in bytes that nobody has checked.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// protocol is the name of the version, as in a request line. Empty: unknown.
func (e *Entry) protocol() string {
	switch e.Proto {
	case ProtoTCP:
		return "TCP"
	case 10:
		return "HTTP/1.0"
	case 11:
		return "HTTP/1.1"
	case 20:
		return "HTTP/2.0"
	case 30:
		return "HTTP/3.0"
	}
	return ""
}
