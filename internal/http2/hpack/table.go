package hpack

import "sluice/internal/message"

const (
	// InitialTable is the size in bytes of the dynamic table until settings say
	// something else (SETTINGS_HEADER_TABLE_SIZE, RFC 9113 6.5.2).
	InitialTable = 4096

	// MaxTable is the largest table that may be announced: places in it are kept in
	// 16 bits.
	MaxTable = 1 << 16

	// entryOverhead is what each entry counts beyond its bytes (RFC 7541 4.1).
	entryOverhead = 32

	// firstData and firstEntries are what a table begins with once something is put
	// into it: the bytes and the entries of a simple client. Both double when full.
	firstData    = 512
	firstEntries = 16
)

// entry is a field of the dynamic table.
type entry struct {
	at    uint16 // where its name begins, counted as table.base is; the value follows
	name  uint16 // length
	value uint16 // length
	id    message.ID
}

// table is the dynamic table of RFC 7541 2.3.2. Evicted bytes are not reclaimed
// one by one: when the end of data is reached, what is left moves to its front.
type table struct {
	entries []entry // a ring, whose length is zero or a power of two
	next    int     // where in the ring the next entry goes, modulo its length
	count   int

	data       []byte
	start, end int    // the bytes in use
	base       uint16 // what entry.at would be of data[0]

	size int // in bytes as RFC 7541 4.1 counts them
	max  int
}

// get finds the entry that was put in as the nth from last, from 0 on. It is nil
// if there are not so many.
func (t *table) get(n int) *entry {
	if n >= t.count {
		return nil
	}
	return &t.entries[(t.next-1-n)&(len(t.entries)-1)]
}

// bytes are the name and the value of an entry, without a gap. They are good until
// the next put.
func (t *table) bytes(e *entry) []byte {
	at := int(e.at - t.base)
	return t.data[at : at+int(e.name)+int(e.value)]
}

// resize sets the size that the table may have, and evicts what is over it.
func (t *table) resize(limit int) {
	t.max = limit
	t.evict(limit)
}

// put makes the field the newest entry. One that is larger than the table leaves
// it empty, which is no error (RFC 7541 4.4). name and value lie outside of it.
func (t *table) put(name, value []byte, id message.ID) {
	n := len(name) + len(value)
	if n+entryOverhead > t.max {
		t.evict(0)
		return
	}
	t.evict(t.max - n - entryOverhead)
	t.makeRoom(n)
	t.entries[t.next] = entry{t.base + uint16(t.end), uint16(len(name)), uint16(len(value)), id}
	t.next = (t.next + 1) & (len(t.entries) - 1)
	t.count++
	t.end += copy(t.data[t.end:], name)
	t.end += copy(t.data[t.end:], value)
	t.size += n + entryOverhead
}

// evict takes the oldest entries out until the size is at most limit.
func (t *table) evict(limit int) {
	for t.size > limit {
		e := t.get(t.count - 1)
		n := int(e.name) + int(e.value)
		t.count--
		t.start += n
		t.size -= n + entryOverhead
	}
	if t.count == 0 {
		t.start, t.end = 0, 0
	}
}

// makeRoom sees that there is a place in the ring and that n bytes fit behind end.
func (t *table) makeRoom(n int) {
	if t.count == len(t.entries) {
		t.growRing()
	}
	if t.end+n <= len(t.data) {
		return
	}
	from, used := t.data[t.start:t.end], t.end-t.start
	if used+n > len(t.data) {
		space := max(firstData, len(t.data))
		for space < used+n {
			space *= 2
		}
		t.data = make([]byte, min(space, t.max))
	}
	copy(t.data, from)
	t.base += uint16(t.start)
	t.start, t.end = 0, used
}

// growRing doubles the ring. The oldest entry comes to its front.
func (t *table) growRing() {
	ring := make([]entry, max(firstEntries, 2*len(t.entries)))
	for i := range t.count {
		ring[i] = *t.get(t.count - 1 - i)
	}
	t.entries, t.next = ring, t.count
}
