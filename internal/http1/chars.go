package http1

import (
	"encoding/binary"
	"math/bits"
)

// Classes of bytes, one bit each.
const (
	tokenChar  = 1 << iota // RFC 9110 5.6.2
	pathChar               // what is accepted in a path
	queryChar              // what is accepted in a query
	hostChar               // a name as host, or IPv4
	hexChar                // HEXDIG
	quotedChar             // qdtext of a quoted string (RFC 9110 5.6.4)
)

// class says for each byte where it may stand. Paths and queries hold what
// RFC 3986 allows, and what browsers send as it is (URL standard: | and ^ in
// both, { } ` and \ in queries); never a control, a space, a quote, an angle
// bracket, # or anything beyond ASCII. Hosts hold what RFC 3986 3.2.2 allows in a
// reg-name, but no comma, which would make a list, and no percent-encoding: a
// server that decodes it would see another host than the one that was routed.
var class = func() (t [256]uint8) {
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] |= tokenChar
	}
	for _, c := range "-._~!$&'()*+,;=:@/%|^[]" {
		t[c] |= pathChar | queryChar
	}
	for _, c := range "?{}`\\" {
		t[c] |= queryChar
	}
	for _, c := range "-._~!$&'()*+;=" {
		t[c] |= hostChar
	}
	for c := '0'; c <= '9'; c++ {
		t[c] |= tokenChar | pathChar | queryChar | hostChar | hexChar
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c] |= tokenChar | pathChar | queryChar | hostChar
		t[c-0x20] |= tokenChar | pathChar | queryChar | hostChar
	}
	for _, c := range "abcdefABCDEF" {
		t[c] |= hexChar
	}
	for c := 0x20; c < 0x100; c++ {
		if c != '"' && c != '\\' && c != 0x7f {
			t[c] |= quotedChar
		}
	}
	t['\t'] |= quotedChar
	return t
}()

// span is the length of the run of bytes of the class at the start of b.
func span(b []byte, of uint8) int {
	for i, c := range b {
		if class[c]&of == 0 {
			return i
		}
	}
	return len(b)
}

// NameEnd is the index of the first byte from b[i] on that may not stand in a token
// (RFC 9110 5.6.2), as a method or a field name is, len(b) if there is none. It
// looks at eight bytes at a time while they are letters and dashes, as field names
// mostly are.
func NameEnd(b []byte, i int) int {
	for ; i <= len(b)-8; i += 8 {
		if in := lettersAndDashes(binary.LittleEndian.Uint64(b[i : i+8])); in != highs {
			i += firstGap(in)
			break
		}
	}
	for i < len(b) && class[b[i]]&tokenChar != 0 {
		i++
	}
	return i
}

// ValueEnd is the index of the first byte from b[i] on that may not stand in a
// field value, len(b) if there is none: a control character other than the tab.
// Bytes beyond ASCII are opaque (RFC 9110 5.5).
func ValueEnd(b []byte, i int) int {
	for ; i <= len(b)-8; i += 8 {
		if in := plain(binary.LittleEndian.Uint64(b[i : i+8])); in != highs {
			i += firstGap(in)
			if b[i] != '\t' {
				return i
			}
			i -= 8 - 1 // go on behind the tab
		}
	}
	for i < len(b) && (b[i] >= 0x20 && b[i] != 0x7f || b[i] == '\t') {
		i++
	}
	return i
}

// One bit of each byte of a word. Sums of seven bits do not reach the next byte,
// so the high bit of each byte can say whether that byte is in a range.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// firstGap is the index of the first byte without its high bit.
func firstGap(word uint64) int { return bits.TrailingZeros64(word^highs) / 8 }

// plain has the high bits of the bytes that are no control characters.
func plain(v uint64) uint64 {
	low := v &^ highs
	atLeastSpace, isDEL := low+(0x80-' ')*ones, low+(0x80-0x7f)*ones
	return (atLeastSpace&^isDEL | v) & highs
}

// lettersAndDashes has the high bits of the bytes that are one of these.
func lettersAndDashes(v uint64) uint64 {
	low := (v | 0x20*ones) &^ highs
	atLeastA, beyondZ := low+(0x80-'a')*ones, low+(0x80-'z'-1)*ones
	notDash := v&^highs ^ '-'*ones + 0x7f*ones
	return (atLeastA&^beyondZ | ^notDash) &^ v & highs
}

// Decimal reads 1*DIGIT up to 2^63-1, as Content-Length is written (RFC 9110 8.6).
func Decimal(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n >= 0
}
