package admin

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/process"
	"sluice/internal/segment"
)

// Nodes is what GET /nodes answers, and `sluice status --nodes` prints. Units are
// as in Status. Memory is anonymous memory: heap and stacks, not files and what
// processes share. To see where it is the kernel walks the page tables, about 10 ms
// for each GiB of small pages; so it is read when somebody asks here or at
// /metrics, and is not in Status.
type Nodes struct {
	Time    time.Time      `json:"time"` // of this answer
	Nodes   []NodeReport   `json:"nodes"`
	Workers []WorkerReport `json:"workers"`

	// MemoryUnknown is why the kernel did not tell of some worker's memory.
	MemoryUnknown string `json:"memory_unknown,omitempty"`
}

// NodeReport is a NUMA node that has workers, or memory of theirs.
type NodeReport struct {
	NodeStatus
	MemoryBytes int64 `json:"memory_bytes"` // on this node, of all workers
	LocalBytes  int64 `json:"local_bytes"`  // of this node's workers, on their own nodes
	RemoteBytes int64 `json:"remote_bytes"` // of this node's workers, on other nodes
}

// WorkerReport is where one listener process's memory is.
type WorkerReport struct {
	Index       int          `json:"index"`
	PID         int          `json:"pid"`
	Node        int          `json:"node"`
	Nodes       []int        `json:"nodes"` // all that it has CPUs of
	CPUs        []int        `json:"cpus"`
	Loops       int          `json:"loops"`
	State       string       `json:"state"`
	Utilisation float64      `json:"utilisation"`       // as in Traffic
	Away        int64        `json:"loops_away"`        // loops that may run on other workers' CPUs now
	LetOut      int64        `json:"loops_let_out"`     // times that one was let out
	CalledBack  int64        `json:"loops_called_back"` // and called back
	Memory      []NodeMemory `json:"memory,omitempty"`  // by node, ascending; none: unknown
}

// NodeMemory is a worker's memory on one node.
type NodeMemory struct {
	Node  int    `json:"node"`
	Bytes int64  `json:"bytes"`
	Place string `json:"place"` // local, remote or either
}

// Where a worker's memory is, as seen from its CPUs. What is on one of several
// nodes that it has CPUs of is near some of its loops and far from others.
const (
	placeLocal  = "local"
	placeRemote = "remote"
	placeEither = "either"
)

// memoryOf asks the kernel where a process's memory is. A process that has gone,
// as a dead worker's, has none.
func memoryOf(pid int) (map[int]int64, error) {
	if pid == 0 {
		return nil, nil
	}
	return process.Anonymous(os.DirFS("/"), pid)
}

// nodeMemory orders a worker's memory by node.
func nodeMemory(w WorkerView, memory map[int]int64) []NodeMemory {
	var list []NodeMemory
	for _, node := range slices.Sorted(maps.Keys(memory)) {
		place := placeRemote
		if slices.Contains(w.Nodes, node) {
			place = placeLocal
			if len(w.Nodes) > 1 {
				place = placeEither
			}
		}
		list = append(list, NodeMemory{Node: node, Bytes: memory[node], Place: place})
	}
	return list
}

// nodes answers GET /nodes.
func (p pages) nodes(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	report := &Nodes{Time: now, Nodes: []NodeReport{}, Workers: []WorkerReport{}}
	var statuses []WorkerStatus
	for _, v := range p.view.Workers() {
		totals := p.view.Segment().Totals(v.Index)
		status := newWorker(v, &totals, p.samples.rate(v, totals, now))
		memory, err := memoryOf(v.PID)
		if err != nil {
			report.MemoryUnknown = err.Error()
		}
		statuses = append(statuses, status)
		worker := newWorkerReport(v, status, memory)
		worker.roamed(p.view.Segment().Worker(v.Index))
		report.Workers = append(report.Workers, worker)
	}
	report.sum(newNodes(statuses))
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.Encode(report) // fails only if the client has gone
}

func newWorkerReport(v WorkerView, s WorkerStatus, memory map[int]int64) WorkerReport {
	return WorkerReport{
		Index: v.Index, PID: v.PID, Node: v.Node, Nodes: v.Nodes, CPUs: v.CPUs, Loops: v.Loops, State: v.State,
		Utilisation: s.Utilisation, Memory: nodeMemory(v, memory),
	}
}

// roamed adds how loops left the worker's CPUs.
func (w *WorkerReport) roamed(s *segment.WorkerStats) {
	w.Away, w.LetOut, w.CalledBack = s.Away.Load(), s.LetOut.Load(), s.CalledBack.Load()
}

// sum adds the workers' memory to their nodes. A node on which there is only
// memory is added, with no worker.
func (n *Nodes) sum(nodes []NodeStatus) {
	for _, s := range nodes {
		n.Nodes = append(n.Nodes, NodeReport{NodeStatus: s})
	}
	for _, w := range n.Workers {
		for _, m := range w.Memory {
			n.at(m.Node).MemoryBytes += m.Bytes
			switch m.Place {
			case placeLocal:
				n.at(w.Node).LocalBytes += m.Bytes
			case placeRemote:
				n.at(w.Node).RemoteBytes += m.Bytes
			}
		}
	}
	slices.SortFunc(n.Nodes, func(a, b NodeReport) int { return a.Node - b.Node })
}

// at finds a node's report, or makes it.
func (n *Nodes) at(node int) *NodeReport {
	i := slices.IndexFunc(n.Nodes, func(r NodeReport) bool { return r.Node == node })
	if i < 0 {
		i = len(n.Nodes)
		n.Nodes = append(n.Nodes, NodeReport{NodeStatus: NodeStatus{Node: node, Workers: []int{}}})
	}
	return &n.Nodes[i]
}

var descMemory = prometheus.NewDesc("sluice_worker_node_memory_bytes",
	"Anonymous memory of the worker's process by the node that it is on. Place is local, remote, or either for a worker with CPUs of several nodes.",
	append(workerLabels, "memory_node", "place"), nil)

// collectMemory sends where a worker's memory is.
func collectMemory(to chan<- prometheus.Metric, w WorkerView, memory map[int]int64, labels []string) {
	for _, m := range nodeMemory(w, memory) {
		to <- prometheus.MustNewConstMetric(descMemory, prometheus.GaugeValue, float64(m.Bytes), append(labels, strconv.Itoa(m.Node), m.Place)...)
	}
}
