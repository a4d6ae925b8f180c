package tidy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// row says which packages of this module one package may import.
type row struct {
	from string
	to   []string
	why  string // what the package is, and so why it needs those
}

// arrows are all imports inside the module. Arrows point down this list: a row
// may only name packages of later rows. A new arrow is a design decision; its
// reason stands in the commit that adds it here.
//
// The benches are not here: they look at Sluice from outside (benchArrows).
var arrows = []row{
	{"cmd/sluice", to("admin", "affinity", "config", "demo", "place", "placement", "supervisor", "tlsterm/keyring", "topology", "tune", "worker"), "the program: each command wires one role"},

	{"cmd/hb", []string{"cmd/hb/client", "cmd/hb/engine", "cmd/hb/measure", "cmd/hb/plan", "cmd/hb/report", "cmd/hb/verdict"}, "the load generator: a client of Sluice, and nothing of it"},
	{"cmd/hb/report", []string{"cmd/hb/client", "cmd/hb/engine", "cmd/hb/measure"}, "shows a run and its result"},
	{"cmd/hb/engine", []string{"cmd/hb/client", "cmd/hb/measure", "cmd/hb/plan"}, "drives clients through a plan"},
	{"cmd/hb/verdict", []string{"cmd/hb/client", "cmd/hb/measure"}, "judges a result: knows no run"},
	{"cmd/hb/measure", []string{"cmd/hb/client", "cmd/hb/plan"}, "counts and times, by the stages of a plan"},
	{"cmd/hb/plan", []string{"cmd/hb/client"}, "words to a plan: opens nothing"},
	{"cmd/hb/client", []string{"cmd/hb/frame"}, "one virtual client"},
	{"cmd/hb/frame", nil, "frames as bytes: no connection, no state"},

	{"internal/demo", to("affinity", "config", "placement", "topology"), "app workers on their nodes, and a configuration for them"},
	{"internal/supervisor", to("admin", "admission/limit", "admission/regulator", "affinity", "config", "homes", "placement", "segment", "spec", "tlsterm/authority", "tlsterm/keyring", "topology"), "processes and sockets: no traffic"},
	{"internal/admin", to("config", "process", "segment", "spec"), "what an operator sees: reads the segment, knows no worker"},

	{"internal/worker", to("accesslog", "admission", "affinity", "affinity/spread", "config", "http3", "proxy", "proxyproto", "reactor", "segment", "spec", "tcp", "tlsconn", "tlsterm", "upstream"), "the only one that knows all of traffic"},
	{"internal/tcp", to("accesslog", "config", "reactor", "segment", "sni", "tunnel", "upstream"), "raw TCP: steps of its own, no message"},
	{"internal/proxy", to("accesslog", "admission", "admission/gate", "admission/queue", "config", "grpcweb", "http1", "http2", "message", "reactor", "route", "segment", "tunnel", "upstream"), "one exchange: the numbered steps"},
	{"internal/admission", to("admission/gate", "admission/queue", "segment", "upstream"), "who may go to which server now: knows no message"},
	{"internal/tunnel", to("reactor", "segment"), "bytes both ways: knows no protocol"},
	{"internal/upstream", to("config", "proxyproto", "reactor", "segment", "tlsconn"), "servers and their connections: bytes, no messages"},
	{"internal/accesslog", to("config", "segment"), "a line for each request: told everything, asks nobody"},
	{"internal/route", to("config"), "an immutable table"},
	{"internal/http3", to("http2", "http2/hpack", "message", "reactor"), "a codec over QUIC, and its way to a loop: no counters of Sluice's, no server; the rules of requests are http2's, and the Huffman code is hpack's"},
	{"internal/http2", to("http1", "http2/hpack", "message", "reactor"), "a codec with a connection's state: no logs, no counters of Sluice's, no server"},
	{"internal/grpcweb", to("message"), "what browsers say for gRPC: bytes only"},
	{"internal/http1", to("message"), "a codec: no logs, no clock, no connection"},
	{"internal/http2/hpack", to("message"), "a codec: blocks of one connection, no frames"},
	{"internal/sni", nil, "a codec: touches no connection"},
	{"internal/proxyproto", nil, "a codec: touches no connection"},
	{"internal/message", nil, "the one message form"},
	{"internal/tlsconn", to("reactor", "segment"), "a connection over TLS: told how by a tls.Config, logs nothing"},
	{"internal/reactor", nil, "loops and tasks: no HTTP, no counters of Sluice's"},

	{"internal/homes", to("config", "process", "segment", "topology"), "on which node servers run: reads proc, meets no request"},
	{"internal/admission/regulator", to("admission/limit", "segment"), "the supervisor's side of admission: meets no request"},
	{"internal/admission/gate", to("segment"), "permits in shared memory: no queue, no clock"},
	{"internal/admission/limit", nil, "a pure controller: no clock, no queue, no configuration"},
	{"internal/admission/queue", nil, "who waits and who is next: no clock, no lock, no limit"},
	{"internal/affinity", to("placement", "topology"), "applies a plan"},
	{"internal/affinity/spread", nil, "when loops may leave their CPUs: pure"},
	{"internal/place", to("placement", "process", "topology"), "moves running processes: told how, so that a test can pretend"},
	{"internal/tune", to("placement", "process", "topology"), "plans for network cards, and writes that"},
	{"internal/placement", to("topology"), "makes a plan"},
	{"internal/process", to("topology"), "reads what runs on the machine"},
	{"internal/topology", nil, "reads the machine"},
	{"internal/topology/shape", nil, "draws machines for tests"},
	{"internal/tlsterm", to("config", "spec"), "how TLS ends: told everything, no file, no connection"},
	{"internal/tlsterm/authority", to("config", "spec", "tlsterm/keyring"), "asks who signs certificates: HTTP outwards, meets no client"},
	{"internal/tlsterm/keyring", to("config", "spec"), "the supervisor's side of TLS: reads files, meets no client"},
	{"internal/spec", to("config"), "what crosses from supervisor to worker"},
	{"internal/segment", nil, "what both share"},
	{"internal/config", nil, "names and defaults"},

	{"internal/e2e", nil, "tests only"},
	{"internal/guest", []string{"internal/guest/order", "internal/testkit"}, "for tests: a machine with nodes"},
	{"internal/guest/agent", []string{"internal/guest/order"}, "the program in a guest: nothing of a test, nothing of Sluice"},
	{"internal/guest/order", nil, "what a test and its guest say to each other"},
	{"internal/testkit", nil, "for tests"},
	{"internal/tidy", nil, "tests only"},
}

