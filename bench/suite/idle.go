package suite

import (
	"context"
	"fmt"
	"time"

	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/proc"
	"sluice/bench/report"
)

const (
	idleConns  = 10_000
	idleRounds = 3 // memory hardly varies

	settleEvery  = 500 * time.Millisecond
	settleWithin = 20 * time.Second
	settledBytes = 64 << 10 // two looks that differ by less are the same

	idleGoal  = 1024 // bytes per connection
	wholeGoal = 30e6 // bytes, all processes
)

// idleRound is the memory of one entrant's processes.
type idleRound struct {
	before, with proc.Memory // without the idle connections, and with them
}

func (i idleRound) perConn() float64 { return float64(i.with.PSS-i.before.PSS) / idleConns }

// idle is W7: what an idle connection costs, and what the whole program does.
func idle(ctx context.Context, r *Rig) ([]report.Table, error) {
	var entrants []Entrant
	for _, e := range r.entrants(nil, peers.Direct, peers.Floor) {
		if e.Name != again {
			entrants = append(entrants, e)
		}
	}
	rounds := min(r.Rounds, idleRounds)
	results, faults := make([][]idleRound, len(entrants)), make([][]string, len(entrants))
	err := Interleave(ctx, Turns[Entrant]{"W7", entrants, rounds, r.Progress}, r.idleRound,
		func(i int, one idleRound, err error) {
			results[i] = append(results[i], one)
			if err != nil {
				faults[i] = append(faults[i], err.Error())
			}
		})
	if err != nil {
		return nil, err
	}
	return idleTables(entrants, results, faults), nil
}

// idleRound warms a proxy up by load, so that its code and its pools are in memory
// already, and measures before and while it holds the connections.
func (r *Rig) idleRound(ctx context.Context, e Entrant) (idleRound, error) {
	p, stop, err := r.start(ctx, e, false)
	if err != nil {
		return idleRound{}, err
	}
	defer stop()
	job := load.Job{Port: p.Port, Conns: 64, Target: "/53", Measure: r.Warm}
	if _, err := r.loaded(ctx, job, p.PIDs); err != nil {
		return idleRound{}, err
	}
	var out idleRound
	if out.before, err = settled(ctx, p); err != nil {
		return out, err
	}
	err = r.generators()[0].Hold(ctx, p.Port, idleConns, "/53", func() error {
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

func idleTables(entrants []Entrant, results [][]idleRound, faults [][]string) []report.Table {
	per := report.Table{
		ID: "W7", Title: fmt.Sprintf("%d idle keep-alive connections after one request each", idleConns),
		Metric: "user memory (PSS of all processes) added per connection, bytes",
		Notes: []string{"what a program reserves at its start for connections to come is in the next table only; " +
			"the kernel's memory for the sockets is in neither"},
	}
	whole := report.Table{
		ID: "W7-whole", Title: fmt.Sprintf("the whole program while it holds %d idle connections", idleConns),
		Metric: "user memory (PSS of all processes), MB",
		Extras: []string{"without them", "RSS"},
	}
	for i, e := range entrants {
		one := report.Row{Name: e.Name, Base: e.Base, Notes: faults[i]}
		all := report.Row{Name: e.Name, Base: e.Base}
		if e.Name == peers.Sluice {
			one.Goal = &report.Goal{Max: idleGoal, Value: true}
			all.Goal = &report.Goal{Max: wholeGoal / 1e6, Value: true}
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
