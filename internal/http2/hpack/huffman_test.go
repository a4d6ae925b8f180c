package hpack

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	theirs "golang.org/x/net/http2/hpack"
)

// TestHuffmanSymbols decodes each symbol alone, and between others so that its code
// begins at each bit of a byte.
func TestHuffmanSymbols(t *testing.T) {
	for c := range 256 {
		for before := range 9 {
			for behind := range 9 {
				holdHuffman(t, strings.Repeat("0", before)+string([]byte{byte(c)})+strings.Repeat("a", behind))
			}
		}
	}
}

// TestHuffmanStrings decodes random strings of all lengths up to 300, of usual
// characters, of all bytes, and of both.
func TestHuffmanStrings(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 7541))
	for n := range 300 {
		for _, usualOf := range []int{0, 2, 10} {
			b := make([]byte, n)
			for i := range b {
				if random.IntN(10) < usualOf {
					b[i] = "012aceiost %-./=ABCXYZ&*;"[random.IntN(25)]
				} else {
					b[i] = byte(random.Uint32())
				}
			}
			holdHuffman(t, string(b))
		}
	}
}

// holdHuffman decodes what x/net encodes, behind something, into memory that could
// hold the most that so many bytes may stand for and no more.
func holdHuffman(t *testing.T, s string) {
	t.Helper()
	in := theirs.AppendHuffmanString(nil, s)
	got, ok := AppendDecoded(append(make([]byte, 0, 6+len(in)*8/shortestCode), "before"...), in)
	if !ok || string(got) != "before"+s {
		t.Fatalf("%q is decoded as %q, %v", s, got, ok)
	}
}

// TestHuffmanCodes decodes bytes that need not be a code: all of two bytes, random
// ones, and those with many ones, where the long codes, EOS and the padding are. We
// accept what x/net accepts.
func TestHuffmanCodes(t *testing.T) {
	for i := range 1 << 16 {
		holdCode(t, []byte{byte(i >> 8), byte(i)})
	}
	random := rand.New(rand.NewPCG(3, 7541))
	accepted := 0
	for range 200000 {
		b := make([]byte, random.IntN(20))
		for i := range b {
			b[i] = byte(random.Uint32())
			if random.IntN(2) == 0 {
				b[i] |= byte(random.Uint32()) | byte(random.Uint32())
			}
		}
		if len(b) > 0 && random.IntN(2) == 0 {
			b[len(b)-1] |= 0x3f
		}
		if holdCode(t, b) {
			accepted++
		}
	}
	if accepted < 10000 || accepted > 190000 {
		t.Errorf("%d of 200000 codes are accepted: they do not try both", accepted)
	}
}

// holdCode compares with x/net, and reports whether the code is accepted.
func holdCode(t *testing.T, code []byte) bool {
	t.Helper()
	got, ok := AppendDecoded(nil, code)
	want, err := theirs.HuffmanDecodeToString(code)
	if ok != (err == nil) || ok && string(got) != want {
		t.Fatalf("%x is decoded as %q, %v; x/net says %q, %v", code, got, ok, want, err)
	}
	return ok
}

// TestHuffmanEnds: fewer than 8 ones may follow the last code, and nothing else;
// EOS may stand nowhere. Each case is tried at the end of a short string and of one
// that is longer than a window.
func TestHuffmanEnds(t *testing.T) {
	for _, c := range []struct {
		name, bits string
		ok         bool
	}{
		{"nothing", "", true},
		{"three ones", "00000 111", true},
		{"seven ones", "00000 010100 010100 1111111", true},
		{"three ones behind a long code", "1111111111000 111", true},
		{"three zeros", "00000 000", false},
		{"a zero among the padding", "00000 101", false},
		{"eight ones", "11111000 11111111", false},
		{"fifteen ones", "00000 010100 010100 1111111 11111111", false},
		{"nothing but eight ones", "11111111", false},
		{"EOS", "111111111111111111111111111111 11", false},
		{"EOS between symbols", "00000 111111111111111111111111111111 00000", false},
		{"29 of the 30 bits of EOS", "00011 11111111111111111111111111111 010100", false},
		{"a part of a long code", "00000 11111111110", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := asBytes(c.bits)
			for _, before := range []string{"", "&&", "&&&&&&&&", "&&&&&&&&&&&&&&&&&&&&"} { // & has 8 bits
				in := append(theirs.AppendHuffmanString(nil, before), end...)
				if ok := holdCode(t, in); ok != c.ok {
					t.Errorf("%x: accepted %v, want %v", in, ok, c.ok)
				}
			}
		})
	}
}

// asBytes packs ones and zeros into bytes.
func asBytes(bits string) (b []byte) {
	for bits = strings.ReplaceAll(bits, " ", ""); len(bits) > 0; bits = bits[8:] {
		var c byte
		for _, bit := range bits[:8] {
			c = c<<1 | byte(bit-'0')
		}
		b = append(b, c)
	}
	return b
}

// TestHuffmanKeeps: what stands in the memory before and behind is not touched by a
// string that turns out to be too short or wrong.
func TestHuffmanKeeps(t *testing.T) {
	room := bytes.Repeat([]byte("x"), 100)
	got, ok := AppendDecoded(room[:4:20], []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	if ok || string(got) != "xxxx" || string(room[20:]) != strings.Repeat("x", 80) {
		t.Errorf("%q, %v, and behind it %q", got, ok, room[20:])
	}
}
