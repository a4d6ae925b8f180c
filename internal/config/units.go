package config

import (
	"encoding/json"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// String gives the shortest form that parses to the same span: 30s, 1h30m.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON writes a string with its unit.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads what MarshalJSON wrote, exactly. It checks no range: that
// was done when the configuration was read.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	span, err := time.ParseDuration(text)
	*d = Duration(span)
	return err
}

// durationWords are units as people write them, longest first, with ours.
var durationWords = strings.NewReplacer(
	" ", "", "milliseconds", "ms", "millis", "ms", "msec", "ms",
	"seconds", "s", "second", "s", "secs", "s", "sec", "s",
	"minutes", "m", "minute", "m", "mins", "m", "min", "m",
	"hours", "h", "hour", "h", "hrs", "h", "hr", "h",
)

// parseDuration reads a span as an operator writes it.
func parseDuration(text string) (Duration, *problem) {
	span, err := time.ParseDuration(text)
	switch {
	case err == nil && span < 0:
		return 0, &problem{"a duration is not negative", ""}
	case err == nil:
		return Duration(span), nil
	}
	if isDigits(text) {
		return 0, &problem{"a duration needs a unit", `write ` + quote(text+"s") + ` or ` + quote(text+"ms")}
	}
	plain := durationWords.Replace(strings.ToLower(text))
	if days, ok := strings.CutSuffix(plain, "d"); ok && isDigits(days) && len(days) < 6 {
		n, _ := strconv.Atoi(days)
		return 0, &problem{"the largest unit of a duration is h", `write "` + strconv.Itoa(24*n) + `h"`}
	}
	if span, err := time.ParseDuration(plain); err == nil && span >= 0 {
		return 0, &problem{"the units of a duration are ms, s, m and h", "write " + quote(Duration(span).String())}
	}
	return 0, &problem{"not a duration", "write a number with a unit: 500ms, 30s, 5m, 1h30m"}
}

// sizeUnits are the units of Size, larger ones of each family first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// String gives the number in the largest binary unit that holds it without a
// rest: 64KiB, 240B, 0.
func (s Size) String() string {
	if s == 0 {
		return "0"
	}
	for _, unit := range sizeUnits[:3] {
		if int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalJSON writes a string with its unit.
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads what MarshalJSON wrote, exactly.
func (s *Size) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	size, p := parseSignedSize(text)
	if p != nil {
		return p
	}
	*s = size
	return nil
}

// parseSize reads a size as an operator writes it.
func parseSize(text string) (Size, *problem) {
	size, p := parseSignedSize(text)
	if p == nil && size < 0 {
		return 0, &problem{"a size is not negative", ""}
	}
	return size, p
}

func parseSignedSize(text string) (Size, *problem) {
	number, unit := text, int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			number, unit = rest, u.bytes
			break
		}
	}
	if !isDigits(strings.TrimPrefix(number, "-")) {
		return 0, mendSize(text)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/unit || n < math.MinInt64/unit {
		return 0, &problem{"larger than any size can be", "write 0 where no limit is meant"}
	}
	return Size(n * unit), nil
}

// mendSize guesses what a size that does not parse was to be.
func mendSize(text string) *problem {
	plain := strings.ToLower(strings.ReplaceAll(text, " ", ""))
	end := strings.IndexFunc(plain, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(plain)
	}
	number, err := strconv.ParseFloat(plain[:end], 64)
	unit, known := map[string]string{
		"": "B", "b": "B", "byte": "B", "bytes": "B",
		"k": "KiB", "m": "MiB", "g": "GiB", "ki": "KiB", "mi": "MiB", "gi": "GiB",
		"kib": "KiB", "mib": "MiB", "gib": "GiB", "kb": "KB", "mb": "MB", "gb": "GB",
	}[plain[end:]]
	if err != nil || !known || number > 1e6 {
		return &problem{"not a size", "write a whole number with a unit: 512B, 64KiB, 10MiB, 1GiB, or 64KB, 10MB, 1GB"}
	}
	if number == math.Trunc(number) {
		return &problem{"the units of a size are B, KiB, MiB, GiB, KB, MB and GB",
			`write "` + strconv.FormatFloat(number, 'f', 0, 64) + unit + `"`}
	}
	for _, u := range sizeUnits {
		if u.name == unit {
			number *= float64(u.bytes)
		}
	}
	return &problem{"a size is a whole number", "write " + quote(Size(math.Round(number)).String())}
}

// String gives address/bits.
func (p Prefix) String() string {
	if p == (Prefix{}) {
		return ""
	}
	return netip.Prefix(p).String()
}

// MarshalJSON writes address/bits.
func (p Prefix) MarshalJSON() ([]byte, error) { return json.Marshal(p.String()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Prefix) UnmarshalJSON(data []byte) error {
	return (*netip.Prefix)(p).UnmarshalText([]byte(strings.Trim(string(data), `"`)))
}

// Contains tells whether the range holds an address. IPv4 written inside IPv6
// (::ffff:10.0.0.1), as a dual-stack socket gives it, counts as IPv4.
func (p Prefix) Contains(address netip.Addr) bool {
	return netip.Prefix(p).Contains(address.Unmap().WithZone(""))
}

// parsePrefix reads a range, or one address.
func parsePrefix(text string) (Prefix, *problem) {
	if address, err := netip.ParseAddr(text); err == nil {
		if address.Zone() != "" {
			return Prefix{}, &problem{"an address with a zone is not a range", "leave out " + quote("%"+address.Zone())}
		}
		address = address.Unmap()
		return Prefix(netip.PrefixFrom(address, address.BitLen())), nil
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return Prefix{}, &problem{"not an address range", "write it as 10.0.0.0/8, fd00::/8 or one address"}
	case prefix.Addr().Is4In6():
		return Prefix{}, &problem{"an IPv4 range is written as IPv4", "write 10.0.0.0/8, not ::ffff:10.0.0.0/104"}
	case prefix != prefix.Masked():
		return Prefix{}, &problem{"the address has bits beyond the range's " + strconv.Itoa(prefix.Bits()),
			"write " + quote(prefix.Masked().String())}
	}
	return Prefix(prefix), nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
