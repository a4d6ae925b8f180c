package hpack

import (
	"testing"

	"sluice/internal/message"
)

// TestNoAllocations: what was decoded once must not allocate when it is decoded
// again: not if it is accepted, and not if it is refused. Nor does writing it.
func TestNoAllocations(t *testing.T) {
	first, again := theirBlocks(chrome)
	d, h := NewDecoder(usual), Head{}
	small := &Limits{Table: InitialTable, List: 1000, Fields: 20, Beyond: 1500}
	over, tooLarge := NewDecoder(small), Head{}
	wrong, twice := []byte{0x80}, append(append([]byte(nil), first...), first...)
	fields, path, scheme, host := asOurs(chrome), []byte(chrome[3].Value), []byte("https"), []byte(chrome[1].Value)
	dst := make([]byte, 0, 4<<10)
	for _, c := range []struct {
		name string
		do   func() error
		want error
	}{
		{"the first request", func() error { return d.Decode(first, &h) }, nil},
		{"the second request", func() error { return d.Decode(again, &h) }, nil},
		{"a refused one", func() error { return d.Decode(wrong, &h) }, errIndex},
		{"one that is too large", func() error { return over.Decode(first, &tooLarge) }, ErrTooLarge},
		{"one that is far too large", func() error { return over.Decode(twice, &tooLarge) }, ErrBeyond},
		{"the answer", func() error { dst = ourBlock(AppendStatus(dst[:0], 200), fields); return nil }, nil},
		{"the request, sent on", func() error {
			dst = AppendMethod(dst[:0], message.GET, nil)
			dst = AppendAuthority(AppendScheme(AppendPath(dst, path), scheme), host)
			dst = ourBlock(dst, fields)
			return nil
		}, nil},
	} {
		if err := c.do(); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if n := testing.AllocsPerRun(100, func() { c.do() }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
