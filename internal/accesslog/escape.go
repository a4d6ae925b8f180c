package accesslog

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
	"unsafe"
)

// maxField bounds what one field may take of a line, in bytes as written. The rest
// is cut and replaced by dots. All fields together then fit a chunk: whatever a
// client sends, its request is logged.
const maxField = 4096

const dots = "..."

const hexLower, hexUpper = "0123456789abcdef", "0123456789ABCDEF"

// plainPrefix is the length of the part of s that needs no escape in any format:
// bytes from space to '~' save for '"' and '\'. It looks at eight bytes at once; the
// last eight overlap those before.
func plainPrefix(s []byte) int {
	if len(s) < 8 {
		for i, c := range s {
			if !isPlain(c) {
				return i
			}
		}
		return len(s)
	}
	for i := 0; i < len(s)-8; i += 8 {
		if special := specials(binary.LittleEndian.Uint64(s[i:])); special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	if special := specials(binary.LittleEndian.Uint64(s[len(s)-8:])); special != 0 {
		return len(s) - 8 + bits.TrailingZeros64(special)/8
	}
	return len(s)
}

func isPlain(c byte) bool { return c >= ' ' && c <= '~' && c != '"' && c != '\\' }

// specials sets the top bit of every byte of x that is not plain (the method: S. E.
// Anderson, Bit Twiddling Hacks, "Determine if a word has a byte less than n").
// Borrows and carries can set a bit wrongly only above one that is set rightly: the
// lowest is always right.
func specials(x uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := x^('"'*ones), x^('\\'*ones)
	control := (x - ' '*ones) &^ x
	beyond := x | (x + ones) // not ASCII, or DEL
	return (control | (quote-ones)&^quote | (slash-ones)&^slash | beyond) & tops
}

// appendJSONString writes s as a JSON string (RFC 8259, section 7) in valid UTF-8:
// a byte that is no UTF-8 becomes U+FFFD. Control characters are escaped, those of
// C1 and DEL too, so that a log shown in a terminal commands it nothing.
func appendJSONString(dst, s []byte) []byte {
	dst = append(dst, '"')
	n := plainPrefix(s)
	if n == len(s) && n <= maxField {
		dst = append(dst, s...)
	} else {
		dst = appendJSONEscaped(dst, s, min(n, maxField))
	}
	return append(dst, '"')
}

// appendJSONEscaped writes s, of which the first n bytes need no escape.
func appendJSONEscaped(dst, s []byte, n int) []byte {
	limit := len(dst) + maxField
	dst = append(dst, s[:n]...)
	for i := n; i < len(s); {
		r, size := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(s[i:])
		}
		end := len(dst)
		dst = appendJSONRune(dst, r, s[i:i+size])
		if len(dst) > limit {
			return append(dst[:end], dots...)
		}
		i += size
	}
	return dst
}

// appendJSONRune writes one character, whose bytes are raw.
func appendJSONRune(dst []byte, r rune, raw []byte) []byte {
	switch {
	case r == '"' || r == '\\':
		return append(dst, '\\', byte(r))
	case r == '\n':
		return append(dst, `\n`...)
	case r == '\r':
		return append(dst, `\r`...)
	case r == '\t':
		return append(dst, `\t`...)
	case r < ' ' || r >= 0x7f && r < 0xa0:
		return append(dst, '\\', 'u', '0', '0', hexLower[r>>4], hexLower[r&15])
	case r == utf8.RuneError && len(raw) == 1:
		return append(dst, `\ufffd`...)
	}
	return append(dst, raw...)
}

// appendHex writes s as nginx does (escape=default of its log_format): '"', '\' and
// every byte below 32 or above 126 becomes \xHH.
func appendHex(dst, s []byte) []byte {
	n := plainPrefix(s)
	if n == len(s) && n <= maxField {
		return append(dst, s...)
	}
	limit := len(dst) + maxField
	n = min(n, maxField)
	dst = append(dst, s[:n]...)
	for _, c := range s[n:] {
		end := len(dst)
		if isPlain(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, '\\', 'x', hexUpper[c>>4], hexUpper[c&15])
		}
		if len(dst) > limit {
			return append(dst[:end], dots...)
		}
	}
	return dst
}

// bytesOf is s as a slice, for reading only.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
