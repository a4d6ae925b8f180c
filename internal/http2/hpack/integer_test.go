package hpack

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestIntegers holds the examples of RFC 7541 C.1, and the limit.
func TestIntegers(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		mask      byte
		n         int
		err       error
	}{
		{"C.1.1: 10 in 5 bits", "0a", 0x1f, 10, nil},
		{"C.1.2: 1337 in 5 bits", "1f 9a 0a", 0x1f, 1337, nil},
		{"C.1.3: 42 in 8 bits", "2a", 0xff, 42, nil},
		{"largest in its prefix", "1e", 0x1f, 30, nil},
		{"smallest behind its prefix", "1f 00", 0x1f, 31, nil},
		{"no shorter than need be", "1f 80 80 00", 0x1f, 31, nil},
		{"largest in maxContinuation bytes", "1f ff ff ff 7f", 0x1f, 31 + 1<<28 - 1, nil},
		{"one byte more than maxContinuation", "1f ff ff ff ff 00", 0x1f, 0, errInteger},
		{"end behind maxContinuation bytes", "1f ff ff ff ff", 0x1f, 0, errInteger},
		{"end before the last byte", "1f ff ff ff", 0x1f, 0, errTruncated},
		{"end behind the prefix", "1f", 0x1f, 0, errTruncated},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := unhex(t, c.hex)
			n, next, err := readInt(in, 0, c.mask)
			if n != c.n || err != c.err {
				t.Fatalf("%d, %v; want %d, %v", n, err, c.n, c.err)
			}
			if err == nil && next != len(in) {
				t.Errorf("ends at %d of %d", next, len(in))
			}
		})
	}
}

// TestIntegersRoundTrip: what is written is read again, from the middle of a block,
// and the other bits of the first byte stay.
func TestIntegersRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 7541))
	numbers := []int{0, 1, 30, 31, 32, 126, 127, 128, 254, 255, 1<<14 - 1, 1 << 14, 1<<28 - 1}
	for range 1000 {
		numbers = append(numbers, random.IntN(1<<(1+random.IntN(28))))
	}
	for _, n := range numbers {
		for _, mask := range []byte{0x0f, 0x1f, 0x3f, 0x7f} {
			b := appendInt([]byte("before"), ^mask, mask, n)
			b = append(b, "behind"...)
			got, next, err := readInt(b, len("before"), mask)
			if got != n || err != nil || !bytes.Equal(b[next:], []byte("behind")) || b[6]&^mask != ^mask {
				t.Fatalf("%d in %#x is written as %x, read as %d, %v", n, mask, b, got, err)
			}
		}
	}
}
