package http3

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quic-go/qpack"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/message"
)

// read reads a section of any size.
func read(block []byte) (text string, f *Fault) {
	var s section
	_, f = s.decode(block, 1<<30, 1<<30)
	for i := range s.fields {
		text += fmt.Sprintf("%s=%s;", s.fields[i].Name, s.fields[i].Value)
	}
	return text, f
}

// theirs reads a section as quic-go does.
func theirs(block []byte) (text string, ok bool) {
	next := qpack.NewDecoder().Decode(block)
	for {
		f, err := next()
		if err != nil {
			return text, err == io.EOF
		}
		text += f.Name + "=" + f.Value + ";"
	}
}

// Every entry of the static table is that of quic-go, as a whole and as a name, and has
// its ID.
func TestStaticTable(t *testing.T) {
	for i := range static {
		whole := appendPrefixed(openSection(nil), lineIndexed, bitsIndexed, i)
		named := append(appendPrefixed(openSection(nil), lineNamed, bitsNamed, i), 1, 'v')
		for _, block := range [][]byte{whole, named} {
			got, f := read(block)
			if want, ok := theirs(block); !ok || f != nil || got != want {
				t.Errorf("entry %d: %q, want %q, %v", i, got, want, f)
			}
		}
		if id := message.Lookup(static[i].Name); id != static[i].ID {
			t.Errorf("entry %d has ID %d, not %d", i, static[i].ID, id)
		}
	}
	if _, f := read(appendPrefixed(openSection(nil), lineIndexed, bitsIndexed, len(static))); f != errSection {
		t.Errorf("an entry behind the last: %v", f)
	}
}

// What the RFC leaves to whoever writes a section, and what it forbids.
func TestReadSection(t *testing.T) {
	name := func(n int) []byte { return append(hpack.AppendHuffmanString(nil, "name"), make([]byte, n)...) }
	for _, tc := range []struct {
		what  string
		block string
		want  string // "" is a fault
	}{
		{"a base", "\x00\x05\xd1", ":method=GET;"},
		{"a large base", "\x00\x7f\x80\x80\x80\x80\x80\x80\x80\x80\x20\xd1", ":method=GET;"},
		{"a base beyond 62 bits", "\x00\x7f\xff\xff\xff\xff\xff\xff\xff\xff\x7f\xd1", ""},
		{"a base below 0", "\x00\x80\xd1", ""},
		{"an insertion that is awaited", "\x01\x00\xd1", ""},
		{"many of them", "\xff\x00\x00\xd1", ""},
		{"a count with needless bytes", "\xff\x80\x00\x00\xd1", ""},
		{"an entry of the dynamic table", "\x00\x00\x80", ""},
		{"a name of the dynamic table", "\x00\x00\x40\x01v", ""},
		{"an entry above the base", "\x00\x00\x10", ""},
		{"a name above the base", "\x00\x00\x00\x01v", ""},
		{"a number with needless bytes", "\x00\x00\x5f\x82\x80\x80\x00\x01v", ":method=v;"},
		{"a number without end", "\x00\x00\xff\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", ""},
		{"a number cut off", "\x00\x00\xff\x80", ""},
		{"a value cut off", "\x00\x00\x51\x02v", ""},
		{"no value", "\x00\x00\x51", ""},
		{"no value behind a name", "\x00\x00\x21n", ""},
		{"a value longer than memory", "\x00\x00\x51\x7f\xff\xff\xff\xff\xff\xff\xff\xff\x3f", ""},
		{"an empty name", "\x00\x00\x20\x01v", "=v;"},
		{"a name in the Huffman code", "\x00\x00" + string(append(appendPrefixed(nil, 0x28, 3, len(name(0))), name(0)...)) + "\x00", "name=;"},
		{"and 8 bits behind it", "\x00\x00" + string(append(appendPrefixed(nil, 0x28, 3, len(name(1))), append(name(0), 0xff)...)) + "\x00", ""},
		{"the end of strings in a string", "\x00\x00\x51\x84\xff\xff\xff\xff", ""},
		{"nothing", "\x00\x00", ""},
	} {
		got, f := read([]byte(tc.block))
		if want := tc.want; got != want || (f != nil) != (want == "" && tc.what != "nothing") {
			t.Errorf("%s: %q, %v, want %q", tc.what, got, f, want)
		}
	}
	var s section
	s.decode([]byte("\x00\x00\x71\x01v\x51\x01v\x31n\x01v\x21n\x01v\xd1"), 1000, 10)
	for i, never := range []bool{true, false, true, false, false} {
		if s.fields[i].NeverIndexed != never {
			t.Errorf("line %d is never to be indexed: %v, want %v", i, !never, never)
		}
	}
}

// Sections that quic-go writes, changed at random: both read the same of them, but for
// the base, which quic-go wants to be 0, and does not want to be above it.
func TestSectionsOfQUICGo(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 9204))
	good := 0
	for range 20_000 {
		block := randomSection(random)
		for range random.IntN(3) {
			block[2+random.IntN(len(block)-2)] = byte(random.Uint32())
		}
		if cut := random.IntN(4 * len(block)); cut < len(block)-2 {
			block = block[:2+cut]
		}
		good += compareSections(t, block)
	}
	if good < 5000 || good > 19_000 {
		t.Errorf("%d sections of 20,000 were good", good)
	}
}

// randomSection has lines of all kinds that quic-go writes.
func randomSection(random *rand.Rand) []byte {
	var b bytes.Buffer
	e := qpack.NewEncoder(&b)
	for range 1 + random.IntN(6) {
		entry := static[random.IntN(len(static))]
		f := qpack.HeaderField{Name: string(entry.Name), Value: string(entry.Value)}
		if random.IntN(2) == 0 {
			f.Value = string(randomBytes(random, 200))
		}
		if random.IntN(3) == 0 {
			f.Name = string(randomBytes(random, 40))
		}
		e.WriteField(f)
	}
	return b.Bytes()
}

func randomBytes(random *rand.Rand, most int) []byte {
	b := make([]byte, random.IntN(most))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// compareSections reads a section by both readers; 1: it is good.
func compareSections(t *testing.T, block []byte) (good int) {
	t.Helper()
	want, ok := theirs(block)
	got, f := read(block)
	if (f == nil) != ok || ok && got != want {
		t.Fatalf("% x: %q, %v; quic-go: %q, %v", block, got, f, want, ok)
	}
	if ok {
		good = 1
	}
	return good
}

// FuzzSection: whatever comes for a section is read as quic-go reads it, and what is kept
// of it is within the limits.
func FuzzSection(f *testing.F) {
	random := rand.New(rand.NewPCG(4, 9204))
	for range 50 {
		f.Add(randomSection(random)[2:])
	}
	f.Fuzz(func(t *testing.T, lines []byte) {
		compareSections(t, append([]byte{0, 0}, lines...))
		var s section
		if long, fault := s.decode(append([]byte{0, 0}, lines...), 1000, 10); fault == nil {
			size := 0
			for i := range s.fields {
				size += len(s.fields[i].Name) + len(s.fields[i].Value) + fieldCost
			}
			if size > 1000 || len(s.fields) > 10 || slices.ContainsFunc(s.fields, func(f message.Field) bool { return cap(f.Value) > len(f.Value) }) {
				t.Errorf("%d fields of %d bytes; long: %v", len(s.fields), size, long)
			}
		}
	})
}
