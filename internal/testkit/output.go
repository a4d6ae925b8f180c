package testkit

import (
	"io"
	"os"
	"strings"
	"sync"
	"testing"
)

// Output is what a process, and all that it has started, wrote to one pipe.
type Output struct {
	ended chan struct{} // closed when nobody can write any more

	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// newOutput gives the end of a pipe to write to. The caller closes it once it has
// handed it on.
func newOutput(t testing.TB) (*Output, *os.File) {
	t.Helper()
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	o := &Output{ended: make(chan struct{})}
	go o.collect(ours)
	return o, theirs
}

// collect is a goroutine that ends with the last writer.
func (o *Output) collect(pipe *os.File) {
	defer close(o.ended)
	defer pipe.Close()
	io.Copy(o, pipe) // any error is the end
}

// Write implements io.Writer, for collect.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String is all that has been written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Lines are the complete lines so far, without their ends.
func (o *Output) Lines() []string {
	text := o.String()
	end := strings.LastIndexByte(text, '\n')
	if end < 0 {
		return nil
	}
	return strings.Split(text[:end], "\n")
}

// Await returns when the output holds the text.
func (o *Output) Await(t testing.TB, text string) {
	t.Helper()
	o.AwaitTimes(t, text, 1)
}

// AwaitTimes returns when the output holds the text so often.
func (o *Output) AwaitTimes(t testing.TB, text string, times int) {
	t.Helper()
	enough := func() bool { return strings.Count(o.String(), text) >= times }
	Eventually(t, "the output says "+text, func() bool {
		select {
		case <-o.ended:
			if !enough() {
				t.Fatalf("the output ended without %q:\n%s", text, o)
			}
		default:
		}
		return enough()
	})
}
