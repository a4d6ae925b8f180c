package accesslog

import "sync/atomic"

const (
	// chunkSize is the memory of one chunk. Its lines are one write(2), some 100 of
	// them, which makes the price of the system call small beside that of the lines.
	chunkSize = 64 << 10
	// chunkHead is what a chunk needs beside its bytes.
	chunkHead = 16
	// minChunks let the loop fill one while the goroutine writes the other.
	minChunks = 2
	// spareChunks are kept for reuse; more are left to the garbage collector, so
	// that a slow disk costs its memory only while it is slow.
	spareChunks = 2
)

// queue takes lines from one loop to the goroutine without a lock: a list of
// chunks, which the loop fills at one end and the goroutine empties at the other.
// The two may work in the same chunk: only the bytes below n are the reader's.
type queue struct {
	in   *chunk // loop only: the last chunk
	used int    // loop only: bytes in it

	held  atomic.Int64 // chunks in the list
	limit int64        // immutable: held never exceeds it
	spare [spareChunks]atomic.Pointer[chunk]

	_    [64]byte // the reader's fields are on a line of their own
	out  *chunk   // goroutine only: the first chunk
	read int      // goroutine only: bytes of it that were consumed
}

// chunk is a run of whole lines.
type chunk struct {
	next  atomic.Pointer[chunk] // set when the chunk is sealed: nothing will be added
	n     atomic.Int64          // bytes that the reader may take
	lines [chunkSize - chunkHead]byte
}

// newQueue makes a queue that holds up to limit bytes, in whole chunks, of which
// there are always at least minChunks.
func newQueue(limit int64) *queue {
	first := new(chunk)
	q := &queue{in: first, out: first, limit: max(limit/chunkSize, minChunks)}
	q.held.Store(1)
	return q
}

// put adds a line. ok is false if there is no room. sealed is true if the line went
// into a new chunk, so that the one before is ready to be written. Loop only.
func (q *queue) put(line []byte) (ok, sealed bool) {
	if q.used+len(line) > len(q.in.lines) {
		if q.held.Load() == q.limit || len(line) > len(q.in.lines) {
			return false, false
		}
		q.seal()
		sealed = true
	}
	q.used += copy(q.in.lines[q.used:], line)
	q.in.n.Store(int64(q.used))
	return true, sealed
}

// seal goes on to an empty chunk. Loop only.
func (q *queue) seal() {
	next := q.unspare()
	q.held.Add(1)
	q.in.next.Store(next)
	q.in, q.used = next, 0
}

// unspare gives an empty chunk. Loop only.
func (q *queue) unspare() *chunk {
	for i := range q.spare {
		if c := q.spare[i].Swap(nil); c != nil {
			return c
		}
	}
	return new(chunk)
}

// peek gives the lines to be written next. more is true if another chunk follows
// them. The bytes stay valid until consume. Goroutine only.
func (q *queue) peek() (lines []byte, more bool) {
	more = q.out.next.Load() != nil // before n: a sealed chunk's n is final
	return q.out.lines[q.read:q.out.n.Load()], more
}

// consume gives back the n bytes that peek returned. Goroutine only.
func (q *queue) consume(n int) {
	q.read += n
	next := q.out.next.Load()
	if next == nil || int64(q.read) < q.out.n.Load() {
		return
	}
	empty := q.out
	q.out, q.read = next, 0
	q.held.Add(-1)
	q.keep(empty)
}

// keep puts a chunk by for unspare, cleared, if there is a place. Goroutine only.
func (q *queue) keep(c *chunk) {
	c.next.Store(nil)
	c.n.Store(0)
	for i := range q.spare {
		if q.spare[i].CompareAndSwap(nil, c) {
			return
		}
	}
}
