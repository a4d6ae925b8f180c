package reactor

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestEcho(t *testing.T) {
	l := startLoop(t, Options{})
	_, addr := serveOn(t, l, func(c *Conn) { c.Idle(&echo{Stream: c}) })
	c := dial(t, addr)
	for _, word := range []string{"one", "two", "three"} {
		say(t, c, word)
	}
}

func TestPinRunsOnTheLoopsThread(t *testing.T) {
	var pinned, ran int
	l := startLoop(t, Options{Pin: func() { pinned = unix.Gettid() }})
	on(t, l, func() { ran = unix.Gettid() })
	if pinned != ran || pinned == 0 {
		t.Errorf("pinned thread %d, loop runs on %d", pinned, ran)
	}
}

// Many goroutines submit, now to a loop that is busy, now to one that sleeps.
// Nothing is lost, and each goroutine's functions run in its order.
func TestSubmitLosesNothing(t *testing.T) {
	const senders, rounds, burst = 8, 200, 10
	l := startLoop(t, Options{})
	ran := make([][]int, senders) // loop only
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for r := range rounds {
				done := make(chan struct{})
				for i := range burst {
					l.Submit(func() { ran[s] = append(ran[s], r*burst+i) })
				}
				l.Submit(func() { close(done) })
				<-done // from here on the loop may fall asleep
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	await(t, "all functions run", ended)
	on(t, l, func() {
		for s, got := range ran {
			if len(got) != rounds*burst || !slices.IsSorted(got) {
				t.Errorf("sender %d: %d of %d functions ran, in order: %v", s, len(got), rounds*burst, slices.IsSorted(got))
			}
		}
	})
}

// A Submit that comes after the loop looked for functions, and before it says
// that it sleeps, must keep it from sleeping.
func TestSubmitJustBeforeSleep(t *testing.T) {
	h := newByHand(t)
	h.runSubmitted()
	ran := false
	h.Submit(func() { ran = true })
	awake := make(chan struct{})
	go func() { h.sleep(); close(awake) }()
	await(t, "the loop sees the function and does not sleep", awake)
	if h.runSubmitted(); !ran {
		t.Error("the function was not run")
	}
}

// The eventfd costs a system call: it is written once for a loop that sleeps,
// and not at all for one that is awake.
func TestSubmitWakesOnlyASleeper(t *testing.T) {
	for _, tc := range []struct {
		name     string
		sleeping bool
		want     string
	}{{"awake", false, "0"}, {"asleep", true, "1"}} {
		t.Run(tc.name, func(t *testing.T) {
			h := newByHand(t)
			h.sleeping.Store(tc.sleeping)
			for range 5 {
				h.Submit(func() {})
			}
			if got := eventCount(t, h.Loop); got != tc.want {
				t.Errorf("eventfd was written %s times, want %s", got, tc.want)
			}
		})
	}
}

// eventCount is what the kernel says was written to the loop's eventfd.
func eventCount(t *testing.T, l *Loop) string {
	t.Helper()
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", l.event))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(info), "eventfd-count:")
	count, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(count)
}

// A loop that has nothing to do makes no turns.
func TestIdleLoopSleepsForEver(t *testing.T) {
	l := startLoop(t, Options{})
	c, _ := tcpConn(t, l)
	turns := func() (n uint64) {
		on(t, l, func() { n = l.stats.Turns })
		return n
	}
	on(t, l, func() {
		c.SetReadTimeout(time.Hour)
		c.SetReadTimeout(0)
		l.wheel.disarm(&c.timer)
		if ms := l.wheel.sleep(l.now); ms != -1 {
			t.Errorf("no timer is armed, yet the loop would sleep %d ms", ms)
		}
	})
	before := turns()
	<-time.After(10 * tickNanos)
	if made := turns() - before; made > 4 {
		t.Errorf("an idle loop made %d turns in 10 ticks", made)
	}
}

// BusyNanos counts what passes between two sleeps and nothing of a sleep.
func TestBusyNanos(t *testing.T) {
	const slept = 50 * time.Millisecond
	h := newByHand(t)
	s := &signal{loop: h.Loop}
	s.timer.owner = s
	h.now = nanotime()
	h.wheel.advance(h.now)
	h.wheel.arm(&s.timer, h.now+int64(slept))

	from, busy := h.awake, h.stats.BusyNanos
	h.sleep()
	now := nanotime()
	h.observe(now)
	got := time.Duration(h.stats.BusyNanos - busy)
	if all := time.Duration(now - from); got > all-slept {
		t.Errorf("busy for %v of %v, of which at least %v asleep", got, all, slept)
	}
	busy = h.stats.BusyNanos
	h.observe(now + int64(time.Second))
	if got := h.stats.BusyNanos - busy; got != uint64(time.Second) {
		t.Errorf("busy for %d ns of a second awake", got)
	}
}

// Observe is told the figures also of a loop that never sleeps.
func TestObserveUnderLoad(t *testing.T) {
	seen := make(chan Stats, 1)
	l := startLoop(t, Options{Observe: func(s Stats) {
		select {
		case seen <- s:
		default:
		}
	}})
	stop := false
	load := spawn(l, func() {
		for !stop {
			l.spent(turnBytes)
		}
	})
	first := await(t, "figures", seen)
	for {
		if s := await(t, "figures of a busy loop", seen); s.Turns >= first.Turns+128 && s.BusyNanos > first.BusyNanos {
			break
		}
	}
	on(t, l, func() { stop = true })
	await(t, "the load ends", load)
}

// Two events come in one batch. The first has its connection close the second,
// and another takes over the second's descriptor: it must not be told of what
// was not meant for it.
func TestStaleEvent(t *testing.T) {
	l := startLoop(t, Options{})
	first, firstPeer := tcpConn(t, l)
	second, secondPeer := tcpConn(t, l)
	x, y := socketPair(t)
	defer unix.Close(y)
	var heir *Conn
	on(t, l, func() {
		first.OnHangup(jobFunc(func() {
			second.Close()
			fd, err := unix.FcntlInt(uintptr(x), unix.F_DUPFD_CLOEXEC, second.fd)
			if err != nil || fd != second.fd {
				t.Errorf("descriptor %d, %v; wanted the closed one, %d", fd, err, second.fd)
			}
			unix.Close(x)
			heir, _ = l.Adopt(fd, netip.AddrPort{})
		}))
		// The loop is busy here, so it meets both events in one batch, in this order.
		firstPeer.SetLinger(0)
		firstPeer.Close()
		secondPeer.Write([]byte("not for the heir"))
	})
	on(t, l, func() {
		if heir == nil {
			t.Error("the hang-up came too late")
		} else if heir.Ready() {
			t.Error("an event of the old connection reached the new one")
		}
	})
}

// A loop that closes ends whatever waits on it, and keeps nothing.
func TestCloseEndsEverything(t *testing.T) {
	path := fullUnixListener(t)
	goroutines, before := runtime.NumGoroutine(), descriptors()
	l := startLoop(t, Options{})
	var errs []string // loop only, then read after Close
	wait := func(what string, f func() error) {
		spawn(l, func() { errs = append(errs, fmt.Sprintf("%s: %v", what, f())) })
	}
	waiters := closeWaiters(t, l, path)
	for what, f := range waiters {
		wait(what, f)
	}
	for range 3 { // each turn lets a waiter come to its next stop
		on(t, l, func() {})
	}
	closed := make(chan struct{})
	go func() { l.Close(); close(closed) }()
	await(t, "the loop closes", closed)
	if len(errs) != len(waiters) {
		t.Errorf("%d of %d tasks ended: %q", len(errs), len(waiters), errs)
	}
	for _, e := range errs {
		if !strings.Contains(e, net.ErrClosed.Error()) && !strings.HasSuffix(e, ": not set") {
			t.Errorf("%s; want %v", e, net.ErrClosed)
		}
	}
	if !settle(func() bool { return runtime.NumGoroutine() <= goroutines }) {
		t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
	}
	wantOpened(t, 0, before)
}

// closeWaiters are ways to wait on a loop; each returns what ended the wait.
func closeWaiters(t *testing.T, l *Loop, full string) map[string]func() error {
	reading, _ := connPair(t, l)
	awaiting, _ := connPair(t, l)
	writing, _ := connPair(t, l)
	from, _ := connPair(t, l)
	_, to := connPair(t, l)
	idle, _ := connPair(t, l)
	lingering, _ := connPair(t, l)
	return map[string]func() error{
		"read":  func() error { _, err := reading.Read(make([]byte, 1)); return err },
		"await": func() error { return awaiting.Await() },
		"write": func() error { _, err := writing.Write(make([]byte, 8<<20)); return err },
		"splice": func() error {
			_, _, err := to.SpliceFrom(from, 1, 0, func(int) {})
			return err
		},
		"dial": func() error { _, err := l.Dial(Address{Path: full}, 0); return err },
		"redial": func() error { // a task that meets the end and goes on to the next thing
			reading.Await()
			_, err := l.Dial(Address{Path: full}, 0)
			return err
		},
		"signal": func() error {
			if l.NewSignal().Wait(0) {
				return fmt.Errorf("set")
			}
			return fmt.Errorf("not set")
		},
		"signal, and then a job": func() error {
			l.NewSignal().Wait(0)
			ran := false
			l.Go(jobFunc(func() { ran = true }))
			for !ran {
				l.spent(turnBytes)
			}
			return net.ErrClosed
		},
		"idle": func() error {
			ended := l.NewSignal()
			var err error
			idle.Idle(jobFunc(func() { err = idle.Await(); ended.Set() }))
			ended.Wait(0)
			for err == nil {
				l.spent(turnBytes)
			}
			return err
		},
		"linger": func() error { lingering.Linger(time.Hour); return lingering.Await() },
	}
}

// What is submitted to a loop that has ended is not run, and does no harm.
func TestSubmitAfterClose(t *testing.T) {
	l, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	go l.Run()
	l.Close()
	l.Submit(func() { t.Error("ran after the end") })
	l.Close()
}
