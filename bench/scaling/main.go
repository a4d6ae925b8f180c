// Scaling measures what Sluice does for each CPU on ever more of them, with one
// process for all, one per NUMA node and one per last-level cache.
//
//	go run ./bench/scaling [-cpus auto|1,2,4] [-per node,machine,cluster] [-rounds 10] [-out DIR | -record]
//
// README.md of the benches says how it shares the CPUs out. It ends every process
// that it has started, and an interrupt ends it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/bench/command"
	"sluice/bench/peers"
	"sluice/bench/proc"
	"sluice/bench/report"
	"sluice/bench/shape"
	"sluice/bench/suite"
)

// Values of -cpus and -load.
const (
	auto       = "auto"
	loadRest   = "rest"
	loadShared = "shared"
	loadFirst  = "first"
)

// Open files that Sluice may need: 64 clients for each CPU and as many servers, and
// a margin.
const fewFiles, filesPerCPU = 1024, 512

// overhead is what a round takes beside its load: starting and ending it all.
const overhead = 1500 * time.Millisecond

// options are the command line.
type options struct {
	command.Options
	counts []int // numbers of CPUs; none: by the machine's shape
	pers   []string
	load   string
}

func main() { command.Main("scaling", run) }

// parse reads the command line.
func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("scaling", flag.ContinueOnError)
	cpus := f.String("cpus", auto, "numbers of Sluice's CPUs, as 20,40,80; auto: one, a cache's, a node's, those of 2, 4, … nodes, all")
	pers := f.String("per", "node,machine,cluster", "values of workers.per, each with /soft for workers.affinity: soft")
	f.StringVar(&o.load, "load", auto, "where load runs: shared (on Sluice's CPUs), first (on the first of these, for the loop there), rest (on those that it leaves at a step, else shared), auto (on half of each node, if each has four CPUs; else rest)")
	o.Add(f, time.Second)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.pers = strings.Split(*pers, ",")
	if *cpus != auto {
		for word := range strings.SplitSeq(*cpus, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return o, fmt.Errorf("-cpus %q: %q is no number of CPUs; write auto, or numbers as 1,2,4", *cpus, word)
			}
			o.counts = append(o.counts, n)
		}
	}
	if slices.Contains(o.pers, "") {
		return o, fmt.Errorf("-per %q: write values of workers.per, as node,machine,4", *pers)
	}
	if !slices.Contains([]string{auto, loadRest, loadShared, loadFirst}, o.load) {
		return o, fmt.Errorf("-load %q: write auto, rest, shared or first", o.load)
	}
	return o, o.Check()
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ground, err := o.Open(ctx)
	if err != nil {
		return err
	}
	defer ground.Close()
	whole := ground.Whole
	todo, from, err := plan(o, whole, ground.Ask.Workers)
	if err != nil {
		return err
	}
	rig := &suite.Rig{Dir: ground.Dir, Rounds: o.Rounds, Warm: o.Warm, Measure: o.Measure, Progress: os.Stderr}
	if err := rig.Build(ctx); err != nil {
		return err
	}
	if err := proc.AllowFiles(uint64(fewFiles + filesPerCPU*len(whole.CPUs))); err != nil {
		return err
	}
	all, entrants := entrants(todo, ground.Sluice)
	fmt.Fprintf(os.Stderr, "scaling: %s; %d sizes, about %v\n", whole, len(entrants), o.Lasts(len(entrants), overhead))
	results := ground.Results(method(o, whole, from)...)
	tallies, err := rig.Series(ctx, "scaling", entrants)
	if err != nil {
		return err
	}
	for i := range all {
		all[i].Tally = tallies[i]
	}
	return write(o, results, all, whole)
}

// plan chooses the steps and the sizes, and where load runs.
func plan(o options, whole shape.Shape, workers planner) (todo []size, from feed, err error) {
	from.shared, from.first = o.load == loadShared, o.load == loadFirst
	if o.load == auto {
		from.aside = whole.Aside()
	}
	ours := whole.Without(from.aside)
	steps := autoSteps(ours)
	if len(o.counts) > 0 {
		if steps, err = namedSteps(ours, o.counts); err != nil {
			return nil, from, err
		}
	}
	todo, err = sizes(whole, from, steps, o.pers, workers)
	return todo, from, err
}

// entrants are the sizes as they take part, and the first of the last step once more.
func entrants(todo []size, sluice peers.Peer) (series, []suite.Sized) {
	last := slices.IndexFunc(todo, func(s size) bool { return len(s.cpus) == len(todo[len(todo)-1].cpus) })
	var all series
	for _, s := range todo {
		all = append(all, &measured{size: s})
	}
	all = append(all, &measured{size: todo[last], twin: todo[last].name()})
	var entrants []suite.Sized
	for _, m := range all {
		e := suite.Entrant{Name: m.rowName(), Peer: sluice, Steering: m.steering}
		e.Per, e.Affinity = arrangement(m.per[0])
		entrants = append(entrants, suite.Sized{Entrant: e, Layout: m.layout})
	}
	return all, entrants
}

// write prints the results, and writes them if that is asked for.
func write(o options, results report.Results, all series, whole shape.Shape) error {
	costs := all.costTable()
	costs.Notes = append(costs.Notes, all.silent(whole)...)
	results.Tables = append(results.Tables, costs)
	if t, ok := all.rateTable(); ok {
		results.Tables = append(results.Tables, t)
	}
	results.Tables = append(results.Tables, all.perTables(o.pers[0])...)
	dir, err := o.Write("scaling", results)
	if dir == "" || err != nil {
		return err
	}
	return report.WriteCurves(filepath.Join(dir, "scaling"), all.panels())
}

// method says in sentences how it was measured.
func method(o options, whole shape.Shape, from feed) []string {
	load := fmt.Sprintf("Load generators and backends run on CPUs that Sluice leaves at a step, and on Sluice's own where it leaves none. Nothing is set aside: %s.", whole)
	switch {
	case from.shared:
		load = "Load generators and backends run on Sluice's CPUs at every step, so that what they do to the caches is in every figure."
	case from.first:
		load = "Load generator and backend run on the first of Sluice's CPUs, and `steering: cpu` gives their connections to the loop there: one CPU has all the work, and the others have none unless Sluice moves it."
	case len(from.aside) > 0:
		load = fmt.Sprintf("Half of each node is set aside for load generators and backends, CPUs %v, and no step takes them; each pair of them is on a node of Sluice's.", from.aside)
	}
	lines := []string{
		"Sluice has `workers: {per: …}`, a loop for each CPU, and may run on the CPUs of the step only. Values of workers.per that make the same plan there, as `sluice topology` says, are one row.",
		load,
		"The figure is CPU time, user and system, of all of Sluice's processes per request: it is honest also where load shares the CPUs, which requests/s is not. base ÷ it is throughput per CPU as a multiple of that on the first step.",
		"64 kept-alive connections for each CPU, 53-byte responses.",
		o.Method(),
	}
	if len(whole.LeftOut) > 0 {
		lines = append(lines, fmt.Sprintf("CPUs %v take no part: Sluice would not use them (`sluice topology` says why).", whole.LeftOut))
	}
	return lines
}
