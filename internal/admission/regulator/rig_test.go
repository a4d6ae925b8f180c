package regulator

import (
	"bytes"
	"log/slog"
	"os"
	"testing"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/admission/limit"
	"sluice/internal/segment"
)

// rig is a regulator on a real segment, with a clock that the test turns and
// workers that the test plays.
type rig struct {
	*testing.T
	*Regulator
	shared *segment.Segment
	mono   time.Duration
	wall   time.Time
	rung   []int // workers, in the order in which they were woken
	deaf   bool  // workers do not look when they are woken
	log    bytes.Buffer
}

var epoch = time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)

// newRig makes a regulator for two workers with two loops each, and a state file if
// path is not empty.
func newRig(t *testing.T, path string) *rig {
	t.Helper()
	shared, err := segment.Create(segment.Shape{Workers: 2, Loops: 2, Servers: 256})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	for w := range 2 {
		shared.Worker(w).Loops.Store(2)
	}
	return newRigOn(t, shared, path)
}

// newRigOn is the next regulator on a segment that exists.
func newRigOn(t *testing.T, shared *segment.Segment, path string) *rig {
	r := &rig{T: t, shared: shared, mono: time.Hour, wall: epoch}
	r.Regulator = New(Options{
		Shared: shared, State: path,
		Ring:     func(worker int) { r.rung = append(r.rung, worker) },
		Answered: func(int) bool { return !r.deaf },
		Clock:    func() (time.Duration, time.Time) { return r.mono, r.wall },
		Log:      slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	return r
}

var adaptive = limit.Settings{Kind: limit.Adaptive, Min: 2, Max: 1000}

// server gives a server its slot.
func (r *rig) server(url string, set limit.Settings) Server {
	r.Helper()
	slot, err := r.shared.Assign("app", url)
	if err != nil {
		r.Fatal(err)
	}
	return Server{Slot: slot, Farm: "app", URL: url, Settings: set}
}

// pass lets time go by, without a step.
func (r *rig) pass(d time.Duration) {
	r.mono += d
	r.wall = r.wall.Add(d)
}

// steps are so many steps, each after its time.
func (r *rig) steps(n int) {
	for range n {
		r.pass(step)
		r.step()
	}
}

// claim takes a permit in one loop of a worker, as a request does.
func (r *rig) claim(worker, loop, slot int) gate.Permit {
	r.Helper()
	p, ok := gate.Claim(r.shared.Gate(slot), r.shared.Server(worker, loop, slot), int64(r.mono))
	if !ok {
		r.Fatalf("worker %d gets no permit", worker)
	}
	return p
}

// end gives a permit back in one loop of a worker.
func (r *rig) end(p *gate.Permit, worker, loop, slot int, how gate.Outcome) {
	p.End(r.shared.Server(worker, loop, slot), int64(r.mono), how, int64(time.Second))
}

// wait shows that n requests of a worker wait for a server, as its line does.
func (r *rig) wait(worker, slot, n int) {
	line, bit := r.shared.Line(worker, slot), uint64(1)<<worker
	if line.Waiting.Load() > 0 {
		line.Bound.Add(uint64(r.mono) - line.Since.Load())
	}
	line.Since.Add(uint64(r.mono) - line.Since.Load())
	line.Waiting.Set(int64(n))
	if n > 0 {
		r.shared.Gate(slot).Waiters.Or(bit)
	} else {
		r.shared.Gate(slot).Waiters.And(^bit)
	}
}

// script is a controller that writes down what it is told and answers as the test
// wants.
type script struct {
	samples []limit.Sample
	answer  limit.Decision
	state   limit.State
}

func (s *script) Step(_ time.Time, sample limit.Sample) limit.Decision {
	s.samples = append(s.samples, sample)
	return s.answer
}

func (s *script) State() limit.State { return s.state }

// last is the newest sample.
func (s *script) last() limit.Sample { return s.samples[len(s.samples)-1] }

// scripted uses one server, under a script that begins with a limit of 5.
func (r *rig) scripted() (*script, Server) {
	s := r.server("http://a", adaptive)
	r.Use([]Server{s})
	c := &script{answer: limit.Decision{Limit: 5, Centre: 5}, state: limit.State{Centre: 5}}
	r.servers[0].controller = c
	r.servers[0].moves.centre = 5
	r.steps(1)
	return c, s
}

// awake makes a server's figures be read from here on.
func (r *rig) awake(slot int) {
	p := r.claim(0, 0, slot)
	r.steps(1)
	r.end(&p, 0, 0, slot, gate.Ignored)
	r.steps(1)
}

func (r *rig) limit(slot int) int64    { return r.shared.Gate(slot).Limit.Load() }
func (r *rig) inFlight(slot int) int64 { return r.shared.Gate(slot).InFlight.Load() }

// memory is how many bytes of the segment are in memory.
func (r *rig) memory() int64 {
	info, err := os.Stat("/proc/self/fd/" + itoa(r.shared.FD()))
	if err != nil {
		r.Fatal(err)
	}
	return blocks(info) * 512
}
