// Package proxyproto reads and writes the PROXY protocol: a header before
// everything else on a connection, by which one proxy tells the next whose
// connection it passes on (proxy-protocol.txt of HAProxy, "the specification"
// below; its section numbers stand in brackets).
//
//	v1.go      the line of text [2.1]
//	v2.go      the binary form [2.2]
//	tlv.go     what may follow the addresses there [2.2.1 to 2.2.7]
//	append.go  the way back
//
// The package touches no connection: whoever reads says what has come, and is told
// how much there must be.
package proxyproto
