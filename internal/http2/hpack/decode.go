package hpack

import "sluice/internal/message"

// Limits of a Decoder. They are not changed while one uses them.
type Limits struct {
	// Table is the size in bytes of the dynamic table that we announced
	// (SETTINGS_HEADER_TABLE_SIZE), up to MaxTable.
	Table int

	// List is the size of a list of fields in bytes that we announced
	// (SETTINGS_MAX_HEADER_LIST_SIZE): names, values, and 32 for each field. Of a
	// larger list the fields beyond are read and not kept (ErrTooLarge).
	List int

	// Fields is how many fields a list may have (ErrTooLarge).
	Fields int

	// Beyond is the size in bytes, counted as for List, from which on a list is not
	// even read (ErrBeyond). No name and no value may be longer on the wire. It
	// bounds the work that short references to long entries can make.
	Beyond int
}

// Head is a list of fields as it came in one block. It may be used again for the
// next; the fields of the one before are then gone.
type Head struct {
	// Fields point into memory of the Head, or into the static table: they are good
	// until Reset or the next Decode, and are not to be written to. Each has its ID.
	Fields message.Fields
	// Size in bytes of all fields, names and values plus 32 each (RFC 7541 4.1).
	Size int

	arena []byte // the bytes of names and values
	count int    // of fields, kept or not
	over  bool   // above Limits.List or Limits.Fields
}

const (
	// firstArena is the room in bytes for names and values that a Head begins with:
	// those of a browser's request.
	firstArena = 1 << 10

	// keptArena is the room in bytes that a Head keeps for its next list.
	keptArena = 16 << 10

	// keptFields is how many fields a Head keeps room for.
	keptFields = 128
)

// Reset makes h empty. It keeps its memory, up to a bound.
func (h *Head) Reset() {
	fields, arena := h.Fields[:0], h.arena[:0]
	if cap(arena) > keptArena {
		arena = nil
	}
	if cap(fields) > keptFields {
		fields = nil
	}
	*h = Head{Fields: fields, arena: arena}
}

// Decoder reads the blocks of one connection.
type Decoder struct {
	limits *Limits
	table  table
	limit  int // what a table size update may say at most, in bytes
}

// NewDecoder returns the decoder of a new connection. Until Acknowledged the peer
// may have a table of InitialTable bytes, even if a smaller one was announced.
func NewDecoder(limits *Limits) Decoder {
	return Decoder{limits: limits, table: table{max: InitialTable}, limit: min(max(InitialTable, limits.Table), MaxTable)}
}

// Acknowledged says that the peer has acknowledged the settings with Limits.Table.
// If that is smaller than the table is, the next block must begin with a table
// size update (RFC 7541 4.2).
func (d *Decoder) Acknowledged() { d.limit = min(d.limits.Table, MaxTable) }

// Decode reads a whole header block into h, which it resets first. The error is
// ErrTooLarge, with the fields that came before in h and d ready for the next
// block; or ErrBeyond or a *Fault, after which neither is of use. It does not keep
// block.
func (d *Decoder) Decode(block []byte, h *Head) error {
	h.Reset()
	if h.arena == nil {
		h.arena = make([]byte, 0, firstArena)
	}
	i, err := d.sizeUpdates(block)
	for err == nil && i < len(block) {
		switch c := block[i]; {
		case c >= 0x80:
			i, err = d.indexed(block, i, h)
		case c >= 0x40:
			i, err = d.literal(block, i, 0x3f, h)
		case c >= 0x20:
			err = errLateUpdate
		default:
			i, err = d.literal(block, i, 0x0f, h)
		}
	}
	if err == nil && h.over {
		return ErrTooLarge
	}
	return err
}

// sizeUpdates reads the table size updates that a block begins with: one, or two
// if the size went down and up again since the last block (RFC 7541 4.2).
func (d *Decoder) sizeUpdates(block []byte) (i int, err error) {
	for n := 0; i < len(block) && block[i]&0xe0 == 0x20; n++ {
		if n == 2 {
			return 0, errUpdates
		}
		var size int
		if size, i, err = readInt(block, i, 0x1f); err != nil {
			return 0, err
		}
		if size > d.limit {
			return 0, errTableSize
		}
		d.table.resize(size)
	}
	if d.table.max > d.limit {
		return 0, errNoUpdate
	}
	return i, nil
}

