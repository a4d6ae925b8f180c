// Package sni reads the name that a TLS client asks for from the first bytes of its
// connection, without decrypting or taking anything: its ClientHello (RFC 8446 4.1.2)
// stands in clear, and in it the extension server_name (RFC 6066 3).
//
// The package touches no connection. What is broken or ambiguous is refused, since the
// server behind might read another name there.
package sni

import (
	"errors"
)

// MaxBytes is as much as is looked at: a ClientHello of 16 KiB and the headers of the
// records that it came in. With keys for several post-quantum exchanges it has some 4.
const MaxBytes = 17 << 10

const (
	maxMessage   = 16 << 10 // bytes of a ClientHello
	maxRecord    = 16 << 10 // bytes of content, RFC 8446 5.1
	recordHeader = 5
	headerBytes  = 4 // of a handshake message: its type and length

	typeHandshake   = 22
	typeClientHello = 1
	extServerName   = 0
	nameHost        = 0
	maxName         = 255
)

// Errors of Name.
var (
	// ErrNotTLS: the connection begins otherwise.
	ErrNotTLS = errors.New("the connection does not begin with a ClientHello of TLS")
	// ErrBroken: it begins as TLS, but not well.
	ErrBroken = errors.New("the ClientHello is not well formed")
	// ErrTooLong: see MaxBytes.
	ErrTooLong = errors.New("the ClientHello is longer than 16 KiB")
)

// Name reads the name that the ClientHello at the start of b asks for. need more than
// len(b) says that nothing is known yet, and how many bytes are needed at least. An
// empty name is that of a client which asks for none. The bytes of b are moved about;
// name is a part of them.
func Name(b []byte) (name []byte, need int, err error) {
	hello, need, err := gather(b)
	if err != nil || need > len(b) {
		return nil, need, err
	}
	name, ok := serverName(hello)
	if !ok {
		return nil, 0, ErrBroken
	}
	return name, need, nil
}

// gather moves the parts of the ClientHello, which records may cut anywhere, to the
// front of b, and gives its body.
func gather(b []byte) (hello []byte, need int, err error) {
	at, left := 0, 0              // place in b, and what is left of the record there
	have, total := 0, headerBytes // bytes of the message
	for have < total {
		if left == 0 {
			if left, err = record(b[at:]); err != nil {
				return nil, 0, cause(err, at)
			}
			at += recordHeader
		}
		n := min(left, total-have)
		if at+n > len(b) {
			return nil, at + n, nil
		}
		have += copy(b[have:], b[at:at+n])
		at, left = at+n, left-n
		switch {
		case b[0] != typeClientHello:
			return nil, 0, ErrNotTLS
		case have == headerBytes && total == headerBytes:
			total += int(b[1])<<16 | int(b[2])<<8 | int(b[3])
		}
		if total > maxMessage {
			return nil, 0, ErrTooLong
		}
	}
	return b[headerBytes:total], 0, nil
}

// record reads a record's header: how much content follows. Of a header that is not
// whole only what has come is looked at; then 1 byte is said to follow, which is not
// there.
func record(b []byte) (length int, err error) {
	if len(b) > 0 && b[0] != typeHandshake || len(b) > 1 && b[1] != 3 {
		return 0, ErrNotTLS
	}
	if len(b) < recordHeader {
		return 1, nil
	}
	length = int(b[3])<<8 | int(b[4])
	if length == 0 || length > maxRecord { // handshake records are never empty (RFC 8446 5.1)
		return 0, ErrBroken
	}
	return length, nil
}

// cause is ErrBroken for what was well at first.
func cause(err error, at int) error {
	if at > 0 {
		return ErrBroken
	}
	return err
}

// serverName reads the body of a ClientHello.
func serverName(hello []byte) (name []byte, ok bool) {
	r := reader(hello)
	version, random := r.take(2), r.take(32)
	session := r.vector(1)
	ciphers, compressions := r.vector(2), r.vector(1)
	switch {
	case r == nil, version[0] != 3, random == nil, len(session) > 32:
		return nil, false
	case len(ciphers) == 0 || len(ciphers)%2 != 0, len(compressions) == 0:
		return nil, false
	case len(r) == 0: // TLS 1.2 may come without extensions
		return nil, true
	}
	extensions := reader(r.vector(2))
	if extensions == nil || len(r) > 0 {
		return nil, false
	}
	named := false
	for len(extensions) > 0 {
		kind, data := extensions.take(2), extensions.vector(2)
		switch {
		case extensions == nil:
			return nil, false
		case kind[0] != 0 || kind[1] != extServerName:
			continue
		case named: // RFC 8446 4.2: at most one of a type
			return nil, false
		}
		named = true
		if name = onlyName(data); name == nil {
			return nil, false
		}
	}
	return name, true
}

// onlyName reads the list of the extension, which holds one host; nil if it is not so.
func onlyName(list reader) []byte {
	names := reader(list.vector(2))
	kind, name := names.take(1), names.vector(2)
	if list == nil || len(list) > 0 || names == nil || len(names) > 0 || kind[0] != nameHost || !isHost(name) {
		return nil
	}
	return name
}

// isHost tells a host name as the extension has it: ASCII, without a final dot.
func isHost(name []byte) bool {
	if len(name) == 0 || len(name) > maxName || name[len(name)-1] == '.' {
		return false
	}
	for _, c := range name {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		default:
			return false
		}
	}
	return true
}

// reader is what is left to read. It is nil once there was less than was asked for;
// what is at its end is empty, but not nil.
type reader []byte

// take reads n bytes, nil if there are fewer.
func (r *reader) take(n int) []byte {
	if *r == nil || len(*r) < n {
		*r = nil
		return nil
	}
	taken := (*r)[:n]
	*r = (*r)[n:]
	return taken
}

// vector reads bytes that stand behind their length, which has the given number of
// bytes.
func (r *reader) vector(lengthBytes int) []byte {
	length := 0
	for _, c := range r.take(lengthBytes) {
		length = length<<8 | int(c)
	}
	return r.take(length)
}
