package suite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sluice/bench/proc"
	"sluice/bench/report"
)

// Names of the workloads, as in PERFORMANCE.md, in the order they run.
var Names = []string{"W1", "W2", "W3", "W4", "W5", "W6", "W6-TLS", "W7", "W7-TLS", "W8", "W9", "W12"}

// Run runs the named workloads on the rig, whose backends are open, and gives their
// tables. cpus are all that the benchmark may use.
func Run(ctx context.Context, r *Rig, names []string, cpus []int) ([]report.Table, error) {
	runs := map[string]func() ([]report.Table, error){
		"W1":     func() ([]report.Table, error) { return w1.run(ctx, r) },
		"W2":     func() ([]report.Table, error) { return w2.run(ctx, r) },
		"W3":     func() ([]report.Table, error) { return w3.run(ctx, r) },
		"W4":     func() ([]report.Table, error) { return w4.run(ctx, r) },
		"W5":     func() ([]report.Table, error) { return several(ctx, r, w5...) },
		"W6":     func() ([]report.Table, error) { return several(ctx, r, w6small, w6large) },
		"W6-TLS": func() ([]report.Table, error) { return several(ctx, r, w6tls...) },
		"W7":     func() ([]report.Table, error) { return w7.run(ctx, r) },
		"W7-TLS": func() ([]report.Table, error) { return w7tls.run(ctx, r) },
		"W8":     func() ([]report.Table, error) { return open(ctx, r) },
		"W9":     func() ([]report.Table, error) { return w9.run(ctx, r) },
		"W12":    func() ([]report.Table, error) { return scale(ctx, r, cpus) },
	}
	var all []report.Table
	for _, name := range names {
		tables, err := runs[name]()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, tables...)
	}
	return all, nil
}

// Check says which of names is not a workload.
func Check(names []string) error {
	for _, n := range names {
		if !slices.Contains(Names, n) {
			return fmt.Errorf("no workload %q; there are %s", n, strings.Join(Names, ", "))
		}
	}
	return nil
}

// Method says in sentences how the rig measures.
func (r *Rig) Method() []string {
	l := r.Layout
	said := []string{
		fmt.Sprintf("The figure is CPU time, user and system, of all the proxy's processes (master, supervisor, workers), from the kernel's "+
			"per-process CPU clock; the proxy has CPU %v, the load generator %v, the backend %v. A proxy is set to as many threads, workers or loops as it has CPUs.",
			l.Proxy, l.Load, l.Backend),
		fmt.Sprintf("%d rounds of %v after %v of warming up, each proxy started anew, in turning order (A B C, B C A, …). Ratios are taken "+
			"round by round; given are their geometric mean and its 95 %% interval (Student's t on logarithms).", r.Rounds, r.Measure, r.Warm),
		"base ÷ it is Sluice's cost as a multiple of the peer's, so below 1 Sluice is cheaper; in rows that have another base it is named. " +
			"A goal is met or missed only if the whole interval is on one side of it.",
		"Every proxy adds X-Forwarded-For, -Proto, -Host, -Port, Via and X-Request-Id, keeps its backend connections, and writes no access log but where a row says so; " +
			"the configurations are in bench/configs.",
		"floor relays bytes without looking at them: recv, send, recv, send and epoll (bench/floor/floor.c). It adds no header, so it is a limit and not a proxy.",
	}
	return append(said, r.methodOverTLS()...)
}

// Unpin gives the benchmark itself the CPUs that are not the proxy's.
func (r *Rig) Unpin() error {
	return proc.PinAll(slices.Concat(slices.Concat(r.Layout.Load...), slices.Concat(r.Layout.Backend...)))
}
