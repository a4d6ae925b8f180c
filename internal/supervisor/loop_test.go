package supervisor

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/spec"
)

func TestStart(t *testing.T) {
	play(t, 2, func(st *stage) {
		if st.s.Ready() {
			st.Error("ready before a worker serves")
		}
		st.run()
		st.expect(`0s w0.1 gets spec 1 127.0.0.1:0
			0s w1.1 gets spec 1 127.0.0.1:0`)
		if !st.s.Ready() {
			st.Error("not ready, and every worker serves")
		}
		for i, w := range st.s.Workers() {
			if w.Index != i || w.Node != i || w.PID != 100*(i+1)+1 || w.State != "serving" || w.Restarts != 0 {
				st.Errorf("worker %d is shown as %+v", i, w)
			}
		}
	})
}

// While Sluice starts a worker's trouble is the operator's: it ends with the reason.
func TestStartFails(t *testing.T) {
	for _, test := range []struct {
		answer, script, want string
	}{
		{"refuse", "0s w0.1 gets spec 1 127.0.0.1:0\n0s w0.1 gets stop", "worker 0 refused the configuration: no"},
		{"die", "0s w0.1 gets spec 1 127.0.0.1:0", "worker 0 (pid 101) died: exit status 2"},
		{"no start", "0s w0.1 does not start", "worker 0 cannot be started: no more processes"},
		{"hang", "0s w0.1 gets spec 1 127.0.0.1:0\n30s w0.1 killed", "worker 0 did not put the configuration into effect within 30s"},
	} {
		t.Run(test.answer, func(t *testing.T) {
			play(t, 1, func(st *stage) {
				st.answer = func(_, _ int, m *spec.Message) string {
					if m != nil && m.Kind == spec.KindStop {
						return ""
					}
					return test.answer
				}
				st.run()
				if err := <-st.ended; err == nil || err.Error() != test.want {
					st.Errorf("Run returned %v, want %q", err, test.want)
				}
				if test.answer != "hang" { // a hung worker may be told to stop before it is killed, or not
					st.expect(test.script)
				}
			})
		})
	}
}

// A worker that keeps dying is started at once, then after growing pauses; after a
// good life it begins anew.
func TestRestartPauses(t *testing.T) {
	play(t, 1, func(st *stage) {
		st.run()
		st.expect("0s w0.1 gets spec 1 127.0.0.1:0")
		st.answer = func(_, life int, m *spec.Message) string {
			if life < 7 && (m == nil || m.Kind == spec.KindSpec) {
				return "die"
			}
			return ""
		}
		st.s.members[0].process.end()
		st.after(20 * time.Second)
		st.expect(`0s w0.1 killed
			0s w0.2 gets spec 1 127.0.0.1:0
			100ms w0.3 gets spec 1 127.0.0.1:0
			300ms w0.4 gets spec 1 127.0.0.1:0
			700ms w0.5 gets spec 1 127.0.0.1:0
			1.5s w0.6 gets spec 1 127.0.0.1:0
			2.5s w0.7 gets spec 1 127.0.0.1:0`)
		if w := st.s.Workers()[0]; w.Restarts != 6 || w.State != "serving" || !st.s.Ready() {
			st.Errorf("after 6 deaths: %+v, ready %v", w, st.s.Ready())
		}
		st.after(goodLife)
		st.forget() // pings
		st.s.members[0].process.end()
		st.expect(`1m20s w0.7 killed
			1m20s w0.8 gets spec 1 127.0.0.1:0`)
	})
}

func TestRestartPause(t *testing.T) {
	var r restartPause
	for i, step := range []struct{ lived, want time.Duration }{
		{0, 0}, {0, 100 * time.Millisecond}, {time.Second, 200 * time.Millisecond}, {0, 400 * time.Millisecond},
		{goodLife - 1, 800 * time.Millisecond}, {0, mostPause}, {0, mostPause}, {goodLife, 0}, {0, firstPause},
	} {
		if got := r.after(step.lived); got != step.want {
			t.Errorf("death %d after %s: pause %s, want %s", i+1, step.lived, got, step.want)
		}
	}
}

