// Bench measures Sluice beside other proxies: the workloads W1 to W9 and W12, which
// bench/README.md lists.
//
//	go run ./bench [-w W1,W6] [-rounds 10] [-peers nginx,haproxy] [-out DIR | -record]
//
// It finds or builds the proxies, gives them one CPU and the load the other, lets
// them take turns, and writes tables. It ends every process that it has started,
// and an interrupt ends it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"sluice/bench/peers"
	"sluice/bench/proc"
	"sluice/bench/report"
	"sluice/bench/suite"
	"sluice/bench/toolchain"
)

// descriptors is how many files a proxy may open: 10,000 clients, and a backend
// connection for each in the worst case.
const descriptors = 32768

// options are the command line.
type options struct {
	workloads []string
	peers     []string
	rounds    int
	warm      time.Duration
	measure   time.Duration
	sluice    string
	hb        string
	out       string
	record    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, parse()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	workloads := flag.String("w", strings.Join(suite.Names, ","), "workloads")
	names := flag.String("peers", strings.Join(peers.Names(), ","), "who takes part")
	flag.IntVar(&o.rounds, "rounds", 10, "rounds of each workload")
	flag.DurationVar(&o.warm, "warm", time.Second, "load before each measurement")
	flag.DurationVar(&o.measure, "measure", 3*time.Second, "length of each measurement")
	flag.StringVar(&o.sluice, "sluice", "bin/sluice", "the binary under test")
	flag.StringVar(&o.hb, "hb", "bin/hb", "the load generator for HTTP/3")
	flag.StringVar(&o.out, "out", "", "directory to write the results into")
	flag.BoolVar(&o.record, "record", false, "write the results below bench/results, into a directory named by date and machine")
	flag.Parse()
	o.workloads, o.peers = strings.Split(*workloads, ","), strings.Split(*names, ",")
	return o
}

func run(ctx context.Context, o options) error {
	if err := suite.Check(o.workloads); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	machine := proc.ReadMachine()
	rig, err := newRig(ctx, o, dir, machine.CPUs)
	if err != nil {
		return err
	}
	results := report.Results{When: time.Now(), Machine: machine, Method: rig.Method()}
	for _, p := range rig.Peers {
		if p.Name != peers.Direct {
			results.Versions = append(results.Versions, report.Version{Name: p.Name, Version: p.Version, Missing: p.Missing})
		}
	}
	if err := rig.Open(ctx); err != nil {
		return err
	}
	defer rig.Close()
	if results.Tables, err = suite.Run(ctx, rig, o.workloads, machine.CPUs); err != nil {
		return err
	}
	report.WriteText(os.Stdout, results)
	if o.record {
		o.out = report.Directory("bench/results", results)
	}
	if o.out == "" {
		return nil
	}
	return report.WriteAll(o.out, results)
}

// newRig builds and finds the programs, and moves the benchmark itself off the
// proxy's CPU.
func newRig(ctx context.Context, o options, dir string, cpus []int) (*suite.Rig, error) {
	rig := &suite.Rig{
		Dir: dir, Layout: suite.Single(cpus),
		Rounds: o.rounds, Warm: o.warm, Measure: o.measure, Progress: os.Stderr,
	}
	if err := rig.Build(ctx); err != nil {
		return nil, err
	}
	reverseProxy, err := toolchain.Go(ctx, dir, "reverseproxy", "sluice/bench/peers/reverseproxy")
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = dir
	}
	rig.Peers, err = peers.Find(ctx, o.peers, peers.Tools{
		Sluice: o.sluice, Floor: rig.Floor, ReverseProxy: reverseProxy, Cache: cache + "/sluice-bench",
	})
	if err != nil {
		return nil, err
	}
	if err := rig.Secure(ctx, o.workloads, o.hb); err != nil {
		return nil, err
	}
	if err := rig.Unpin(); err != nil {
		return nil, err
	}
	return rig, proc.AllowFiles(descriptors)
}
