package hpack

import (
	"bytes"
	"strings"
	"testing"

	"sluice/internal/message"
)

// literalOf writes a field to be put into the table.
func literalOf(name, value string) []byte {
	return appendText(appendText([]byte{0x40}, []byte(name)), []byte(value))
}

// TestListLimit: a list of List bytes is kept; of one byte more the last field is
// not, and the table is as if it were.
func TestListLimit(t *testing.T) {
	limits := &Limits{Table: InitialTable, List: 42 + 32 + 10 + 100, Fields: 10, Beyond: 1000}
	for _, c := range []struct {
		name  string
		value int
		kept  int
		err   error
	}{{"n", 100, 2, nil}, {"n+1", 101, 1, ErrTooLarge}} {
		t.Run(c.name, func(t *testing.T) {
			d, h := NewDecoder(limits), Head{}
			value := strings.Repeat("v", c.value)
			block := append([]byte{0x82}, literalOf("n123456789", value)...) // :method GET has 42
			if err := d.Decode(block, &h); err != c.err || len(h.Fields) != c.kept {
				t.Fatalf("%d fields, %v; want %d, %v", len(h.Fields), err, c.kept, c.err)
			}
			if h.Size != 42+42+c.value {
				t.Errorf("size %d", h.Size)
			}
			if got, want := tableInWords(&d.table), "n123456789: "+value; got != want {
				t.Errorf("the table has %q, want %q", got, want)
			}
			if err := d.Decode([]byte{0x82}, &h); err != nil || inWords(&h) != ":method: GET" {
				t.Errorf("the next list is %q, %v", inWords(&h), err)
			}
		})
	}
}

// TestInStep: what comes long after the limit is in the table too, whether its list
// was too large by bytes or by fields.
func TestInStep(t *testing.T) {
	for _, limits := range []*Limits{
		{Table: InitialTable, List: 1, Fields: 10, Beyond: 1000},
		{Table: InitialTable, List: 1000, Fields: 1, Beyond: 1000},
	} {
		d, h := NewDecoder(limits), Head{}
		block := append([]byte{0x82, 0x82}, literalOf("a", "b")...)
		block = append(block, 0x7e, 1, 'c') // a: c
		block = append(block, 0x44, 0x81, 0x07)
		if err := d.Decode(block, &h); err != ErrTooLarge {
			t.Fatal(err)
		}
		if got, want := tableInWords(&d.table), ":path: 0, a: c, a: b"; got != want {
			t.Errorf("the table has %q, want %q", got, want)
		}
	}
}

// TestFieldsLimit: as many fields as Fields are kept, and no more, whatever way
// they are written in.
func TestFieldsLimit(t *testing.T) {
	limits := &Limits{Table: InitialTable, List: 1000, Fields: 3, Beyond: 10000}
	for _, field := range [][]byte{{0x82}, {0xbe}, literalOf("a", "b"), {0x00, 1, 'a', 1, 'b'}, {0x04, 1, 'b'}} {
		d, h := NewDecoder(limits), Head{}
		if err := d.Decode(literalOf("x", "y"), &h); err != nil {
			t.Fatal(err)
		}
		if err := d.Decode(bytes.Repeat(field, 3), &h); err != nil || len(h.Fields) != 3 {
			t.Errorf("%x thrice: %d fields, %v", field, len(h.Fields), err)
		}
		if err := d.Decode(bytes.Repeat(field, 4), &h); err != ErrTooLarge || len(h.Fields) != 3 {
			t.Errorf("%x four times: %d fields, %v", field, len(h.Fields), err)
		}
	}
}

