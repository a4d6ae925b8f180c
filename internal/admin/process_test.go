package admin

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

const statLine = "R 1 42 42 0 -1 4194304 100 0 0 0 1234 66 0 0 20 0 5 0 100 200000000 500 18446744073709551615"

func TestReadUsage(t *testing.T) {
	page := int64(os.Getpagesize())
	for _, c := range []struct {
		name, stat, statm string
		want              Usage // zero: an error
	}{
		{"plain", "42 (sluice) " + statLine, "50000 500 300 1 0 400 0\n", Usage{13, 500 * page}},
		{"a name that looks like fields", "42 (a) R 1 (b c) " + statLine, "1 2 3", Usage{13, 2 * page}},
		{"short stat", "42 (sluice) R 1 2 3", "1 2 3", Usage{}},
		{"empty stat", "", "1 2 3", Usage{}},
		{"no numbers", "42 (sluice) R 1 42 42 0 -1 4194304 100 0 0 0 x y", "1 2 3", Usage{}},
		{"short statm", "42 (sluice) " + statLine, "1", Usage{}},
		{"statm without numbers", "42 (sluice) " + statLine, "x y", Usage{}},
	} {
		proc := t.TempDir()
		dir := filepath.Join(proc, "42")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"stat": c.stat, "statm": c.statm} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := readUsage(proc, 42)
		if failed := c.want == (Usage{}); failed != (err != nil) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		} else if err == nil && (math.Abs(got.CPUSeconds-c.want.CPUSeconds) > 1e-9 || got.MemoryBytes != c.want.MemoryBytes) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestReadUsageOfOneself(t *testing.T) {
	got, err := readUsage("/proc", os.Getpid())
	if err != nil || got.MemoryBytes < 1<<20 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := readUsage("/proc", 0); err == nil {
		t.Error("process 0 has figures")
	}
}
