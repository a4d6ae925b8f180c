package guest

import (
	"encoding/json"
	"maps"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/guest/order"
	"sluice/internal/testkit"
)

// Boot starts a guest, and returns when it takes orders. It ends with the test;
// if that has failed the console stands in its log.
func Boot(t testing.TB, o Options) *Guest {
	t.Helper()
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	kernel := cached(t, "vmlinuz")
	qemu := testkit.Tool(t, "qemu-system-x86_64")
	dir := shortDir(t)
	initramfs := filepath.Join(dir, "initramfs")
	if o.Card {
		o.Files = maps.Clone(o.Files)
		o.Files["modules/vmxnet3.ko"] = cached(t, "vmxnet3.ko")
	}
	if err := pack(initramfs, Build(t, "internal/guest/agent"), o.Files); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "orders")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	began := time.Now()
	p := testkit.Start(t, testkit.Command{Path: qemu, Args: append(o.arguments(),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-nic", "none",
		"-kernel", kernel, "-initrd", initramfs, "-append", o.kernelLine(),
		"-serial", "stdio",
		"-chardev", "socket,id=orders,path="+socket, "-serial", "chardev:orders")})
	l.(*net.UnixListener).SetDeadline(began.Add(testkit.Patience))
	conn, err := l.Accept()
	if err != nil {
		t.Fatalf("QEMU does not start: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	g := &Guest{t: t, line: &line{conn: conn, in: json.NewDecoder(conn), out: json.NewEncoder(conn)}}
	if ready, err := g.line.hear(); err != nil || ready.Text != order.Ready {
		t.Fatalf("the guest's first word is %q, %v", ready.Text, err)
	}
	t.Logf("QEMU, process %d: a guest booted in %.1f s", p.PID(), time.Since(began).Seconds())
	return g
}

// shortDir makes a directory whose path leaves room for the name of a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "guest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// cached finds the kernel, or a part of it, that `make deps` has unpacked.
func cached(t testing.TB, name string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cache, "sluice-guest", name)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("the test needs a kernel for its guest, run `make deps`: %v", err)
	}
	return file
}

// Build builds a program of this module as a guest can run it, without anything
// that it would have to link to. It goes away with the test.
func Build(t testing.TB, dir string) string {
	t.Helper()
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("finding the module: %v", err)
	}
	program := filepath.Join(t.TempDir(), path.Base(dir))
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "./"+dir)
	cmd.Dir = strings.TrimSpace(string(root))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", dir, err, output)
	}
	return program
}

// pack writes the file system that the kernel starts with. It is not compressed:
// a kernel on emulated CPUs copies faster than it unpacks.
func pack(to, agent string, files map[string]string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	a := &archive{to: f}
	if err := a.program("init", agent); err != nil {
		return err
	}
	known := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		a.directories(path.Dir(name), known)
		if err := a.program(name, files[name]); err != nil {
			return err
		}
	}
	if err := a.close(); err != nil {
		return err
	}
	return f.Close()
}

// program adds a file of this machine.
func (a *archive) program(name, from string) error {
	content, err := os.ReadFile(from)
	a.add(name, modeProgram, content)
	return err
}

// directories adds a directory with all above it that are not known yet.
func (a *archive) directories(dir string, known map[string]bool) {
	if known[dir] {
		return
	}
	a.directories(path.Dir(dir), known)
	known[dir] = true
	a.add(dir, modeDirectory, nil)
}
