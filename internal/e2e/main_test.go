package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the program under test. TestMain sets it.
var binary string

// TestMain builds the binary as a user gets it; under the race detector, with the
// detector inside.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sluice-e2e-")
	if err == nil {
		binary = filepath.Join(dir, "sluice")
		err = build(binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func build(to string) error {
	args, cgo := []string{"build", "-buildvcs=false", "-o", to}, "CGO_ENABLED=0"
	if raceDetector {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, "./cmd/sluice")...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), cgo)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building sluice: %w\n%s", err, output)
	}
	return nil
}

// TestSources looks at what the binary was built from: go test takes a result to be
// still true until a file or directory changes that a test has looked at.
func TestSources(t *testing.T) {
	seen := 0
	for _, tree := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join("..", "..", tree), func(path string, _ fs.DirEntry, err error) error {
			if filepath.Ext(path) == ".go" {
				seen++
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if seen < 100 {
		t.Errorf("only %d files of Go", seen)
	}
}
