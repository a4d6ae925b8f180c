package config

import "testing"

func TestFixed(t *testing.T) {
	for limit, want := range map[Limit]int{"1": 1, "50": 50, "1000000": maxLimit, "adaptive": -1, "off": -1, "": -1} {
		n, ok := limit.Fixed()
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %d, want %d", limit, n, want)
		}
	}
}

func TestKeyParts(t *testing.T) {
	for key, want := range map[Key][2]string{
		"":                  {},
		"client":            {"client"},
		"host":              {"host"},
		"header:Priority":   {"header", "Priority"},
		"cookie:session_id": {"cookie", "session_id"},
	} {
		if kind, name := key.Parts(); [2]string{kind, name} != want {
			t.Errorf("%q: %q %q, want %q", key, kind, name, want)
		}
	}
}

func TestParseFailure(t *testing.T) {
	for text, want := range map[string]Failure{
		"429":                 {From: 429, To: 429},
		"5xx":                 {From: 500, To: 599},
		"2XX":                 {From: 200, To: 299},
		"X-Overload":          {Field: "X-Overload"},
		"X-Status: degraded":  {Field: "X-Status", Value: "degraded"},
		"x-status:degraded  ": {Field: "x-status", Value: "degraded"},
		"Load: a: b, c":       {Field: "Load", Value: "a: b, c"},
		"xx":                  {Field: "xx"},
	} {
		if got, err := ParseFailure(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "199", "600", "1xx", "6xx", "0429", "-5", "4-5", "50x", "a b", ":", ": x", "a:", "a: \n", "a: é", "99999999999999999999"} {
		if got, err := ParseFailure(text); err == nil || got != (Failure{}) {
			t.Errorf("%q: %+v, %v, want a fault", text, got, err)
		}
	}
}
