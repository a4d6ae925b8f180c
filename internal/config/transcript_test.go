package config

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the code says into testdata/faults.txt; then read the difference")

// faultCase is one block of testdata/faults.txt: a title, a file, its faults.
type faultCase struct{ title, input, want string }

const (
	titleMark  = "=== "
	faultsMark = ">>>\n"
)

// enough is added to the cases that have no farm, so that this is not their fault.
const enough = "farms: {app: {servers: [{url: \"http://a:1\"}]}}\n"

func transcript(t testing.TB, path string) []faultCase {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var cases []faultCase
	for _, block := range strings.Split("\n"+string(data), "\n"+titleMark)[1:] {
		title, rest, _ := strings.Cut(block, "\n")
		input, want, found := strings.Cut(rest, faultsMark)
		if !found {
			t.Fatalf("%q has no line of >>>", title)
		}
		cases = append(cases, faultCase{title, input, strings.TrimRight(want, "\n")})
	}
	return cases
}

// Each file of the transcript has exactly the faults that stand below it.
func TestFaults(t *testing.T) {
	const path = "testdata/faults.txt"
	environment := map[string]string{"PORT": "99999", "EMPTY": "", "LINES": "a\nb", "FIELDS": "many"}
	var seen strings.Builder
	for _, c := range transcript(t, path) {
		input := c.input
		if !strings.Contains(input, "farms") {
			input += enough
		}
		_, err := ParseEnv("f.yaml", []byte(input), lookupIn(environment))
		got := "no fault"
		if err != nil {
			checkFaults(t, err)
			got = err.Error()
		}
		seen.WriteString(titleMark + c.title + "\n" + c.input + faultsMark + got + "\n\n")
		if got != c.want && !*update {
			t.Errorf("%s:\n%s\ngot:\n%s\nwant:\n%s", c.title, c.input, got, c.want)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.TrimRight(seen.String(), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