// indexed reads a field that is an entry of a table (RFC 7541 6.1).
func (d *Decoder) indexed(block []byte, i int, h *Head) (next int, err error) {
	index, next, err := readInt(block, i, 0x7f)
	switch {
	case err != nil:
		return 0, err
	case index == 0:
		return 0, errIndex
	case index <= staticCount:
		f := &static[index]
		if keep, err := h.account(len(f.Name)+len(f.Value), d.limits); !keep {
			return next, err
		}
		h.add(f.Name, f.Value, f.ID, false)
		return next, nil
	}
	e := d.table.get(index - staticCount - 1)
	if e == nil {
		return 0, errIndex
	}
	both := d.table.bytes(e)
	if keep, err := h.account(len(both), d.limits); !keep {
		return next, err
	}
	both = h.copied(both)
	h.add(both[:e.name:e.name], both[e.name:], e.id, false)
	return next, nil
}

// literal reads a field whose value, and perhaps name, is written out: to be put
// into the table, or not, or nowhere ever (RFC 7541 6.2). mask is the prefix of the
// name's index.
func (d *Decoder) literal(block []byte, i int, mask byte, h *Head) (next int, err error) {
	first, before := block[i], len(h.arena)
	name, id, i, err := d.name(block, i, mask, h)
	if err != nil {
		return 0, err
	}
	value, i, err := d.text(block, i, h)
	if err != nil {
		return 0, err
	}
	if first >= 0x40 {
		d.table.put(name, value, id)
	}
	if keep, err := h.account(len(name)+len(value), d.limits); !keep {
		h.arena = h.arena[:before]
		return i, err
	}
	h.add(name, value, id, first&0xf0 == 0x10)
	return i, nil
}

// name reads the name of a literal field: an index, or text if that is 0.
func (d *Decoder) name(block []byte, i int, mask byte, h *Head) (name []byte, id message.ID, next int, err error) {
	index, i, err := readInt(block, i, mask)
	switch {
	case err != nil:
		return nil, 0, 0, err
	case index == 0:
		name, i, err = d.text(block, i, h)
		return name, message.Lookup(name), i, err
	case index <= staticCount:
		f := &static[index]
		return f.Name, f.ID, i, nil
	}
	e := d.table.get(index - staticCount - 1)
	if e == nil {
		return nil, 0, 0, errIndex
	}
	return h.copied(d.table.bytes(e)[:e.name]), e.id, i, nil
}

// text reads a string, plain or in the Huffman code, into the arena
// (RFC 7541 5.2).
func (d *Decoder) text(block []byte, i int, h *Head) (s []byte, next int, err error) {
	if i >= len(block) {
		return nil, 0, errTruncated
	}
	coded := block[i] >= 0x80
	n, i, err := readInt(block, i, 0x7f)
	switch {
	case err != nil:
		return nil, 0, err
	case n > d.limits.Beyond:
		return nil, 0, ErrBeyond
	case n > len(block)-i:
		return nil, 0, errTruncated
	}
	s, next = block[i:i+n], i+n
	if !coded {
		return h.copied(s), next, nil
	}
	at, ok := len(h.arena), false
	if h.arena, ok = AppendDecoded(h.arena, s); !ok {
		return nil, 0, errHuffman
	}
	return h.arena[at:len(h.arena):len(h.arena)], next, nil
}

// account counts a field of n bytes, and says whether there is room to keep it.
func (h *Head) account(n int, limits *Limits) (keep bool, err error) {
	h.count++
	h.Size += n + entryOverhead
	if h.Size > limits.List || h.count > limits.Fields {
		h.over = true
		if h.Size > limits.Beyond {
			return false, ErrBeyond
		}
	}
	return !h.over, nil
}

// copied is b, kept in the arena.
func (h *Head) copied(b []byte) []byte {
	at := len(h.arena)
	h.arena = append(h.arena, b...)
	return h.arena[at:len(h.arena):len(h.arena)]
}

// add puts a field behind the others. It is written part by part: as a whole it
// would be put together elsewhere and copied, which takes longer than all else here.
func (h *Head) add(name, value []byte, id message.ID, neverIndexed bool) {
	n := len(h.Fields)
	if n < cap(h.Fields) {
		h.Fields = h.Fields[:n+1]
	} else {
		h.Fields = append(h.Fields, message.Field{})
	}
	f := &h.Fields[n]
	f.Name, f.Value = name, value
	f.ID, f.Drop, f.NeverIndexed = id, false, neverIndexed
}
