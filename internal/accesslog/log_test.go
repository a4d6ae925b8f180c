package accesslog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/segment"
)

func settings(path, format string) config.AccessLog {
	return config.AccessLog{Path: path, Format: format, Buffer: 1 << 20, Flush: config.Duration(time.Second)}
}

// asStdout is set in a process that TestBrokenStdout starts.
const asStdout = "ACCESSLOG_TEST_STDOUT"

func TestMain(m *testing.M) {
	if os.Getenv(asStdout) != "" {
		os.Exit(logToStdout())
	}
	code := m.Run()
	if code == 0 && leaked() {
		fmt.Println("a goroutine of a Log outlived it")
		code = 1
	}
	os.Exit(code)
}

// leaked says whether a Log still runs. One that is closed may need a moment to go.
func leaked() bool {
	stacks := make([]byte, 1<<20)
	for range 1000 {
		if n := runtime.Stack(stacks, true); !bytes.Contains(stacks[:n], []byte("accesslog.(*Log).run")) {
			return false
		}
		runtime.Gosched()
	}
	return true
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		return nil
	}
	if all[len(all)-1] != '\n' {
		t.Fatalf("%s ends within a line", path)
	}
	return strings.Split(string(all[:len(all)-1]), "\n")
}

func write(w *Writer, target string) {
	w.Write(&Entry{Method: []byte("GET"), Target: []byte(target), Proto: 11, Status: 200})
}

func TestLogOff(t *testing.T) {
	l, err := Open(config.AccessLog{Path: "off"}, 2)
	if l != nil || err != nil {
		t.Fatalf("%v, %v", l, err)
	}
	var dropped segment.Counter
	w := l.Writer(1, &dropped)
	write(w, "/")
	if err := l.Reopen(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if w.Dropped() != 0 || dropped != 0 {
		t.Error("a log that is off has dropped lines")
	}
}

func TestOpenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if _, err := Open(settings(path, "xml"), 1); err == nil || err.Error() != `accesslog: unknown format "xml": json and combined are known` {
		t.Error(err)
	}
	if _, err := Open(settings(path+"/no", "json"), 1); err == nil {
		t.Error("a file in a folder that is not there was opened")
	}
}

// Every loop's lines are in the file after Close, each loop's in order, in the
// configured format, behind what was there before.
func TestCloseWritesAll(t *testing.T) {
	for format, first := range map[string]string{"json": `{"time":"`, "combined": "- - - ["} {
		path := filepath.Join(t.TempDir(), "access.log")
		if err := os.WriteFile(path, []byte("before\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(settings(path, format), 3)
		if err != nil {
			t.Fatal(err)
		}
		var dropped [3]segment.Counter
		var wg sync.WaitGroup
		for loop := range 3 {
			w := l.Writer(loop, &dropped[loop])
			wg.Go(func() {
				for i := range 1000 {
					write(w, fmt.Sprintf("/loop%d/%d/", loop, i))
				}
			})
		}
		wg.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		lines := readLines(t, path)
		if len(lines) != 3001 || lines[0] != "before" {
			t.Fatalf("%s: %d lines, the first %q", format, len(lines), lines[0])
		}
		var next [3]int
		for _, line := range lines[1:] {
			if !strings.HasPrefix(line, first) {
				t.Fatalf("%s: %s", format, line)
			}
			var loop, i int
			if _, err := fmt.Sscanf(line[strings.Index(line, "/loop"):], "/loop%d/%d/", &loop, &i); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if i != next[loop] {
				t.Fatalf("%s: loop %d: line %d after %d", format, loop, i, next[loop]-1)
			}
			next[loop]++
		}
		if dropped != [3]segment.Counter{} {
			t.Errorf("%s: dropped %v", format, dropped)
		}
	}
}

// A line waits for the next tick, and no longer.
func TestFlush(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(settings(path, "json"), 2)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		w := l.Writer(1, new(segment.Counter))
		begin := time.Now()
		passed := func(d time.Duration) { // at d after begin, once the goroutine has done what it would
			<-time.After(d - time.Since(begin))
			synctest.Wait()
		}
		for _, step := range []struct {
			at   time.Duration
			want int
		}{
			{100 * time.Millisecond, 0}, {999 * time.Millisecond, 0}, {1001 * time.Millisecond, 2},
			{1999 * time.Millisecond, 2}, {2001 * time.Millisecond, 4},
		} {
			passed(step.at)
			if got := len(readLines(t, path)); got != step.want {
				t.Errorf("after %v: %d lines, want %d", step.at, got, step.want)
			}
			write(w, "/")
		}
	})
}