// One worker dies while the others serve on; it shows as restarting, and what it had
// open is not counted any more.
func TestRestartingShows(t *testing.T) {
	play(t, 2, func(st *stage) {
		st.run()
		st.s.shared.Loop(1, 0).Connections.Set(7)
		st.answer = func(w, life int, m *spec.Message) string {
			if w == 1 && m == nil {
				return "no start"
			}
			return ""
		}
		st.s.members[1].process.end()
		st.after(50 * time.Millisecond)
		if w := st.s.Workers(); w[0].State != "serving" || w[1].State != "restarting" || w[1].PID != 0 || st.s.Ready() {
			st.Errorf("shown: %+v, ready %v", w, st.s.Ready())
		}
		if got := st.s.shared.Worker(1).Restarts.Load(); got == 0 {
			st.Error("the segment counts no restart")
		}
		if got := st.s.shared.Loop(1, 0).Connections.Load(); got != 0 {
			st.Errorf("the segment shows %d connections of a dead worker", got)
		}
	})
}

// A worker answers pings, then its loops hang: it is killed and replaced.
func TestPings(t *testing.T) {
	play(t, 1, func(st *stage) {
		st.answer = func(_, life int, m *spec.Message) string {
			if life == 1 && m != nil && m.Kind == spec.KindPing && time.Since(st.began) > 45*time.Second {
				return "hang"
			}
			return ""
		}
		st.run()
		st.after(190 * time.Second)
		st.expect(`0s w0.1 gets spec 1 127.0.0.1:0
			30s w0.1 gets ping
			1m0s w0.1 gets ping
			1m30s w0.1 gets ping
			2m0s w0.1 gets ping
			2m30s w0.1 killed
			2m30s w0.2 gets spec 1 127.0.0.1:0
			3m0s w0.2 gets ping`)
	})
}

// All of Sluice stood still for an hour: no worker is blamed for it.
func TestPingsAfterAStandstill(t *testing.T) {
	began := time.Unix(0, 0)
	p := &process{outbox: make(chan *parcel, 1), end: func() { t.Error("the worker was killed") }, pingAt: began.Add(pingInterval)}
	s, m := new(Supervisor), &member{process: p}
	a := &alarm{now: began.Add(time.Hour), next: began.Add(2 * time.Hour)}
	s.attend(m, a)
	if sent := <-p.outbox; sent.message.Kind != spec.KindPing || !p.pingAt.Equal(a.now.Add(pingInterval)) {
		t.Errorf("after the standstill it is sent %s, and again at %s", sent.message.Kind, p.pingAt)
	}
}

// A worker that reads nothing is not waited for.
func TestFullOutbox(t *testing.T) {
	p := &process{outbox: make(chan *parcel, 1)}
	ended := 0
	p.end = func() { ended++ }
	p.say(spec.KindPing)
	p.say(spec.KindPing)
	if ended != 1 {
		t.Errorf("the process was ended %d times, want once", ended)
	}
}

func TestDrain(t *testing.T) {
	play(t, 2, func(st *stage) {
		st.run()
		st.forget()
		st.signal(unix.SIGTERM)
		if err := <-st.ended; err != nil {
			st.Errorf("Run returned %v", err)
		}
		st.expect(`0s w0.1 gets drain 30s
			0s w1.1 gets drain 30s`)
		if err := st.s.Reload(); err != errStopping {
			st.Errorf("a reload after the end: %v", err)
		}
	})
}

