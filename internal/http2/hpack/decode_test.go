package hpack

import (
	"testing"
)

// refusal is a block that is refused by a decoder whose table holds one entry,
// a: b.
type refusal struct {
	name, hex string
	want      error
}

var refused = []refusal{
	{"index 0", "80", errIndex},
	{"index behind both tables", "bf", errIndex},
	{"index far behind both tables", "ff ffff 7f", errIndex},
	{"name index behind both tables", "0f 30 01 61", errIndex},
	{"name index behind both tables, to be indexed", "7f 00 01 61", errIndex},
	{"index that ends early", "ff", errTruncated},
	{"index that ends early after a byte", "ff 80", errTruncated},
	{"index with 5 bytes behind its prefix", "ff 80 80 80 80 00", errInteger},
	{"literal without a name", "00", errTruncated},
	{"literal without a value", "00 01 61", errTruncated},
	{"literal of an indexed name without a value", "04", errTruncated},
	{"name that ends early", "00 02 61", errTruncated},
	{"value that ends early", "00 01 61 02 62", errTruncated},
	{"length that ends early", "00 7f", errTruncated},
	{"length that ends early after a byte", "00 7f 80", errTruncated},
	{"length with 5 bytes behind its prefix", "00 7f 80 80 80 80 00", errInteger},
	{"value's length with 5 bytes behind its prefix", "04 ff 80 80 80 80 00", errInteger},
	{"EOS in a value", "04 84 ff ff ff fc", errHuffman},
	{"EOS in a name", "00 84 ff ff ff fc 01 61", errHuffman},
	{"padding of zeros", "04 81 00", errHuffman},
	{"padding of 8 ones", "04 82 07 ff", errHuffman},
	{"update behind a field", "82 20", errLateUpdate},
	{"three updates", "20 20 20", errUpdates},
	{"update above what was announced", "3f e2 1f", errTableSize},
	{"second update above what was announced", "20 3f e2 1f", errTableSize},
	{"update that ends early", "3f", errTruncated},
	{"update with 5 bytes behind its prefix", "3f 80 80 80 80 00", errInteger},
}

func TestRefused(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			d := NewDecoder(usual)
			var h Head
			if err := d.Decode(unhex(t, "40 01 61 01 62"), &h); err != nil {
				t.Fatal(err)
			}
			if err := d.Decode(unhex(t, "be"), &h); err != nil {
				t.Fatal(err)
			}
			if err := d.Decode(unhex(t, c.hex), &h); err != c.want {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
