package proxy

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
	if code == 0 && !alone() {
		stacks := make([]byte, 1<<20)
		fmt.Printf("goroutines left behind:\n%s\n", stacks[:runtime.Stack(stacks, true)])
		code = 1
	}
	os.Exit(code)
}

// alone waits until this goroutine is the last one.
func alone() bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 10_000 {
		if runtime.NumGoroutine() <= 1 {
			return true
		}
		<-tick.C
	}
	return false
}