// Who does not drain in time is told to stop, then killed.
func TestDrainOverTime(t *testing.T) {
	play(t, 1, func(st *stage) {
		st.answer = func(_, _ int, m *spec.Message) string {
			if m != nil && m.Kind != spec.KindSpec && m.Kind != spec.KindPing {
				return "hang"
			}
			return ""
		}
		st.run()
		st.forget()
		st.signal(unix.SIGTERM)
		if w := st.s.Workers()[0]; w.State != "draining" || st.s.Ready() {
			st.Errorf("shown while draining: %+v, ready %v", w, st.s.Ready())
		}
		if err := st.s.Reload(); err != errStopping {
			st.Errorf("a reload while draining: %v", err)
		}
		if err := <-st.ended; err != nil {
			st.Errorf("Run returned %v", err)
		}
		st.expect(`0s w0.1 gets drain 30s
			30s w0.1 gets ping
			35s w0.1 gets stop
			40s w0.1 killed`)
	})
}

func TestStopSignals(t *testing.T) {
	hang := func(_, _ int, m *spec.Message) string {
		if m != nil && (m.Kind == spec.KindDrain || m.Kind == spec.KindStop) {
			return "hang"
		}
		return ""
	}
	for _, test := range []struct {
		name    string
		hang    bool
		signals []unix.Signal
		want    string
	}{
		{"SIGINT", false, []unix.Signal{unix.SIGINT}, "0s w0.1 gets stop"},
		{"SIGINT twice", true, []unix.Signal{unix.SIGINT, unix.SIGINT}, "0s w0.1 gets stop\n0s w0.1 killed"},
		{"SIGTERM twice", true, []unix.Signal{unix.SIGTERM, unix.SIGTERM, unix.SIGTERM}, "0s w0.1 gets drain 30s\n0s w0.1 gets stop\n0s w0.1 killed"},
		{"SIGTERM then SIGINT", true, []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGINT}, "0s w0.1 gets drain 30s\n0s w0.1 gets stop\n0s w0.1 killed"},
		{"SIGUSR1 reopens", false, []unix.Signal{unix.SIGUSR1, unix.SIGINT}, "0s w0.1 gets reopen\n0s w0.1 gets stop"},
		{"SIGUSR2 does nothing", false, []unix.Signal{unix.SIGUSR2, unix.SIGINT}, "0s w0.1 gets stop"},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, 1, func(st *stage) {
				if test.hang {
					st.answer = hang
				}
				st.run()
				st.forget()
				for _, s := range test.signals {
					st.signal(s)
				}
				if err := <-st.ended; err != nil {
					st.Errorf("Run returned %v", err)
				}
				st.expect(test.want)
			})
		})
	}
}

// The end of the context is a polite stop.
func TestContextEnds(t *testing.T) {
	play(t, 1, func(st *stage) {
		st.run()
		st.forget()
		st.cancel()
		if err := <-st.ended; err != nil {
			st.Errorf("Run returned %v", err)
		}
		st.expect("0s w0.1 gets stop")
	})
}

// A worker that dies while Sluice drains is not replaced.
func TestDeathWhileDraining(t *testing.T) {
	play(t, 2, func(st *stage) {
		st.answer = func(w, _ int, m *spec.Message) string {
			if m == nil || m.Kind != spec.KindDrain {
				return ""
			}
			return map[int]string{0: "die", 1: "hang"}[w]
		}
		st.run()
		st.forget()
		st.signal(unix.SIGTERM)
		st.after(time.Second)
		st.signal(unix.SIGINT)
		<-st.ended
		st.expect(`0s w0.1 gets drain 30s
			0s w1.1 gets drain 30s
			1s w1.1 gets stop`)
	})
}

func TestReload(t *testing.T) {
	play(t, 2, func(st *stage) {
		st.run()
		st.forget()
		before := st.s.current.listening[0].sockets[0][0]
		st.next(testConfig("127.0.0.1:0", "[::1]:0"), nil)
		if err := st.s.Reload(); err != nil {
			st.Fatal(err)
		}
		st.expect(`0s w0.1 gets spec 2 127.0.0.1:0 [::1]:0
			0s w1.1 gets spec 2 127.0.0.1:0 [::1]:0`)
		if now := st.s.current.listening[0].sockets[0][0]; now != before {
			st.Errorf("the listener that stays has descriptor %d, had %d", now, before)
		}
		removed := st.s.current.listening[0]
		st.next(testConfig("[::1]:0"), nil)
		st.signal(unix.SIGHUP)
		st.expect(`0s w0.1 gets spec 3 [::1]:0
			0s w1.1 gets spec 3 [::1]:0`)
		if st.s.Generation() != 3 || removed.sockets != nil || len(st.s.Config().Listeners) != 1 {
			st.Errorf("generation %d, sockets of the removed listener %v", st.s.Generation(), removed.sockets)
		}
	})
}

