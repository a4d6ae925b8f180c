package http3

import (
	"encoding/binary"
	"io"
	"math"
	"slices"
)

// Types of frames (RFC 9114 7.2, RFC 9218 7.2).
const (
	frameData        = 0x0
	frameHeaders     = 0x1
	frameCancelPush  = 0x3
	frameSettings    = 0x4
	framePushPromise = 0x5
	frameGoAway      = 0x7
	frameMaxPushID   = 0xd

	framePriority     = 0xf0700 // PRIORITY_UPDATE of a request
	framePushPriority = 0xf0701 // of a push
)

// ofHTTP2 reports whether a type was given a meaning by HTTP/2 that it has no longer
// (RFC 9114 7.2.8).
func ofHTTP2(kind uint64) bool { return kind == 0x2 || kind == 0x6 || kind == 0x8 || kind == 0x9 }

const (
	// maxVarint is the largest number of RFC 9000 16.
	maxVarint = 1<<62 - 1

	// shortVarint and middleVarint are the largest that fit in 2 and 4 bytes.
	shortVarint  = 1<<14 - 1
	middleVarint = 1<<30 - 1
)

// appendVarint writes a number (RFC 9000 16).
func appendVarint(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<6:
		return append(dst, byte(n))
	case n <= shortVarint:
		return binary.BigEndian.AppendUint16(dst, uint16(n)|1<<14)
	case n <= middleVarint:
		return binary.BigEndian.AppendUint32(dst, uint32(n)|2<<30)
	}
	return binary.BigEndian.AppendUint64(dst, n|3<<62)
}

// readVarint reads a number at the start of b; n is its length, 0 if b is too short.
func readVarint(b []byte) (v uint64, n int) {
	if len(b) == 0 {
		return 0, 0
	}
	if n = 1 << (b[0] >> 6); len(b) < n {
		return 0, 0
	}
	v = uint64(b[0] & 0x3f)
	for _, c := range b[1:n] {
		v = v<<8 | uint64(c)
	}
	return v, n
}

// appendFrame writes the head of a frame.
func appendFrame(dst []byte, kind uint64, length int) []byte {
	return appendVarint(appendVarint(dst, kind), uint64(length))
}

// frameHead is what a frame begins with.
type frameHead struct {
	kind   uint64
	length int64
}

// maxFrameHead is the length of the longest, in bytes.
const maxFrameHead = 16

// source reads the frames of a stream. What was read of the stream and is not yet
// wanted waits in its buffer.
type source struct {
	from interface {
		Read([]byte) (int, error)
	}
	b    []byte
	r, w int
	err  error // that the last read met; it follows what is in the buffer
}

// sourceBytes is the room of a source: a usual request fits.
const sourceBytes = 1 << 10

func newSource(from interface{ Read([]byte) (int, error) }) *source {
	return &source{from: from, b: make([]byte, sourceBytes)}
}

// fill reads once, behind what is there.
func (s *source) fill() {
	if s.r > 0 {
		s.w = copy(s.b, s.b[s.r:s.w])
		s.r = 0
	}
	n, err := s.from.Read(s.b[s.w:])
	s.w += n
	s.err = err
}

// have reads until n bytes are there, at most the buffer's room.
func (s *source) have(n int) bool {
	for s.w-s.r < n && s.err == nil {
		s.fill()
	}
	return s.w-s.r >= n
}

// varint reads a number. The error is that of the stream: io.EOF only if it ends
// before the number begins.
func (s *source) varint() (uint64, error) {
	if !s.have(1) {
		return 0, s.err
	}
	if !s.have(1 << (s.b[s.r] >> 6)) {
		return 0, s.cut()
	}
	v, n := readVarint(s.b[s.r:s.w])
	s.r += n
	return v, nil
}

// cut is the error of a stream that ends where it must not.
func (s *source) cut() error {
	if s.err == io.EOF {
		return errFrame
	}
	return s.err
}

// frame reads a frame's head; io.EOF: the stream has ended where it may.
func (s *source) frame() (h frameHead, err error) {
	if h.kind, err = s.varint(); err != nil {
		return h, err
	}
	length, err := s.varint()
	if err == io.EOF {
		err = errFrame
	}
	h.length = int64(min(length, math.MaxInt64))
	return h, err
}

// Read reads what a frame holds: p must not be longer. It reads from the stream only
// if nothing is in the buffer.
func (s *source) Read(p []byte) (int, error) {
	if s.r < s.w {
		n := copy(p, s.b[s.r:s.w])
		s.r += n
		return n, nil
	}
	if s.err != nil {
		return 0, s.cut()
	}
	n, err := s.from.Read(p)
	if s.err = err; n == 0 && err != nil {
		return 0, s.cut()
	}
	return n, nil
}

// whole reads a frame of n bytes. They are good until the next call.
func (s *source) whole(n int) ([]byte, error) {
	if n <= len(s.b) {
		if !s.have(n) {
			return nil, s.cut()
		}
		b := s.b[s.r : s.r+n]
		s.r += n
		return b, nil
	}
	var b []byte // grows as it comes: a length alone shall cost nothing
	for len(b) < n {
		b = slices.Grow(b, min(n-len(b), max(len(b), len(s.b))))
		m, err := s.Read(b[len(b):min(n, cap(b))])
		if err != nil {
			return nil, err
		}
		b = b[:len(b)+m]
	}
	return b, nil
}

// skip reads n bytes that mean nothing here.
func (s *source) skip(n int64) error {
	for n > 0 {
		if s.r == s.w {
			if s.err != nil {
				return s.cut()
			}
			s.fill()
			continue
		}
		m := min(n, int64(s.w-s.r))
		s.r += int(m)
		n -= m
	}
	return nil
}

// ended reports whether the stream has ended, as far as that is known without
// waiting.
func (s *source) ended() bool { return s.r == s.w && s.err == io.EOF }
