package suite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/proc"
	"sluice/bench/report"
	"sluice/bench/secure"
)

const (
	idleConns  = 10_000
	idleRounds = 3 // memory hardly varies

	settleEvery  = 500 * time.Millisecond
	settleWithin = 20 * time.Second
	settledBytes = 64 << 10 // two looks that differ by less are the same

	wholeGoal = 30e6 // bytes, all processes
)

// held is W7: what an idle connection costs, and what the whole program does.
type held struct {
	id, over string
	protocol secure.Protocol
	goal     float64 // bytes per connection
	whole    float64 // bytes of all processes; 0: no goal
}

var (
	w7    = held{id: "W7", goal: 1024, whole: wholeGoal}
	w7tls = held{id: "W7-TLS", over: " over TLS 1.3", protocol: secure.HTTP1, goal: 12 << 10}
)

// idleRound is the memory of one entrant's processes.
type idleRound struct {
	before, with proc.Memory // without the idle connections, and with them
}

func (i idleRound) perConn() float64 { return float64(i.with.PSS-i.before.PSS) / idleConns }

// run runs the rounds and gives the tables.
func (h held) run(ctx context.Context, r *Rig) ([]report.Table, error) {
	all := slices.DeleteFunc(r.entrants(nil, peers.Direct, peers.Floor), func(e Entrant) bool { return e.Name == again })
	entrants, absent := speaking(all, h.protocol, secure.P256)
	rounds := min(r.Rounds, idleRounds)
	results, faults := make([][]idleRound, len(entrants)), make([][]string, len(entrants))
	err := Interleave(ctx, Turns[Entrant]{h.id, entrants, rounds, r.Progress}, r.idleRound,
		func(i int, one idleRound, err error) {
			results[i] = append(results[i], one)
			if err != nil {
				faults[i] = append(faults[i], err.Error())
			}
		})
	if err != nil {
		return nil, err
	}
	tables := h.tables(entrants, results, faults)
	tables[0].Notes = append(tables[0].Notes, absent...)
	return tables, nil
}

// idleRound warms a proxy up by load, so that its code and its pools are in memory
// already, and measures before and while it holds the connections.
func (r *Rig) idleRound(ctx context.Context, e Entrant) (idleRound, error) {
	p, stop, err := r.start(ctx, e, false)
	if err != nil {
		return idleRound{}, err
	}
	defer stop()
	job := load.Job{Port: p.Port, Protocol: e.Protocol, Conns: 64, Target: "/53", Measure: r.Warm}
	if _, err := r.loaded(ctx, job, p.PIDs); err != nil {
		return idleRound{}, err
	}
	var out idleRound
	if out.before, err = settled(ctx, p); err != nil {
		return out, err
	}
	job.Conns = idleConns
	err = r.generators()[0].Hold(ctx, job, func() error {
		out.with, err = settled(ctx, p)
		return err
	})
	if err != nil {
		return idleRound{}, err
	}
	return out, nil
}

// settled looks until the memory stays the same: a collector may be at work.
func settled(ctx context.Context, p *peers.Running) (proc.Memory, error) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	var last proc.Memory
	for end := time.Now().Add(settleWithin); ; {
		pids, err := p.PIDs()
		if err != nil {
			return last, err
		}
		now, err := proc.MemoryOf(pids)
		if err != nil {
			return last, err
		}
		if d := now.PSS - last.PSS; -settledBytes < d && d < settledBytes || time.Now().After(end) {
			return now, nil
		}
		last = now
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

func (h held) tables(entrants []Entrant, results [][]idleRound, faults [][]string) []report.Table {
	per := report.Table{
		ID: h.id, Title: fmt.Sprintf("%d idle keep-alive connections%s after one request each", idleConns, h.over),
		Metric: "user memory (PSS of all processes) added per connection, bytes",
		Notes: []string{"what a program reserves at its start for connections to come is in the next table only; " +
			"the kernel's memory for the sockets is in neither"},
	}
	whole := report.Table{
		ID: h.id + "-whole", Title: fmt.Sprintf("the whole program while it holds %d idle connections%s", idleConns, h.over),
		Metric: "user memory (PSS of all processes), MB",
		Extras: []string{"without them", "RSS"},
	}
	for i, e := range entrants {
		one := report.Row{Name: e.Name, Base: e.Base, Notes: faults[i]}
		all := report.Row{Name: e.Name, Base: e.Base}
		if e.Name == peers.Sluice {
			one.Goal = &report.Goal{Max: h.goal, Value: true}
		}
		if e.Name == peers.Sluice && h.whole > 0 {
			all.Goal = &report.Goal{Max: h.whole / 1e6, Value: true}
		}
		for _, x := range results[i] {
			one.Rounds = append(one.Rounds, max(0, x.perConn()))
			all.Rounds = append(all.Rounds, megabytes(x.with.PSS))
			if x.with.PSS > 0 {
				all.Extra = []string{fmt.Sprintf("%.1f", megabytes(x.before.PSS)), fmt.Sprintf("%.1f", megabytes(x.with.RSS))}
			}
		}
		per.Rows, whole.Rows = append(per.Rows, one), append(whole.Rows, all)
	}
	per.Compare()
	whole.Compare()
	return []report.Table{per, whole}
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
