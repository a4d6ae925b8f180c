package http1

import "encoding/binary"

// Classes of bytes, one bit each.
const (
	tokenChar  = 1 << iota // RFC 9110 5.6.2
	pathChar               // what is accepted in a path
	queryChar              // what is accepted in a query
	hostChar               // reg-name and IPv4 (RFC 3986 3.2.2)
	hexChar                // HEXDIG
	quotedChar             // qdtext of a quoted string (RFC 9110 5.6.4)
)

// class says for each byte where it may stand. Paths and queries hold what
// RFC 3986 allows, and what browsers send as it is (URL standard: | and ^ in
// both, { } and ` in queries); never a control, a space, a quote, an angle
// bracket, a backslash, # or anything beyond ASCII.
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
	for _, c := range "-._~!$&'()*+,;=%" {
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

// validValue reports whether b may be a field value: no control character but
// the tab; bytes beyond ASCII are opaque (RFC 9110 5.5). It looks at eight bytes
// at a time.
func validValue(b []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for len(b) >= 8 {
		v := binary.LittleEndian.Uint64(b)
		del := v ^ 0x7f*ones // zero byte where v has DEL
		if ((v-0x20*ones)&^v|(del-ones)&^del)&highs != 0 && !validBytes(b[:8]) {
			return false
		}
		b = b[8:]
	}
	return validBytes(b)
}

func validBytes(b []byte) bool {
	for _, c := range b {
		if c < 0x20 && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
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
