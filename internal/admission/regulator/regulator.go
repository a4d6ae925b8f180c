// Package regulator is the supervisor's side of admission: it watches what the
// workers count of each server, asks the server's controller (package limit), and
// puts the answer into the server's gate in the shared segment.
//
//	regulator.go   Use, Run, GiveBack: the life of a regulator
//	account.go     what the workers counted, read from the segment
//	server.go      one step of one server
//	audit.go       faults that must not happen: found, mended and counted
//	learned.go     what was learned, in the segment and for the file
//	file.go        the state file, written by a goroutine of its own
//	path.go        where that file is
//	view.go        what an operator sees
//
// It carries no traffic and meets no request. Requests claim and give back permits
// by themselves; without a regulator the last limits stay in force.
//
// The numbered life of a step, every 50 ms:
//
//  1. read the figures of a server, and what changed since its step before
//  2. ask its controller, and put the limit in force
//  3. note the move, if it was one
//  4. look for permits that belong to nobody, and for requests that nobody woke
//  5. wake workers whose requests may go now
package regulator

import (
	"context"
	"log/slog"
	"math/bits"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/admission/limit"
	"sluice/internal/segment"
)

const (
	// step is the time between two looks at a server. A controller's slots are some
	// 300 ms and longer, so it is short enough; an idle look costs below a microsecond.
	step = 50 * time.Millisecond

	// quietStep is the same for a server with nothing to do.
	quietStep = 250 * time.Millisecond

	// heartbeat: workers with requests that wait are woken so often in any case. They
	// look again at servers that they had left out for a while.
	heartbeat = time.Second
)

// Server is a server of the configuration in force.
type Server struct {
	Slot      int // in the segment
	Farm, URL string
	Settings  limit.Settings
}

// Options are what a regulator needs. Only Shared must be given.
type Options struct {
	Shared   *segment.Segment
	Ring     func(worker int)                            // wakes a worker that may have requests to send; it must not wait
	Answered func(worker int) bool                       // whether the worker has looked since it was woken last; nil: it always has
	State    string                                      // path of the state file; empty: none
	Clock    func() (mono time.Duration, wall time.Time) // CLOCK_MONOTONIC, and the wall clock; nil: the machine's
	Log      *slog.Logger                                // nil: the program's
}

// Regulator keeps the limits of all servers. Its methods may be called from any
// goroutine; each takes microseconds per server at most and none waits for a file,
// save New, which reads one, and Run at its end.
type Regulator struct {
	shared   *segment.Segment                            // immutable
	ring     func(worker int)                            // immutable
	answered func(worker int) bool                       // immutable
	clock    func() (mono time.Duration, wall time.Time) // immutable
	log      *slog.Logger                                // immutable
	file     *file                                       // immutable; nil: nothing outlives the segment

	mu       sync.Mutex
	servers  []*server // in use, in the order of the configuration
	leaks    uint64    // permits that belonged to nobody
	stranded uint64    // times that requests waited though permits were free
	beat     time.Duration
	kept     time.Duration // when we last looked for something to keep
}

// New makes a regulator without servers, and reads the state file.
func New(o Options) *Regulator {
	r := &Regulator{shared: o.Shared, ring: o.Ring, answered: o.Answered, clock: o.Clock, log: o.Log}
	if r.ring == nil {
		r.ring = func(int) {}
	}
	if r.answered == nil {
		r.answered = func(int) bool { return true }
	}
	if r.clock == nil {
		r.clock = machineClock
	}
	if r.log == nil {
		r.log = slog.Default()
	}
	_, wall := r.clock()
	r.file = newFile(o.State, wall, r.log)
	return r
}

// machineClock reads CLOCK_MONOTONIC, by which the workers count too, and the wall
// clock. The wall clock's reading shall say when it jumps, so Go's own monotonic
// reading is taken out of it.
func machineClock() (time.Duration, time.Time) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux has it (clock_gettime(2))
	}
	return time.Duration(t.Nano()), time.Now().Round(0)
}

// Use takes the servers of a configuration. A server that stays, with the same
// settings, keeps its controller; any other begins with what was learned of it
// before. When Use returns every limit is in its gate. What was learned of a
// server that is gone is kept, and its limit stays in force for requests that are
// under way.
func (r *Regulator) Use(servers []Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, wall := r.clock()
	r.keep(wall, true)
	next := make([]*server, len(servers))
	for i, s := range servers {
		old := r.find(s)
		if old != nil && old.Settings == s.Settings {
			next[i] = old
			continue
		}
		fresh, err := newServer(r.shared, s, r.learned(s, old), now, wall)
		if err != nil { // the configuration was checked: this is our own fault, and no limit is better than no service
			r.log.Error("a server has no limit", "farm", s.Farm, "server", s.URL, "error", err)
		}
		if old != nil {
			fresh.inherit(old)
		}
		next[i] = fresh
	}
	r.servers = next
}

// find looks for a server that is in use. A slot that has another name now is
// another server.
func (r *Regulator) find(s Server) *server {
	for _, old := range r.servers {
		if old.Slot == s.Slot && old.Farm == s.Farm && old.URL == s.URL {
			return old
		}
	}
	return nil
}

// Run keeps the limits until ctx ends. Then it keeps what was learned.
func (r *Regulator) Run(ctx context.Context) {
	r.file.open()
	timer := time.NewTimer(step)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.close()
			return
		case <-timer.C:
			timer.Reset(r.step())
		}
	}
}

// close keeps what was learned, and waits a moment for the file.
func (r *Regulator) close() {
	r.mu.Lock()
	_, wall := r.clock()
	r.keep(wall, true)
	r.mu.Unlock()
	r.file.close()
}

// step looks at every server once, and says when to look again: a Sluice that has
// nothing to do wakes up less often.
func (r *Regulator) step() (next time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, wall := r.clock()
	var wake uint64
	next = quietStep
	beat := now-r.beat >= heartbeat
	for _, s := range r.servers {
		if s.due(now) {
			wake |= r.stepServer(s, now, wall)
		}
		if !s.quiet {
			next = step
		}
		if beat {
			wake |= s.gate.Waiters.Load()
		}
	}
	if beat {
		r.beat = now
	}
	r.wake(wake)
	if now-r.kept >= keepEvery {
		r.kept = now
		r.keep(wall, false)
	}
	return next
}

// wake rings the workers whose bits are set.
func (r *Regulator) wake(workers uint64) {
	for ; workers != 0; workers &= workers - 1 {
		if w := bits.TrailingZeros64(workers); w < r.shared.Shape().Workers {
			r.ring(w)
		}
	}
}

// GiveBack returns the permits that a dead worker held, and wakes the others that
// wait for them. It must come before Segment.ResetGauges, which would forget how
// many they were. A second call does nothing.
func (r *Regulator) GiveBack(worker int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, _ := r.clock()
	if r.shared.LoopsOf(worker) == 0 {
		return
	}
	var wake uint64
	others := ^(uint64(1) << worker)
	for slot := range r.shared.Slots() {
		gate := r.shared.Gate(slot)
		gate.Waiters.And(others)
		if permits := bury(r.shared, worker, slot, int64(now)); permits != 0 {
			gate.InFlight.Add(-permits)
		}
		wake |= gate.Waiters.Load() // it may have died before it could take a permit that was left to it
	}
	r.wake(wake)
}
