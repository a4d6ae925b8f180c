package upstream

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain fails a run that leaves a goroutine behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && !settle(func() bool { return runtime.NumGoroutine() <= 1 }) {
		stacks := make([]byte, 1<<20)
		fmt.Printf("goroutines left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
		code = 1
	}
	os.Exit(code)
}

// settle waits until what other threads are still doing has made cond true.
func settle(cond func() bool) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 10_000 {
		if cond() {
			return true
		}
		<-tick.C
	}
	return cond()
}
