// Split runs two instances of an application that scales badly on one machine:
// over all CPUs, and each on a half to which `sluice place` has moved it.
//
//	go run ./bench/split [-apps ledger,postgres] [-rounds 10] [-out DIR | -record]
//
// The halves are two NUMA nodes, or those of the only one. It ends every process
// that it has started, and an interrupt ends it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/bench/command"
	"sluice/bench/postgres"
	"sluice/bench/report"
	"sluice/bench/suite"
)

// The applications.
const (
	appLedger   = "ledger"
	appPostgres = "postgres"
)

var apps = []string{appLedger, appPostgres}

// overhead is what a round takes beside its load: starting, placing and ending.
const overhead = time.Second

// options are the command line.
type options struct {
	command.Options
	apps []string
}

func main() { command.Main("split", run) }

// parse reads the command line.
func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("split", flag.ContinueOnError)
	names := f.String("apps", strings.Join(apps, ","), "which applications")
	o.Add(f, 2*time.Second)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.apps = strings.Split(*names, ",")
	for _, name := range o.apps {
		if !slices.Contains(apps, name) {
			return o, fmt.Errorf("-apps: no application %q; there are %s", name, strings.Join(apps, ", "))
		}
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
	parts, err := halve(ground.Whole)
	if err != nil {
		return err
	}
	rig := &rig{dir: ground.Dir, sluice: ground.Sluice, parts: parts, warm: o.Warm, run: o.Measure}
	results := ground.Results(method(o, parts)...)
	for _, name := range o.apps {
		if err := rig.contest(ctx, o, name, &results); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(results.Tables) > 0 {
		t := &results.Tables[len(results.Tables)-1]
		t.Notes = append(t.Notes, silent(ground.Whole, parts)...)
	}
	_, err = o.Write("split", results)
	return err
}

// contest runs all rounds of one application, or notes why it cannot run.
func (r *rig) contest(ctx context.Context, o options, name string, results *report.Results) error {
	version := report.Version{Name: name, Version: "of this repository"}
	var err error
	if name == appPostgres {
		tools, missing := postgres.Find()
		if missing != nil {
			version = report.Version{Name: name, Missing: fmt.Sprintf("apt-get install %s: missing %v", postgres.Package, strings.ReplaceAll(missing.Error(), "\n", ", "))}
			results.Versions = append(results.Versions, version)
			return nil
		}
		version.Version = tools.Version(ctx)
		r.app, err = newDatabase(ctx, tools, r.dir, len(r.cpus()))
	} else {
		r.app, err = newLedger(ctx, r.dir)
	}
	if err != nil {
		return err
	}
	defer r.app.close()
	results.Versions = append(results.Versions, version)
	all := arrangements(r.parts, name == appLedger)
	fmt.Fprintf(os.Stderr, "split: %s: %d arrangements, about %v\n", name, len(all), o.Lasts(len(all), overhead))
	tallies := make([]tally, len(all))
	err = suite.Interleave(ctx, suite.Turns[arrangement]{ID: name, Entrants: all, Rounds: o.Rounds, Progress: os.Stderr}, r.round,
		func(i int, one result, err error) { tallies[i].add(one, err) })
	if err != nil {
		return err
	}
	results.Tables = append(results.Tables, tables(name, all, tallies, len(r.cpus()))...)
	return nil
}

// method says in sentences how it was measured.
func method(o options, parts [2]part) []string {
	var lines []string
	for i, p := range parts {
		on := "and its load runs on all CPUs, in every arrangement"
		if len(p.load) > 0 {
			on = fmt.Sprintf("and its load runs on CPUs %v in every arrangement, where no instance runs", p.load)
		}
		lines = append(lines, fmt.Sprintf("Instance %d: `sluice %s`, %s.", i, strings.Join(p.place(1), " "), on))
	}
	return append(lines,
		"CPU time is that of the processes of all instances, from the kernel's clocks. PostgreSQL's is not read: its processes come and go with the clients.",
		"Every arrangement has the same CPUs and the same load: one instance gets the load of both. Instances are started on all of the CPUs; those that are split are moved then by `sluice place`, and the kernel is asked whether they are there.",
		o.Method())
}
