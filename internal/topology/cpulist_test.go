package topology

import (
	"slices"
	"strings"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	for _, c := range []struct {
		list string
		want []int
	}{
		{"", nil},
		{"\n", nil},
		{"0", []int{0}},
		{"0-3,8,10-11\n", []int{0, 1, 2, 3, 8, 10, 11}},
		{"5-5", []int{5}},
		{"8,0-1", []int{0, 1, 8}},
		{"0-2,1-3", []int{0, 1, 2, 3}},
		{"65535", []int{65535}},
	} {
		got, err := ParseCPUs(c.list)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("ParseCPUs(%q) = %v, %v, want %v", c.list, got, err, c.want)
		}
	}
}

func TestParseCPUsRefuses(t *testing.T) {
	for list, want := range map[string]string{
		"a":                   `CPU list "a": "a" is not a number`,
		",":                   `CPU list ",": "" is not a number`,
		"0,":                  `CPU list "0,": "" is not a number`,
		"-1":                  `CPU list "-1": "" is not a number`,
		"1-":                  `CPU list "1-": "" is not a number`,
		"0-1-2":               `CPU list "0-1-2": "1-2" is not a number`,
		"0 1":                 `CPU list "0 1": "0 1" is not a number`,
		"+1":                  `CPU list "+1": "+1" is not a number`,
		"3-1":                 `CPU list "3-1": range "3-1" runs backwards`,
		"65536":               `CPU list "65536": 65536 is not below 65536`,
		"0-4000000000":        `CPU list "0-4000000000": 4000000000 is not below 65536`,
		"0-40000,0-40000":     `CPU list "0-40000,0-40000": more than 65536 numbers`,
		"9999999999999999999": `CPU list "9999999999999999999": "9999999999999999999" is not a number`,
	} {
		got, err := ParseCPUs(list)
		if err == nil || err.Error() != want {
			t.Errorf("ParseCPUs(%q) = %v, %v, want %s", list, got, err, want)
		}
	}
}

func TestFormatCPUs(t *testing.T) {
	for want, cpus := range map[string][]int{
		"":              nil,
		"0":             {0},
		"0-1":           {0, 1},
		"0-3,8,10-11":   {0, 1, 2, 3, 8, 10, 11},
		"1,3,5-7,65535": {1, 3, 5, 6, 7, 65535},
	} {
		if got := FormatCPUs(cpus); got != want {
			t.Errorf("FormatCPUs(%v) = %q, want %q", cpus, got, want)
		}
	}
}

// FuzzParseCPUs: what is accepted prints as a list that reads the same again.
func FuzzParseCPUs(f *testing.F) {
	for _, list := range []string{"", "0-3,8,10-11", "7,7,0", "3-1", "0-65535", "-", "1,,2"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := ParseCPUs(list)
		if err != nil {
			return
		}
		again, err := ParseCPUs(FormatCPUs(cpus))
		if err != nil || !slices.Equal(cpus, again) {
			t.Errorf("%q reads as %v, which reads again as %v, %v", list, cpus, again, err)
		}
	})
}

func TestMask(t *testing.T) {
	for _, c := range []struct {
		mask string
		want []int
		back string // as FormatMask prints it
	}{
		{"", nil, "0"},
		{"0\n", nil, "0"},
		{"3", []int{0, 1}, "3"},
		{"00000000,0000ff00", []int{8, 9, 10, 11, 12, 13, 14, 15}, "ff00"},
		{"80000001,00000000\n", []int{32, 63}, "80000001,00000000"},
		{"1,00000000,00000001", []int{0, 64}, "1,00000000,00000001"},
	} {
		got, err := ParseMask(c.mask)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("ParseMask(%q) = %v, %v, want %v", c.mask, got, err, c.want)
		}
		if back := FormatMask(c.want); back != c.back {
			t.Errorf("FormatMask(%v) = %q, want %q", c.want, back, c.back)
		}
	}
	for _, mask := range []string{"x", "0-3", ",", "1ffffffff", "1,,1", strings.Repeat("0,", 2048) + "1"} {
		if got, err := ParseMask(mask); err == nil {
			t.Errorf("ParseMask(%.20q) = %v, want an error", mask, got)
		}
	}
}
