package suite

import (
	"context"
	"fmt"

	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/report"
	"sluice/bench/secure"
)

// closed is a workload of closed-loop load, whose figure is the proxy's CPU time
// for a request, a handshake or a GiB.
type closed struct {
	id, title string
	protocol  secure.Protocol
	key       secure.Key // of the certificate, with a protocol
	job       load.Job
	perGiB    bool
	goals     map[string]float64
	more      func([]Entrant) []Entrant // further entrants; may be nil
}

// The goals are those of PERFORMANCE.md: Sluice's cost as a multiple of the peer's.
var (
	w1 = closed{
		id: "W1", title: "HTTP/1.1 keep-alive, 53-byte responses, 64 connections", more: logged,
		job:   load.Job{Conns: 64, Target: "/53"},
		goals: map[string]float64{peers.Nginx: 0.95, peers.HAProxy: 0.85, peers.Floor: 1.25},
	}
	w6small = closed{
		id: "W6-64KiB", title: "64 KiB responses, 64 connections", perGiB: true, more: largeBodies,
		job:   load.Job{Conns: 64, Target: "/65536"},
		goals: map[string]float64{peers.Nginx: 1, peers.HAProxy: 1},
	}
	w6large = closed{
		id: "W6-10MiB", title: "10 MiB responses, 16 connections", perGiB: true, more: largeBodies,
		job:   load.Job{Conns: 16, Target: "/10485760"},
		goals: map[string]float64{peers.Nginx: 1, peers.HAProxy: 1},
	}
	w9 = closed{
		id: "W9", title: "a new connection for each request, 53-byte responses, 64 at a time",
		job:   load.Job{Conns: 64, Target: "/53", PerRequest: true},
		goals: map[string]float64{peers.Nginx: 1.1},
	}
)

// run runs all rounds and gives the table.
func (c closed) run(ctx context.Context, r *Rig) ([]report.Table, error) {
	entrants := r.entrants(c.goals, peers.Direct)
	if c.more != nil {
		entrants = append(entrants, c.more(entrants)...)
	}
	entrants, absent := speaking(entrants, c.protocol, c.key)
	job := c.job
	job.Warm, job.Measure = r.Warm, r.Measure
	tallies := make([]Tally, len(entrants))
	err := Interleave(ctx, Turns[Entrant]{c.id, entrants, r.Rounds, r.Progress},
		func(ctx context.Context, e Entrant) (Round, error) { return r.run(ctx, e, job) },
		func(i int, round Round, err error) { tallies[i].Add(round, err) })
	if err != nil {
		return nil, err
	}
	table := c.table(entrants, tallies)
	table.Notes = append(table.Notes, absent...)
	return []report.Table{table}, nil
}

// logged are Sluice and nginx once more, each writing the access log that it writes
// by default.
func logged(entrants []Entrant) []Entrant {
	var all []Entrant
	for _, e := range entrants {
		switch e.Name {
		case peers.Sluice:
			all = append(all, Entrant{Name: sluiceLog, Base: peers.Sluice, Peer: e.Peer, Log: true})
		case peers.Nginx:
			all = append(all, Entrant{Name: nginxLog, Base: sluiceLog, Peer: e.Peer, Log: true})
		}
	}
	return all
}

// largeBodies are nginx and HAProxy once more, with buffers for large bodies.
func largeBodies(entrants []Entrant) []Entrant {
	var all []Entrant
	for _, e := range entrants {
		switch e.Name {
		case peers.Nginx:
			e.Name = nginxLarge
		case peers.HAProxy:
			e.Name = haproxyLarge
		default:
			continue
		}
		e.LargeBodies = true
		all = append(all, e)
	}
	return all
}

func (c closed) table(entrants []Entrant, tallies []Tally) report.Table {
	t := report.Table{
		ID: c.id, Title: c.title,
		Metric: "CPU time of the proxy's processes per request, µs",
		Extras: []string{"requests/s", "proxy CPU busy", "load CPU busy"},
	}
	switch {
	case c.job.Handshakes != "":
		t.Metric = "CPU time of the proxy's processes per handshake, µs"
		t.Extras[0] = "handshakes/s"
	case c.perGiB:
		t.Metric = "CPU time of the proxy's processes per GiB of bodies, ms"
		t.Extras[0] = "GiB/s"
	}
	for i, e := range entrants {
		t.Rows = append(t.Rows, c.row(e, &tallies[i]))
	}
	t.Compare()
	t.Notes = append(t.Notes, Detection(t, again)...)
	return t
}

func (c closed) row(e Entrant, y *Tally) report.Row {
	row := report.Row{Name: e.Name, Base: e.Base, Goal: e.Goal, Rounds: y.Figures(c.cost), Notes: y.Notes()}
	if y.Good() == 0 {
		return row
	}
	speed := fmt.Sprintf("%.0f", y.Mean(Round.Rate))
	if c.perGiB {
		speed = fmt.Sprintf("%.2f", y.Mean(Round.ByteRate)/(1<<30))
	}
	row.Extra = []string{speed,
		percent(y.Mean(func(r Round) float64 { return r.Proxy })),
		percent(y.Mean(func(r Round) float64 { return r.Load }))}
	return row
}

// cost is µs per request, or ms per GiB.
func (c closed) cost(r Round) float64 {
	if c.perGiB {
		return r.CPU / r.ByteRate() * (1 << 30) * 1e3
	}
	return r.CPU / r.Rate() * 1e6
}

// Detection says what a pair of two equals shows: a ratio nearer to 1 than this is
// noise. twin is the row of the second one, compared with the first; without
// rounds of it there is nothing to say.
func Detection(t report.Table, twin string) []string {
	for _, row := range t.Rows {
		if row.Name != twin || row.Ratio.N < 2 {
			continue
		}
		text := fmt.Sprintf("detection limit (two equal ones): [%.3f, %.3f]", row.Ratio.Lo, row.Ratio.Hi)
		if row.Ratio.Excludes(1) {
			text += "; it excludes 1, so the machine was not quiet: believe no difference of that size"
		}
		return []string{text}
	}
	return nil
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", share*100) }