// A full chunk does not wait for the tick.
func TestFullChunkIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(settings(path, "json"), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		w := l.Writer(0, new(segment.Counter))
		written := 0
		for written < chunkSize {
			write(w, "/")
			written += len(w.line)
		}
		synctest.Wait() // no time passes
		if got := len(readLines(t, path)); got == 0 {
			t.Error("a full chunk is not in the file")
		}
	})
}

func TestLeastFlush(t *testing.T) {
	cfg := settings(filepath.Join(t.TempDir(), "log"), "json")
	cfg.Flush = 0
	l, err := Open(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if l.flush != minFlush {
		t.Errorf("flush %v, want %v", l.flush, minFlush)
	}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(settings(path, "combined"), 1)
		if err != nil {
			t.Fatal(err)
		}
		w := l.Writer(0, new(segment.Counter))
		move := func(to string) {
			if err := os.Rename(path, filepath.Join(dir, to)); err != nil {
				t.Fatal(err)
			}
		}
		write(w, "/1")
		<-time.After(2 * time.Second)
		move("old")
		write(w, "/2") // still goes to the file that was moved
		<-time.After(2 * time.Second)
		synctest.Wait()
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
		move("third")
		if err := l.Reopen(); err != nil { // twice without a pause: the last counts
			t.Fatal(err)
		}
		synctest.Wait()
		write(w, "/3")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
	if old := readLines(t, filepath.Join(dir, "old")); len(old) != 2 || !strings.Contains(old[1], "GET /2 ") {
		t.Errorf("old file: %q", old)
	}
	if now := readLines(t, path); len(now) != 1 || !strings.Contains(now[0], "GET /3 ") {
		t.Errorf("new file: %q", now)
	}
}

func TestFailedReopenKeepsFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := Open(settings(filepath.Join(dir, "access.log"), "json"), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"-gone"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil {
		t.Error("the file was opened in a folder that is gone")
	}
	write(l.Writer(0, new(segment.Counter)), "/")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := readLines(t, dir+"-gone/access.log"); len(got) != 1 {
		t.Errorf("%d lines, want 1", len(got))
	}
}

// Several processes append to one file; to the kernel two open files are as good as
// two processes. No line is split, none is lost.
func TestManyWritersOneFile(t *testing.T) {
	const logs, each = 4, 1000
	path := filepath.Join(t.TempDir(), "access.log")
	var dropped atomic.Uint64 // the disk may be slow
	var wg sync.WaitGroup
	for i := range logs {
		l, err := Open(settings(path, "json"), 1)
		if err != nil {
			t.Fatal(err)
		}
		w := l.Writer(0, new(segment.Counter))
		wg.Go(func() {
			for j := range each {
				write(w, fmt.Sprintf("/%d/%d", i, j))
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			dropped.Add(w.Dropped())
		})
	}
	wg.Wait()
	lines := readLines(t, path)
	for _, line := range lines {
		decode(t, []byte(line+"\n"))
	}
	if got := len(lines) + int(dropped.Load()); got != logs*each {
		t.Errorf("%d lines written, %d dropped, want %d", len(lines), dropped.Load(), logs*each)
	}
}

// A reader that takes nothing: Write goes on, the memory is bounded, and each line
// either arrives or is counted.
func TestStuckReaderDropsAndCounts(t *testing.T) {
	const total = 20_000
	out, far := pipe(t, 0)
	cfg := settings("pipe", "json")
	cfg.Buffer = 3 * chunkSize
	l := start(cfg, 1, out)
	var dropped segment.Counter
	w := l.Writer(0, &dropped)
	for range total {
		write(w, "/")
	}
	if held := w.queue.held.Load(); held > 3 {
		t.Errorf("%d chunks are held, the limit is 3", held)
	}
	lost := w.Dropped()
	if lost == 0 || lost != dropped.Load() {
		t.Errorf("%d lines dropped, %d counted in the segment", lost, dropped.Load())
	}
	var got []byte
	var wg sync.WaitGroup
	wg.Go(func() { got, _ = io.ReadAll(far) })
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if arrived := bytes.Count(got, newline); arrived+int(lost) != total {
		t.Errorf("%d lines arrived and %d were dropped, of %d", arrived, lost, total)
	}
}

// Lines that the file refuses reach the segment's counter with the next request.
func TestRefusedLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := Open(settings("/dev/full", "json"), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var dropped segment.Counter
		w := l.Writer(0, &dropped)
		for range 3 {
			write(w, "/")
		}
		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		if w.Dropped() != 3 || dropped != 0 {
			t.Errorf("%d dropped, %d in the segment; want 3 and 0", w.Dropped(), dropped)
		}
		write(w, "/")
		if dropped != 3 {
			t.Errorf("%d in the segment, want 3", dropped)
		}
		write(w, "/")
		if dropped != 3 {
			t.Errorf("%d in the segment: lost lines were counted twice", dropped)
		}
	})
}

