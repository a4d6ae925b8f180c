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
// both, { } and ` in queries); never a control, a space, a quote, an angle
// bracket, a backslash, # or anything beyond ASCII. Hosts hold what RFC 3986
// 3.2.2 allows in a reg-name, but no comma, which would make a list, and no
// percent-encoding: a server that decodes it would see another host than the one
// that was routed.
var class = func() (t [256]uint8) {
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] |= tokenChar
	}
	for _, c := range "-._~!$&'()*+,;=:@/%|^[]" {
		t[c] |= pathChar | queryChar
	}
	for _, c := range "?{}`" {
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
	i := 0
	for ; i+4 <= len(b); i += 4 {
		if class[b[i]]&class[b[i+1]]&class[b[i+2]]&class[b[i+3]]&of == 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if class[b[i]]&of == 0 {
			break
		}
	}
	return i
}

// valueSpan is the length of the run of bytes at the start of b that may stand
// in a field value: no control character but the tab; bytes beyond ASCII are
// opaque (RFC 9110 5.5). It looks at eight bytes at a time.
func valueSpan(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for i+8 <= len(b) {
		v := binary.LittleEndian.Uint64(b[i:])
		del := v ^ 0x7f*ones // a zero byte where v has DEL
		controls := ((v-0x20*ones)&^v | (del-ones)&^del) & highs
		if controls == 0 {
			i += 8
			continue
		}
		// The lowest bit is at a control character; higher ones may be borrowed.
		i += bits.TrailingZeros64(controls) / 8
		if b[i] != '\t' {
			return i
		}
		i++
	}
	for i < len(b) && (b[i] >= 0x20 && b[i] != 0x7f || b[i] == '\t') {
		i++
	}
	return i
}

// decimal reads 1*DIGIT up to 2^63-1.
func decimal(b []byte) (n int64, ok bool) {
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
