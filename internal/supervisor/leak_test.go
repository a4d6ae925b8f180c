package supervisor

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// leaks returns 1, and says what is left, if goroutines of ours live on. They get
// a moment to end: a test may be over when the last one has only just been told.
func leaks() int {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var left []string
	for range 5000 {
		if left = ourGoroutines(); len(left) == 0 {
			return 0
		}
		<-tick.C
	}
	fmt.Printf("goroutines left behind:\n%s\n", strings.Join(left, "\n\n"))
	return 1
}

// ourGoroutines are the stacks of all goroutines but the calling one that run code
// of this module. Those of the runtime and of package os/signal never end.
func ourGoroutines() (ours []string) {
	stacks := make([]byte, 1<<20)
	all := strings.Split(string(stacks[:runtime.Stack(stacks, true)]), "\n\n")
	for _, stack := range all[1:] {
		if strings.Contains(stack, "sluice/internal/") {
			ours = append(ours, stack)
		}
	}
	return ours
}
