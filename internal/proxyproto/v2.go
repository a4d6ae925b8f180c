package proxyproto

import (
	"encoding/binary"
	"net/netip"
)

// Commands, address families and transports of version 2 [2.2].
const (
	version2     = 0x2
	commandLocal = 0x0
	commandProxy = 0x1

	familyNone = 0x0
	family4    = 0x1
	family6    = 0x2
	familyUnix = 0x3

	transportNone   = 0x0
	transportStream = 0x1
	transportLast   = 0x2 // datagrams
)

// parseBinary reads version 2. The first 16 bytes are looked at as they come, so
// that what cannot be a header is not waited for.
func (h *Header) parseBinary(b []byte) (n int, err error) {
	if !begins(b, signature) {
		return 0, errNoHeader
	}
	if len(b) > 12 {
		switch version, command := b[12]>>4, b[12]&0xf; {
		case version != version2:
			return 0, errVersion
		case command > commandProxy:
			return 0, errCommand
		}
	}
	if len(b) < fixedBytes {
		return fixedBytes, nil
	}
	n = fixedBytes + int(binary.BigEndian.Uint16(b[14:]))
	if n > MaxBytes {
		return 0, errTooLong
	}
	if len(b) < n {
		return n, nil
	}
	h.Version = 2
	if b[12]&0xf == commandLocal { // all that follows is to be discarded
		h.Origin = Local
		return n, nil
	}
	if err = h.parseBlock(b[:n], b[13]>>4, b[13]&0xf); err != nil {
		return 0, err
	}
	return n, nil
}

// parseBlock reads the addresses and what follows them, of a whole header b.
func (h *Header) parseBlock(b []byte, family, transport byte) error {
	size := 0
	switch family {
	case familyNone:
	case family4:
		size = addressBytes4
	case family6:
		size = addressBytes6
	case familyUnix:
		size = addressUnix
	default:
		return errFamily
	}
	if transport > transportLast {
		return errTransport
	}
	if len(b) < fixedBytes+size {
		return errShort
	}
	a := b[fixedBytes:]
	switch {
	case transport != transportStream || family == familyNone || family == familyUnix:
		h.Origin = Unknown
	case family == family4:
		h.Source = addrPort(a[0:4], a[8:10])
		h.Destination = addrPort(a[4:8], a[10:12])
	default:
		h.Source = addrPort(a[0:16], a[32:34])
		h.Destination = addrPort(a[16:32], a[34:36])
	}
	return h.parseVectors(b, fixedBytes+size)
}

func addrPort(address, port []byte) netip.AddrPort {
	a, _ := netip.AddrFromSlice(address)
	return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
}
