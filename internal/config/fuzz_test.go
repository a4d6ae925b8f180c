package config

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// Whatever the file holds: no panic, every error is Faults of one line each, and
// a Config that passes says the same after Print and after JSON.
func FuzzParse(f *testing.F) {
	for _, c := range transcript(f, "testdata/faults.txt") {
		f.Add([]byte(c.input))
	}
	good, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	environment := map[string]string{"PORT": "8080", "EMPTY": "", "BAD": "a\nb", "URL": "http://a:1"}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseEnv("f.yaml", data, lookupIn(environment))
		if err != nil {
			checkFaults(t, err)
			return
		}
		checkAgrees(t, c)
	})
}

func lookupIn(environment map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	}
}

func checkFaults(t *testing.T, err error) {
	t.Helper()
	faults, ok := err.(Faults)
	if !ok || len(faults) == 0 {
		t.Fatalf("error is %T: %v", err, err)
	}
	line := 0
	for _, fault := range faults {
		text := fault.Error()
		if fault.Rule == "" || fault.File != "f.yaml" || strings.ContainsAny(text, "\n\x00") || fault.Line < line {
			t.Fatalf("bad fault %#v: %q", fault, text)
		}
		line = fault.Line
	}
}

// checkAgrees holds a valid Config against its own copies.
func checkAgrees(t *testing.T, c *Config) {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatalf("parsed, but not valid: %v", err)
	}
	var yaml bytes.Buffer
	if err := c.Print(&yaml); err != nil {
		t.Fatal(err)
	}
	again, err := ParseEnv("printed.yaml", yaml.Bytes(), lookupIn(nil))
	if err != nil {
		t.Fatalf("what Print wrote is refused: %v\n%s", err, yaml.String())
	}
	if !reflect.DeepEqual(c, again) {
		t.Fatalf("what Print wrote says something else:\n%#v\n%#v\n%s", c, again, yaml.String())
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	copied := new(Config)
	if err := json.Unmarshal(text, copied); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, copied) {
		t.Fatalf("what JSON carried says something else:\n%#v\n%#v", c, copied)
	}
}
