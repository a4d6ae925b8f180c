package http3

import (
	"strconv"

	"sluice/internal/message"
)

// How a field line begins, and how many bits of its first byte belong to a number
// (RFC 9204 4.5).
const (
	lineIndexed      = 0xc0 // an entry of the static table
	bitsIndexed      = 6
	lineNamed        = 0x50 // a name of the static table, and a value
	lineNeverIndexed = 0x20 // in such a line: nobody may index it
	bitsNamed        = 4
	lineLiteral      = 0x20
	lineNeverLiteral = 0x10 // in such a line: nobody may index it
	bitsLiteral      = 3
	bitsValue        = 7
)

// appendPrefixed writes a number into the last bits of a first byte and, if it is
// larger, what follows that (RFC 7541 5.1).
func appendPrefixed(dst []byte, first byte, bits, n int) []byte {
	most := 1<<bits - 1
	if n < most {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

// openSection begins a section that uses no dynamic table.
func openSection(dst []byte) []byte { return append(dst, 0, 0) }

// appendStatus writes :status, of three digits.
func appendStatus(dst []byte, status int) []byte {
	if index, known := statusIndex[status]; known {
		return appendPrefixed(dst, lineIndexed, bitsIndexed, index)
	}
	dst = appendPrefixed(dst, lineNamed, bitsNamed, anyStatus)
	return append(dst, 3, '0'+byte(status/100%10), '0'+byte(status/10%10), '0'+byte(status%10))
}

// anyStatus is an entry of the static table that has the name :status.
const anyStatus = 24

// statusIndex are the entries of the static table for statuses (RFC 9204 appendix A).
var statusIndex = map[int]int{
	103: 24, 200: 25, 304: 26, 404: 27, 503: 28, 100: 63, 204: 64, 206: 65, 302: 66, 400: 67, 403: 68, 421: 69, 425: 70, 500: 71,
}

// nameIndex are entries of the static table that have these names (the same).
var nameIndex = map[string]int{
	"age": 2, "content-disposition": 3, "content-length": 4, "date": 6, "etag": 7, "last-modified": 10, "link": 11,
	"location": 12, "set-cookie": 14, "accept-ranges": 32, "access-control-allow-headers": 33,
	"access-control-allow-origin": 35, "cache-control": 36, "content-encoding": 42, "content-type": 44,
	"strict-transport-security": 56, "vary": 59, "x-content-type-options": 61, "x-xss-protection": 62,
	"access-control-allow-credentials": 73, "access-control-allow-methods": 76, "access-control-expose-headers": 79,
	"alt-svc": 83, "content-security-policy": 85, "expect-ct": 87, "server": 92, "timing-allow-origin": 93,
	"x-frame-options": 97,
}

// longestKnown is the length of the longest name in nameIndex, bytes.
const longestKnown = len("access-control-allow-credentials")

// appendField writes a field, its name in lower case.
func appendField(dst []byte, f *message.Field) []byte {
	var lower [longestKnown]byte
	if len(f.Name) <= longestKnown {
		if index, known := nameIndex[string(appendLower(lower[:0], f.Name))]; known {
			first := byte(lineNamed)
			if f.NeverIndexed {
				first |= lineNeverIndexed
			}
			dst = appendPrefixed(dst, first, bitsNamed, index)
			return append(appendPrefixed(dst, 0, bitsValue, len(f.Value)), f.Value...)
		}
	}
	first := byte(lineLiteral)
	if f.NeverIndexed {
		first |= lineNeverLiteral
	}
	dst = appendPrefixed(dst, first, bitsLiteral, len(f.Name))
	dst = appendLower(dst, f.Name)
	return append(appendPrefixed(dst, 0, bitsValue, len(f.Value)), f.Value...)
}

func appendLower(dst, name []byte) []byte {
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// appendFields writes those that are to be forwarded.
func appendFields(dst []byte, fs message.Fields) []byte {
	for i := range fs {
		if f := &fs[i]; !f.Drop && !f.ID.OfConnection() {
			dst = appendField(dst, f)
		}
	}
	return dst
}

// appendHead writes the head of an answer as a frame. Content-length is written if
// it is not negative.
func appendHead(dst []byte, r *message.Response) []byte {
	dst, from := openHeaders(dst)
	dst = appendStatus(openSection(dst), r.Status)
	dst = appendFields(dst, r.Fields)
	if r.ContentLength >= 0 && r.Status >= 200 {
		var digits [20]byte
		length := message.Field{Name: nameLength, Value: strconv.AppendInt(digits[:0], r.ContentLength, 10), ID: message.ContentLength}
		dst = appendField(dst, &length)
	}
	return closeHeaders(dst, from)
}

var nameLength = []byte("content-length")

// appendTrailers writes what stands behind an answer's content as a frame.
func appendTrailers(dst []byte, trailers message.Fields) []byte {
	dst, from := openHeaders(dst)
	return closeHeaders(appendFields(openSection(dst), trailers), from)
}

// openHeaders begins a frame whose length is not known yet; from is where what it
// holds begins.
func openHeaders(dst []byte) (b []byte, from int) {
	dst = append(dst, frameHeaders, 1<<6, 0) // a length of two bytes
	return dst, len(dst)
}

// closeHeaders puts in the length: what is too long for two bytes is moved for four.
func closeHeaders(dst []byte, from int) []byte {
	n := len(dst) - from
	if n <= shortVarint {
		dst[from-2], dst[from-1] = 1<<6|byte(n>>8), byte(n)
		return dst
	}
	dst = append(dst, 0, 0)
	copy(dst[from+2:], dst[from:from+n])
	appendVarint(dst[:from-2], uint64(n)) // four bytes, since a head is shorter than 2^30
	return dst
}
