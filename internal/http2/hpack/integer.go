package hpack

// maxContinuation is how many bytes of an integer may follow its prefix: enough
// for 28 bits, which is more than any index, length or table size here can have.
const maxContinuation = 4

// readInt reads an integer from b[i:], whose first byte holds it in the bits of
// mask, the prefix (RFC 7541 5.1). next is the index behind it. b[i] must exist.
func readInt(b []byte, i int, mask byte) (n, next int, err error) {
	n = int(b[i] & mask)
	if n < int(mask) {
		return n, i + 1, nil
	}
	for k := range maxContinuation {
		at := i + 1 + k
		if at >= len(b) {
			return 0, 0, errTruncated
		}
		n += int(b[at]&0x7f) << (7 * k)
		if b[at] < 0x80 {
			return n, at + 1, nil
		}
	}
	return 0, 0, errInteger
}

// appendInt writes n into the bits of mask, the prefix, and the bytes that it
// needs behind it. first is the rest of the first byte.
func appendInt(dst []byte, first, mask byte, n int) []byte {
	if n < int(mask) {
		return append(dst, first|byte(n))
	}
	dst = append(dst, first|mask)
	for n -= int(mask); n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}
