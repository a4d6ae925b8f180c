package supervisor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/admission/limit"
	"sluice/internal/config"
	"sluice/internal/spec"
)

// fixedFarm is a farm of servers with these ports, and a limit for each.
func fixedFarm(limit config.Limit, ports ...int) *config.Config {
	cfg := farm(ports...)
	cfg.Farms[0].Admission.Limit = limit
	return cfg
}

// The limits are in force before any worker is told of its servers.
func TestLimitsAtTheStart(t *testing.T) {
	s, err := assemble(Options{}, fixedFarm("7", 1, 2), crew(1, 1), nil, new(slog.LevelVar))
	if err != nil {
		t.Fatal(err)
	}
	defer s.shared.Close()
	defer s.bells.close()
	for _, server := range s.Servers() {
		if got := s.shared.Gate(server.Slot).Limit.Load(); got != 7 {
			t.Errorf("%s: limit %d, want 7", server.URL, got)
		}
	}
	for i, l := range s.Admission().Servers {
		if l.URL != s.Servers()[i].URL || l.Kind != "fixed" || l.Limit != 7 || l.Half != "level" {
			t.Errorf("server %d is shown as %+v", i, l)
		}
	}
}

// A reload: new servers have their limits when the first worker hears of them, and
// old ones the new limits when the last worker has said yes. A refusal leaves the
// old ones.
func TestLimitsOverReloads(t *testing.T) {
	play(t, 2, func(st *stage) {
		st.run()
		st.forget()
		limits := func() (text string) {
			for slot := range 3 {
				text += fmt.Sprint(" ", st.s.shared.Gate(slot).Limit.Load())
			}
			return text
		}
		st.answer = func(w, _ int, m *spec.Message) string {
			if m == nil || m.Kind != spec.KindSpec {
				return ""
			}
			st.note(fmt.Sprintf("w%d.1", w), "sees"+limits())
			if len(m.Spec.Servers) == 3 && w == 1 {
				return "refuse"
			}
			return ""
		}
		for _, step := range []struct {
			cfg  *config.Config
			want string // limits afterwards
		}{
			{fixedFarm("7", 1), " 7 0 0"},
			{fixedFarm("9", 1, 2), " 9 9 0"},
			{fixedFarm("5", 1, 2, 3), " 9 9 5"}, // refused; slot 2 has no server
			{fixedFarm("off", 2), " 9 0 5"},
		} {
			st.next(step.cfg, nil)
			st.s.Reload()
			if got := limits(); got != step.want {
				st.Errorf("limits are%s, want%s", got, step.want)
			}
			if got, want := len(st.s.Admission().Servers), len(st.s.Servers()); got != want {
				st.Errorf("%d servers are regulated, want %d", got, want)
			}
		}
		st.expect(`0s w0.1 gets spec 2
			0s w0.1 sees 7 0 0
			0s w0.1 gets spec 3
			0s w0.1 sees 7 9 0
			0s w0.1 gets spec 4
			0s w0.1 sees 9 9 5
			0s w0.1 gets spec 3
			0s w0.1 sees 9 9 5
			0s w0.1 gets spec 5
			0s w0.1 sees 9 9 5
			0s w1.1 gets spec 2
			0s w1.1 sees 7 0 0
			0s w1.1 gets spec 3
			0s w1.1 sees 7 9 0
			0s w1.1 gets spec 4
			0s w1.1 sees 9 9 5
			0s w1.1 gets spec 3
			0s w1.1 sees 9 9 5
			0s w1.1 gets spec 5
			0s w1.1 sees 9 9 5`)
	})
}

