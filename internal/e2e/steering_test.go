package e2e

import (
	"fmt"
	"regexp"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/testkit"
)

// placed is a script that answers with the placement that it was told.
func placed(p *testkit.Peer) {
	for {
		text := p.Request().Get("X-Sluice-Placement")
		p.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
	}
}

var loopIn = regexp.MustCompile(`loop=\d+`)

// All connections arrive on one CPU, and with it on one loop. While that has few it
// keeps them; then it hands new ones over, until the other has nearly as many.
func TestHandOver(t *testing.T) {
	t.Parallel()
	s := start(t, farm(testkit.Serve(t, placed).URL()), "forward: {placement: true}", "workers: {per: machine, loops: 2}",
		`listeners: [{name: web, address: "127.0.0.1:0", steering: cpu}]`)
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cpus); err != nil {
		t.Fatal(err)
	}
	first := 0
	for !cpus.IsSet(first) {
		first++
	}
	var only unix.CPUSet
	only.Set(first)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		t.Fatal(err)
	}
	const few, all = 17, 200
	byLoop := map[string]int{}
	for i := range all {
		c := s.dial()
		c.Send(testkit.Request("GET", "/"))
		byLoop[loopIn.FindString(string(c.Respond("GET").Body))]++
		if i+1 == few && cpus.Count() > 1 && byLoop["loop=0"] != few {
			t.Errorf("of the first %d connections: %v", few, byLoop)
		}
	}
	t.Logf("connections by loop: %v", byLoop)
	if a, b := byLoop["loop=0"], byLoop["loop=1"]; a+b != all || min(a, b) < all*2/5 {
		t.Errorf("connections by loop: %v", byLoop)
	}
	handed := s.metrics()[`sluice_handed_over_connections_total{node="0",worker="0"}`]
	if cpus.Count() > 1 && int(handed) != byLoop["loop=1"] {
		t.Errorf("%v connections are counted as handed over: %v", handed, byLoop)
	}
}
