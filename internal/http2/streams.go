package http2

// buckets of a connection's table: a power of two. At 100 streams a lookup
// follows six links, and an idle connection pays 256 bytes.
const buckets = 32

// streams are the open streams of a connection, and some memory of those that
// were. Loop only.
type streams struct {
	table  [buckets]*stream
	open   int
	housed int    // those that are open, and those of which content has not been read
	last   uint32 // the highest that has begun; 0: none
	used   recent // those that have begun
	cut    recent // those that we have reset: the peer may not know yet
}

// recent remembers which of the last 256 streams of one side were something: bit
// k is for stream last-2k.
type recent [4]uint64

// shift makes room for n more streams.
func (r *recent) shift(n uint32) {
	if n >= 256 {
		*r = recent{}
		return
	}
	words, bits := int(n/64), n%64
	for i := len(r) - 1; i >= 0; i-- {
		var w uint64
		if i-words >= 0 {
			w = r[i-words] << bits
		}
		if i-words-1 >= 0 {
			w |= r[i-words-1] >> (64 - bits) // nothing if bits is 0
		}
		r[i] = w
	}
}

func (r *recent) set(k uint32) {
	if k < 256 {
		r[k/64] |= 1 << (k % 64)
	}
}

func (r *recent) has(k uint32) bool { return k < 256 && r[k/64]>>(k%64)&1 != 0 }

// begin notes that stream id, above all before, has begun.
func (t *streams) begin(id uint32) {
	n := (id - t.last + 1) / 2
	t.used.shift(n)
	t.cut.shift(n)
	t.last = id
	t.used.set(0)
}

// wasUsed reports whether stream id, not above the last, is known to have begun.
func (t *streams) wasUsed(id uint32) bool { return t.used.has((t.last - id) / 2) }

// wasCut reports whether we have reset it.
func (t *streams) wasCut(id uint32) bool { return t.cut.has((t.last - id) / 2) }

func (t *streams) noteCut(id uint32) { t.cut.set((t.last - id) / 2) }

func (t *streams) find(id uint32) *stream {
	s := t.table[id/2%buckets]
	for s != nil && s.id != id {
		s = s.next
	}
	return s
}

func (t *streams) add(s *stream) {
	at := &t.table[s.id/2%buckets]
	s.next, *at = *at, s
	s.listed, s.housed = true, true
	t.open++
	t.housed++
}

func (t *streams) remove(s *stream) {
	at := &t.table[s.id/2%buckets]
	for *at != s {
		at = &(*at).next
	}
	*at, s.next = s.next, nil
	s.listed = false
	t.open--
}

// all yields each open stream; it may be removed meanwhile.
func (t *streams) all(yield func(*stream) bool) {
	for _, s := range t.table {
		for s != nil {
			next := s.next
			if !yield(s) {
				return
			}
			s = next
		}
	}
}
