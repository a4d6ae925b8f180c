package accesslog

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// pipe gives a sink at the near end of a pipe, and the far end to read from.
func pipe(t *testing.T, flags int) (*sink, *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|flags); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fds[0], false); err != nil { // the reader waits, whatever the writer does
		t.Fatal(err)
	}
	far := os.NewFile(uintptr(fds[0]), "pipe")
	t.Cleanup(func() { far.Close() })
	return &sink{path: "pipe", fd: fds[1], own: true, pipe: true, abandoned: new(atomic.Bool)}, far
}

func TestCut(t *testing.T) {
	line := func(n int) string { return strings.Repeat("x", n-1) + "\n" }
	for _, c := range []struct {
		name  string
		pipe  bool
		lines string
		want  int
	}{
		{"a file takes all", false, line(3000) + line(3000), 6000},
		{"a pipe takes what fits", true, line(1000) + line(2000), 3000},
		{"exactly", true, line(2048) + line(2048), 4096},
		{"one byte too many", true, line(2048) + line(2049), 2048},
		{"a long line goes alone", true, line(5000) + line(10), 5000},
		{"but not those before it", true, line(10) + line(5000), 10},
		{"one line of the limit and more", true, line(4096) + line(10), 4096},
	} {
		s := sink{pipe: c.pipe}
		if got := len(s.cut([]byte(c.lines))); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}

func TestSinkKinds(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "no", "such"): "no such file or directory",
		dir:                              "is a directory",
		fifo:                             "no such device or address", // nobody reads: an error, not a hang
		"":                               "no such file or directory",
	} {
		if _, err := openSink(path); err == nil || !strings.HasPrefix(err.Error(), "accesslog: open "+path+": ") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}

	reader, err := unix.Open(fifo, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(reader)
	s, err := openSink(fifo)
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	if !s.pipe || !s.own {
		t.Errorf("a FIFO: %+v", s)
	}
	for path, fd := range map[string]int{"stdout": 1, "stderr": 2} {
		s, err := openSink(path)
		if err != nil {
			t.Fatal(err)
		}
		if s.fd != fd || s.own {
			t.Errorf("%s: %+v", path, s)
		}
		s.close() // leaves it open
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			t.Errorf("%s was closed", path)
		}
	}
}

func TestSinkMakesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	s, err := openSink(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if perm := info.Mode().Perm(); perm&0o137 != 0 || perm&0o600 != 0o600 {
		t.Errorf("mode %o: others could read what clients asked for, or the owner cannot", perm)
	}
}

// A non-blocking descriptor whose reader is slow: the sink waits and loses nothing.
func TestSlowReader(t *testing.T) {
	s, far := pipe(t, unix.O_NONBLOCK)
	lines := bytes.Repeat([]byte(strings.Repeat("x", 99)+"\n"), 20_000) // 2 MB, some 30 times the pipe
	var got []byte
	var wg sync.WaitGroup
	wg.Go(func() { got, _ = io.ReadAll(far) })
	if lost := s.write(lines); lost != 0 {
		t.Errorf("%d lines lost", lost)
	}
	s.close()
	wg.Wait()
	if !bytes.Equal(got, lines) {
		t.Errorf("%d bytes arrived, want %d", len(got), len(lines))
	}
}

// A reader that takes nothing: with abandoned set the sink gives up, and the lost
// lines are exactly those that did not get into the pipe whole.
func TestAbandoned(t *testing.T) {
	s, far := pipe(t, unix.O_NONBLOCK)
	s.abandoned.Store(true)
	const total = 2000
	lost := s.write(bytes.Repeat([]byte(strings.Repeat("x", 99)+"\n"), total))
	s.close()
	got, err := io.ReadAll(far)
	if err != nil {
		t.Fatal(err)
	}
	if whole := bytes.Count(got, newline); lost == 0 || whole+lost != total {
		t.Errorf("%d lines arrived and %d were lost, of %d", whole, lost, total)
	}
}

func TestReaderGone(t *testing.T) {
	s, far := pipe(t, 0)
	far.Close()
	for range 2 { // and it goes on trying
		if lost := s.write([]byte("a\nb\nc\n")); lost != 3 {
			t.Errorf("%d lines lost, want 3", lost)
		}
	}
	s.close()
}

func TestDiskFull(t *testing.T) {
	s, err := openSink("/dev/full") // every write fails with ENOSPC: full(4)
	if err != nil {
		t.Fatal(err)
	}
	s.abandoned = new(atomic.Bool)
	defer s.close()
	if lost := s.write([]byte("a\nb\n")); lost != 2 {
		t.Errorf("%d lines lost, want 2", lost)
	}
	if !s.failing {
		t.Error("nobody was told")
	}
}

// A file that ends within a line, as after a full disk, gets its newline first.
func TestTornLineIsMended(t *testing.T) {
	s, far := pipe(t, 0)
	if n, err := s.writeAll([]byte("half a li")); n != 9 || err != nil || !s.torn {
		t.Fatalf("%d, %v, torn %v", n, err, s.torn)
	}
	s.write([]byte("whole\n"))
	s.write([]byte("next\n"))
	s.close()
	if got, _ := io.ReadAll(far); string(got) != "half a li\nwhole\nnext\n" {
		t.Errorf("%q", got)
	}
}

// The operator hears once that lines are lost, and once that they are not.
func TestReport(t *testing.T) {
	was := slog.Default()
	defer slog.SetDefault(was)
	var heard bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&heard, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
	for _, path := range []string{"a.log", "stderr"} { // of stderr it cannot say anything on stderr
		s := sink{path: path}
		for _, err := range []error{nil, unix.ENOSPC, unix.ENOSPC, nil, nil, unix.EIO} {
			s.report(err)
		}
	}
	want := `level=ERROR msg="access log: lines are lost" path=a.log error="no space left on device"
level=INFO msg="access log: lines are written again" path=a.log
level=ERROR msg="access log: lines are lost" path=a.log error="input/output error"
`
	if heard.String() != want {
		t.Errorf("heard:\n%swant:\n%s", heard.String(), want)
	}
}
