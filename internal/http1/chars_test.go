package http1

import (
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

func isToken(c byte) bool {
	return strings.IndexByte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", c) >= 0
}

func isText(c byte) bool { return c == '\t' || c >= ' ' && c != 0x7f }

// naiveSpan is the length of the run of bytes for which in holds.
func naiveSpan(b []byte, in func(byte) bool) int {
	for i, c := range b {
		if !in(c) {
			return i
		}
	}
	return len(b)
}

// TestSpans puts every byte at every place of runs around the sizes of a word,
// behind each of the bytes that could disturb a sum next to it.
func TestSpans(t *testing.T) {
	hold := func(b []byte) {
		behind := append([]byte("\x00\x00\x00"), b...) // the ends are sought from within
		if got, want := ValueEnd(behind, 3)-3, naiveSpan(b, isText); got != want {
			t.Fatalf("ValueEnd(%q) = %d, want %d", b, got, want)
		}
		if got, want := NameEnd(behind, 3)-3, naiveSpan(b, isToken); got != want {
			t.Fatalf("NameEnd(%q) = %d, want %d", b, got, want)
		}
		if got, want := span(b, tokenChar), naiveSpan(b, isToken); got != want {
			t.Fatalf("span(%q) = %d, want %d", b, got, want)
		}
	}
	for _, filler := range []byte{'a', 'Z', '-', '_', '9', ' ', '\t', '~', 0x7f, 0x80, 0xff, 0x00, 0x1f} {
		for length := range 20 {
			for place := range length {
				for c := range 256 {
					b := []byte(strings.Repeat(string([]byte{filler}), length))
					b[place] = byte(c)
					hold(b)
				}
			}
		}
	}
	random := rand.New(rand.NewPCG(5, 6))
	for range 100000 {
		b := make([]byte, random.IntN(40))
		for i := range b {
			b[i] = byte(random.IntN(256))
			if random.IntN(10) > 0 {
				b[i] = "aZ-_ \t~x"[random.IntN(8)]
			}
		}
		hold(b)
	}
}

// TestDecimal: exactly 1*DIGIT, up to 2^63-1 and 19 digits.
func TestDecimal(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "007": 7, "9223372036854775807": 1<<63 - 1,
		"": -1, "-1": -1, "+1": -1, " 1": -1, "1 ": -1, "1a": -1, "0x1": -1, "1,1": -1, "1\x00": -1,
		"9223372036854775808": -1, "9999999999999999999": -1, "18446744073709551616": -1, "00000000000000000001": -1,
	} {
		n, ok := Decimal([]byte(text))
		if ok != (want >= 0) || ok && n != want {
			t.Errorf("Decimal(%q) = %d, %v; want %d", text, n, ok, want)
		}
	}
}

// pathAndQuery is absolute-path [ "?" query ] of RFC 3986, and what browsers
// leave as it is. A query may hold a percent sign that encodes nothing.
var pathAndQuery = regexp.MustCompile("^/(?:[a-zA-Z0-9-._~!$&'()*+,;=:@/|^[\\]]|%[0-9a-fA-F]{2})*" +
	"(?:[?][a-zA-Z0-9-._~!$&'()*+,;=:@/%|^[\\]?{}`\\\\]*)?$")

// TestPath holds CheckPath against the expression, over paths that are put
// together from what is near its rules.
func TestPath(t *testing.T) {
	parts := []string{"/", "a", "Z", "9", "%41", "%", "%4", "%zz", "?", "#", "|", "{", "^", "[", "`", "\\", "\"", "<", " ", "\t", "\x00", "\x7f", "\x80", "~", "@", ":", ";", "+"}
	random := rand.New(rand.NewPCG(7, 8))
	accepted := 0
	for range 100000 {
		path := "/"
		for range random.IntN(6) {
			path += parts[random.IntN(len(parts))]
		}
		got, want := CheckPath([]byte(path)) == nil, pathAndQuery.MatchString(path)
		if got != want {
			t.Fatalf("CheckPath(%q): accepted %v, want %v", path, got, want)
		}
		if want {
			accepted++
		}
	}
	if accepted < 10000 {
		t.Errorf("only %d paths were valid: the parts are wrong", accepted)
	}
}

// TestIPv6 compares with netip on addresses put together from near-valid parts.
func TestIPv6(t *testing.T) {
	parts := []string{":", "::", "1", "a", "ABCD", "12345", "0", "1:2", "1:2:3:4", ".", "1.2.3.4", "255.255.255.255", "01.2.3.4", "256.1.1.1", "1.2.3", "g", "%", " "}
	random := rand.New(rand.NewPCG(9, 10))
	valid := 0
	for range 300000 {
		var s strings.Builder
		for range random.IntN(9) {
			s.WriteString(parts[random.IntN(len(parts))])
		}
		addr, err := netip.ParseAddr(s.String())
		want := err == nil && addr.Is6() && addr.Zone() == ""
		if got := validIPv6([]byte(s.String())); got != want {
			t.Fatalf("validIPv6(%q) = %v, netip says %v", s.String(), got, want)
		}
		if want {
			valid++
		}
	}
	if valid < 1000 {
		t.Errorf("only %d addresses were valid: the parts are wrong", valid)
	}
}
