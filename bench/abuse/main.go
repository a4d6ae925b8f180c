// Abuse attacks Sluice by every class of abuse and tells what others notice of it: their
// p99 and their failures, Sluice's CPU time and memory, by which code attackers lose their
// connections, and which counters say so.
//
//	go run ./bench/abuse [-class ping,settings] [-rounds 3] [-measure 2s] [-out DIR | -record]
//
// How it is measured is in the results themselves, and in ground/ground.go. It ends every
// process that it has started, and an interrupt ends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice/bench/abuse/attack"
	"sluice/bench/abuse/finding"
	"sluice/bench/abuse/ground"
	"sluice/bench/proc"
	"sluice/bench/stats"
)

// options are the command line.
type options struct {
	classes       []attack.Class
	rounds        int
	warm, measure time.Duration
	sluice, out   string
	record        bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "abuse:", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("abuse", flag.ContinueOnError)
	classes := f.String("class", strings.Join(attack.Names(), ","), "which classes of abuse")
	f.IntVar(&o.rounds, "rounds", 3, "rounds of each class, three phases each")
	f.DurationVar(&o.warm, "warm", time.Second/2, "load of each phase that is not measured, first")
	f.DurationVar(&o.measure, "measure", 2*time.Second, "measured time of each phase")
	f.StringVar(&o.sluice, "sluice", "bin/sluice", "the binary under test")
	f.StringVar(&o.out, "out", "", "directory to write the results into")
	f.BoolVar(&o.record, "record", false, "write the results below bench/results, into a directory named by date and machine")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.rounds < 1 || o.warm < 0 || o.measure < 100*time.Millisecond {
		return o, errors.New("-rounds begins at 1, -warm at 0s and -measure at 100ms")
	}
	for name := range strings.SplitSeq(*classes, ",") {
		c, is := attack.Find(name)
		if !is {
			return o, fmt.Errorf("-class %q: %q is no class; write some of %s", *classes, name, strings.Join(attack.Names(), ","))
		}
		o.classes = append(o.classes, c)
	}
	return o, nil
}

// beside is what a phase takes beside its load, about.
const beside = time.Second / 2

// lasts is how long all takes, about.
func (o options) lasts() time.Duration {
	phases := len(o.classes) * o.rounds * len(ground.Phases)
	return time.Duration(phases) * (o.warm + o.measure + beside)
}

func run(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "sluice-abuse-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := filepath.Abs(o.sluice)
	if err != nil {
		return err
	}
	results := finding.Results{When: time.Now(), Machine: proc.ReadMachine()}
	version, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return fmt.Errorf("%s version: %w; build it by make build, or name another by -sluice", o.sluice, err)
	}
	results.Version = strings.TrimPrefix(strings.TrimSpace(string(version)), "sluice ")
	g := &ground.Ground{Dir: dir, Sluice: path, Warm: o.warm, Measure: o.measure}
	if err := g.Open(ctx); err != nil {
		return err
	}
	defer g.Close()
	results.Method = g.Method()
	fmt.Fprintf(out, "%d classes take about %v\n", len(o.classes), o.lasts().Round(time.Second))
	for _, c := range o.classes {
		f := find(ctx, g, c, o.rounds)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		results.Findings = append(results.Findings, f)
		finding.WriteTable(out, results.Findings[len(results.Findings)-1:])
	}
	fmt.Fprintln(out)
	finding.WriteMarkdown(out, results)
	if o.record {
		o.out = filepath.Join("bench/results", fmt.Sprintf("%s-abuse-%dcpu", results.When.UTC().Format(time.DateOnly), len(results.Machine.CPUs)))
	}
	if o.out == "" {
		return nil
	}
	return finding.WriteAll(o.out, results)
}

// find has all rounds of a class. A round of which a phase fails does not count.
func find(ctx context.Context, g *ground.Ground, c attack.Class, rounds int) finding.Finding {
	f := finding.Finding{Class: c.Name, Does: c.Does}
	for n := range rounds {
		round := finding.Round{}
		for _, i := range stats.Order(len(ground.Phases), n) {
			p := ground.Phases[i]
			seen, err := g.Watch(ctx, c, p)
			if err != nil {
				f.Faults = append(f.Faults, fmt.Sprintf("%s: %v", p, err))
				break
			}
			round[p] = seen
		}
		if len(round) == len(ground.Phases) {
			f.Rounds = append(f.Rounds, round)
		}
	}
	return f
}
