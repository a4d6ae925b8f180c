package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"sluice/bench/configs"
	"sluice/bench/peers"
	"sluice/bench/proc"
)

// rig is what the rounds run on.
type rig struct {
	dir    string
	sluice peers.Peer
	app    application
	parts  [2]part
	warm   time.Duration
	run    time.Duration // that is measured
	ports  peers.Ports
}

// cpus are those of both parts.
func (r *rig) cpus() []int {
	return slices.Sorted(slices.Values(slices.Concat(r.parts[0].cpus, r.parts[1].cpus)))
}

// result is one round of one arrangement.
type result struct {
	rate float64 // requests per second of all instances
	cpu  float64 // CPU seconds of them per second; 0: not read
}

// round starts the instances, places them, loads them and ends them.
func (r *rig) round(ctx context.Context, a arrangement) (result, error) {
	var instances []*instance
	var ports []int
	for i := range a.instances {
		port, err := r.ports.Next()
		if err != nil {
			return result{}, err
		}
		in, err := r.app.start(ctx, i, port, r.cpus())
		if err != nil {
			return result{}, err
		}
		defer in.stop()
		instances, ports = append(instances, in), append(ports, port)
		if !a.split {
			continue
		}
		if err := r.place(ctx, in.pid, r.parts[i]); err != nil {
			return result{}, err
		}
	}
	if a.behind {
		proxy, err := r.proxy(ctx, ports)
		if err != nil {
			return result{}, err
		}
		defer proxy.Stop()
		ports = []int{proxy.Port}
	}
	return r.loaded(ctx, instances, ports)
}

// place has Sluice move a process, and asks the kernel whether it is there.
func (r *rig) place(ctx context.Context, pid int, p part) error {
	cmd := exec.CommandContext(ctx, r.sluice.Path, p.place(pid)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	got, err := proc.CPUsOf(pid)
	if err == nil && !slices.Equal(got, p.cpus) {
		err = fmt.Errorf("%s: the process has CPUs %v, not %v", cmd, got, p.cpus)
	}
	return err
}

// proxy starts Sluice before the instances, on all CPUs of both parts.
func (r *rig) proxy(ctx context.Context, to []int) (*peers.Running, error) {
	dir, err := os.MkdirTemp(r.dir, "sluice-")
	if err != nil {
		return nil, err
	}
	port, err := r.ports.Next()
	if err != nil {
		return nil, err
	}
	cpus := r.cpus()
	return r.sluice.Start(ctx, peers.Setup{CPUs: cpus,
		Setup: configs.Setup{Dir: dir, Port: port, Backends: to, Threads: len(cpus), Per: "node"}})
}

// loaded puts the load of both parts on the ports, and reads the CPU time of the
// instances over the measured time of the first.
func (r *rig) loaded(ctx context.Context, instances []*instance, ports []int) (result, error) {
	var before, after reading
	rates, errs := make([]float64, len(r.parts)), make([]error, len(r.parts))
	var wg sync.WaitGroup
	for i, p := range r.parts {
		j := job{port: ports[i%len(ports)], cpus: len(p.cpus), on: p.load, warm: r.warm, measure: r.run}
		begin, end := func() {}, func() {}
		if i == 0 {
			begin, end = func() { before = read(instances) }, func() { after = read(instances) }
		}
		wg.Go(func() { rates[i], errs[i] = r.app.load(ctx, j, begin, end) })
	}
	wg.Wait()
	if err := errors.Join(append(errs, before.err, after.err)...); err != nil {
		return result{}, err
	}
	out := result{rate: rates[0] + rates[1]}
	if seconds := after.at.Sub(before.at).Seconds(); seconds > 0 {
		out.cpu = (after.cpu - before.cpu).Seconds() / seconds
	}
	return out, nil
}

// reading is the CPU time of all instances at one moment.
type reading struct {
	at  time.Time
	cpu time.Duration
	err error
}

func read(instances []*instance) reading {
	r := reading{at: time.Now()}
	for _, in := range instances {
		if in.pids == nil {
			continue
		}
		pids, err := in.pids()
		if err == nil {
			var cpu time.Duration
			cpu, err = proc.CPU(pids)
			r.cpu += cpu
		}
		r.err = errors.Join(r.err, err)
	}
	return r
}
