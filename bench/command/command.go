// Package command is what the command lines of the benches that share out CPUs have
// in common: how many rounds of what length, which Sluice, where the results go.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sluice/bench/peers"
	"sluice/bench/proc"
	"sluice/bench/report"
	"sluice/bench/shape"
)

// Options are the flags that all have.
type Options struct {
	Rounds  int
	Warm    time.Duration // load before each measurement
	Measure time.Duration // length of each measurement
	Sluice  string        // the binary under test
	Out     string        // directory for the results; empty: they are only printed
	Record  bool          // into bench/results
}

// Add adds the flags.
func (o *Options) Add(f *flag.FlagSet, warm time.Duration) {
	f.IntVar(&o.Rounds, "rounds", 10, "rounds of each entrant")
	f.DurationVar(&o.Warm, "warm", warm, "load before each measurement")
	f.DurationVar(&o.Measure, "measure", 3*time.Second, "length of each measurement")
	f.StringVar(&o.Sluice, "sluice", "bin/sluice", "the binary under test")
	f.StringVar(&o.Out, "out", "", "directory to write the results into")
	f.BoolVar(&o.Record, "record", false, "write the results below bench/results, into a directory named by date and machine")
}

// Check refuses what cannot be measured.
func (o *Options) Check() error {
	if o.Rounds < 1 || o.Measure < time.Second || o.Warm < 0 {
		return errors.New("-rounds begins at 1, -measure at 1s, -warm at 0s")
	}
	return nil
}

// Lasts is about how long a contest of so many entrants takes, of which each needs
// some time beside its load in each round.
func (o *Options) Lasts(entrants int, beside time.Duration) time.Duration {
	return (time.Duration(o.Rounds*entrants) * (o.Warm + o.Measure + beside)).Round(time.Second)
}

// Method says in a sentence how many rounds there are, and what becomes of them.
func (o *Options) Method() string {
	return fmt.Sprintf("%d rounds of %v after %v of warming up, each entrant started anew, in turning order (A B C, B C A, …). Ratios are taken round by round; "+
		"given are their geometric mean and its 95 %% interval (Student's t on logarithms).", o.Rounds, o.Measure, o.Warm)
}

// Ground is where a bench takes place.
type Ground struct {
	Dir    string // for everything that is written
	Sluice peers.Peer
	Ask    shape.Asker
	Whole  shape.Shape
}

// Open finds Sluice and asks it for the machine. The caller closes the ground.
func (o *Options) Open(ctx context.Context) (*Ground, error) {
	found, err := peers.Find(ctx, []string{peers.Sluice}, peers.Tools{Sluice: o.Sluice})
	if err != nil {
		return nil, err
	}
	g := &Ground{Sluice: found[0]}
	if g.Sluice.Missing != "" {
		return nil, errors.New(g.Sluice.Missing)
	}
	if g.Dir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return nil, err
	}
	g.Ask = shape.Asker{Sluice: g.Sluice.Path, Dir: g.Dir}
	if g.Whole, err = g.Ask.Machine(); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Close removes what was written.
func (g *Ground) Close() { os.RemoveAll(g.Dir) }

// Results are those of a run that begins, still without tables.
func (g *Ground) Results(method ...string) report.Results {
	return report.Results{When: time.Now(), Machine: proc.ReadMachine(), Method: method,
		Versions: []report.Version{{Name: g.Sluice.Name, Version: g.Sluice.Version}}}
}

// Write prints the results, and writes them into a directory if that is asked for,
// which it returns; a recorded one has the bench's name at its end.
func (o *Options) Write(bench string, r report.Results) (dir string, err error) {
	report.WriteText(os.Stdout, r)
	dir = o.Out
	if o.Record {
		dir = report.Directory("bench/results", r) + "-" + bench
	}
	if dir == "" {
		return "", nil
	}
	return dir, report.WriteAll(dir, r)
}

// Main runs a bench to its end, or until an interrupt, and leaves the process.
func Main(bench string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", bench, err)
		os.Exit(1)
	}
	os.Exit(0)
}
