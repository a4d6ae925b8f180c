package proxy

import "sluice/internal/http1"

const (
	smallBytes = 8 << 10  // a request head with its cookies; more grows to a large buffer
	largeBytes = 64 << 10 // one read of a body
	// headroom lies before a large buffer's bytes, so that a head or a chunk's
	// size line can be put right before content without copying the content.
	headroom = 2 << 10
	// tailroom lies behind them for a chunk's end and the last chunk.
	tailroom = len("\r\n0\r\n\r\n")
	// overrun is how far beyond the longest head a buffer reaches: the codec must
	// see the bytes that make a head too long, or it would ask for more for ever.
	// They are the line ends before and behind a request line; an answer's interim
	// heads take one byte (heard).
	overrun = len("\r\n") + len("\r\n")
	kept    = 64 // buffers of each size kept by a loop
)

// buffer is bytes read and not yet used: b[r:w].
type buffer struct {
	b    []byte
	r, w int
}

func (f *buffer) unread() []byte { return f.b[f.r:f.w] }

// room is where the next read goes.
func (f *buffer) room() []byte { return f.b[f.w : len(f.b)-tailroom] }

// front is where the bytes of an empty buffer of this size begin.
func (f *buffer) front() int {
	if len(f.b) == smallBytes {
		return 0
	}
	return headroom
}

// compact moves the unread bytes to the front, keeping room before them.
func (f *buffer) compact(before int) {
	if f.r > before {
		f.w = before + copy(f.b[before:], f.unread())
		f.r = before
	}
}

// buffers are the spare buffers of one loop. The last one put back is the first
// one taken, while it is still in the cache.
type buffers struct {
	small, large []*buffer
	largeSize    int // room for the longest head that limits allow
	lent         int // of both sizes, that somebody has
}

// fit makes large buffers long enough for such heads. They never get shorter: an
// exchange that began before a reload copies from one into another.
func (p *buffers) fit(longestHead int) {
	size := headroom + max(largeBytes, longestHead+overrun) + tailroom
	if size > p.largeSize {
		p.large, p.largeSize = nil, size
	}
}

func (p *buffers) getSmall() *buffer {
	p.lent++
	if n := len(p.small); n > 0 {
		f := p.small[n-1]
		p.small = p.small[:n-1]
		return f
	}
	return &buffer{b: make([]byte, smallBytes)}
}

// getLarge gives a buffer whose first byte leaves headroom before it.
func (p *buffers) getLarge() *buffer {
	p.lent++
	var f *buffer
	if n := len(p.large); n > 0 {
		f = p.large[n-1]
		p.large = p.large[:n-1]
	} else {
		f = &buffer{b: make([]byte, p.largeSize)}
	}
	f.r, f.w = headroom, headroom
	return f
}

// put takes back a buffer of either size; nil is none.
func (p *buffers) put(f *buffer) {
	if f == nil {
		return
	}
	p.lent--
	f.r, f.w = 0, 0
	switch {
	case len(f.b) == smallBytes && len(p.small) < kept:
		p.small = append(p.small, f)
	case len(f.b) == p.largeSize && len(p.large) < kept:
		p.large = append(p.large, f)
	}
}

// gather runs body over what is unread and moves the content it finds together.
// It returns the content, a slice of f with what was before it free to be
// overwritten, and leaves unread what body has not used.
func (f *buffer) gather(body *http1.Body) (content []byte, err error) {
	from, to := f.r, f.r
	for f.r < f.w {
		data, used, err := body.Next(f.unread())
		if err != nil {
			return nil, err
		}
		if len(data) > 0 {
			at := f.r + used - len(data)
			if to == from {
				from, to = at, at+len(data)
			} else {
				to += copy(f.b[to:], data)
			}
		}
		f.r += used
		if used == 0 {
			break
		}
	}
	return f.b[from:to], nil
}