// So with the nodes of servers: those of the next configuration are known before
// any worker hears of it, and those of the last again after a refusal.
func TestHomesOverReloads(t *testing.T) {
	play(t, 2, func(st *stage) {
		st.run()
		st.forget()
		homes := func() (text string) {
			for slot := range 3 {
				text += fmt.Sprint(" ", st.s.shared.Home(slot).Node())
			}
			return text
		}
		on := func(nodes ...config.Node) *config.Config {
			cfg := farm([]int{1, 2, 3}[:len(nodes)]...)
			for i, n := range nodes {
				cfg.Farms[0].Servers[i].Node = n
			}
			return cfg
		}
		st.answer = func(w, _ int, m *spec.Message) string {
			if m == nil || m.Kind != spec.KindSpec || w != 1 {
				return ""
			}
			st.note("w1.1", "sees"+homes())
			if len(m.Spec.Servers) == 3 {
				return "refuse"
			}
			return ""
		}
		for _, step := range []struct {
			cfg  *config.Config
			want string // nodes afterwards
		}{
			{on("0"), " 0 -1 -1"},
			{on("5", "0"), " -1 0 -1"},       // there is no node 5
			{on("0", "off", "0"), " -1 0 0"}, // refused; slot 2 has no server
			{on("off", "0"), " -1 0 0"},
		} {
			st.next(step.cfg, nil)
			st.s.Reload()
			if homes() != step.want {
				st.Errorf("nodes%s, want%s", homes(), step.want)
			}
		}
		st.expect(`0s w0.1 gets spec 2
			0s w0.1 gets spec 3
			0s w0.1 gets spec 4
			0s w0.1 gets spec 3
			0s w0.1 gets spec 5
			0s w1.1 gets spec 2
			0s w1.1 sees 0 -1 -1
			0s w1.1 gets spec 3
			0s w1.1 sees -1 0 -1
			0s w1.1 gets spec 4
			0s w1.1 sees 0 -1 0
			0s w1.1 gets spec 3
			0s w1.1 sees -1 0 0
			0s w1.1 gets spec 5
			0s w1.1 sees -1 0 0`)
	})
}

// The limits are kept while Sluice runs: a figure that a worker writes is followed.
// What is shown can be had when all is over.
func TestLimitsAreKept(t *testing.T) {
	play(t, 1, func(st *stage) {
		st.run()
		st.next(fixedFarm("7", 1), nil)
		if err := st.s.Reload(); err != nil {
			st.Fatal(err)
		}
		st.s.shared.Gate(0).Limit.Store(1)
		st.s.shared.Gate(0).InFlight.Store(1)
		st.s.shared.Server(0, 0, 0).Permits.Set(1)
		st.after(time.Second)
		if got := st.s.shared.Gate(0).Limit.Load(); got != 7 {
			st.Errorf("limit %d, want 7", got)
		}
		st.cancel()
		<-st.ended
		if v := st.s.Admission(); len(v.Servers) != 1 || v.Servers[0].InFlight != 1 || v.Leaks+v.Stranded != 0 {
			st.Errorf("shown at the end: %+v", v)
		}
	})
}

// A worker dies: its permits are free at once, and a worker that waits is woken.
// Gauges are forgotten after that.
func TestPermitsOfTheDead(t *testing.T) {
	play(t, 2, func(st *stage) {
		st.run()
		st.next(fixedFarm("7", 1), nil)
		if err := st.s.Reload(); err != nil {
			st.Fatal(err)
		}
		gate := st.s.shared.Gate(0)
		gate.InFlight.Store(5)
		gate.Waiters.Store(3)
		st.s.shared.Server(0, 0, 0).Permits.Set(4)
		st.s.shared.Server(1, 0, 0).Permits.Set(1)
		st.s.shared.Worker(0).Away.Store(2) // loops that roam
		rung := rings(st.T, st.s.bells[1])
		st.s.members[0].process.end()
		st.expectAtOnce(func() bool { return st.s.Workers()[0].Restarts == 1 })
		if in, waiters := gate.InFlight.Load(), gate.Waiters.Load(); in != 1 || waiters != 2 {
			st.Errorf("%d permits are out, want 1; workers %b wait, want 10", in, waiters)
		}
		if got := st.s.shared.Server(0, 0, 0).Permits.Load(); got != 0 {
			st.Errorf("the dead worker still has %d", got)
		}
		if got := st.s.shared.Worker(0).Away.Load(); got != 0 {
			st.Errorf("%d loops of the dead worker are away", got)
		}
		if rings(st.T, st.s.bells[1]) == 0 {
			st.Errorf("worker 1 was not woken (%d times before)", rung)
		}
	})
}

