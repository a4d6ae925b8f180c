package config

import (
	"encoding/json"
	"math"
	"net/netip"
	"reflect"
	"testing"
	"testing/quick"
	"time"
)

func TestDurationString(t *testing.T) {
	for span, want := range map[time.Duration]string{
		0:                             "0s",
		time.Nanosecond:               "1ns",
		1500 * time.Millisecond:       "1.5s",
		30 * time.Second:              "30s",
		time.Minute:                   "1m",
		10 * time.Minute:              "10m",
		time.Hour:                     "1h",
		20 * time.Hour:                "20h",
		90 * time.Minute:              "1h30m",
		time.Hour + time.Second:       "1h0m1s",
		-time.Minute:                  "-1m",
		math.MaxInt64 * 1:             "2562047h47m16.854775807s",
		10*time.Hour + 10*time.Minute: "10h10m",
	} {
		if got := Duration(span).String(); got != want {
			t.Errorf("%d ns: %q, want %q", span, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "240": 240, "240B": 240, "64KiB": 64 << 10, "10MiB": 10 << 20, "1GiB": 1 << 30,
		"64KB": 64_000, "10MB": 10_000_000, "1GB": 1_000_000_000, "9223372036854775807": math.MaxInt64,
		"8589934591GiB": 8589934591 << 30,
	} {
		if got, p := parseSize(text); p != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, p, want)
		}
	}
	for _, text := range []string{
		"", "KiB", "B", "-1", "-1KiB", "--1", "+1", "1.0", "1 KiB", "1kib", "1K", "1KiBB", "9223372036854775808",
		"8589934592GiB", "1e3", "0x1", "1_000", "١", "∞", "NaN", "1/s",
	} {
		if got, p := parseSize(text); p == nil {
			t.Errorf("%q: %d, want a fault", text, got)
		}
	}
}

func TestSizeString(t *testing.T) {
	for size, want := range map[Size]string{
		0: "0", 1: "1B", 240: "240B", 1000: "1000B", 1024: "1KiB", 1536: "1536B", 64 << 10: "64KiB",
		1 << 20: "1MiB", 1 << 30: "1GiB", 1 << 40: "1024GiB", math.MaxInt64: "9223372036854775807B", -1024: "-1KiB",
	} {
		if got := size.String(); got != want {
			t.Errorf("%d: %q, want %q", int64(size), got, want)
		}
	}
}

func TestParsePrefix(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8": "10.0.0.0/8", "10.1.2.3": "10.1.2.3/32", "::1": "::1/128", "fd00::/8": "fd00::/8",
		"0.0.0.0/0": "0.0.0.0/0", "::ffff:10.1.2.3": "10.1.2.3/32",
	} {
		if got, p := parsePrefix(text); p != nil || got.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, got, p, want)
		}
	}
}

func TestPrefixContains(t *testing.T) {
	for _, c := range []struct {
		prefix, address string
		want            bool
	}{
		{"10.0.0.0/8", "10.255.0.1", true},
		{"10.0.0.0/8", "11.0.0.1", false},
		{"10.0.0.0/8", "::ffff:10.0.0.1", true},
		{"fe80::/10", "fe80::1%eth0", true},
		{"::/0", "10.0.0.1", false},
	} {
		prefix, p := parsePrefix(c.prefix)
		if p != nil {
			t.Fatal(p)
		}
		if got := prefix.Contains(netip.MustParseAddr(c.address)); got != c.want {
			t.Errorf("%s contains %s: %v", c.prefix, c.address, got)
		}
	}
}

// Every value that travels in the spec arrives as it was sent.
func TestJSONIsExact(t *testing.T) {
	type values struct {
		Duration Duration
		Size     Size
		Prefix   Prefix
	}
	same := func(d int64, s int64, address [16]byte, short bool, bits uint8) bool {
		ip := netip.AddrFrom16(address)
		if short {
			ip = netip.AddrFrom4([4]byte(address[:]))
		}
		prefix, err := ip.Prefix(int(bits) % (ip.BitLen() + 1))
		if err != nil {
			t.Fatal(err)
		}
		sent := values{Duration(d), Size(s), Prefix(prefix)}
		text, err := json.Marshal(sent)
		var got values
		return err == nil && json.Unmarshal(text, &got) == nil && got == sent
	}
	if err := quick.Check(same, &quick.Config{MaxCount: 2000}); err != nil {
		t.Error(err)
	}
	for _, edge := range []values{
		{}, {Duration: math.MinInt64, Size: math.MinInt64}, {Duration: math.MaxInt64, Size: math.MaxInt64},
	} {
		text, err := json.Marshal(edge)
		var got values
		if err != nil || json.Unmarshal(text, &got) != nil || !reflect.DeepEqual(got, edge) {
			t.Errorf("sent %+v as %s, got %+v", edge, text, got)
		}
	}
}

func TestJSONRefuses(t *testing.T) {
	for _, c := range []struct {
		text string
		into any
	}{
		{`30`, new(Duration)}, {`"30"`, new(Duration)}, {`30`, new(Size)}, {`"30k"`, new(Size)},
		{`"10.0.0.0/33"`, new(Prefix)}, {`true`, new(Prefix)},
	} {
		if err := json.Unmarshal([]byte(c.text), c.into); err == nil {
			t.Errorf("%s was taken as %T", c.text, c.into)
		}
	}
}
