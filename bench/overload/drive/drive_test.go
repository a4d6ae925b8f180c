package drive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestUsers(t *testing.T) {
	for _, c := range []struct {
		users Users
		steps []int
		args  string
	}{
		{Users{URL: "u", From: 10, To: 30, Step: 10, Every: time.Second, Think: "exp:100ms"}, []int{10, 20, 30},
			"--quiet --json - --users 10..30 --step 10 --every 1s --think exp:100ms u"},
		{Users{URL: "u", From: 10, To: 25, Step: 10, Every: time.Second}, []int{10, 20, 25},
			"--quiet --json - --users 10..25 --step 10 --every 1s u"},
		{Users{URL: "u", From: 250, To: 250, Every: 30 * time.Second}, []int{250},
			"--quiet --json - --users 250 --duration 30s u"},
	} {
		if got := c.users.Steps(); !slices.Equal(got, c.steps) {
			t.Errorf("steps %v, want %v", got, c.steps)
		}
		if got := strings.Join(c.users.args(), " "); got != c.args {
			t.Errorf("arguments %s\nwant      %s", got, c.args)
		}
	}
}

// program writes a script that stands for the load generator.
func program(t *testing.T, text string) Generator {
	dir := t.TempDir()
	path := filepath.Join(dir, "hb")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return Generator{path, dir}
}

// TestRun: the events come in the order of their times, and the report is read.
func TestRun(t *testing.T) {
	g := program(t, `read -r _; echo '{"total": {"good": 7}, "stages": [{"users": 10, "response_seconds": {"p99": 0.5}, "failures": {"reset": 1}}]}'`)
	order := ""
	say := func(word string) func(context.Context) error {
		return func(context.Context) error { order += word; return nil }
	}
	reports, err := g.Run(t.Context(), []Users{{}, {}}, []Event{{2, say("c")}, {0, say("a")}, {1, say("b")}})
	if err != nil || order != "abc" || len(reports) != 2 {
		t.Fatalf("%d reports, %v, in the order %q", len(reports), err, order)
	}
	for _, r := range reports {
		if r.Total.Good != 7 || len(r.Stages) != 1 || r.Stages[0].Response.P99 != 0.5 || r.Stages[0].Failures["reset"] != 1 {
			t.Errorf("report %+v", r)
		}
	}
}

func TestRunFails(t *testing.T) {
	broken := errors.New("broken")
	fail := Event{0, func(context.Context) error { return broken }}
	if _, err := program(t, "exec sleep 60").Run(t.Context(), []Users{{}}, []Event{fail}); !errors.Is(err, broken) {
		t.Errorf("an event failed, and the error is %v", err)
	}
	for _, text := range []string{"echo no server >&2; exit 1", "echo no JSON"} {
		if _, err := program(t, text).Run(t.Context(), []Users{{}}, nil); err == nil {
			t.Errorf("%q was a good run", text)
		}
	}
	never := Event{time.Hour, func(context.Context) error { return nil }}
	_, err := program(t, "echo no server >&2; exit 1").Run(t.Context(), []Users{{}}, []Event{never})
	if err == nil || !strings.Contains(err.Error(), "no server") {
		t.Errorf("hb ended early, and the error is %v", err)
	}
}

// TestCuts: the first cut begins, the others are kept.
func TestCuts(t *testing.T) {
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked += r.URL.String() + " "
		if r.URL.Path == "/set" {
			http.Error(w, "faulty curve", http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"good": %d}`, strings.Count(asked, "cut"))
	}))
	defer server.Close()
	control := Control(server.URL)
	var cuts []Cut
	for _, e := range control.Cuts(&cuts, []time.Duration{0, 1, 2}) {
		if err := e.Do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(cuts) != 2 || cuts[0].Good != 2 || cuts[1].Good != 3 {
		t.Errorf("kept %+v", cuts)
	}
	if err := control.Set(t.Context(), "curve=x"); err == nil || !strings.Contains(err.Error(), "faulty curve") {
		t.Errorf("the error is %v", err)
	}
	if !strings.HasSuffix(asked, "/set?curve=x ") {
		t.Errorf("asked for %s", asked)
	}
}
