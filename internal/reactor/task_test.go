package reactor

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

// faulty is a session that panics over its first bytes.
type faulty struct{ *Conn }

func (f *faulty) Run() {
	f.Read(make([]byte, 1))
	panic("this session is faulty")
}

// A panic ends its own connection. The loop, the other tasks and the coroutine
// it happened in go on.
func TestPanicEndsOneConnection(t *testing.T) {
	type report struct{ value, stack string }
	reports := make(chan report, 2)
	l := startLoop(t, Options{Panicked: func(job Job, value any, stack []byte) {
		job.(*faulty).Close()
		reports <- report{fmt.Sprint(value), string(stack)}
	}})
	healthy, client := tcpConn(t, l)
	on(t, l, func() { healthy.Idle(&echo{Stream: healthy}) })
	say(t, client, "before")

	tasks := 0
	for round := range 2 {
		sick, victim := tcpConn(t, l)
		on(t, l, func() { l.Go(&faulty{sick}) })
		victim.Write([]byte("x"))
		got := await(t, "the panic is reported", reports)
		if got.value != "this session is faulty" || !strings.Contains(got.stack, "(*faulty).Run") {
			t.Errorf("reported %q with stack\n%s", got.value, got.stack)
		}
		if n, err := victim.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes from a connection that was to be closed", n)
		}
		say(t, client, "meanwhile")
		on(t, l, func() {
			if round == 0 {
				tasks = len(l.tasks)
			} else if len(l.tasks) != tasks {
				t.Errorf("%d coroutines after the second panic, %d after the first", len(l.tasks), tasks)
			}
		})
	}
}

// Whoever makes another task ready goes on undisturbed: the other runs later,
// from the run queue.
func TestWakeIsNeverNested(t *testing.T) {
	l := startLoop(t, Options{})
	a, b := connPair(t, l)
	flag, timed, third := l.NewSignal(), l.NewSignal(), l.NewSignal()
	depth, ran := 0, 0 // how many jobs are between two of their waits
	job := func(wait func()) func() {
		return func() {
			wait()
			if depth++; depth > 1 {
				t.Error("resumed inside another task")
			}
			ran++
			depth--
		}
	}
	idle := make(chan struct{})
	ended := []<-chan struct{}{
		idle,
		spawn(l, job(func() { flag.Wait(0) })),
		spawn(l, job(func() { timed.Wait(time.Hour) })),
		spawn(l, job(func() { third.Wait(0) })),
		spawn(l, job(func() { a.Await() })),
		spawn(l, func() {
			depth++
			flag.Set()
			timed.Set()
			l.Go(jobFunc(job(func() { third.Set() })))
			a.Abort(errors.New("woken"))
			b.Idle(jobFunc(job(func() { close(idle) })))
			b.Close()
			depth--
		}),
	}
	for _, done := range ended {
		await(t, "a task ends", done)
	}
	on(t, l, func() {
		if ran != 6 {
			t.Errorf("%d of 6 tasks ran", ran)
		}
	})
}

// A task that never has to wait yields after its share of bytes, so that others
// and the kernel's events get their turn.
func TestBusyTaskStarvesNobody(t *testing.T) {
	const piece = 32 << 10
	buf := make([]byte, piece)
	for _, tc := range []struct {
		name string
		move func(a, b, c, d *Conn) error // moves a piece from a to b, without a wait
	}{
		{"read and write", func(a, b, _, _ *Conn) error {
			a.Write(buf)
			_, err := b.Read(buf)
			return err
		}},
		{"splice", func(a, b, c, d *Conn) error {
			send(a.fd, buf)
			_, _, err := c.SpliceFrom(b, piece, 0, func(int) {})
			recv(d.fd, buf)
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := startLoop(t, Options{})
			a, b := connPair(t, l)
			c, d := connPair(t, l)
			stop := false
			busy := spawn(l, func() {
				send(a.fd, buf) // there is always something left
				for !stop {
					if err := tc.move(a, b, c, d); err != nil {
						t.Error(err)
						return
					}
				}
			})
			other, client := tcpConn(t, l)
			on(t, l, func() { other.Idle(&echo{Stream: other}) })
			for range 20 {
				say(t, client, "my turn")
			}
			on(t, l, func() { stop = true })
			await(t, "the busy task ends", busy)
		})
	}
}

// A task yields as soon as it has moved turnBytes, in however many pieces.
func TestTurnBytes(t *testing.T) {
	for _, tc := range []struct{ piece, turns int }{
		{turnBytes - 1, 2}, // the second piece brings the yield
		{turnBytes, 1},
		{turnBytes / 4, 4},
	} {
		h := newByHand(t)
		moved := 0
		h.start(func() {
			for range 12 {
				moved++
				h.spent(tc.piece)
			}
		})
		if moved != tc.turns {
			t.Errorf("%d pieces of %d bytes in one turn, want %d", moved, tc.piece, tc.turns)
		}
	}
}

