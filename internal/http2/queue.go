package http2

// blockBytes is the content that a block of a queue holds: what most small
// requests have, and few blocks for a window's worth.
const blockBytes = 8 << 10

// block is a link of a queue.
type block struct {
	next *block
	r, w int
	b    [blockBytes]byte
}

// queue is content of a stream that has come and was not read yet. Its bound is
// the stream's window. Loop only.
type queue struct {
	first, last *block
	n           int // bytes
}

func (q *queue) put(p *pool, b []byte) {
	q.n += len(b)
	for len(b) > 0 {
		if q.last == nil || q.last.w == blockBytes {
			q.grow(p)
		}
		n := copy(q.last.b[q.last.w:], b)
		q.last.w += n
		b = b[n:]
	}
}

func (q *queue) grow(p *pool) {
	b := p.getBlock()
	b.r, b.w = 0, 0
	if q.last == nil {
		q.first = b
	} else {
		q.last.next = b
	}
	q.last = b
}

// take moves what fits into b.
func (q *queue) take(p *pool, b []byte) (n int) {
	for len(b) > n && q.first != nil {
		f := q.first
		m := copy(b[n:], f.b[f.r:f.w])
		f.r += m
		n += m
		if f.r == f.w {
			q.drop(p)
		}
	}
	q.n -= n
	return n
}

// drop lets go of the first block.
func (q *queue) drop(p *pool) {
	f := q.first
	if q.first = f.next; q.first == nil {
		q.last = nil
	}
	p.putBlock(f)
}

// clear throws all away; it tells how much that was.
func (q *queue) clear(p *pool) (n int) {
	for n = q.n; q.first != nil; {
		q.drop(p)
	}
	q.n = 0
	return n
}
