// Overload runs the published experiment: a backend that does less work the more
// requests it holds, users who become ever more, and Sluice between them, beside no
// proxy, HAProxy and Envoy.
//
//	go run ./bench/overload [-scenes blog,flat] [-rounds 3] [-every 10s] [-users 10..250] [-out DIR | -record]
//
// README.md beside this file says what the scenes are and what is measured. It ends
// every process that it has started, and an interrupt ends it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/bench/overload/drive"
	"sluice/bench/overload/outcome"
	"sluice/bench/overload/scene"
	"sluice/bench/peers"
	"sluice/bench/proc"
	"sluice/bench/toolchain"
)

// options are the command line.
type options struct {
	scenes []string
	rounds int
	load   scene.Load
	limits []int
	sluice string
	out    string
	record bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (options, error) {
	var o options
	l := &o.load
	f := flag.NewFlagSet("overload", flag.ContinueOnError)
	scenes := f.String("scenes", strings.Join(scene.Names(), ","), "which scenes")
	f.IntVar(&o.rounds, "rounds", 3, "rounds of each scene; entrants that no target is about have one")
	users := f.String("users", "10..250", "from how many to how many")
	f.IntVar(&l.Step, "step", 10, "users that come at a time")
	f.DurationVar(&l.Every, "every", 10*time.Second, "time of each step of the ramp")
	f.DurationVar(&l.Hold, "hold", 20*time.Second, "time of a measurement with all users")
	f.DurationVar(&l.Settle, "settle", time.Minute, "time with all users before a measurement that has no ramp")
	f.DurationVar(&l.Phase, "phase", 45*time.Second, "time of each phase of a backend that changes")
	f.StringVar(&l.Think, "think", "exp:100ms", "pause of a user after each answer, as hb has it; empty: none")
	limits := f.String("limits", "2,4,8,16,32,64", "fixed limits that are tried to find the application's best")
	f.StringVar(&o.sluice, "sluice", "bin/sluice", "the binary under test")
	f.StringVar(&o.out, "out", "", "directory to write the results into")
	f.BoolVar(&o.record, "record", false, "write the results below bench/results, into a directory named by date and machine")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.scenes = strings.Split(*scenes, ",")
	if _, err := fmt.Sscanf(*users, "%d..%d", &l.From, &l.To); err != nil || l.From < 1 || l.To <= l.From || l.Step < 1 {
		return o, fmt.Errorf("-users %q -step %d: write a ramp as 10..250, and a step of 1 or more", *users, l.Step)
	}
	if o.rounds < 1 || min(l.Every, l.Hold, l.Settle, l.Phase) < time.Second {
		return o, errors.New("-rounds begins at 1, and -every, -hold, -settle and -phase at 1s")
	}
	for text := range strings.SplitSeq(*limits, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-limits %q: %q is no limit; write numbers from 1, as 4,8,16", *limits, text)
		}
		o.limits = append(o.limits, n)
	}
	return o, scene.Check(o.scenes)
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "sluice-overload-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rig := &scene.Rig{Dir: dir, Rounds: o.rounds, Load: o.load, Limits: o.limits, Progress: os.Stdout}
	results := outcome.Results{When: time.Now(), Machine: proc.ReadMachine(), Method: rig.Method()}
	if err := programs(ctx, rig, o.sluice, &results); err != nil {
		return err
	}
	var failed error
	results.Scenes, failed = scene.Run(ctx, rig, o.scenes)
	if o.record {
		o.out = filepath.Join("bench/results", fmt.Sprintf("%s-overload-%dcpu", results.When.UTC().Format(time.DateOnly), len(results.Machine.CPUs)))
	}
	if o.out == "" || len(results.Scenes) == 0 {
		return failed
	}
	if err := outcome.WriteAll(o.out, results); err != nil {
		return err
	}
	return failed
}

// programs builds and finds what is run, and notes the versions.
func programs(ctx context.Context, rig *scene.Rig, sluice string, results *outcome.Results) error {
	var err error
	if rig.Backend, err = toolchain.Go(ctx, rig.Dir, "backend", "sluice/bench/overload/backend"); err != nil {
		return err
	}
	hb, err := toolchain.Go(ctx, rig.Dir, "hb", "sluice/cmd/hb")
	if err != nil {
		return err
	}
	rig.Generator = drive.Generator{Path: hb, Dir: rig.Dir}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = rig.Dir
	}
	rig.Cache = filepath.Join(cache, "sluice-bench")
	names := []string{peers.Direct, peers.Sluice, peers.HAProxy, peers.Envoy}
	found, err := peers.Find(ctx, names, peers.Tools{Sluice: sluice, Cache: rig.Cache})
	if err != nil {
		return err
	}
	rig.Programs = map[string]peers.Peer{}
	for _, p := range found {
		rig.Programs[p.Name] = p
		if p.Name != peers.Direct {
			results.Versions = append(results.Versions, outcome.Version{Name: p.Name, Version: p.Version, Missing: p.Missing})
		}
	}
	return nil
}