// to names internal packages.
func to(names ...string) []string {
	for i, name := range names {
		names[i] = "internal/" + name
	}
	return names
}

// Supervisor and worker are two programs in one binary. A package of both is a
// place where traffic and administration would meet, so each has a reason.
var (
	supervisorSide = to("supervisor", "admin", "demo")
	workerSide     = to("worker")
	sharedBySides  = map[string]string{
		"internal/spec":      "it is what crosses",
		"internal/segment":   "it is what crosses",
		"internal/config":    "the spec carries it",
		"internal/affinity":  "the supervisor places processes, a worker pins its loops",
		"internal/placement": "affinity applies its plan",
		"internal/topology":  "placement's plan names its CPUs",
	}
)

// arrowsRule holds the imports of code that is no test against the table.
func arrowsRule(table []row) rule {
	return func(tr *tree) []string {
		faults := upwardArrows(table)
		graph := imports(tr)
		for _, from := range slices.Sorted(maps.Keys(graph)) {
			if inBench(from) {
				faults = append(faults, benchArrows(from, graph[from])...)
				continue
			}
			i := slices.IndexFunc(table, func(r row) bool { return r.from == from })
			if i < 0 {
				faults = append(faults, fmt.Sprintf("%s: is not in the table of arrows; add a row to internal/tidy/arrows_test.go above all that it imports", from))
				continue
			}
			faults = append(faults, table[i].compare(graph[from])...)
		}
		return faults
	}
}