// expectAtOnce waits for the supervisor to be idle, and no longer.
func (st *stage) expectAtOnce(holds func() bool) {
	st.Helper()
	st.after(0)
	if !holds() {
		st.Error("it did not come about at once")
	}
}

// rings is how often a bell was rung since the last look.
func rings(t *testing.T, bell int) uint64 {
	t.Helper()
	var count [8]byte
	if _, err := unix.Read(bell, count[:]); err == unix.EAGAIN {
		return 0
	} else if err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint64(count[:])
}

// Before a worker lives nobody touches its loops' memory, so that it lies where the
// loops run.
func TestStartLeavesLoopsAlone(t *testing.T) {
	play(t, 1, func(st *stage) {
		memory := func() int64 {
			info, err := os.Stat(fmt.Sprintf("/proc/self/fd/%d", st.s.shared.FD()))
			if err != nil {
				st.Fatal(err)
			}
			return info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		for range 3 {
			if _, err := st.s.shared.Assign("app", fmt.Sprint("http://", st.s.shared.Slots())); err != nil {
				st.Fatal(err)
			}
		}
		before := memory()
		st.run()
		if grown := memory() - before; grown > 4096 { // the page of the workers' descriptions
			st.Errorf("the start filled %d bytes", grown)
		}
	})
}

func TestSettings(t *testing.T) {
	base := config.NewFarm("app").Admission
	for limitText, want := range map[config.Limit]limit.Settings{
		"adaptive":  {Kind: limit.Adaptive, Min: 2, Max: 10_000},
		"gradient2": {Kind: limit.Gradient2, Min: 2, Max: 10_000},
		"50":        {Kind: limit.Fixed, Limit: 50, Min: 2, Max: 10_000},
		"off":       {Kind: limit.Off},
	} {
		a := base
		a.Limit = limitText
		got := settingsOf(a)
		if got != want {
			t.Errorf("%s: %+v, want %+v", limitText, got, want)
		}
		if _, err := limit.New(got, limit.State{}); err != nil {
			t.Errorf("%s: %v", limitText, err)
		}
	}
	base.Target = config.Duration(time.Second)
	if got := settingsOf(base); got.Target != time.Second {
		t.Errorf("with a target: %+v", got)
	}
	base.Limit = "off"
	if _, err := limit.New(settingsOf(base), limit.State{}); err != nil {
		t.Errorf("off, with a target: %v", err)
	}
}

// Every worker gets every bell, as descriptors of its own.
func TestBells(t *testing.T) {
	b, err := newBells(3)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	shared := newSegment(t, 8)
	e := editionAfter(t, nil, shared, "127.0.0.1:0")
	defer e.closeBut(nil)
	before := openDescriptors(t)
	p, err := e.specFor(crew(1, 2)[1], b, "v1")
	if err != nil {
		t.Fatal(err)
	}
	theirs := bells(p.message.Spec.Bells)
	if len(theirs) != 3 {
		t.Fatalf("the worker gets %d bells", len(theirs))
	}
	theirs.ring(1)
	b.ring(1)
	theirs.ring(2)
	for i, want := range []uint64{0, 2, 1} {
		if got := b.answered(i); got != (want == 0) {
			t.Errorf("bell %d, rung %d times, was answered: %v", i, want, got)
		}
		if got := rings(t, b[i]); got != want {
			t.Errorf("bell %d was rung %d times, want %d", i, got, want)
		}
		if !b.answered(i) {
			t.Errorf("bell %d has been read, and was not answered", i)
		}
	}
	p.discard()
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
	full := binary.NativeEndian.AppendUint64(nil, math.MaxUint64-1) // eventfd(2): the most that it counts
	if _, err := unix.Write(b[0], full); err != nil {
		t.Fatal(err)
	}
	b.ring(0) // full: must not wait
	if got := rings(t, b[0]); got != math.MaxUint64-1 {
		t.Errorf("a full bell says %d", got)
	}
	if _, err := e.specFor(crew(1, 2)[0], bells{-1}, "v1"); !errors.Is(err, unix.EBADF) {
		t.Errorf("a bell that cannot be duplicated: %v", err)
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors are open after a failure, %d were", after, before)
	}
}
