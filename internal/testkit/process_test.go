package testkit

import (
	"testing"
	"time"
)

// A process's output, its exit code and its end.
func TestProcess(t *testing.T) {
	if r := Run(t, "/bin/sh", "-c", "echo out; echo err >&2; exit 3"); r != (Result{3, "out\n", "err\n"}) {
		t.Errorf("%+v", r)
	}
	p := Start(t, Command{Path: "/bin/sh", Args: []string{"-c", "ulimit -n; echo $WORD; cat"}, MostFiles: 77, Env: []string{"WORD=hello"}})
	p.AwaitAllGone() // cat has nothing to read
	if lines := p.Stdout.Lines(); len(lines) != 2 || lines[0] != "77" || lines[1] != "hello" {
		t.Errorf("%q", lines)
	}
	stuck := Start(t, Command{Path: "/bin/sh", Args: []string{"-c", "sleep 1000 & echo ready; wait"}})
	stuck.Stdout.Await(t, "ready")
	Eventually(t, "it has a child", func() bool { return len(Children(stuck.PID())) == 1 && len(Group(stuck.PID())) == 2 })
	if !stuck.Running() {
		t.Error("it ended")
	}
	stuck.end()
	// A process closes its files a moment before it is gone.
	Eventually(t, "the whole group is gone", func() bool { return len(Group(stuck.PID())) == 0 })
	if code := stuck.ExitCode(); code != -1 {
		t.Errorf("exit code %d after a kill", code)
	}
}

// Quantiles of a load's times.
func TestQuantile(t *testing.T) {
	var tally Tally
	if q := tally.Quantile(0.99); q != 0 {
		t.Errorf("of nothing: %s", q)
	}
	for i := range 100 {
		tally.Times = append(tally.Times, time.Duration(100-i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := tally.Quantile(q); got != want {
			t.Errorf("quantile %v: %d, want %d", q, got, want)
		}
	}
}
