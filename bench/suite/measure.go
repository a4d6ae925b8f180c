package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/bench/load"
	"sluice/bench/proc"
)

// Round is one measured round of one entrant.
type Round struct {
	Samples []load.Sample // of each generator
	CPU     float64       // CPU seconds of the proxy's processes per second
	Proxy   float64       // share of time that the proxy's CPUs were busy, 0 to 1
	Load    float64       // the same of the generators' and backends' CPUs
	Stolen  float64       // share that the hypervisor took from the proxy's CPUs
	Alone   bool          // nothing of the benchmark but the proxy ran on its CPUs
	CPUs    int           // of the proxy
}

// others is the share of the proxy's CPUs that neither the proxy nor idleness
// accounts for; 0 where generators share them.
func (r Round) others() float64 {
	if !r.Alone {
		return 0
	}
	return max(0, r.Proxy-r.CPU/float64(r.CPUs))
}

// Rate is requests per second.
func (r Round) Rate() float64 {
	sum := 0.0
	for _, s := range r.Samples {
		sum += float64(s.Requests) / s.Seconds()
	}
	return sum
}

// ByteRate is body bytes per second.
func (r Round) ByteRate() float64 {
	sum := 0.0
	for _, s := range r.Samples {
		sum += float64(s.Bytes) / s.Seconds()
	}
	return sum
}

// Errors are failed requests.
func (r Round) Errors() int64 {
	var sum int64
	for _, s := range r.Samples {
		sum += s.Errors
	}
	return sum
}

// run is one round: start, load, read, end.
func (r *Rig) run(ctx context.Context, e Entrant, j load.Job) (Round, error) {
	p, stop, err := r.start(ctx, e, j.PerRequest)
	if err != nil {
		return Round{}, err
	}
	defer stop()
	j.Port, j.Protocol = p.Port, e.Protocol
	return r.loaded(ctx, j, p.PIDs)
}

// loaded puts the job on a running proxy. The CPU time and the requests are taken
// by two processes, so each is divided by the length of its own interval.
func (r *Rig) loaded(ctx context.Context, j load.Job, pids func() ([]int, error)) (Round, error) {
	var before, after reading
	var failed error
	note := func(into *reading) func() {
		return func() {
			var err error
			*into, err = read(pids)
			failed = errors.Join(failed, err)
		}
	}
	samples, err := r.generate(ctx, j, note(&before), note(&after))
	if err = errors.Join(err, failed); err != nil {
		return Round{}, err
	}
	if len(before.pids) != len(after.pids) {
		return Round{}, fmt.Errorf("the proxy's processes changed: %v, then %v", before.pids, after.pids)
	}
	out := Round{Samples: samples, Alone: !r.Layout.Shared, CPUs: len(r.Layout.Proxy)}
	if seconds := after.at.Sub(before.at).Seconds(); seconds > 0 {
		out.CPU = (after.cpu - before.cpu).Seconds() / seconds
	}
	out.Proxy, out.Stolen = shares(before.usage, after.usage, r.Layout.Proxy)
	for _, cpus := range slices.Concat(r.Layout.Load, r.Layout.Backend) {
		busy, _ := shares(before.usage, after.usage, cpus)
		out.Load = max(out.Load, busy)
	}
	return out, nil
}

// generate runs the job on all generators at once; the first one's beginning and
// end are those of the measurement.
func (r *Rig) generate(ctx context.Context, j load.Job, begin, end func()) ([]load.Sample, error) {
	generators := r.generators()
	samples, errs := make([]load.Sample, len(generators)), make([]error, len(generators))
	var wg sync.WaitGroup
	for i, g := range generators {
		b, e := func() {}, func() {}
		if i == 0 {
			b, e = begin, end
		}
		wg.Go(func() { samples[i], errs[i] = g.Run(ctx, j, b, e) })
	}
	wg.Wait()
	return samples, errors.Join(errs...)
}

// reading is what the counters said at one moment.
type reading struct {
	at    time.Time
	pids  []int
	cpu   time.Duration
	usage map[int]proc.Usage
}

func read(pids func() ([]int, error)) (reading, error) {
	all, err := pids()
	if err != nil {
		return reading{}, err
	}
	cpu, err := proc.CPU(all)
	return reading{at: time.Now(), pids: all, cpu: cpu, usage: proc.ReadUsage()}, err
}

// shares are the means of how busy the CPUs were and of what the hypervisor took.
func shares(before, after map[int]proc.Usage, cpus []int) (busy, stolen float64) {
	for _, cpu := range cpus {
		busy += after[cpu].Share(before[cpu]) / float64(len(cpus))
		stolen += after[cpu].StolenShare(before[cpu]) / float64(len(cpus))
	}
	return busy, stolen
}
