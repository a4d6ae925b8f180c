package hpack

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// A vector is a row of blocks of one connection in RFC 7541 Appendix C: in hex, the
// fields that they hold, and the dynamic table that they leave, newest first.
type vector struct {
	name      string
	tableSize int // 0: as it is at first
	blocks    []vectorBlock
}

type vectorBlock struct {
	hex, fields, table string
	size               int
}

var vectors = []vector{
	{"C.2.1 literal with indexing", 0, []vectorBlock{{
		"400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
		"custom-key: custom-header", "custom-key: custom-header", 55}}},
	{"C.2.2 literal without indexing", 0, []vectorBlock{{
		"040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path", "", 0}}},
	{"C.2.3 literal never indexed", 0, []vectorBlock{{
		"1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret (never indexed)", "", 0}}},
	{"C.2.4 indexed", 0, []vectorBlock{{"82", ":method: GET", "", 0}}},
	{"C.3 requests without Huffman coding", 0, requestBlocks(
		"8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
		"8286 84be 5808 6e6f 2d63 6163 6865",
		"8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65")},
	{"C.4 requests with Huffman coding", 0, requestBlocks(
		"8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
		"8286 84be 5886 a8eb 1064 9cbf",
		"8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf")},
	{"C.5 responses without Huffman coding", 256, responseBlocks(
		`4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
		2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d`,
		"4803 3330 37c1 c0bf",
		`88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
		54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
		5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31`)},
	{"C.6 responses with Huffman coding", 256, responseBlocks(
		`4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
		2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3`,
		"4883 640e ffc1 c0bf",
		`88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
		77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
		9587 3160 65c0 03ed 4ee5 b106 3d50 07`)},
}

// requestBlocks are the requests of C.3 and C.4, which differ in their bytes only.
func requestBlocks(first, second, third string) []vectorBlock {
	const usual = ":method: GET, :scheme: http, :path: /, :authority: www.example.com"
	return []vectorBlock{
		{first, usual, ":authority: www.example.com", 57},
		{second, usual + ", cache-control: no-cache", "cache-control: no-cache, :authority: www.example.com", 110},
		{third, ":method: GET, :scheme: https, :path: /index.html, :authority: www.example.com, custom-key: custom-value",
			"custom-key: custom-value, cache-control: no-cache, :authority: www.example.com", 164},
	}
}

// responseBlocks are the responses of C.5 and C.6, with a table so small that
// entries are evicted.
func responseBlocks(first, second, third string) []vectorBlock {
	const (
		date     = "date: Mon, 21 Oct 2013 20:13:21 GMT"
		later    = "date: Mon, 21 Oct 2013 20:13:22 GMT"
		location = "location: https://www.example.com"
		private  = "cache-control: private"
		cookie   = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
	)
	list := func(fields ...string) string { return strings.Join(fields, ", ") }
	return []vectorBlock{
		{first, list(":status: 302", private, date, location), list(location, date, private, ":status: 302"), 222},
		{second, list(":status: 307", private, date, location), list(":status: 307", location, date, private), 222},
		{third, list(":status: 200", private, later, location, "content-encoding: gzip", cookie),
			list(cookie, "content-encoding: gzip", later), 215},
	}
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			d := NewDecoder(usual)
			if v.tableSize > 0 {
				d.table.resize(v.tableSize)
			}
			var h Head
			for i, block := range v.blocks {
				if err := d.Decode(unhex(t, block.hex), &h); err != nil {
					t.Fatalf("block %d: %v", i, err)
				}
				if got := inWords(&h); got != block.fields {
					t.Errorf("block %d has the fields\n%s\nwant\n%s", i, got, block.fields)
				}
				if got := tableInWords(&d.table); got != block.table || d.table.size != block.size {
					t.Errorf("block %d leaves a table of %d bytes\n%s\nwant %d\n%s", i, d.table.size, got, block.size, block.table)
				}
			}
		})
	}
}

// usual are limits that nothing in a usual message reaches.
var usual = &Limits{Table: InitialTable, List: 64 << 10, Fields: 128, Beyond: 256 << 10}

// unhex reads hex digits with white space between them.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// inWords are the fields of a head as a list.
func inWords(h *Head) string {
	var list []string
	for _, f := range h.Fields {
		word := fmt.Sprintf("%s: %s", f.Name, f.Value)
		if f.NeverIndexed {
			word += " (never indexed)"
		}
		list = append(list, word)
	}
	return strings.Join(list, ", ")
}

// tableInWords are the entries of a table as a list, newest first.
func tableInWords(t *table) string {
	var list []string
	for i := range t.count {
		e := t.get(i)
		both := t.bytes(e)
		list = append(list, fmt.Sprintf("%s: %s", both[:e.name], both[e.name:]))
	}
	return strings.Join(list, ", ")
}
