package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sluice/internal/place"
	"sluice/internal/placement"
	"sluice/internal/process"
	"sluice/internal/topology"
)

// outcomes are of a family that was moved to node 2, in part.
var outcomes = []place.Outcome{
	{Process: process.Process{PID: 4711, Name: "app"}, Threads: 12, Moved: 12, Before: []int{0, 1, 2, 3}, After: []int{4, 5},
		Held: map[int]int64{0: 12 << 20, 2: 4 << 10}, Holds: map[int]int64{0: 8 << 10, 2: 12<<20 - 4<<10}, Stayed: 2, Policies: []string{"prefer:0"}},
	{Process: process.Process{PID: 4712, Name: "wor\x1bker"}, Threads: 1, Before: []int{0, 1}, After: []int{0, 1},
		Faults: []string{"CPUs 4-5: operation not permitted; be root, or the user that it runs as"}},
	{Process: process.Process{PID: 4713, Name: "sh"}, Threads: 1, Before: []int{0}, Held: map[int]int64{1: 100 << 10}, Ended: true},
}

func TestPrintPlaced(t *testing.T) {
	target := place.Target{Node: 2, CPUs: []int{4, 5}, Memory: placement.MemoryPrefer, Notes: []string{"it is Saturday"}}
	var placed, planned strings.Builder
	if err := printPlaced(&placed, target, outcomes); err != nil {
		t.Fatal(err)
	}
	if err := printPlan(&planned, target, outcomes[:1]); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ got, want string }{
		{placed.String(), `
Node 2, CPUs 4-5

 PID  NAME     THREADS  CPUS       MEMORY
4711  app           12  0-3 → 4-5  N0 12 MiB, N2 4 KiB → N0 8 KiB, N2 12 MiB
4712  wor?ker        1  0-1 → 0-1  - → -
4713  sh             1  0 → ended  N1 100 KiB → ended

Note: it is Saturday
4711 app: 2 pages stayed, being locked or in use
4711 app: its program has a memory policy of its own, prefer:0: new pages come from there; --memory bind overrules it
4712 wor?ker: CPUs 4-5: operation not permitted; be root, or the user that it runs as
`},
		{planned.String(), `
Would move 1 process to node 2, CPUs 4-5; nothing is changed.

 PID  NAME  THREADS  CPUS       MEMORY
4711  app        12  0-3 → 4-5  N0 12 MiB, N2 4 KiB → N0 8 KiB, N2 12 MiB

`},
	} {
		if c.got != c.want[1:] {
			t.Errorf("printed\n%swant%s", c.got, c.want)
		}
	}
	if err := partFailed(faulty(outcomes)); err == nil || err.Error() != "a part was not done, of 1 process: see above" {
		t.Error(err)
	}
	if err := partFailed(faulty(outcomes[:1])); err != nil {
		t.Error(err)
	}
}

// A real process: shown, placed, and watched until it ends.
func TestPlaceCommand(t *testing.T) {
	machine, err := topology.Read("/")
	if err != nil {
		t.Fatal(err)
	}
	cpu := topology.Allowed()[0]
	at := []string{"--node", fmt.Sprint(machine.NodeOf(cpu)), "--cpus", fmt.Sprint(cpu)}
	sleeper := exec.Command("cat")
	stdin, err := sleeper.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	pid := fmt.Sprint(sleeper.Process.Pid)
	place := slices.Concat([]string{"place", pid}, at)
	before := topology.FormatCPUs(topology.Allowed())

	code, stdout, stderr := command(t.Context(), append(place, "--dry-run")...)
	if code != 0 || !strings.Contains(stdout, "Would move 1 process") || !strings.Contains(stdout, before+" → "+at[3]) {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = command(t.Context(), place...)
	if code != 0 || !strings.Contains(stdout, before+" → "+at[3]) {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	printed, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		defer out.Close()
		ended <- execute(t.Context(), append(place, "--watch"), out, out)
	}()
	lines := bufio.NewScanner(printed)
	for lines.Scan() && !strings.Contains(lines.Text(), "cat") {
	}
	stdin.Close()
	sleeper.Wait()
	var last string
	for lines.Scan() {
		last = lines.Text()
	}
	if code := <-ended; code != 0 || last != "all its processes have ended" {
		t.Errorf("exit code %d: %s", code, last)
	}
	code, _, stderr = command(t.Context(), place...)
	if code != 1 || stderr != "sluice: there is no process "+pid+"\n" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
