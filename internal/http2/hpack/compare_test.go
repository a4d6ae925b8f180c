package hpack

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	theirs "golang.org/x/net/http2/hpack"
)

// TestTheirEncoder decodes what x/net writes over the life of a connection: fields
// that come again and again, are evicted or are secret, and tables that change
// their size between blocks.
func TestTheirEncoder(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(6, seed))
		var out bytes.Buffer
		e := theirs.NewEncoder(&out)
		d, h := NewDecoder(usual), Head{}
		for range 100 {
			for range random.IntN(3) * random.IntN(2) {
				e.SetMaxDynamicTableSize(uint32(random.IntN(InitialTable + 1)))
			}
			out.Reset()
			var fields []theirs.HeaderField
			for range random.IntN(20) {
				f := someField(random)
				fields = append(fields, f)
				if err := e.WriteField(f); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Decode(out.Bytes(), &h); err != nil {
				t.Fatalf("seed %d: %x: %v", seed, out.Bytes(), err)
			}
			if got, want := inWords(&h), theirWords(fields); got != want {
				t.Fatalf("seed %d: %q, want %q", seed, got, want)
			}
			holdHead(t, &h)
		}
	}
}

// someField is one of few names with one of few values, mostly.
func someField(random *rand.Rand) theirs.HeaderField {
	names := []string{"cookie", "x-a", "x-long-name-that-no-table-has", "etag", ":path", "authorization", "accept", ":status", ""}
	f := theirs.HeaderField{Name: names[random.IntN(len(names))], Value: fmt.Sprint(random.IntN(9)), Sensitive: random.IntN(10) == 0}
	switch random.IntN(8) {
	case 0:
		f.Value = strings.Repeat(f.Value, random.IntN(1000))
	case 1:
		f.Name += strings.Repeat("\xff\x00-A", random.IntN(50))
	case 2:
		f.Value = "200"
	}
	return f
}

// TestRandomBlocks compares with x/net on blocks that are put together of all
// kinds of fields, right and wrong, and on those with a byte changed. The fuzz
// target does the same from other beginnings.
func TestRandomBlocks(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7541))
	both := 0
	for range 20000 {
		d, h := NewDecoder(usual), Head{}
		their := theirs.NewDecoder(InitialTable, nil)
		for range 4 {
			block := randomBlock(random)
			if len(block) > 0 && random.IntN(4) == 0 {
				block[random.IntN(len(block))] ^= 1 << random.IntN(8)
			}
			if !holdBlock(t, &d, their, block, &h) {
				break
			}
			both++
		}
	}
	if both < 10000 {
		t.Errorf("only %d blocks were accepted by both", both)
	}
}

func randomBlock(random *rand.Rand) (b []byte) {
	for range random.IntN(3) * random.IntN(2) {
		b = AppendSizeUpdate(b, random.IntN(200))
	}
	text := func() {
		s := strings.Repeat("ab0\xf0", 20)[:random.IntN(80)]
		if random.IntN(2) == 0 {
			b = appendText(b, []byte(s))
			return
		}
		b = appendInt(b, 0x80, 0x7f, int(theirs.HuffmanEncodeLength(s)))
		b = theirs.AppendHuffmanString(b, s)
	}
	for range random.IntN(6) {
		if random.IntN(3) == 0 {
			b = appendInt(b, 0x80, 0x7f, 1+random.IntN(staticCount+2))
			continue
		}
		kind := []struct{ first, mask byte }{{0x40, 0x3f}, {withoutIndexing, 0x0f}, {neverIndexed, 0x0f}}[random.IntN(3)]
		index := random.IntN(staticCount+2) * random.IntN(2)
		if b = appendInt(b, kind.first, kind.mask, index); index == 0 {
			text()
		}
		text()
	}
	return b
}
