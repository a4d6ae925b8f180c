package reactor

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails a run that leaves a goroutine or a descriptor behind.
func TestMain(m *testing.M) {
	wakeNetpoll()
	before := descriptors()
	code := m.Run()
	if code == 0 {
		code = leaks(before)
	}
	os.Exit(code)
}

// wakeNetpoll has the Go runtime open the descriptors of its own poller, which
// stay open for good.
func wakeNetpoll() {
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
}

// descriptors are the open descriptors of this process, by number. The one that
// reads the list is gone when it returns.
func descriptors() map[string]string {
	open := map[string]string{}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if what, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			open[e.Name()] = what
		}
	}
	return open
}

func leaks(before map[string]string) int {
	const base = 1 // this one
	if !settle(func() bool { return runtime.NumGoroutine() <= base }) {
		stacks := make([]byte, 1<<20)
		fmt.Printf("goroutines left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
		return 1
	}
	if left := opened(before); len(left) > 0 {
		fmt.Println("descriptors left behind:", strings.Join(left, ", "))
		return 1
	}
	return 0
}

// opened lists the descriptors that are open and were not before. What was open
// then may have been closed since: a goroutine of an earlier test that was in a
// Write on a connection when that was closed still held its descriptor.
func opened(before map[string]string) (since []string) {
	for fd, what := range descriptors() {
		if before[fd] != what {
			since = append(since, fd+" "+what)
		}
	}
	return since
}

// wantOpened waits until so many descriptors are open that were not before.
func wantOpened(t *testing.T, n int, before map[string]string) {
	t.Helper()
	if !settle(func() bool { return len(opened(before)) == n }) {
		t.Errorf("%d descriptors were opened since and are open, want %d: %q", len(opened(before)), n, opened(before))
	}
}

// settle waits until what other threads are still doing has made cond true.
func settle(cond func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 5000 {
		if cond() {
			return true
		}
		<-tick.C
	}
	return cond()
}
