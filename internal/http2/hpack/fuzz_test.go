package hpack

import (
	"fmt"
	"strings"
	"testing"

	theirs "golang.org/x/net/http2/hpack"
)

// What we accept, golang.org/x/net accepts too and reads in the same way, over all
// blocks of a connection: we are never more lenient, save that a block may begin
// with two table size updates (RFC 7541 4.2), of which x/net refuses the second
// unless the table is empty. Whatever else it accepts, we accept, save for these:
//
//	what x/net accepts                              why we refuse
//	integers of up to 9 bytes behind the prefix     maxContinuation
//	updates behind a field, while the table is empty  RFC 7541 4.2
//	any number of updates, while the table is empty   RFC 7541 4.2
//	lists of any size                               Limits
func FuzzDecode(f *testing.F) {
	for _, v := range vectors {
		var in []byte
		for _, block := range v.blocks {
			b := unhex(f, block.hex)
			in = append(append(in, byte(len(b))), b...)
		}
		f.Add(in)
	}
	for _, c := range refused {
		b := unhex(f, c.hex)
		f.Add(append([]byte{byte(len(b))}, b...))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		d := NewDecoder(usual)
		their := theirs.NewDecoder(InitialTable, nil)
		var h Head
		for len(in) > 0 {
			n := min(int(in[0]), len(in)-1)
			block := in[1 : 1+n]
			in = in[1+n:]
			if !holdBlock(t, &d, their, block, &h) {
				return
			}
		}
	})
}

// holdBlock compares what a block means to both. It is false once one of them has
// refused something.
func holdBlock(t *testing.T, d *Decoder, their *theirs.Decoder, block []byte, h *Head) bool {
	t.Helper()
	ours := d.Decode(block, h)
	fields, err := their.DecodeFull(block)
	switch {
	case ours == nil && err != nil:
		if secondUpdate(block) && strings.Contains(err.Error(), "MUST occur at the beginning") {
			return false
		}
		t.Fatalf("block %x: we accept, x/net says %v", block, err)
	case ours != nil && err == nil:
		switch ours {
		case errInteger, errLateUpdate, errUpdates, ErrTooLarge, ErrBeyond:
			return false
		}
		t.Fatalf("block %x: x/net accepts, we say %v", block, ours)
	case ours != nil:
		return false
	}
	if got, want := inWords(h), theirWords(fields); got != want {
		t.Fatalf("block %x\nours:   %q\ntheirs: %q", block, got, want)
	}
	holdHead(t, h)
	return true
}

// secondUpdate reports whether a block begins with two table size updates.
func secondUpdate(block []byte) bool {
	_, i, err := readInt(block, 0, 0x1f)
	return err == nil && i < len(block) && block[i]&0xe0 == 0x20
}

// theirWords are the fields as inWords says ours.
func theirWords(fields []theirs.HeaderField) string {
	var list []string
	for _, f := range fields {
		word := fmt.Sprintf("%s: %s", f.Name, f.Value)
		if f.Sensitive {
			word += " (never indexed)"
		}
		list = append(list, word)
	}
	return strings.Join(list, ", ")
}
