package affinity

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/topology"
)

func TestCPUTimes(t *testing.T) {
	ms := time.Millisecond
	for _, c := range []struct {
		name, stat string
		want       map[int]CPUTime // nil: an error
	}{
		{"two CPUs, one number missing", "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 50 4 5 6 7 8\ncpu2 0 0 0 7 0 0 0 0 0 0\nintr 12 cpu9\n",
			map[int]CPUTime{0: {210 * ms, 1500 * ms}, 2: {0, 70 * ms}}},
		{"an old kernel's columns", "cpu0 1 2 3 100\n", map[int]CPUTime{0: {60 * ms, 1000 * ms}}},
		{"what comes later is not read", "cpu0 1 0 0 1\nbtime 1\ncpu1 1 0 0 1\n", map[int]CPUTime{0: {10 * ms, 10 * ms}}},
		{"no number", "cpu0 1 2 x 100\n", nil},
		{"no CPU", "cpu  9 9 9 9\nintr 1\n", nil},
		{"nothing", "", nil},
	} {
		got, err := parseCPUTimes([]byte(c.stat))
		if !maps.Equal(got, c.want) || (err != nil) != (c.want == nil) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	if got, err := CPUTimes("/proc"); err != nil || len(got) == 0 {
		t.Errorf("of this machine: %v, %v", got, err)
	}
	if _, err := CPUTimes(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

// threadStat has at each place the number of its field, but for the first three.
const threadStat = "42 (a) R 1 (b) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52"

func TestThreadTimes(t *testing.T) {
	for _, c := range []struct {
		name, schedstat, stat string
		want                  ThreadTime // zero: an error
	}{
		{"plain", "1500 200 3", threadStat, ThreadTime{1500, 200, 39}},
		{"short schedstat", "1500", threadStat, ThreadTime{}},
		{"short stat", "1500 200 3", "42 (a) S 1 2 3", ThreadTime{}},
		{"no number", "x 200 3", threadStat, ThreadTime{}},
		{"empty", "", "", ThreadTime{}},
	} {
		proc := t.TempDir()
		dir := filepath.Join(proc, "self/task/42")
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(dir+"/schedstat", []byte(c.schedstat), 0o600), os.WriteFile(dir+"/stat", []byte(c.stat), 0o600)); err != nil {
			t.Fatal(err)
		}
		got, err := ThreadTimes(proc, 42)
		if got != c.want || (err != nil) != (c.want == ThreadTime{}) {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	if _, err := ThreadTimes("/proc", 1<<30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no thread: %v", err)
	}
}

// somebody is a thread that does nothing. Its goroutine ends locked to it, so that
// it ends too, and nobody else runs with what a test did to it.
func somebody(t *testing.T) (tid int) {
	t.Helper()
	born, over, gone := make(chan int), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		runtime.LockOSThread()
		born <- unix.Gettid()
		<-over
	}()
	t.Cleanup(func() { close(over); <-gone })
	return <-born
}

func TestAllowThread(t *testing.T) {
	tid, all := somebody(t), topology.Allowed()
	allowed := func() []int {
		set := unix.NewCPUSet(maxCPUs)
		if err := unix.SchedGetaffinityDynamic(tid, set); err != nil {
			t.Fatal(err)
		}
		var cpus []int
		for cpu := range maxCPUs {
			if set.IsSet(cpu) {
				cpus = append(cpus, cpu)
			}
		}
		return cpus
	}
	for _, c := range []struct{ cpus, want []int }{
		{all[:1], all[:1]}, {all[len(all)-1:], all[len(all)-1:]}, {all, all},
		{append(slices.Clone(all[:1]), maxCPUs-1), all[:1]}, // one that is not there is left out
	} {
		if err := AllowThread(tid, c.cpus); err != nil || !slices.Equal(allowed(), c.want) {
			t.Errorf("%v: on %v, %v", c.cpus, allowed(), err)
		}
	}
	if err := AllowThread(tid, []int{maxCPUs - 1}); !errors.Is(err, unix.EINVAL) || !slices.Equal(allowed(), all[:1]) {
		t.Errorf("a CPU that is not there: %v, on %v", err, allowed())
	}
	if err := AllowThread(1<<30, all); !errors.Is(err, unix.ESRCH) {
		t.Errorf("no such thread: %v", err)
	}
	if now, err := ThreadTimes("/proc", tid); err != nil || now.Ran <= 0 || now.Waited < 0 || now.On < 0 {
		t.Errorf("what it has done: %+v, %v", now, err)
	}
}

func TestOnlineCPUs(t *testing.T) {
	sys := t.TempDir()
	if _, err := OnlineCPUs(sys); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	dir := filepath.Join(sys, "devices/system/cpu")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(dir+"/online", []byte("0-2,5\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, err := OnlineCPUs(sys); err != nil || !slices.Equal(got, []int{0, 1, 2, 5}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestThreads(t *testing.T) {
	tid := somebody(t)
	if got, err := Threads("/proc"); err != nil || !slices.Contains(got, tid) || !slices.Contains(got, os.Getpid()) {
		t.Errorf("thread %d of process %d is not among %v, %v", tid, os.Getpid(), got, err)
	}
	if _, err := Threads(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without procfs: %v", err)
	}
}
