package worker

import (
	"log/slog"
	"sync"
	"time"

	"sluice/internal/affinity"
	"sluice/internal/affinity/spread"
	"sluice/internal/segment"
)

// With workers.affinity: soft the loops run on the CPUs of their worker, wherever
// the kernel puts them, and may leave these while they are full and those of other
// workers idle. Package spread decides, every lookEvery; a goroutine of the worker
// reads what it goes by, and applies what it says. In a look that costs some 25 µs
// for each loop, and 30 µs for the CPUs of a small machine.

// looksInWindow: shares are of so many looks' time. The kernel counts a CPU's time
// in ticks of 10 ms, so that one look alone would be off by a tenth.
const looksInWindow = 3

// roamer lets the loops of one worker leave its CPUs, and calls them back.
type roamer struct {
	spread  *spread.Spread
	stats   *segment.WorkerStats
	threads func() []int // of the loops, by index; 0: it does not run yet
	machine machine
	window  []sample // of the last looks, oldest first
	told    bool     // a fault is in the log

	out, back int64 // of the moves those that are in stats; these go on from one process to the next

	closing chan struct{}
	running sync.WaitGroup // watch
}

// machine is how the roamer sees the machine and moves threads.
type machine struct {
	cpus   func() (map[int]affinity.CPUTime, error)
	thread func(tid int) (affinity.ThreadTime, error)
	allow  func(tid int, cpus []int) error
}

// thisMachine is the real one.
func thisMachine() machine {
	const proc = "/proc"
	return machine{
		cpus:   func() (map[int]affinity.CPUTime, error) { return affinity.CPUTimes(proc) },
		thread: func(tid int) (affinity.ThreadTime, error) { return affinity.ThreadTimes(proc, tid) },
		allow:  affinity.AllowThread,
	}
}

// sample is what one look read.
type sample struct {
	at    time.Time
	cpus  map[int]affinity.CPUTime
	loops []affinity.ThreadTime
}

func newRoamer(s *spread.Spread, stats *segment.WorkerStats, m machine, threads func() []int) *roamer {
	return &roamer{spread: s, stats: stats, machine: m, threads: threads, closing: make(chan struct{})}
}

// start begins to watch, until close.
func (r *roamer) start() { r.running.Go(r.watch) }

// close ends the watch. A nil roamer, of a worker whose loops stay, has none.
func (r *roamer) close() {
	if r != nil {
		close(r.closing)
		r.running.Wait()
	}
}

// watch is a goroutine.
func (r *roamer) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := r.look(); err != nil && !r.told {
				r.told = true
				slog.Warn("workers.affinity: soft does not work as it should", "error", err)
			}
		case <-r.closing:
			return
		}
	}
}

// look reads, decides and applies. It returns the first fault.
func (r *roamer) look() error {
	threads := r.threads()
	now, err := r.sample(threads)
	if err != nil {
		return err
	}
	if len(r.window) > 0 {
		err = r.apply(r.spread.Step(between(r.window[0], now)), threads)
	}
	if len(r.window) == looksInWindow {
		r.window = append(r.window[:0], r.window[1:]...)
	}
	r.window = append(r.window, now)
	return err
}

func (r *roamer) sample(threads []int) (sample, error) {
	now := sample{at: time.Now()}
	var err error
	if now.cpus, err = r.machine.cpus(); err != nil {
		return sample{}, err
	}
	for _, tid := range threads {
		var t affinity.ThreadTime
		if tid != 0 {
			if t, err = r.machine.thread(tid); err != nil {
				return sample{}, err
			}
		}
		now.loops = append(now.loops, t)
	}
	return now, nil
}

// apply gives the threads their CPUs, and counts.
func (r *roamer) apply(orders []spread.Order, threads []int) error {
	var fault error
	for _, o := range orders {
		if err := r.machine.allow(threads[o.Loop], o.CPUs); err != nil && fault == nil {
			fault = err
		}
	}
	out, back := r.spread.Moves()
	r.stats.LetOut.Add(out - r.out)
	r.stats.CalledBack.Add(back - r.back)
	r.stats.Away.Store(out - back)
	r.out, r.back = out, back
	return fault
}

// between makes shares of what two samples read.
func between(before, now sample) spread.Look {
	l := spread.Look{Busy: make(map[int]float64, len(now.cpus))}
	for cpu, t := range now.cpus {
		was, known := before.cpus[cpu]
		busy, idle := t.Busy-was.Busy, t.Idle-was.Idle
		if known && busy >= 0 && idle >= 0 && busy+idle > 0 {
			l.Busy[cpu] = float64(busy) / float64(busy+idle)
		}
	}
	over := float64(now.at.Sub(before.at))
	for i, t := range now.loops {
		was := before.loops[i]
		use := spread.Use{On: t.On}
		if over > 0 && was.Ran > 0 { // else it did not run yet
			use.Ran = float64(t.Ran-was.Ran) / over
			use.Waited = float64(t.Waited-was.Waited) / over
		}
		l.Loops = append(l.Loops, use)
	}
	return l
}