// Close does not wait for ever for a reader that takes nothing. It says so, and the
// goroutine ends too.
func TestCloseGivesUp(t *testing.T) {
	out, far := pipe(t, unix.O_NONBLOCK)
	l := start(settings("pipe", "json"), 1, out)
	l.limit = 0
	w := l.Writer(0, new(segment.Counter))
	const total = 1000 // several times what the pipe holds
	for range total {
		write(w, "/")
	}
	if err := l.Close(); err == nil || err.Error() != "accesslog: pipe takes no more lines; the last are lost" {
		t.Errorf("Close: %v", err)
	}
	<-l.done
	got, err := io.ReadAll(far)
	if err != nil {
		t.Fatal(err)
	}
	if arrived, lost := bytes.Count(got, newline), int(w.Dropped()); lost == 0 || arrived+lost != total {
		t.Errorf("%d lines arrived and %d were lost, of %d", arrived, lost, total)
	}
}

// logToStdout logs one line to a stdout that nobody reads. It must outlive that.
func logToStdout() int {
	l, err := Open(settings("stdout", "json"), 1)
	if err != nil {
		return 3
	}
	w := l.Writer(0, new(segment.Counter))
	write(w, "/")
	if l.Close() != nil || w.Dropped() != 1 {
		return 4
	}
	return 0
}

// A write to a closed stdout raises SIGPIPE, which would end a C program.
func TestBrokenStdout(t *testing.T) {
	out, far := pipe(t, 0)
	far.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(context.Background(), self)
	child.Env = append(os.Environ(), asStdout+"=1")
	child.Stdout = os.NewFile(uintptr(out.fd), "pipe")
	if err := child.Run(); err != nil {
		t.Errorf("the child ended by %v", err)
	}
	child.Stdout.(*os.File).Close()
}

func TestWriteDoesNotAllocate(t *testing.T) {
	for _, format := range []string{"json", "combined"} {
		l, err := Open(settings(filepath.Join(t.TempDir(), "log"), format), 1)
		if err != nil {
			t.Fatal(err)
		}
		w := l.Writer(0, new(segment.Counter))
		e := usual()
		e.UserAgent = append([]byte("\xff\n\""), e.UserAgent...)
		for range 1000 { // the line and a few chunks are there
			w.Write(&e)
		}
		if n := testing.AllocsPerRun(100, func() {
			e.Wall += 5e8
			w.Write(&e)
		}); n != 0 {
			t.Errorf("%s: %v allocations per line", format, n)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func benchmarkWrite(b *testing.B, format string) {
	l, err := Open(settings(os.DevNull, format), 1)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	w := l.Writer(0, new(segment.Counter))
	e := usual()
	b.ReportAllocs()
	for b.Loop() {
		e.Wall += 10_000 // 100,000 requests a second
		w.Write(&e)
	}
	b.SetBytes(int64(len(w.line)))
}

func BenchmarkWriteJSON(b *testing.B)     { benchmarkWrite(b, "json") }
func BenchmarkWriteCombined(b *testing.B) { benchmarkWrite(b, "combined") }
