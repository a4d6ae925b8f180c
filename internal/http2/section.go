package http2

import (
	"sluice/internal/http2/hpack"
)

// decode reads a field section. long: it is above the limits.
func (c *conn) decode(block []byte, head *hpack.Head) (long bool, f *Fault) {
	switch err := c.decoder.Decode(block, head); err {
	case nil:
		return false, nil
	case hpack.ErrTooLarge:
		c.cfg.Count(HeadBombs)
		return true, nil
	case hpack.ErrBeyond:
		c.cfg.Count(HeadBombs)
		return true, errBlock
	}
	return false, errTable
}

// late takes a head on a stream that is closed.
func (c *conn) late(h frameHead, block []byte) *Fault {
	_, f := c.decode(block, &c.pool.spare)
	switch {
	case f != nil:
		return f
	case c.wasCut(h.stream):
		return c.waste(EmptyFrames, 1) // it was on its way when we gave the stream up
	case c.wasUsed(h.stream):
		return errClosedHead
	}
	return errStreamID
}

// trailers takes what follows content, into tail.
func (c *conn) trailers(s *stream, tail *hpack.Head, h frameHead, block []byte) *Fault {
	long, f := c.decode(block, tail)
	switch {
	case f != nil:
		return f
	case s.ended:
		return errClosed
	case !h.has(endStream):
		return errTrailersEnd
	case long:
		return errTrailers
	}
	if f := trailers(tail.Fields); f != nil {
		return f
	}
	return s.end()
}
