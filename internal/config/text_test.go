package config

import (
	"strings"
	"testing"
	"testing/quick"
)

func TestExpand(t *testing.T) {
	lookup := lookupIn(map[string]string{"A": "1", "b_2": "two", "EMPTY": "", "TRICK": "${A}"})
	for text, want := range map[string]string{
		"":                 "",
		"plain":            "plain",
		"$A $ $$ }":        "$A $ $$ }",
		"${A}":             "1",
		"x${A}y${b_2}z":    "x1ytwoz",
		"${EMPTY}":         "",
		"${EMPTY:-other}":  "other",
		"${UNSET:-}":       "",
		"${UNSET:-a:-b}":   "a:-b",
		"${UNSET:-[::]:1}": "[::]:1",
		"${A:-other}":      "1",
		"$${A}":            "${A}",
		"$$${A}":           "$${A}",
		"${A}$${A}${A}":    "1${A}1",
		"${TRICK}":         "${A}",
	} {
		if got, p := expand(text, lookup); p != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, p, want)
		}
	}
	for _, text := range []string{"${UNSET}", "${}", "${A", "${1A}", "${A B}", "${A-b}", "${:-x}", "${é}", "${UNSET:-${A}}", "${A}${"} {
		if got, p := expand(text, lookup); p == nil {
			t.Errorf("%q: %q, want a fault", text, got)
		}
	}
}

func TestEscapeKeepsEverything(t *testing.T) {
	kept := func(text string) bool {
		text = strings.NewReplacer("a", "$", "b", "{", "c", "${").Replace(text)
		got, p := expand(escape(text), lookupIn(nil))
		return p == nil && got == text
	}
	if err := quick.Check(kept, nil); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"${", "$${", "$$${x}", "${${", "$"} {
		if !kept(text) {
			t.Errorf("%q does not survive", text)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"head", "line", "fields", "response_head", "x_forwarded", "forwarded", "app"}
	for written, want := range map[string]string{
		"haed": "head", "hed": "head", "heads": "head", "HEAD": "head", "Line": "line", "filed": "fields",
		"responseHead": "response_head", "response-head": "response_head", "xforwarded": "x_forwarded",
		"forward": "forwarded", "response": "response_head", "apps": "app", "ap": "app", "applications": "app",
		"body": "", "": "", "x": "", "zzzz": "", strings.Repeat("head", 17): "",
	} {
		if got, _ := nearest(written, names); got != want {
			t.Errorf("%q: %q, want %q", written, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "acb", 1},
		{"abc", "ab", 1}, {"abc", "xabc", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"abcd", "badc", 2},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestFaultText(t *testing.T) {
	for _, c := range []struct {
		fault Fault
		want  string
	}{
		{Fault{"sluice.yaml", 12, 3, "routes[2].host", `"*.a.*"`, "only the first label may be a wildcard", `write "*.a.example"`},
			`sluice.yaml:12: routes[2].host: "*.a.*": only the first label may be a wildcard; write "*.a.example"`},
		{Fault{File: "f", Rule: "is empty"}, "f: is empty"},
		{Fault{Path: "a.b", Rule: "is empty", Cure: "fill it"}, "a.b: is empty; fill it"},
	} {
		if got := c.fault.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestLongValuesAreCut(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("a", maxShownBytes):         `"` + strings.Repeat("a", maxShownBytes) + `"`,
		strings.Repeat("a", maxShownBytes+1):       `"` + strings.Repeat("a", maxShownBytes) + `"…`,
		strings.Repeat("a", maxShownBytes-1) + "é": `"` + strings.Repeat("a", maxShownBytes-1) + `"…`,
	} {
		if got := quote(text); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
