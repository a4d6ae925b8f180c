package admin

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// memories are what the kernel tells of three workers on two of three nodes.
var memories = []struct {
	view   WorkerView
	memory map[int]int64
	want   string // node bytes place
}{
	{WorkerView{Index: 0, Node: 0, Nodes: []int{0}, Loops: 2}, map[int]int64{0: 900, 1: 100}, "0 900 local, 1 100 remote"},
	{WorkerView{Index: 1, Node: 0, Nodes: []int{0, 1}, Loops: 4}, map[int]int64{2: 5, 1: 30, 0: 50}, "0 50 either, 1 30 either, 2 5 remote"},
	{WorkerView{Index: 2, Node: 1, Nodes: []int{1}, Loops: 2}, nil, ""},
}

func TestWhereMemoryIs(t *testing.T) {
	var report Nodes
	var statuses []WorkerStatus
	for _, c := range memories {
		status := WorkerStatus{Index: c.view.Index, Node: c.view.Node, Loops: c.view.Loops, Traffic: Traffic{Connections: 7, Utilisation: 0.5}}
		w := newWorkerReport(c.view, status, c.memory)
		var got []string
		for _, m := range w.Memory {
			got = append(got, fmt.Sprint(m.Node, " ", m.Bytes, " ", m.Place))
		}
		if strings.Join(got, ", ") != c.want || w.Utilisation != 0.5 {
			t.Errorf("worker %d: %v, want %s; utilisation %g", w.Index, got, c.want, w.Utilisation)
		}
		statuses = append(statuses, status)
		report.Workers = append(report.Workers, w)
	}
	report.sum(newNodes(statuses))
	var got []string
	for _, n := range report.Nodes {
		got = append(got, fmt.Sprintf("node %d workers %v connections %d memory %d local %d remote %d",
			n.Node, n.Workers, n.Connections, n.MemoryBytes, n.LocalBytes, n.RemoteBytes))
	}
	want := []string{
		"node 0 workers [0 1] connections 14 memory 950 local 900 remote 105",
		"node 1 workers [2] connections 7 memory 130 local 0 remote 0",
		"node 2 workers [] connections 0 memory 5 local 0 remote 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// memoryCollector shows memories to a registry.
type memoryCollector struct{}

func (memoryCollector) Describe(to chan<- *prometheus.Desc) { to <- descMemory }

func (memoryCollector) Collect(to chan<- prometheus.Metric) {
	for _, c := range memories {
		collectMemory(to, c.view, c.memory, []string{fmt.Sprint(c.view.Index), fmt.Sprint(c.view.Node)})
	}
}

// What the metric says is what the page says.
func TestMetricOfMemory(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(memoryCollector{})
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	var got []string
	for _, m := range families[0].Metric {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		got = append(got, fmt.Sprintf("%s/%s: %s %g %s", labels["worker"], labels["node"], labels["memory_node"], m.Gauge.GetValue(), labels["place"]))
	}
	slices.Sort(got)
	want := []string{"0/0: 0 900 local", "0/0: 1 100 remote", "1/0: 0 50 either", "1/0: 1 30 either", "1/0: 2 5 remote"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The page of workers that are this very process: the kernel tells of its memory,
// or the page says why not.
func TestNodesPage(t *testing.T) {
	v := newFakeView(t)
	v.work()
	v.workers[0].Nodes, v.workers[1].Nodes = []int{0}, []int{1}
	v.workers[1].PID = 0 // died
	v.segment.Worker(0).LetOut.Store(5)
	v.segment.Worker(0).CalledBack.Store(4)
	v.segment.Worker(0).Away.Store(1)
	var got Nodes
	if body := request(v, "GET", "/nodes").Body.Bytes(); json.Unmarshal(body, &got) != nil {
		t.Fatalf("%s", body)
	}
	if len(got.Workers) != 2 || got.Workers[0].PID != os.Getpid() || got.Nodes[0].Requests != 200 || got.Nodes[1].Loops != 2 {
		t.Errorf("%+v", got)
	}
	if w := got.Workers[0]; w.LetOut != 5 || w.CalledBack != 4 || w.Away != 1 {
		t.Errorf("5 loops were let out, 4 called back, 1 is away: %+v", w)
	}
	if len(got.Workers[1].Memory) != 0 {
		t.Errorf("a worker that is dead has memory: %+v", got.Workers[1])
	}
	var told int64
	for _, n := range got.Nodes {
		told += n.MemoryBytes
	}
	if got.MemoryUnknown == "" && told < 1<<20 {
		t.Errorf("%d bytes are told of a Go program: %+v", told, got)
	}
}
