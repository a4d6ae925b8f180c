package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/bench/configs"
	"sluice/bench/floor"
	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/toolchain"
)

// programs are the C programs, compiled, with a backend that runs.
type programs struct {
	dir     string
	floor   peers.Peer
	load    load.Generator
	backend *peers.Running
	ports   peers.Ports
}

func start(t *testing.T) *programs {
	p := &programs{dir: t.TempDir()}
	generator, err := toolchain.C(t.Context(), p.dir, "load", load.Source)
	if err != nil {
		t.Fatal(err)
	}
	relay, err := toolchain.C(t.Context(), p.dir, "floor", floor.Source)
	if err != nil {
		t.Fatal(err)
	}
	p.load = load.Generator{Path: generator, Log: filepath.Join(p.dir, "load.log")}
	found, err := peers.Find(t.Context(), []string{peers.Floor}, peers.Tools{Floor: relay})
	if err != nil {
		t.Fatal(err)
	}
	p.floor = found[0]
	port, err := p.ports.Next()
	if err != nil {
		t.Fatal(err)
	}
	if p.backend, err = peers.StartBackend(t.Context(), relay, p.dir, port, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.backend.Stop)
	return p
}

// relay starts the floor before the backend.
func (p *programs) relay(t *testing.T, perRequest bool) *peers.Running {
	port, err := p.ports.Next()
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.floor.Start(t.Context(), peers.Setup{
		Setup:      configs.Setup{Dir: p.dir, Port: port, Backends: []int{p.backend.Port}, Threads: 1},
		PerRequest: perRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

// TestLoads: every load, with and without the relay, gets whole answers and counts
// them right. How fast does not matter.
func TestLoads(t *testing.T) {
	p := start(t)
	kept, once := p.relay(t, false), p.relay(t, true)
	for _, c := range []struct {
		name  string
		port  int
		job   load.Job
		bytes int64
	}{
		{"direct", p.backend.Port, load.Job{Conns: 8, Target: "/53"}, 53},
		{"relayed", kept.Port, load.Job{Conns: 8, Target: "/53"}, 53},
		{"no body", kept.Port, load.Job{Conns: 8, Target: "/0"}, 0},
		{"large body", kept.Port, load.Job{Conns: 2, Target: "/1000000"}, 1_000_000},
		{"a connection for each", once.Port, load.Job{Conns: 8, Target: "/53", PerRequest: true}, 53},
		{"open loop", kept.Port, load.Job{Conns: 8, Target: "/53", Rate: 1000}, 53},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.job.Port, c.job.Measure = c.port, time.Second
			p.check(t, c.job, c.bytes)
		})
	}
}

// check runs a job for bodies of that length.
func (p *programs) check(t *testing.T, job load.Job, length int64) {
	order := ""
	s, err := p.load.Run(t.Context(), job, func() { order += "begin " }, func() { order += "end" })
	if err != nil || order != "begin end" {
		t.Fatalf("%v, in the order %q", err, order)
	}
	// A body on its way when time is up has counted in part.
	inFlight := int64(job.Conns) * length
	if s.Requests == 0 || s.Errors != 0 || s.Bytes < s.Requests*length || s.Bytes > s.Requests*length+inFlight {
		t.Errorf("%d requests, %d errors, %d bytes", s.Requests, s.Errors, s.Bytes)
	}
	latency := load.Merge(s.Latency)
	if n := latency.TotalCount(); n == 0 || n > s.Requests+s.Unfinished || latency.Min() <= 0 {
		t.Errorf("%d latencies of %d requests, from %d ns", n, s.Requests, latency.Min())
	}
}

// TestHold: the connections are there while held is called, and their end by the
// server is a fault.
func TestHold(t *testing.T) {
	p := start(t)
	r := p.relay(t, false)
	called := false
	err := p.load.Hold(t.Context(), load.Job{Port: r.Port, Conns: 50, Target: "/53"}, func() error { called = true; return nil })
	if err != nil || !called {
		t.Errorf("held %v, %v", called, err)
	}
	err = p.load.Hold(t.Context(), load.Job{Port: r.Port, Conns: 50, Target: "/53"}, func() error { r.Stop(); return nil })
	if err == nil {
		t.Error("connections that the server has closed were held")
	}
	broken := errors.New("broken")
	if err := p.load.Hold(t.Context(), load.Job{Port: p.backend.Port, Conns: 5, Target: "/53"}, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestServerThatIsNot: a load without a server fails.
func TestServerThatIsNot(t *testing.T) {
	p := start(t)
	port, err := p.ports.Next()
	if err != nil {
		t.Fatal(err)
	}
	none := func() {}
	_, err = p.load.Run(t.Context(), load.Job{Port: port, Conns: 1, Target: "/"}, none, none)
	if err == nil || !strings.Contains(err.Error(), "connect: Connection refused") {
		t.Errorf("no server, and the error is %v", err)
	}
}

func TestFaultyProgram(t *testing.T) {
	if _, err := toolchain.C(t.Context(), t.TempDir(), "faulty", []byte("int main(")); err == nil {
		t.Error("half a program was compiled")
	}
}
