package http1

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryFaultHasACase: a fault that no test wants may never be found, or not
// where it should be.
func TestEveryFaultHasACase(t *testing.T) {
	source, err := os.ReadFile("fault.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, file := range []string{"request_test.go", "semantics_test.go", "framing_test.go", "response_test.go", "body_test.go", "limits_test.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(text)
	}
	faults := regexp.MustCompile(`(?m)^\t(err[A-Z]\w+) += &Fault`).FindAllStringSubmatch(string(source), -1)
	if len(faults) < 30 {
		t.Fatalf("found only %d faults in fault.go", len(faults))
	}
	for _, fault := range faults {
		if !regexp.MustCompile(`\b` + fault[1] + `\b`).MatchString(tests.String()) {
			t.Errorf("no case wants %s", fault[1])
		}
	}
}

// TestFaultText: a fault tells the rule and where it stands.
func TestFaultText(t *testing.T) {
	if got, want := errBareLF.Error(), "a line must end with CR LF (RFC 9112 2.2)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
