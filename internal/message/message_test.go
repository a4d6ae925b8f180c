package message

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// naive finds known names by a map.
var naive = func() map[string]ID {
	m := map[string]ID{}
	for id := Connection; id < idCount; id++ {
		m[names[id]] = id
	}
	return m
}()

func naiveLookup(name string) ID {
	lower := strings.ToLower(name)
	if id, ok := naive[lower]; ok {
		return id
	}
	if _, ok := naive[strings.ReplaceAll(lower, "_", "-")]; ok {
		return Disguised
	}
	return Unknown
}

// TestLookup tries every known name in all its cases, if they are few, else in
// 1,000 random ones, and with each byte replaced by every other.
func TestLookup(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	hold := func(name string) {
		if got, want := Lookup([]byte(name)), naiveLookup(name); got != want {
			t.Fatalf("Lookup(%q) = %d %q, want %d %q", name, got, got, want, want)
		}
	}
	for id := Connection; id < idCount; id++ {
		name := id.String()
		if name == "" {
			t.Fatalf("ID %d has no name", id)
		}
		variants := min(1<<len(name), 1000)
		for v := range variants {
			bits := v
			if variants == 1000 {
				bits = random.IntN(1 << len(name))
			}
			hold(inCase(name, bits))
		}
		for i := range len(name) {
			for c := range 256 {
				hold(name[:i] + string([]byte{byte(c)}) + name[i+1:])
			}
			hold(name[:i])
			hold(name[i:])
			hold(name[:i] + name[i+1:])
			hold(name[:i] + "_" + name[i:])
		}
		hold(name + name)
		hold(strings.ReplaceAll(name, "-", "_"))
	}
}

// TestLookupOfLongNames: a name is not known for how it begins, whatever its hash.
func TestLookupOfLongNames(t *testing.T) {
	for _, known := range names[Connection:] {
		for n := range 40 {
			for last := byte('a'); last <= 'z'; last++ {
				for _, name := range []string{known, strings.ReplaceAll(known, "-", "_")} {
					name += strings.Repeat("x", n) + string(last)
					if got, want := Lookup([]byte(name)), naiveLookup(name); got != want {
						t.Fatalf("Lookup(%q) = %d, want %d", name, got, want)
					}
				}
			}
		}
	}
}

// inCase writes a letter of name as a capital where bits has a one.
func inCase(name string, bits int) string {
	b := []byte(name)
	for i, c := range b {
		if bits>>i&1 == 1 && 'a' <= c && c <= 'z' {
			b[i] -= 0x20
		}
	}
	return string(b)
}

// TestNamesAreFound: a name longer than longestName would never be.
func TestNamesAreFound(t *testing.T) {
	longest := 0
	for _, name := range names {
		longest = max(longest, len(name))
	}
	if longest != longestName {
		t.Errorf("the longest name has %d bytes, longestName is %d", longest, longestName)
	}
	if int(idCount) > 64 {
		t.Errorf("%d IDs do not fit a set of 64 bits", idCount)
	}
}

func TestClassesOfIDs(t *testing.T) {
	ofConnection := "connection keep-alive proxy-connection proxy-authenticate proxy-authorization te transfer-encoding upgrade http2-settings"
	var got []string
	for id := Unknown; id < idCount; id++ {
		if id.OfConnection() {
			got = append(got, id.String())
		}
		if id.OfConnection() && id.EndToEnd() {
			t.Errorf("%s is both of the connection and end-to-end", id)
		}
		if known := id > Disguised; known && !id.OfConnection() && !id.EndToEnd() {
			t.Errorf("%s is neither", id)
		}
	}
	if list := strings.Join(got, " "); list != ofConnection {
		t.Errorf("of the connection:\n%s\nwant\n%s", list, ofConnection)
	}
	if Unknown.EndToEnd() || Disguised.EndToEnd() {
		t.Error("a field that is not known may be named in Connection")
	}
}

func TestEqualFold(t *testing.T) {
	for c := range 256 {
		for d := range 256 {
			if 'A' <= d && d <= 'Z' {
				continue // the second is in lower case
			}
			b, lower := []byte{'a', byte(c)}, string([]byte{'a', byte(d)})
			want := c == d || 'A' <= c && c <= 'Z' && c+0x20 == d
			if got := EqualFold(b, lower); got != want {
				t.Errorf("EqualFold(%q, %q) = %v", b, lower, got)
			}
		}
	}
	if EqualFold([]byte("ab"), "a") || EqualFold([]byte("a"), "ab") {
		t.Error("lengths differ")
	}
}

// TestNextToken compares with strings.Split on random lists.
func TestNextToken(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		list := make([]byte, random.IntN(12))
		for i := range list {
			list[i] = ", \tab;"[random.IntN(6)]
		}
		var want []string
		for _, part := range strings.Split(string(list), ",") {
			if part = strings.Trim(part, " \t"); part != "" {
				want = append(want, part)
			}
		}
		var got []string
		for token, rest := NextToken(list); token != nil; token, rest = NextToken(rest) {
			got = append(got, string(token))
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q is taken apart as %q, want %q", list, got, want)
		}
		if trimmed := Trim(list); !bytes.Equal(trimmed, bytes.Trim(list, " \t")) {
			t.Errorf("Trim(%q) = %q", list, trimmed)
		}
	}
}

func TestFieldsGet(t *testing.T) {
	fs := Fields{{Name: []byte("a")}, {Name: []byte("Host"), ID: Host}, {Name: []byte("host"), ID: Host}}
	if got := fs.Get(Host); got != &fs[1] {
		t.Errorf("Get finds %v, want the first", got)
	}
	if got := fs.Get(Date); got != nil {
		t.Errorf("Get finds %v", got)
	}
}

func TestIdempotent(t *testing.T) {
	want := map[Method]bool{GET: true, HEAD: true, PUT: true, DELETE: true, OPTIONS: true, TRACE: true}
	for m := Other; m <= PATCH; m++ {
		if m.Idempotent() != want[m] {
			t.Errorf("method %d: %v", m, m.Idempotent())
		}
	}
}

// TestReset: nothing of one message may show in the next.
func TestReset(t *testing.T) {
	request := Request{Method: POST, Host: []byte("h"), Fields: make(Fields, 3, 8), ContentLength: 5, Upgrade: []byte("u"), MaxForwards: 3, Absolute: true}
	request.Reset()
	if request.Method != Other || request.Host != nil || len(request.Fields) != 0 || cap(request.Fields) != 8 ||
		request.ContentLength != 0 || request.Upgrade != nil || request.MaxForwards != -1 || request.Absolute {
		t.Errorf("after Reset: %+v", request)
	}
	response := Response{Status: 200, Fields: make(Fields, 3, 8), ContentLength: 5, KeepAlive: true, HasDate: true}
	response.Reset()
	if response.Status != 0 || len(response.Fields) != 0 || cap(response.Fields) != 8 || response.ContentLength != -1 || response.KeepAlive || response.HasDate {
		t.Errorf("after Reset: %+v", response)
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, name := range []string{"Host", "Connection", "User-Agent", "Sec-Fetch-Site", "X-Forwarded-For"} {
		b.Run(name, func(b *testing.B) {
			field := []byte(name)
			for b.Loop() {
				Lookup(field)
			}
		})
	}
}
