package ground

import (
	"testing"
	"time"
)

func TestReadMet(t *testing.T) {
	for text, want := range map[string]Met{
		`{"total": {"good": 9, "errors": 2, "unfinished": 3, "response_seconds": {"p50": 0.5, "p99": 2}}}`: {P50: 0.5, P99: 2, Good: 9, Failed: 5},
		`{"total": {"good": 0, "unfinished": 3}}`:                                                          {P50: 7, P99: 7, Failed: 3}, // nobody was answered
	} {
		got, err := readMet([]byte(text), 7*time.Second)
		if err != nil || got.P50 != want.P50 || got.P99 != want.P99 || got.Good != want.Good || got.Failed != want.Failed {
			t.Errorf("%s: got %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{`{"total": {}}`, "none"} {
		if met, err := readMet([]byte(text), time.Second); err == nil {
			t.Errorf("%s: got %+v", text, met)
		}
	}
}

func TestLabelled(t *testing.T) {
	for name, want := range map[string]string{"class": "ping_flood", "node": "0", "other": ""} {
		if got := labelled(`class="ping_flood",node="0"`, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
