package suite

import (
	"context"
	"fmt"

	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/report"
)

// scaleConns is the number of connections for each CPU of the proxy.
const scaleConns = 64

// step is one size of the proxy in W12.
type step struct {
	cpus   int
	layout Layout
}

// scale is W12: Sluice and nginx on one CPU, on two, and so on, one loop or worker
// for each. If nothing is shared on the hot path, the cost of a request stays.
func scale(ctx context.Context, r *Rig, cpus []int) ([]report.Table, error) {
	steps := steps(cpus)
	entrants, sizes := scaleEntrants(r.Peers, steps)
	tallies := make([]tally, len(entrants))
	err := interleave(ctx, turns{"W12", entrants, r.Rounds, r.Progress},
		func(ctx context.Context, e Entrant) (Round, error) { return r.scaled(ctx, e, sizes[e.Name]) },
		func(i int, round Round, err error) { tallies[i].add(round, err) })
	if err != nil {
		return nil, err
	}
	return []report.Table{scaleTable(entrants, sizes, tallies, len(cpus))}, nil
}

// scaled is one round on a rig of its own layout, with its own backends.
func (r *Rig) scaled(ctx context.Context, e Entrant, s step) (Round, error) {
	sized := *r
	sized.Layout, sized.backends = s.layout, nil
	defer sized.Close()
	if err := sized.Open(ctx); err != nil {
		return Round{}, err
	}
	each := scaleConns * s.cpus / len(s.layout.Load)
	return sized.run(ctx, e, load.Job{Conns: each, Target: "/53", Warm: r.Warm, Measure: r.Measure})
}

// steps double the proxy's CPUs, up to a third of the machine, so that generators
// and backends have as many each; but at least to two, where they must share.
func steps(cpus []int) []step {
	var all []step
	for n := 1; n <= len(cpus) && (n <= 2 || 3*n <= len(cpus)); n *= 2 {
		all = append(all, step{cpus: n, layout: spread(cpus, n)})
	}
	return all
}

// spread gives the proxy the first n CPUs, and each of up to n generators and
// backends one of the others in turn. Without others, they share all.
func spread(cpus []int, n int) Layout {
	rest := cpus[n:]
	if len(rest) == 0 {
		return Layout{Proxy: cpus[:n], Load: [][]int{cpus}, Backend: [][]int{cpus}, Shared: true}
	}
	l := Layout{Proxy: cpus[:n]}
	pairs := max(1, min(n, len(rest)/2))
	for i := range pairs {
		l.Load = append(l.Load, rest[i:i+1])
		l.Backend = append(l.Backend, rest[(pairs+i)%len(rest):][:1])
	}
	return l
}

// scaleEntrants are Sluice and nginx at each step, compared with themselves on one CPU.
func scaleEntrants(all []peers.Peer, steps []step) ([]Entrant, map[string]step) {
	var entrants []Entrant
	sizes := map[string]step{}
	for _, p := range all {
		if p.Missing != "" || p.Name != peers.Sluice && p.Name != peers.Nginx {
			continue
		}
		for _, s := range steps {
			name := fmt.Sprintf("%s, CPUs: %d", p.Name, s.cpus)
			sizes[name] = s
			entrants = append(entrants, Entrant{Name: name, Base: fmt.Sprintf("%s, CPUs: 1", p.Name), Peer: p})
		}
	}
	return entrants, sizes
}

func scaleTable(entrants []Entrant, sizes map[string]step, tallies []tally, cpus int) report.Table {
	t := report.Table{
		ID: "W12", Title: "on 1, 2, … CPUs, a loop or worker and 64 connections for each",
		Metric: "CPU time of the proxy's processes per request, µs",
		Extras: []string{"requests/s", "requests/s per CPU", "proxy CPU busy"},
		Notes:  []string{"a ratio of 1 is flat: the inverse of the cost is throughput per CPU"},
	}
	shared := false
	for i, e := range entrants {
		y, size := &tallies[i], sizes[e.Name]
		row := report.Row{Name: e.Name, Base: e.Base, Notes: y.faults}
		row.Rounds = y.figures(func(r Round) float64 { return r.CPU / r.Rate() * 1e6 })
		if y.good() > 0 {
			rate := y.mean(Round.Rate)
			row.Extra = []string{fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.0f", rate/float64(size.cpus)),
				percent(y.mean(func(r Round) float64 { return r.Proxy }))}
		}
		shared = shared || size.layout.Shared
		t.Rows = append(t.Rows, row)
	}
	t.Compare()
	if shared {
		t.Notes = append(t.Notes, fmt.Sprintf("this machine has %d CPUs: with %d for the proxy, load generator and backend run on the same ones; "+
			"requests/s then says nothing, and the CPU time holds their disturbance of the caches. Whether throughput per CPU stays flat "+
			"over many CPUs or over NUMA nodes cannot be shown here.", cpus, cpus))
	}
	return t
}