// Tasks that have ended are kept for the next jobs, up to keptTasks.
func TestKeptTasks(t *testing.T) {
	for _, jobs := range []int{keptTasks, keptTasks + 1, 10 * keptTasks} {
		h := newByHand(t)
		before := runtime.NumGoroutine()
		for range 3 {
			for range jobs {
				h.Go(jobFunc(func() {}))
			}
			h.runReady()
			if kept := len(h.spare); kept != keptTasks || len(h.tasks) != keptTasks {
				t.Errorf("%d jobs leave %d tasks, %d of them spare; want %d", jobs, len(h.tasks), kept, keptTasks)
			}
		}
		if !settle(func() bool { return runtime.NumGoroutine() <= before+keptTasks }) {
			t.Errorf("%d jobs leave %d goroutines, want %d", jobs, runtime.NumGoroutine()-before, keptTasks)
		}
	}
}

// Jobs run in the order in which they were given, however many wait.
func TestRunQueueKeepsOrder(t *testing.T) {
	h := newByHand(t)
	var order []int
	next := 0
	for _, n := range []int{3, 64, 65, 500, 1} { // across the ring's growth and wrap
		for range n {
			h.Go(jobFunc(func() { order = append(order, len(order)) }))
			next++
		}
		h.runReady()
	}
	for i, got := range order {
		if got != i {
			t.Fatalf("job %d ran as number %d", i, got)
		}
	}
	if len(order) != next {
		t.Errorf("%d of %d jobs ran", len(order), next)
	}
}

func TestParkOutsideATaskPanics(t *testing.T) {
	h := newByHand(t)
	x, y := socketPair(t)
	a, b := h.adopt(t, x), h.adopt(t, y)
	defer func() {
		a.Close()
		b.Close()
		if v := recover(); !strings.Contains(fmt.Sprint(v), "outside a task") {
			t.Errorf("panic %v; want one that names the mistake", v)
		}
	}()
	a.Read(make([]byte, 1))
}

// A Set is remembered until a Wait takes it; several count as one.
func TestSignal(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before int // Sets before the Wait
		wait   time.Duration
		pass   time.Duration // what goes by before a Set
		want   string
	}{
		{"set before", 1, 0, 0, "true, then waits"},
		{"set three times before", 3, 0, 0, "true, then waits"},
		{"set before, with a time", 1, time.Second, 0, "true, then waits"},
		{"never set", 0, time.Second, 1100 * time.Millisecond, "false, then true"},
		{"set in time", 0, time.Second, 900 * time.Millisecond, "true, then waits"},
		{"set much later", 0, 0, 24 * time.Hour, "true, then waits"},
		{"set before the horizon's end", 0, 100 * time.Second, 99 * time.Second, "true, then waits"},
		{"set after the horizon's end", 0, 100 * time.Second, 101 * time.Second, "false, then true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newByHand(t)
			s := h.NewSignal()
			for range tc.before {
				s.Set()
			}
			var got []string
			h.start(func() {
				got = append(got, fmt.Sprint(s.Wait(tc.wait)))
				got = append(got, fmt.Sprint(s.Wait(0)))
			})
			for d := tc.pass; d > 0; d -= 10 * time.Second {
				h.pass(min(d, 10*time.Second))
			}
			if h.runReady(); tc.before == 0 {
				s.Set()
				h.runReady()
			}
			if len(got) == 1 {
				got = append(got, "waits")
			}
			if all := strings.Join(got, ", then "); all != tc.want {
				t.Errorf("Wait(%v) returned %s; want %s", tc.wait, all, tc.want)
			}
		})
	}
}

// A Set between two tasks that take turns: no Set is lost, none counts twice.
func TestSignalPingPong(t *testing.T) {
	const rounds = 1000
	l := startLoop(t, Options{})
	ping, pong := l.NewSignal(), l.NewSignal()
	count := 0
	other := spawn(l, func() {
		for range rounds {
			ping.Wait(0)
			count++
			pong.Set()
		}
	})
	inTask(t, l, func() {
		for i := range rounds {
			ping.Set()
			if !pong.Wait(time.Minute) || count != i+1 {
				t.Errorf("round %d: the other counts %d", i, count)
				return
			}
		}
	})
	await(t, "the other task ends", other)
}

// Many loops at once, each with many sessions: nothing is shared between them.
func TestManyLoops(t *testing.T) {
	for range 4 {
		l := startLoop(t, Options{})
		_, addr := serveOn(t, l, func(c *Conn) { c.Idle(&echo{Stream: c}) })
		var clients []net.Conn
		for range 20 {
			clients = append(clients, dial(t, addr))
		}
		for range 10 {
			for i, c := range clients {
				say(t, c, fmt.Sprint("client ", i))
			}
		}
	}
}