// What a listener that stays and the log are told of a new configuration.
func TestReloadDetails(t *testing.T) {
	play(t, 1, func(st *stage) {
		st.run()
		next := testConfig("127.0.0.1:0")
		next.Listeners[0].Backlog = 99
		next.Log.Level = "debug"
		st.next(next, nil)
		if err := st.s.Reload(); err != nil {
			st.Fatal(err)
		}
		if got := st.s.level.Level(); got != slog.LevelDebug {
			st.Errorf("the log's level is %s", got)
		}
		// Of a listening socket the kernel shows the backlog there (net/ipv4/tcp.c, tcp_get_info).
		info, err := unix.GetsockoptTCPInfo(st.s.current.listening[0].sockets[0][0], unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil || info.Sacked != 99 {
			st.Errorf("the backlog is %+v, error %v, want 99", info, err)
		}
	})
}

// Whatever goes wrong, the error says so and every worker serves the old one.
func TestReloadRefused(t *testing.T) {
	loops := testConfig("127.0.0.1:0")
	loops.Workers.Loops = 7
	for _, test := range []struct {
		name   string
		config *config.Config
		fault  error
		answer string // of worker 1 to generation 2
		want   string
		script string
	}{
		{"faulty file", nil, config.Faults{{Rule: "no farms"}}, "", "no farms", ""},
		{"needs a restart", loops, nil, "", "workers.loops: 7: was 0 when Sluice started, and a reload cannot change it; restart Sluice, or write 0", ""},
		{"address of somebody else", testConfig("192.0.2.1:0"), nil, "", "this machine has no such address", ""},
		{"a worker refuses", testConfig("127.0.0.1:0", "[::1]:0"), nil, "refuse", "worker 1 refused the configuration: no", `
			0s w0.1 gets spec 2 127.0.0.1:0 [::1]:0
			0s w0.1 gets spec 1 127.0.0.1:0
			0s w1.1 gets spec 2 127.0.0.1:0 [::1]:0
			0s w1.1 gets spec 1 127.0.0.1:0`},
		{"a worker hangs", testConfig("127.0.0.1:0", "[::1]:0"), nil, "hang", "worker 1 did not put the configuration into effect within 30s", ""},
		{"a worker dies of it", testConfig("127.0.0.1:0", "[::1]:0"), nil, "die", "worker 1 died twice while it took the configuration (exit status 2)", `
			0s w0.1 gets spec 2 127.0.0.1:0 [::1]:0
			0s w0.1 gets spec 1 127.0.0.1:0
			0s w1.1 gets spec 2 127.0.0.1:0 [::1]:0
			0s w1.2 gets spec 2 127.0.0.1:0 [::1]:0
			100ms w1.3 gets spec 1 127.0.0.1:0`},
	} {
		t.Run(test.name, func(t *testing.T) {
			play(t, 2, func(st *stage) {
				st.answer = func(w, _ int, m *spec.Message) string {
					if w == 1 && m != nil && m.Kind == spec.KindSpec && m.Spec.Generation == 2 {
						return test.answer
					}
					return ""
				}
				st.run()
				st.forget()
				old := st.s.Config()
				before := openDescriptors(t)
				st.next(test.config, test.fault)
				if err := st.s.Reload(); err == nil || !strings.Contains(err.Error(), test.want) {
					st.Fatalf("Reload returned %v, want %q", err, test.want)
				}
				st.after(time.Second)
				if test.answer != "hang" {
					st.expect(test.script)
				}
				if st.s.Config() != old || !st.s.Ready() || !st.s.everyWorkerHas(1) {
					st.Errorf("ready %v, every worker has the old one %v", st.s.Ready(), st.s.everyWorkerHas(1))
				}
				if after := openDescriptors(t); after != before {
					st.Errorf("%d descriptors are open, %d were", after, before)
				}
				st.next(old, nil)
				if err := st.s.Reload(); err != nil {
					st.Errorf("the next reload: %v", err)
				}
			})
		})
	}
}

// A death in the middle of a reload is no verdict on the configuration: the next
// process gets it too.
func TestReloadSurvivesADeath(t *testing.T) {
	play(t, 2, func(st *stage) {
		st.answer = func(w, life int, m *spec.Message) string {
			if w == 1 && life == 1 && m != nil && m.Kind == spec.KindSpec && m.Spec.Generation == 2 {
				return "die"
			}
			return ""
		}
		st.run()
		if err := st.s.Reload(); err != nil {
			st.Error(err)
		}
		if !st.s.everyWorkerHas(2) {
			st.Error("not every worker serves generation 2")
		}
	})
}

// A hundred wishes that come while a reload is under way are one reload.
func TestReloadStorm(t *testing.T) {
	play(t, 1, func(st *stage) {
		hold := make(chan struct{})
		loads := 0
		st.s.options.Load = func() (*config.Config, error) {
			loads++
			<-hold
			return st.load()
		}
		st.run()
		st.forget()
		done := make(chan error, 100)
		for range cap(done) {
			go func() { done <- st.s.Reload() }()
			st.signal(unix.SIGHUP)
		}
		close(hold)
		for range cap(done) {
			if err := <-done; err != nil {
				st.Error(err)
			}
		}
		st.expect(`0s w0.1 gets spec 2 127.0.0.1:0
			0s w0.1 gets spec 3 127.0.0.1:0`)
		if loads != 2 {
			st.Errorf("%d loads, want 2", loads)
		}
	})
}

// Who waits for a reload is answered when Sluice stops, wherever the reload is.
func TestStopDuringReload(t *testing.T) {
	for _, at := range []string{"reading", "with the workers"} {
		t.Run(at, func(t *testing.T) {
			play(t, 1, func(st *stage) {
				hold := make(chan struct{})
				if at == "reading" {
					st.s.options.Load = func() (*config.Config, error) { <-hold; return nil, errors.New("never") }
				}
				st.answer = func(_, _ int, m *spec.Message) string {
					if m != nil && m.Kind == spec.KindSpec && m.Spec.Generation > 1 {
						return "hang"
					}
					return ""
				}
				st.run()
				st.next(testConfig("[::1]:0"), nil)
				done := make(chan error, 2)
				go func() { done <- st.s.Reload() }()
				st.after(time.Second)
				go func() { done <- st.s.Reload() }()
				st.after(time.Second)
				st.signal(unix.SIGINT)
				for range cap(done) {
					if err := <-done; err != errStopping {
						st.Errorf("Reload returned %v, want %v", err, errStopping)
					}
				}
				if err := <-st.ended; err != nil {
					st.Errorf("Run returned %v", err)
				}
				close(hold)
			})
		})
	}
}

// A reload that is asked for before Sluice is up waits until it is.
func TestReloadWhileStarting(t *testing.T) {
	play(t, 1, func(st *stage) {
		var first time.Time
		st.answer = func(_, _ int, m *spec.Message) string {
			if m != nil && m.Kind == spec.KindSpec && first.IsZero() {
				first = time.Now()
				<-time.After(time.Second)
			}
			return ""
		}
		st.run()
		if err := st.s.Reload(); err != nil {
			st.Error(err)
		}
		if st.s.Generation() != 2 {
			st.Errorf("generation %d, want 2", st.s.Generation())
		}
	})
}
