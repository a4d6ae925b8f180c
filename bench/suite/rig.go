// Package suite holds the workloads and runs them.
//
// A Rig is what a workload runs on: CPUs, load generators, backends, peers. One
// round of one entrant goes: start the proxy, load it, read its CPU clock at both
// ends of the measured time, end it. Every round starts each proxy anew, so that
// where its memory happened to lie is part of the spread and not of the result.
// A workload turns its rounds into tables.
package suite

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"sluice/bench/configs"
	"sluice/bench/floor"
	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/report"
	"sluice/bench/secure"
	"sluice/bench/stats"
	"sluice/bench/toolchain"
)

// Rig is what the workloads run on.
type Rig struct {
	Dir       string // for everything that is written; the caller removes it
	Layout    Layout
	Floor     string // program: backend and relay
	Generator load.Generator
	Peers     []peers.Peer
	Rounds    int
	Warm      time.Duration // of each round
	Measure   time.Duration // of each round
	Progress  io.Writer

	Certificates map[secure.Key]secure.Certificate // nil: nothing is over TLS

	ports    peers.Ports
	backends []*peers.Running // one for each of Layout.Load
}

// Layout says which CPUs are whose. Generator i and backend i are a pair.
type Layout struct {
	Proxy   []int
	Load    [][]int // of each generator
	Backend [][]int // of each backend
	Shared  bool    // generators and backends use the proxy's CPUs too
}

// Single gives the proxy one CPU, the generator and the backend the next two, or
// one together where there are only two.
func Single(cpus []int) Layout {
	if len(cpus) == 1 {
		return Layout{Proxy: cpus, Load: [][]int{cpus}, Backend: [][]int{cpus}, Shared: true}
	}
	return Layout{Proxy: cpus[:1], Load: [][]int{cpus[1:2]}, Backend: [][]int{cpus[min(2, len(cpus)-1):][:1]}}
}

// Entrant is a peer as it takes part in a workload.
type Entrant struct {
	Name string // in the table
	Base string // entrant that it is compared with
	Peer peers.Peer
	Goal *report.Goal

	Log         bool   // with its default access log, to a file
	LargeBodies bool   // with buffers for large bodies
	Per         string // Sluice's workers.per; empty: as ever, a loop for each CPU
	Affinity    string // Sluice's workers.affinity, with Per; empty: the default
	Steering    string // of Sluice's listener; empty: the default

	Protocol secure.Protocol
	Key      secure.Key // of its certificate, with a protocol
}

// Build compiles the generator and the floor into r.Dir.
func (r *Rig) Build(ctx context.Context) error {
	var err error
	if r.Generator.Path, err = toolchain.C(ctx, r.Dir, "load", load.Source); err != nil {
		return err
	}
	r.Floor, err = toolchain.C(ctx, r.Dir, "floor", floor.Source)
	return err
}

// Open starts the backends. The caller ends them with Close.
func (r *Rig) Open(ctx context.Context) error {
	for _, cpus := range r.Layout.Backend {
		port, err := r.ports.Next()
		if err != nil {
			return err
		}
		b, err := peers.StartBackend(ctx, r.Floor, r.Dir, port, cpus)
		if err != nil {
			return err
		}
		r.backends = append(r.backends, b)
	}
	return nil
}

// Close ends the backends.
func (r *Rig) Close() {
	for _, b := range r.backends {
		b.Stop()
	}
	r.backends = nil
}

// start starts an entrant on the proxy's CPUs. The function that it returns ends
// it and removes what it wrote.
func (r *Rig) start(ctx context.Context, e Entrant, perRequest bool) (*peers.Running, func(), error) {
	dir, err := os.MkdirTemp(r.Dir, e.Peer.Name+"-")
	if err != nil {
		return nil, nil, err
	}
	port, err := r.ports.Next()
	if err != nil {
		return nil, nil, err
	}
	s := peers.Setup{
		Setup: configs.Setup{
			Dir: dir, Port: port, Threads: len(r.Layout.Proxy), LargeBodies: e.LargeBodies,
			Per: e.Per, Affinity: e.Affinity, Steering: e.Steering, Protocol: e.Protocol, Certificate: r.Certificates[e.Key],
		},
		CPUs:       r.Layout.Proxy,
		PerRequest: perRequest,
	}
	for _, b := range r.backends {
		s.Backends = append(s.Backends, b.Port)
	}
	if e.Log {
		s.AccessLog = dir + "/access.log"
	}
	p, err := e.Peer.Start(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	return p, func() {
		p.Stop()
		os.RemoveAll(dir)
	}, nil
}

// generators are the load generators of the layout.
func (r *Rig) generators() []load.Generator {
	var all []load.Generator
	for _, cpus := range r.Layout.Load {
		g := r.Generator
		g.CPUs, g.Log = cpus, r.Dir+"/load.log"
		all = append(all, g)
	}
	return all
}

// String is the entrant's name.
func (e Entrant) String() string { return e.Name }

// Turns are rounds in which entrants take turns.
type Turns[E fmt.Stringer] struct {
	ID       string // of the workload, for progress
	Entrants []E
	Rounds   int
	Progress io.Writer
}

// Interleave runs every entrant once in each round, in an order that turns, and
// hands the outcome to keep. A failure is the entrant's, and the others go on; only
// the end of ctx ends it all.
func Interleave[E fmt.Stringer, T any](ctx context.Context, t Turns[E], do func(context.Context, E) (T, error),
	keep func(entrant int, result T, err error),
) error {
	for round := range t.Rounds {
		for _, i := range stats.Order(len(t.Entrants), round) {
			result, err := do(ctx, t.Entrants[i])
			if ctx.Err() != nil {
				return ctx.Err()
			}
			said := "ok"
			if err != nil {
				said = err.Error()
			}
			fmt.Fprintf(t.Progress, "%s round %d/%d %s: %s\n", t.ID, round+1, t.Rounds, t.Entrants[i], said)
			keep(i, result, err)
		}
	}
	return nil
}

// names of entrants that are not simply a peer.
const (
	again        = "sluice again (A/A)"
	sluiceLog    = "sluice, default access log"
	nginxLog     = "nginx, default access log"
	nginxLarge   = "nginx, large buffers"
	haproxyLarge = "haproxy, large pipes"
)

// entrants are the peers that are here, compared with Sluice, and Sluice once more:
// the difference of the two is what the measurement cannot see.
func (r *Rig) entrants(goals map[string]float64, without ...string) []Entrant {
	var all []Entrant
	for _, p := range r.Peers {
		if p.Missing != "" || slices.Contains(without, p.Name) {
			continue
		}
		e := Entrant{Name: p.Name, Base: peers.Sluice, Peer: p}
		if most, ok := goals[p.Name]; ok {
			e.Goal = &report.Goal{Max: most}
		}
		all = append(all, e)
		if p.Name == peers.Sluice {
			all = append(all, Entrant{Name: again, Base: peers.Sluice, Peer: p})
		}
	}
	return all
}
