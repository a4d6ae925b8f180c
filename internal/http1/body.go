package http1

import (
	"io"

	"sluice/internal/message"
)

const (
	chunkDigits    = 15   // of a chunk's size: up to 2^60 bytes, so that sums cannot overflow
	chunkLineBytes = 1024 // of a chunk's size line: room for a signature as extension (AWS signs each chunk)
	// extensionBytes is how much longer all extensions may be than the content so
	// far: a body must not be a few bytes in megabytes of them (RFC 9112 7.1.1).
	extensionBytes = 16 << 10
)

// Body finds the content within the bytes that follow a head. Start it, then
// feed it with Next until Done. The zero value is a body that is done.
type Body struct {
	framing  message.Framing
	state    chunkState
	ext      extState
	digits   int   // of the chunk size read so far
	line     int   // bytes of the present chunk extension
	extended int64 // bytes of all chunk extensions
	left     int64 // content bytes to come: of the body, or of this chunk; means nothing for UntilClose
	total    int64 // content bytes seen
	limit    int64 // most content bytes; 0: no limit
	head     *Limits
	trailers message.Fields
}

// chunkState is where in a chunked body we stand (RFC 9112 7.1).
type chunkState uint8

const (
	inSize chunkState = iota
	inExtension
	inSizeLF
	inData
	inDataCR
	inDataLF
	inTrailers
	ended
)

// Start begins a body with this framing. limit is the most bytes of content, 0
// for any number; head limits the trailer section.
func (d *Body) Start(f message.Framing, length, limit int64, head *Limits) error {
	trailers := d.trailers[:0]
	*d = Body{framing: f, limit: limit, head: head, trailers: trailers}
	switch f {
	case message.NoBody:
		d.state = ended
	case message.Length:
		if limit > 0 && length > limit {
			return errBody
		}
		if d.left = length; length == 0 {
			d.state = ended
		}
	}
	return nil
}

// Done reports whether the whole body has been seen.
func (d *Body) Done() bool { return d.state == ended || d.framing == message.NoBody }

// Left is how many bytes of content are still to come if that is known (Length),
// else -1.
func (d *Body) Left() int64 {
	if d.framing != message.Length {
		return -1
	}
	return d.left
}

// Skip notes that n bytes of content went past, without Next if they were
// spliced.
func (d *Body) Skip(n int64) {
	d.left -= n
	d.total += n
	if d.framing == message.Length && d.left == 0 {
		d.state = ended
	}
}

// Total is how many bytes of content have been seen.
func (d *Body) Total() int64 { return d.total }

// Trailers are the trailer fields, once Done; slices into the buffer of the last
// Next.
func (d *Body) Trailers() message.Fields { return d.trailers }

// Next takes from in: used bytes are done with, and data, a part of them, is
// content. It may be called with the rest of in again at once. If it uses nothing
// of a non-empty in, it needs more bytes behind these (the trailer section is
// read whole).
func (d *Body) Next(in []byte) (data []byte, used int, err error) {
	switch {
	case d.Done() || len(in) == 0:
		return nil, 0, nil
	case d.framing == message.Chunked:
		return d.chunked(in)
	}
	if d.framing == message.Length {
		in = in[:min(d.left, int64(len(in)))]
	} else if d.limit > 0 && d.total+int64(len(in)) > d.limit {
		return nil, 0, errBody
	}
	d.Skip(int64(len(in)))
	return in, len(in), nil
}

// End is to be called at the end of the stream: it completes a body that ends
// with its connection, and is an error for any other that is not done.
func (d *Body) End() error {
	if d.framing == message.UntilClose {
		d.state = ended
	}
	if !d.Done() {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// chunked passes over framing up to the next run of content.
func (d *Body) chunked(in []byte) (data []byte, used int, err error) {
	for used < len(in) {
		switch d.state {
		case inData:
			n := int(min(d.left, int64(len(in)-used)))
			if d.Skip(int64(n)); d.left == 0 {
				d.state = inDataCR
			}
			return in[used : used+n], used + n, nil
		case inTrailers:
			n, err := d.readTrailers(in[used:])
			return nil, used + n, err
		default:
			if err := d.frame(in[used]); err != nil {
				return nil, used, err
			}
			used++
		}
	}
	return nil, used, nil
}

// frame takes one byte of a chunk's framing.
func (d *Body) frame(c byte) error {
	switch d.state {
	case inSize:
		return d.sizeByte(c)
	case inExtension:
		return d.extensionByte(c)
	case inSizeLF:
		if c != '\n' {
			return errBareCR
		}
		d.digits, d.line = 0, 0
		if d.state = inData; d.left == 0 {
			d.state = inTrailers
		}
	case inDataCR:
		if c != '\r' {
			return errChunkEnd
		}
		d.state = inDataLF
	case inDataLF:
		if c != '\n' {
			return errChunkEnd
		}
		d.state = inSize
	}
	return nil
}

func (d *Body) sizeByte(c byte) error {
	switch {
	case class[c]&hexChar != 0:
		if d.digits++; d.digits > chunkDigits {
			return errChunkSize
		}
		d.left = d.left<<4 | int64(hexValue(c))
		if d.limit > 0 && d.total+d.left > d.limit {
			return errBody
		}
	case d.digits == 0:
		return errChunkSize
	case c == '\r':
		d.state = inSizeLF
	case c == ';' || c == ' ' || c == '\t':
		d.state, d.ext = inExtension, extGap
		return d.extensionByte(c)
	default:
		return errChunkSize
	}
	return nil
}

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// readTrailers reads the trailer section once all of it is there.
func (d *Body) readTrailers(in []byte) (used int, err error) {
	d.trailers, used, err = parseFields(in, 0, d.head, errTrailers, d.trailers[:0])
	if err != nil || used == 0 {
		return 0, err
	}
	d.state = ended
	for i := range d.trailers {
		f := &d.trailers[i]
		// RFC 9110 6.5.1: a trailer must not frame, route, or change how the head
		// was understood; every field known here does one of these.
		f.Drop = f.ID != message.Unknown
	}
	return used, nil
}
