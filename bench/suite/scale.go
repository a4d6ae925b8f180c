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

// Sized is an entrant with CPUs of its own, and with backends of its own.
type Sized struct {
	Entrant
	Layout Layout
}

// Series runs entrants that differ in their CPUs, in turns: short responses over
// kept-alive connections, 64 for each CPU of the proxy.
func (r *Rig) Series(ctx context.Context, id string, all []Sized) ([]Tally, error) {
	tallies := make([]Tally, len(all))
	err := Interleave(ctx, Turns[Sized]{id, all, r.Rounds, r.Progress}, r.sized,
		func(i int, round Round, err error) { tallies[i].Add(round, err) })
	return tallies, err
}

// sized is one round on a rig of its own layout.
func (r *Rig) sized(ctx context.Context, s Sized) (Round, error) {
	own := *r
	own.Layout, own.backends = s.Layout, nil
	defer own.Close()
	if err := own.Open(ctx); err != nil {
		return Round{}, err
	}
	each := max(1, scaleConns*len(s.Layout.Proxy)/len(s.Layout.Load))
	return own.run(ctx, s.Entrant, load.Job{Conns: each, Target: "/53", Warm: r.Warm, Measure: r.Measure})
}

// scale is W12: Sluice and nginx on one CPU, on two, and so on, one loop or worker
// for each. If nothing is shared on the hot path, the cost of a request stays.
// bench/scaling goes further.
func scale(ctx context.Context, r *Rig, cpus []int) ([]report.Table, error) {
	entrants := scaleEntrants(r.Peers, steps(cpus))
	tallies, err := r.Series(ctx, "W12", entrants)
	if err != nil {
		return nil, err
	}
	return []report.Table{scaleTable(entrants, tallies, len(cpus))}, nil
}

// steps double the proxy's CPUs, up to a third of the machine, so that generators
// and backends have as many each; but at least to two, where they must share.
func steps(cpus []int) []Layout {
	var all []Layout
	for n := 1; n <= len(cpus) && (n <= 2 || 3*n <= len(cpus)); n *= 2 {
		all = append(all, spread(cpus, n))
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
func scaleEntrants(all []peers.Peer, steps []Layout) []Sized {
	var entrants []Sized
	for _, p := range all {
		if p.Missing != "" || p.Name != peers.Sluice && p.Name != peers.Nginx {
			continue
		}
		for _, s := range steps {
			e := Entrant{Name: fmt.Sprintf("%s, CPUs: %d", p.Name, len(s.Proxy)), Base: p.Name + ", CPUs: 1", Peer: p, Per: "node"}
			entrants = append(entrants, Sized{e, s})
		}
	}
	return entrants
}

func scaleTable(entrants []Sized, tallies []Tally, cpus int) report.Table {
	t := report.Table{
		ID: "W12", Title: "on 1, 2, … CPUs, a loop or worker and 64 connections for each",
		Metric: "CPU time of the proxy's processes per request, µs",
		Extras: []string{"requests/s", "requests/s per CPU", "proxy CPU busy"},
		Notes:  []string{"a ratio of 1 is flat: the inverse of the cost is throughput per CPU"},
	}
	shared := false
	for i, e := range entrants {
		y := &tallies[i]
		row := report.Row{Name: e.Name, Base: e.Base, Notes: y.faults}
		row.Rounds = y.Figures(func(r Round) float64 { return r.CPU / r.Rate() * 1e6 })
		if y.Good() > 0 {
			rate := y.Mean(Round.Rate)
			row.Extra = []string{fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.0f", rate/float64(len(e.Layout.Proxy))),
				percent(y.Mean(func(r Round) float64 { return r.Proxy }))}
		}
		shared = shared || e.Layout.Shared
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
