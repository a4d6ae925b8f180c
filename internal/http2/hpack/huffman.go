package hpack

import (
	"encoding/binary"
	"slices"
)

// code lists the symbols of RFC 7541 Appendix B by the length of their codes in
// bits. Codes are given out in this order, each the next number of its length, so
// the lengths say it all. The very last code, 30 ones, is that of EOS.
var code = []struct {
	bits    int
	symbols string
}{
	{5, "012aceiost"},
	{6, " %-./3456789=A_bdfghlmnpru"},
	{7, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"},
	{8, "&*,;XZ"},
	{10, "!\"()?"},
	{11, "'+|"},
	{12, "#>"},
	{13, "\x00$@[]~"},
	{14, "^}"},
	{15, "<`{"},
	{19, "\\\xc3\xd0"},
	{20, "\x80\x82\x83\xa2\xb8\xc2\xe0\xe2"},
	{21, "\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6"},
	{22, "\x81\x84\x85\x86\x88\x92\x9a\x9c\xa0\xa3\xa4\xa9\xaa\xad\xb2\xb5\xb9\xba\xbb\xbd\xbe\xc4\xc6\xe4\xe8\xe9"},
	{23, "\x01\x87\x89\x8a\x8b\x8c\x8d\x8f\x93\x95\x96\x97\x98\x9b\x9d\x9e\xa5\xa6\xa8\xae\xaf\xb4\xb6\xb7\xbc\xbf\xc5\xe7\xef"},
	{24, "\x09\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed"},
	{25, "\xc7\xcf\xea\xeb"},
	{26, "\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff"},
	{27, "\xcb\xcc\xd3\xd4\xd6\xdd\xde\xdf\xf1\xf4\xf5\xf6\xf7\xf8\xfa\xfb\xfc\xfd\xfe"},
	{28, "\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f\xdc\xf9"},
	{30, "\x0a\x0d\x16"},
}

const (
	shortestCode = 5  // bits
	longestCode  = 30 // bits

	// stepBits are looked at in one step: enough for two of the symbols that most
	// text is made of. The table of steps has 16 KiB.
	stepBits = 12
)

// step is what the next stepBits bits begin with: one symbol, or two, or a part of
// one whose code is longer. From the low end on it has a byte with the bits of all
// its codes, one with the number of symbols, 0 if the code is longer, and the
// symbols. One load gets them all.
type step uint32

func stepOf(bits int, symbols ...byte) step {
	s := step(bits) | step(len(symbols))<<8
	for i, symbol := range symbols {
		s |= step(symbol) << (16 + 8*i)
	}
	return s
}

func (s step) bits() int       { return int(s & 0x3f) }
func (s step) count() int      { return int(s >> 8 & 0xff) }
func (s step) symbols() uint16 { return uint16(s >> 16) }
func (s step) first() byte     { return byte(s >> 16) }

// run is a row of codes that have the same length, longer than a step. Its codes
// are compared as numbers of longestCode bits.
type run struct {
	first, end uint32
	bits       int
	symbols    string
}

var (
	// lengths are those of the codes, in bits.
	lengths = func() (table [256]uint8) {
		eachCode(func(symbol byte, _ uint32, bits int) { table[symbol] = uint8(bits) })
		return table
	}()

	steps = func() (table [1 << stepBits]step) {
		eachCode(func(symbol byte, word uint32, bits int) {
			if bits > stepBits {
				return
			}
			from := word >> (longestCode - stepBits)
			for i := range uint32(1) << (stepBits - bits) {
				table[from+i] = stepOf(bits, symbol)
			}
		})
		single := table
		for i, first := range single {
			second := single[i<<first.bits()&(1<<stepBits-1)]
			if both := first.bits() + second.bits(); first.count() > 0 && second.count() > 0 && both <= stepBits {
				table[i] = stepOf(both, first.first(), second.first())
			}
		}
		return table
	}()

	longRuns = func() (runs []run) {
		eachCode(func(symbol byte, word uint32, bits int) {
			if bits <= stepBits {
				return
			}
			if len(runs) == 0 || runs[len(runs)-1].bits != bits {
				runs = append(runs, run{first: word, bits: bits})
			}
			last := &runs[len(runs)-1]
			last.end = word + 1<<(longestCode-bits)
			last.symbols += string([]byte{symbol})
		})
		return runs
	}()
)

// eachCode calls f with each symbol, its code at the high end of longestCode bits,
// and how many of them the code has.
func eachCode(f func(symbol byte, word uint32, bits int)) {
	word := uint32(0)
	for _, group := range code {
		for i := range len(group.symbols) {
			f(group.symbols[i], word, group.bits)
			word += 1 << (longestCode - group.bits)
		}
	}
}

// AppendDecoded appends what src stands for in the Huffman code, which is that of
// HTTP/3 as well (RFC 9204 4.1.2). It may write beyond what it appends, within the
// capacity of what it returns. It is false if src holds EOS, ends with a part of a code, or with padding that is not fewer
// than 8 one bits (RFC 7541 5.2).
func AppendDecoded(dst, src []byte) ([]byte, bool) {
	dst = slices.Grow(dst, len(src)*8/shortestCode+2) // a step writes two bytes, even for one symbol
	out, at := dst[:cap(dst)], len(dst)
	window := uint64(0) // the next bits of src, from the high end on
	have := 0           // how many bits are in it
	for len(src) >= 8 {
		window |= binary.BigEndian.Uint64(src) >> have
		src = src[(63-have)/8:]
		have |= 56
		for have >= longestCode {
			s := steps[window>>(64-stepBits)]
			if s.count() == 0 {
				symbol, bits := longSymbol(window)
				if bits == 0 {
					return dst, false
				}
				out[at] = symbol
				at++
				window <<= bits
				have -= bits
				continue
			}
			binary.LittleEndian.PutUint16(out[at:], s.symbols())
			at += s.count()
			window <<= s.bits()
			have -= s.bits()
		}
	}
	at, ok := decodeEnd(out, at, src, window, have)
	return out[:at], ok
}

// decodeEnd decodes the window and the fewer than 8 bytes that are left, of which
// no step may go beyond the last. It returns how many bytes out then has.
func decodeEnd(out []byte, at int, src []byte, window uint64, have int) (int, bool) {
	for {
		for len(src) > 0 && have <= 56 {
			window |= uint64(src[0]) << (56 - have)
			src = src[1:]
			have += 8
		}
		if s := steps[window>>(64-stepBits)]; s.count() > 0 && s.bits() <= have {
			binary.LittleEndian.PutUint16(out[at:], s.symbols())
			at += s.count()
			window <<= s.bits()
			have -= s.bits()
			continue
		}
		symbol, bits := shortOrLong(window)
		switch {
		case bits == 0:
			return at, false
		case bits > have: // no whole code is left
			return at, have < 8 && window>>(64-have) == 1<<have-1
		}
		out[at] = symbol
		at++
		window <<= bits
		have -= bits
	}
}

// shortOrLong finds one symbol and the length of its code, which is 0 for EOS.
func shortOrLong(window uint64) (symbol byte, bits int) {
	s := steps[window>>(64-stepBits)]
	if s.count() == 0 {
		return longSymbol(window)
	}
	return s.first(), int(lengths[s.first()])
}

// longSymbol finds the symbol whose code is longer than a step. bits is 0 if it is
// EOS.
func longSymbol(window uint64) (symbol byte, bits int) {
	word := uint32(window >> (64 - longestCode))
	for i := range longRuns {
		if r := &longRuns[i]; word < r.end {
			return r.symbols[(word-r.first)>>(longestCode-r.bits)], r.bits
		}
	}
	return 0, 0
}
