package proxyproto

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// Append adds the header that h describes, in its Version, to dst. Version 1 tells
// addresses only, and for Local, which it has no word for, those of h. Where one
// address is of IPv4 and the other of IPv6, both are written as IPv6. Values that do
// not fit are left out: h.UniqueID of more than 128 bytes, and what would make the
// header longer than MaxBytes.
func Append(dst []byte, h *Header) []byte {
	if h.Version == 1 {
		return appendLine(dst, h)
	}
	return appendBinary(dst, h)
}

func appendLine(dst []byte, h *Header) []byte {
	source, destination := h.Source.Addr().WithZone(""), h.Destination.Addr().WithZone("")
	if h.Origin == Unknown || !source.IsValid() || !destination.IsValid() {
		return append(dst, lineUnknown+"\r\n"...)
	}
	dst = append(dst, linePrefix...)
	if source.Is4() && destination.Is4() {
		dst = append(dst, "TCP4 "...)
	} else {
		dst = append(dst, "TCP6 "...)
		source, destination = as6(source), as6(destination)
	}
	dst = append(source.AppendTo(dst), ' ')
	dst = append(destination.AppendTo(dst), ' ')
	dst = append(strconv.AppendUint(dst, uint64(h.Source.Port()), 10), ' ')
	dst = strconv.AppendUint(dst, uint64(h.Destination.Port()), 10)
	return append(dst, "\r\n"...)
}

// as6 is an address as IPv6.
func as6(a netip.Addr) netip.Addr { return netip.AddrFrom16(a.As16()) }

func appendBinary(dst []byte, h *Header) []byte {
	start := len(dst)
	dst = append(dst, signature...)
	source, destination := h.Source.Addr(), h.Destination.Addr()
	switch {
	case h.Origin == Local:
		return append(dst, version2<<4|commandLocal, familyNone<<4|transportNone, 0, 0)
	case h.Origin == Unknown || !source.IsValid() || !destination.IsValid():
		dst = append(dst, version2<<4|commandProxy, familyNone<<4|transportNone, 0, 0)
	case source.Is4() && destination.Is4():
		from, to := source.As4(), destination.As4()
		dst = append(dst, version2<<4|commandProxy, family4<<4|transportStream, 0, 0)
		dst = append(append(dst, from[:]...), to[:]...)
		dst = appendPorts(dst, h)
	default:
		from, to := source.As16(), destination.As16()
		dst = append(dst, version2<<4|commandProxy, family6<<4|transportStream, 0, 0)
		dst = append(append(dst, from[:]...), to[:]...)
		dst = appendPorts(dst, h)
	}
	dst = appendVectors(dst, start, h)
	binary.BigEndian.PutUint16(dst[start+14:], uint16(len(dst)-start-fixedBytes))
	if h.Checksum {
		at := len(dst) - 4
		binary.BigEndian.PutUint32(dst[at:], checksum(dst[start:], at-start))
	}
	return dst
}

func appendPorts(dst []byte, h *Header) []byte {
	dst = binary.BigEndian.AppendUint16(dst, h.Source.Port())
	return binary.BigEndian.AppendUint16(dst, h.Destination.Port())
}

// appendVectors adds the type-length-values of a header that begins at start, the
// checksum last and as zeros.
func appendVectors(dst []byte, start int, h *Header) []byte {
	const sumBytes = 3 + 4
	most := start + MaxBytes - sumBytes
	dst = appendVector(dst, most, typeALPN, h.ALPN)
	dst = appendVector(dst, most, typeAuthority, h.Authority)
	if len(h.UniqueID) <= maxUniqueID {
		dst = appendVector(dst, most, typeUniqueID, h.UniqueID)
	}
	if h.TLS.On && len(dst)+3+tlsFixed <= most {
		dst = appendTLS(dst, most, &h.TLS)
	}
	if h.Checksum {
		dst = append(dst, typeCRC32C, 0, 4, 0, 0, 0, 0)
	}
	return dst
}

// appendVector adds one, if it says anything and dst gets no longer than most.
func appendVector(dst []byte, most int, kind byte, value []byte) []byte {
	if len(value) == 0 || len(dst)+3+len(value) > most {
		return dst
	}
	dst = append(dst, kind, byte(len(value)>>8), byte(len(value)))
	return append(dst, value...)
}

func appendTLS(dst []byte, most int, t *TLS) []byte {
	at := len(dst)
	bits, verify := byte(bitTLS), uint32(1)
	if t.CertConn {
		bits |= bitCertConn
	}
	if t.CertSess {
		bits |= bitCertSess
	}
	if t.Verified {
		verify = 0
	}
	dst = append(dst, typeTLS, 0, 0, bits)
	dst = binary.BigEndian.AppendUint32(dst, verify)
	dst = appendVector(dst, most, typeTLSVersion, t.Version)
	dst = appendVector(dst, most, typeTLSName, t.CommonName)
	dst = appendVector(dst, most, typeTLSCipher, t.Cipher)
	dst = appendVector(dst, most, typeTLSSigAlg, t.SigAlg)
	dst = appendVector(dst, most, typeTLSKeyAlg, t.KeyAlg)
	binary.BigEndian.PutUint16(dst[at+1:], uint16(len(dst)-at-3))
	return dst
}
