// Package toolchain builds the programs that the benchmark brings along, at run
// time, so that they fit the machine and nothing built is kept in the repository.
package toolchain

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// C compiles one C file with cc and links libm; flags may define more, and link more
// libraries. It gives the program's path in dir.
func C(ctx context.Context, dir, name string, source []byte, flags ...string) (string, error) {
	text, program := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
	if err := os.WriteFile(text, source, 0o644); err != nil {
		return "", err
	}
	return program, build(ctx, "cc", append([]string{"-O2", "-o", program, text, "-lm"}, flags...)...)
}

// Go builds a main package of this module.
func Go(ctx context.Context, dir, name, pkg string) (string, error) {
	program := filepath.Join(dir, name)
	return program, build(ctx, "go", "build", "-o", program, pkg)
}

func build(ctx context.Context, compiler string, args ...string) error {
	out, err := exec.CommandContext(ctx, compiler, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", compiler, err, out)
	}
	return nil
}
