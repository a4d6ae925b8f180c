package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/admin"
)

// someNodes are two nodes with a worker each, and one with memory only.
func someNodes() *admin.Nodes {
	busy := admin.Traffic{Connections: 1204, Active: 104, Requests: 50_000, RequestsPerSecond: 812.4, Utilisation: 0.61,
		Crossings: admin.Crossings{Local: 45_000, Remote: 5000, Spilled: 4800}}
	return &admin.Nodes{
		Nodes: []admin.NodeReport{
			{NodeStatus: admin.NodeStatus{Node: 0, Workers: []int{0}, Loops: 4, Traffic: busy}, MemoryBytes: 12 << 20, LocalBytes: 11 << 20, RemoteBytes: 1 << 20},
			{NodeStatus: admin.NodeStatus{Node: 1, Workers: []int{1}, Loops: 2}, MemoryBytes: 1 << 20},
			{NodeStatus: admin.NodeStatus{Node: 2}},
		},
		Workers: []admin.WorkerReport{
			{Index: 0, PID: 101, Node: 0, Nodes: []int{0}, CPUs: []int{0, 1, 2, 3}, Loops: 4, State: "serving", Utilisation: 0.61, Away: 1,
				Memory: []admin.NodeMemory{{Node: 0, Bytes: 11 << 20}, {Node: 1, Bytes: 1 << 20}}},
			{Index: 1, Node: 1, Nodes: []int{1, 2}, CPUs: []int{4, 6}, Loops: 2, State: "restarting"},
		},
	}
}

const nodesTables = `NODE  WORKERS  LOOPS  CONNS  ACTIVE  REQUESTS  REQ/S  OWN-SERVERS  SPILLED  BUSY  MEMORY  LOCAL  REMOTE
   0        1      4   1204     104     50000    812          90%     4800   61%  12 MiB    92%      8%
   1        1      2      0       0         0      0            -        0    0%   1 MiB      -       -
   2        0      0      0       0         0      0            -        0    0%     0 B      -       -

WORKER  PID  NODE  CPUS  LOOPS  AWAY  STATE       BUSY  ON-NODE-0  ON-NODE-1
     0  101     0  0-3       4     1  serving      61%     11 MiB      1 MiB
     1    0   1-2  4,6       2     0  restarting    0%          -          -

`

func TestStatusOfNodes(t *testing.T) {
	answer := someNodes()
	var asked string
	address := pretend(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		json.NewEncoder(w).Encode(answer)
	})
	code, stdout, stderr := command(t.Context(), "status", "--nodes", "--admin", address)
	if code != exitOK || stdout != nodesTables || asked != "/nodes" {
		t.Errorf("exit code %d, asked %s: %s%s", code, asked, stdout, stderr)
	}
	answer.MemoryUnknown = "open proc/101/numa_maps: permission denied"
	_, stdout, _ = command(t.Context(), "status", "--nodes", "--admin", address)
	if !strings.HasSuffix(stdout, "\nThe kernel does not tell where memory is: open proc/101/numa_maps: permission denied.\n") {
		t.Errorf("without memory:\n%s", stdout)
	}
	_, stdout, _ = command(t.Context(), "status", "--nodes", "--json", "--admin", address)
	var got admin.Nodes
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || len(got.Nodes) != 3 {
		t.Errorf("%v: %s", err, stdout)
	}
	if code, _, stderr := command(t.Context(), "status", "--nodes", "--limits", "--admin", address); code != exitUsage {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestWatchNodes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	address := pretend(t, func(w http.ResponseWriter, _ *http.Request) {
		if seen++; seen == 3 {
			cancel()
		}
		json.NewEncoder(w).Encode(someNodes())
	})
	var out strings.Builder
	w := &watcher{address: address, out: &out, every: 1}
	if err := w.untilSignal(ctx, w.watchNodes); err != nil {
		t.Error(err)
	}
	if screens := strings.Count(out.String(), clearScreen+nodesTables); screens < 2 {
		t.Errorf("%d screens after 2 whole looks:\n%s", screens, &out)
	}
}

func TestNodesOfSomethingElse(t *testing.T) {
	address := pretend(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) })
	if code, _, stderr := command(t.Context(), "status", "--nodes", "--admin", address); code != exitFail || !strings.Contains(stderr, "not the nodes of a Sluice") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
