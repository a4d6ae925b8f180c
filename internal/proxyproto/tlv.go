package proxyproto

import (
	"encoding/binary"
	"hash/crc32"
)

// Types of what may follow the addresses [2.2.1 to 2.2.7]. Others, of networks and
// of applications, are passed over.
const (
	typeALPN      = 0x01
	typeAuthority = 0x02
	typeCRC32C    = 0x03
	typeUniqueID  = 0x05
	typeTLS       = 0x20

	typeTLSVersion = 0x21
	typeTLSName    = 0x22
	typeTLSCipher  = 0x23
	typeTLSSigAlg  = 0x24
	typeTLSKeyAlg  = 0x25
)

// Bits of the first byte of what is said of TLS [2.2.6].
const (
	bitTLS      = 0x01
	bitCertConn = 0x02
	bitCertSess = 0x04
)

// tlsFixed are the bytes before the vectors in what is said of TLS: those bits, and
// how the certificate was found.
const tlsFixed = 1 + 4

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	noSum      = make([]byte, 4)
)

// parseVectors reads the type-length-values from place at to the end of the header.
func (h *Header) parseVectors(header []byte, at int) error {
	var tls []byte
	sumAt := 0 // where the checksum stands; 0: there is none
	for at < len(header) {
		kind, value, next := vector(header, at)
		into := h.place(kind, &tls)
		switch {
		case next == 0:
			return errVector
		case kind == typeCRC32C && len(value) != 4:
			return errChecksumLen
		case kind == typeCRC32C && sumAt != 0, into != nil && *into != nil:
			return errTwice
		case kind == typeCRC32C:
			sumAt = next - len(value)
		case into != nil:
			*into = value
		}
		at = next
	}
	h.Checksum = sumAt != 0
	switch {
	case len(h.UniqueID) > maxUniqueID:
		return errUniqueID
	case h.Checksum && checksum(header, sumAt) != binary.BigEndian.Uint32(header[sumAt:]):
		return errChecksum
	case tls == nil:
		return nil
	}
	return h.TLS.parse(tls)
}

// vector reads the type-length-value at a place of b; next is what is behind it, 0
// if it is not whole. The value is never nil then.
func vector(b []byte, at int) (kind byte, value []byte, next int) {
	const head = 1 + 2
	if len(b)-at < head {
		return 0, nil, 0
	}
	next = at + head + int(binary.BigEndian.Uint16(b[at+1:]))
	if next > len(b) {
		return 0, nil, 0
	}
	return b[at], b[at+head : next], next
}

// place is where the value of a type belongs; nil: nowhere.
func (h *Header) place(kind byte, tls *[]byte) *[]byte {
	switch kind {
	case typeALPN:
		return &h.ALPN
	case typeAuthority:
		return &h.Authority
	case typeUniqueID:
		return &h.UniqueID
	case typeTLS:
		return tls
	}
	return nil
}

// checksum is the CRC32c of a header whose own stands at a place, taken as zeros
// [2.2.3].
func checksum(header []byte, at int) uint32 {
	sum := crc32.Update(0, castagnoli, header[:at])
	sum = crc32.Update(sum, castagnoli, noSum)
	return crc32.Update(sum, castagnoli, header[at+4:])
}

// parse reads what is said of TLS.
func (t *TLS) parse(b []byte) error {
	if len(b) < tlsFixed {
		return errTLSVector
	}
	t.On, t.CertConn, t.CertSess = b[0]&bitTLS != 0, b[0]&bitCertConn != 0, b[0]&bitCertSess != 0
	t.Verified = (t.CertConn || t.CertSess) && binary.BigEndian.Uint32(b[1:]) == 0
	for at := tlsFixed; at < len(b); {
		kind, value, next := vector(b, at)
		if next == 0 {
			return errVector
		}
		at = next
		into := t.place(kind)
		if into == nil {
			continue
		}
		if *into != nil {
			return errTwice
		}
		*into = value
	}
	return nil
}

// place is where the value of a type belongs; nil: nowhere.
func (t *TLS) place(kind byte) *[]byte {
	switch kind {
	case typeTLSVersion:
		return &t.Version
	case typeTLSName:
		return &t.CommonName
	case typeTLSCipher:
		return &t.Cipher
	case typeTLSSigAlg:
		return &t.SigAlg
	case typeTLSKeyAlg:
		return &t.KeyAlg
	}
	return nil
}