// upwardArrows finds rows that allow what stands above them or nowhere.
func upwardArrows(table []row) []string {
	var faults []string
	for i, r := range table {
		for _, to := range r.to {
			if !slices.ContainsFunc(table[i+1:], func(below row) bool { return below.from == to }) {
				faults = append(faults, fmt.Sprintf("%s: the table allows an arrow to %s, which has no row below; move the rows", r.from, to))
			}
		}
	}
	return faults
}

// compare finds arrows of one package that are not in its row, and those in its
// row that it does not use: a permission that nobody needs is not a decision.
func (r row) compare(used []string) []string {
	var faults []string
	for _, to := range used {
		if !slices.Contains(r.to, to) {
			faults = append(faults, fmt.Sprintf("%s: imports %s, but is %q; invert the need, or add the arrow to internal/tidy/arrows_test.go and say why in the commit", r.from, to, r.why))
		}
	}
	for _, to := range r.to {
		if !slices.Contains(used, to) {
			faults = append(faults, fmt.Sprintf("%s: no longer imports %s; remove the arrow from internal/tidy/arrows_test.go", r.from, to))
		}
	}
	return faults
}

// benchArrows finds imports of a bench that reach into Sluice.
func benchArrows(from string, used []string) []string {
	var faults []string
	for _, to := range used {
		if !inBench(to) {
			faults = append(faults, fmt.Sprintf("%s: imports %s; a bench treats Sluice like its peers, from outside", from, to))
		}
	}
	return faults
}

func inBench(dir string) bool { return dir == "bench" || strings.HasPrefix(dir, "bench/") }

// imports is the graph of the module: for each package the directories of this
// module that its code imports, tests aside.
func imports(tr *tree) map[string][]string {
	graph := map[string][]string{}
	for dir, files := range tr.packages() {
		var used []string
		for _, f := range files {
			for _, spec := range f.syntax.Imports {
				if to, ours := strings.CutPrefix(importPath(spec), module+"/"); ours {
					used = append(used, to)
				}
			}
		}
		slices.Sort(used)
		graph[dir] = slices.Compact(used)
	}
	return graph
}

// sidesRule finds packages that both sides reach, over any number of arrows,
// without a reason.
func sidesRule(one, other []string, shared map[string]string) rule {
	return func(tr *tree) []string {
		graph := imports(tr)
		left, right := reach(graph, one), reach(graph, other)
		var faults []string
		for _, dir := range slices.Sorted(maps.Keys(left)) {
			if right[dir] && shared[dir] == "" {
				faults = append(faults, fmt.Sprintf("%s: is reached from the supervisor and from the worker, which share only %v; split it", dir, slices.Sorted(maps.Keys(shared))))
			}
		}
		return faults
	}
}

// reach is everything that the given packages import, and they themselves.
func reach(graph map[string][]string, from []string) map[string]bool {
	seen := map[string]bool{}
	for queue := slices.Clone(from); len(queue) > 0; queue = queue[1:] {
		if !seen[queue[0]] {
			seen[queue[0]] = true
			queue = append(queue, graph[queue[0]]...)
		}
	}
	return seen
}

// testPackageRule keeps packages that are made for tests out of other code.
func testPackageRule(testOnly ...string) rule {
	return func(tr *tree) []string {
		var faults []string
		for _, f := range tr.goFiles() {
			for _, spec := range f.syntax.Imports {
				to, _ := strings.CutPrefix(importPath(spec), module+"/")
				if slices.Contains(testOnly, to) && !f.isTest() && !slices.Contains(testOnly, f.dir()) {
					faults = append(faults, tr.fault(spec.Pos(), "imports %s outside a test", to))
				}
			}
		}
		return faults
	}
}
