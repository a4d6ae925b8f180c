package hpack

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	theirs "golang.org/x/net/http2/hpack"

	"sluice/internal/message"
)

// TestStaticTable: every index means what it means to x/net, and the next one is
// none.
func TestStaticTable(t *testing.T) {
	for i := range staticCount {
		d, h := NewDecoder(usual), Head{}
		block := []byte{0x80 | byte(i+1)}
		if err := d.Decode(block, &h); err != nil {
			t.Fatal(err)
		}
		want, err := theirs.NewDecoder(0, nil).DecodeFull(block)
		if err != nil || inWords(&h) != theirWords(want) {
			t.Errorf("%d is %q, want %q (%v)", i+1, inWords(&h), theirWords(want), err)
		}
		holdHead(t, &h)
	}
	d, h := NewDecoder(usual), Head{}
	if err := d.Decode([]byte{0x80 | (staticCount + 1)}, &h); err != errIndex {
		t.Errorf("%d is not refused: %v", staticCount+1, err)
	}
}

// model is the dynamic table as RFC 7541 4 tells it, newest entry first.
type model struct {
	entries []message.Field
	max     int
}

func (m *model) size() (n int) {
	for _, f := range m.entries {
		n += len(f.Name) + len(f.Value) + 32
	}
	return n
}

func (m *model) put(f message.Field) {
	m.entries = append([]message.Field{f}, m.entries...)
	m.evict()
}

func (m *model) evict() {
	for m.size() > m.max {
		m.entries = m.entries[:len(m.entries)-1]
	}
}

// TestTable puts fields of random lengths into tables of several sizes, which
// change now and then, and compares with the model after each step.
func TestTable(t *testing.T) {
	for _, most := range []int{0, 31, 32, 33, 100, 1000, InitialTable, MaxTable} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			random := rand.New(rand.NewPCG(4, uint64(most)))
			ours, theirs := table{max: most}, model{max: most}
			for step := range 3000 {
				if random.IntN(100) == 0 {
					theirs.max = random.IntN(most + 1)
					ours.resize(theirs.max)
					theirs.evict()
				}
				f := randomField(random, step, most)
				ours.put(f.Name, f.Value, f.ID)
				theirs.put(f)
				holdTable(t, &ours, &theirs)
				if len(ours.data) > max(firstData, most) || len(ours.entries) > max(firstEntries, 2*most/entryOverhead) {
					t.Fatalf("a table of %d bytes has room for %d bytes and %d entries", most, len(ours.data), len(ours.entries))
				}
			}
		})
	}
}

// randomField is mostly short, sometimes as long as the table or a little longer.
func randomField(random *rand.Rand, step, most int) message.Field {
	n := random.IntN(40)
	switch random.IntN(20) {
	case 0:
		n = max(0, most-entryOverhead-1+random.IntN(3))
	case 1:
		n = random.IntN(most + 1)
	}
	b := []byte(strings.Repeat(fmt.Sprint(step, "."), n/2+1))[:n]
	split := random.IntN(n + 1)
	return message.Field{Name: b[:split], Value: b[split:], ID: message.ID(random.IntN(20))}
}

func holdTable(t *testing.T, ours *table, theirs *model) {
	t.Helper()
	if ours.count != len(theirs.entries) || ours.size != theirs.size() {
		t.Fatalf("%d entries of %d bytes, want %d of %d", ours.count, ours.size, len(theirs.entries), theirs.size())
	}
	for i, want := range theirs.entries {
		e := ours.get(i)
		if both := ours.bytes(e); string(both[:e.name]) != string(want.Name) || string(both[e.name:]) != string(want.Value) || e.id != want.ID {
			t.Fatalf("entry %d is %q: %q, want %q: %q", i, both[:e.name], both[e.name:], want.Name, want.Value)
		}
	}
	if ours.get(len(theirs.entries)) != nil {
		t.Fatalf("entry %d exists", len(theirs.entries))
	}
}

// TestTableMemory: none before the first entry, then little.
func TestTableMemory(t *testing.T) {
	d, h := NewDecoder(usual), Head{}
	if err := d.Decode([]byte{0x82, 0x86, 0x84, 0x04, 1, 'x'}, &h); err != nil {
		t.Fatal(err)
	}
	if d.table.data != nil || d.table.entries != nil {
		t.Error("a table that nothing was put into has memory")
	}
	if err := d.Decode([]byte{0x44, 1, 'x'}, &h); err != nil {
		t.Fatal(err)
	}
	if len(d.table.data) != firstData || len(d.table.entries) != firstEntries {
		t.Errorf("the first entry takes room for %d bytes and %d entries", len(d.table.data), len(d.table.entries))
	}
}