// TestBeyondLimit: a list of Beyond bytes is read to its end, one of a byte more is
// not, nor is a string of more bytes than that, however it continues.
func TestBeyondLimit(t *testing.T) {
	limits := &Limits{Table: InitialTable, List: 100, Fields: 10, Beyond: 1000}
	long := func(n int) []byte { return append([]byte{0x82}, literalOf("a", strings.Repeat("v", n-42-33))...) }
	text := func(n int) []byte { return appendInt([]byte{0x00, 1, 'a'}, 0, 0x7f, n) }
	coded := func(n int) []byte { return appendInt([]byte{0x00}, 0x80, 0x7f, n) }
	for _, c := range []struct {
		name  string
		block []byte
		want  error
	}{
		{"list of n", long(1000), ErrTooLarge},
		{"list of n+1", long(1001), ErrBeyond},
		{"value of n", text(1000), errTruncated},
		{"value of n+1", text(1001), ErrBeyond},
		{"coded name of n", coded(1000), errTruncated},
		{"coded name of n+1", coded(1001), ErrBeyond},
		{"a fault behind the limit", append(long(1001), 0x80), ErrBeyond},
		{"a fault before the limit", append([]byte{0x80}, long(1001)...), errIndex},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, h := NewDecoder(limits), Head{}
			if err := d.Decode(c.block, &h); err != c.want {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestTableLimit: what a table size update may say, before and after the peer has
// acknowledged what we announced.
func TestTableLimit(t *testing.T) {
	update := func(sizes ...int) (b []byte) {
		for _, size := range sizes {
			b = AppendSizeUpdate(b, size)
		}
		return append(b, 0x82)
	}
	for _, c := range []struct {
		name      string
		announced int
		before    []byte
		acked     bool
		then      []byte
		want      error
		size      int
	}{
		{"the initial size", 4096, nil, false, update(4096), nil, 4096},
		{"one above it", 4096, nil, false, update(4097), errTableSize, 0},
		{"down and up again", 4096, nil, false, update(0, 4096), nil, 4096},
		{"three updates", 4096, nil, false, update(1, 2, 3), errUpdates, 0},
		{"more was announced", 8192, nil, false, update(8192), nil, 8192},
		{"more was announced, one above it", 8192, nil, false, update(8193), errTableSize, 0},
		{"more was announced and not used", 8192, nil, true, update(), nil, 4096},
		{"less was announced, and is not known yet", 1000, nil, false, update(), nil, 4096},
		{"less was announced, and the update says so", 1000, nil, true, update(1000), nil, 1000},
		{"less was announced, and the update says less", 1000, nil, true, update(1), nil, 1},
		{"less was announced, one above it", 1000, nil, true, update(1001), errTableSize, 0},
		{"less was announced, no update comes", 1000, nil, true, update(), errNoUpdate, 0},
		{"less was announced, an update came before", 1000, update(900), true, update(), nil, 900},
		{"less was announced, up in between", 1000, nil, true, update(1000, 900), nil, 900},
		{"the most that there can be", MaxTable, nil, true, update(MaxTable), nil, MaxTable},
		{"more than there can be", MaxTable + 1, nil, true, update(MaxTable + 1), errTableSize, 0},
		{"more than there can be, not known yet", MaxTable + 1, nil, false, update(MaxTable + 1), errTableSize, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder(&Limits{Table: c.announced, List: 1000, Fields: 10, Beyond: 1000})
			var h Head
			if err := d.Decode(c.before, &h); err != nil {
				t.Fatal(err)
			}
			if c.acked {
				d.Acknowledged()
			}
			if err := d.Decode(c.then, &h); err != c.want || err == nil && d.table.max != c.size {
				t.Errorf("%v, table of %d; want %v, %d", err, d.table.max, c.want, c.size)
			}
		})
	}
}

// TestBombs: short blocks that stand for very much (HPACK bombs, CVE-2016-6581)
// cost what Limits say: bytes kept, fields looked at, and memory for the table.
func TestBombs(t *testing.T) {
	limits := &Limits{Table: InitialTable, List: 64 << 10, Fields: 100, Beyond: 256 << 10}
	long := strings.Repeat("v", InitialTable-entryOverhead-1)
	for _, c := range []struct {
		name           string
		before, repeat []byte
		most           int // fields that are looked at
	}{
		{"a long entry, referenced", literalOf("a", long), []byte{0xbe}, limits.Beyond/InitialTable + 1},
		{"a long name, referenced with a value to be indexed", literalOf(long, ""), []byte{0x7e, 0}, limits.Beyond/InitialTable + 1},
		{"a long name, referenced with a value", literalOf(long, ""), []byte{0x0f, 0x2f, 0}, limits.Beyond/InitialTable + 1},
		{"the shortest entry, referenced", literalOf("", ""), []byte{0xbe}, limits.Beyond/entryOverhead + 1},
		{"nothing, to be indexed", nil, []byte{0x40, 0, 0}, limits.Beyond/entryOverhead + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, h := NewDecoder(limits), Head{}
			if err := d.Decode(c.before, &h); err != nil {
				t.Fatal(err)
			}
			if err := d.Decode(bytes.Repeat(c.repeat, 1<<20), &h); err != ErrBeyond {
				t.Fatal(err)
			}
			if h.count > c.most || len(h.Fields) > limits.Fields {
				t.Errorf("%d fields are looked at, at most %d; %d kept", h.count, c.most, len(h.Fields))
			}
			if most := 2 * limits.List; cap(h.arena) > most {
				t.Errorf("%d bytes are kept, at most %d", cap(h.arena), most)
			}
			if len(d.table.data) > InitialTable || len(d.table.entries) > InitialTable/entryOverhead {
				t.Errorf("the table has room for %d bytes and %d entries", len(d.table.data), len(d.table.entries))
			}
			h.Reset()
			if cap(h.arena) > keptArena || cap(h.Fields) > keptFields*2 {
				t.Errorf("room for %d bytes and %d fields is kept for the next list", cap(h.arena), cap(h.Fields))
			}
		})
	}
}

// TestReset: what a Head keeps, and what not.
func TestReset(t *testing.T) {
	for _, c := range []struct {
		arena, fields     int
		arenaTo, fieldsTo int
	}{
		{keptArena, keptFields, keptArena, keptFields},
		{keptArena + 1, keptFields + 1, 0, 0},
	} {
		h := Head{Size: 1, count: 1, over: true, arena: make([]byte, 1, c.arena), Fields: make(message.Fields, 1, c.fields)}
		h.Reset()
		if cap(h.arena) != c.arenaTo || cap(h.Fields) != c.fieldsTo {
			t.Errorf("%d and %d become %d and %d", c.arena, c.fields, cap(h.arena), cap(h.Fields))
		}
		if len(h.arena) != 0 || len(h.Fields) != 0 || h.Size != 0 || h.count != 0 || h.over {
			t.Errorf("something is left: %+v", h)
		}
	}
}
