package command

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func parse(t *testing.T, args ...string) *Options {
	var o Options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	o.Add(f, 2*time.Second)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &o
}

func TestOptions(t *testing.T) {
	o := parse(t)
	if o.Check() != nil || o.Warm != 2*time.Second || o.Lasts(3, time.Second) != 180*time.Second || !strings.HasPrefix(o.Method(), "10 rounds of 3s after 2s ") {
		t.Errorf("by default: %+v, %v, %s", o, o.Lasts(3, time.Second), o.Method())
	}
	for _, args := range [][]string{{"-rounds", "0"}, {"-measure", "999ms"}, {"-warm", "-1s"}} {
		if parse(t, args...).Check() == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// TestOpen: without Sluice it is said how to get it, and nothing stays behind.
func TestOpen(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	if _, err := parse(t, "-sluice", filepath.Join(os.TempDir(), "none")).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("without Sluice: %v", err)
	}
	silent := filepath.Join(os.TempDir(), "silent")
	if err := os.WriteFile(silent, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := parse(t, "-sluice", silent).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "sluice topology") {
		t.Errorf("of a program that says nothing: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "sluice-bench-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestWrite(t *testing.T) {
	o := parse(t, "-out", t.TempDir())
	dir, err := o.Write("test", (&Ground{}).Results("a method"))
	if err != nil || dir != o.Out {
		t.Errorf("%s, %v", dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "results.md")); err != nil {
		t.Error(err)
	}
	if dir, err := parse(t).Write("test", (&Ground{}).Results()); dir != "" || err != nil {
		t.Errorf("nothing is asked for: %s, %v", dir, err)
	}
}
