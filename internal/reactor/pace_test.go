package reactor

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPace: what turns and sleeps make of the figure, in milliseconds. A sleep is
// negative. The figure is that after the last of them.
func TestPace(t *testing.T) {
	const forever = -100_000
	long := func(n int, ms ...int) (turns []int) {
		for range n {
			turns = append(turns, ms...)
		}
		return turns
	}
	for _, tc := range []struct {
		name        string
		turns       []int
		least, most int
	}{
		{"none", nil, 0, 0},
		{"one long turn", []int{10_000}, 0, 0},
		{"one long turn among short ones", []int{1, 1, 1, 10_000, 1, 1}, 0, 1},
		{"two long turns begin to tell", []int{1_000, 1_000}, 200, 300},
		{"many long turns are the figure", long(20, 1_000), 990, 1_000},
		{"as many short ones, and they are", append(long(20, 1_000), long(20, 1)...), 0, 9},
		{"long and short in turn", long(20, 1_000, 1), 400, 600},
		{"a long one in three is an exception", long(20, 1_000, 1, 1), 0, 1},
		{"a short sleep takes nothing", append(long(20, 1_000), -19), 990, 1_000},
		{"a sleep of one turn is an exception", append(long(20, 1_000), -20), 990, 1_000},
		{"a sleep of a fifth of a second", append(long(20, 1_000), -200), 70, 80},
		{"a second's sleep", append(long(20, 1_000), -1_000), 0, 0},
		{"a long sleep", append(long(20, 1_000), forever), 0, 0},
		{"a long turn after each short sleep", long(20, 1_000, -1), 990, 1_000},
		{"a long turn after each long sleep", long(20, 1_000, -50), 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p pace
			for _, ms := range tc.turns {
				if d := int64(ms) * 1e6; d < 0 {
					p.rest(-d)
				} else {
					p.turn(d)
				}
			}
			if ms := p.smooth / 1e6; ms < int64(tc.least) || ms > int64(tc.most) {
				t.Errorf("%d ms, want %d to %d", ms, tc.least, tc.most)
			}
		})
	}
}

// TestLag: a loop that has too much to do in each turn says so, and has forgotten
// it once it has slept.
func TestLag(t *testing.T) {
	const turn, turns = 5 * time.Millisecond, 20
	l := startLoop(t, Options{})
	lag := make(chan int64, 1)
	left := turns
	var work func()
	work = func() { // a turn runs what was submitted before it began
		for until := nanotime() + int64(turn); nanotime() < until; {
		}
		if left--; left > 0 {
			l.Submit(work)
		} else {
			lag <- l.Lag()
		}
	}
	l.Submit(work)
	if got := await(t, "the turns", lag); got < int64(turn)*9/10 {
		t.Errorf("a turn takes %v, and the figure is %v", turn, time.Duration(got))
	}
	c, _ := tcpConn(t, l)
	rested := make(chan int64, 1)
	on(t, l, func() {
		c.SetReadTimeout(400 * time.Millisecond) // nothing else wakes the loop
		c.Idle(jobFunc(func() { rested <- l.Lag() }))
	})
	if got := await(t, "the rest", rested); got > int64(turn)/10 {
		t.Errorf("after a rest the figure is %v", time.Duration(got))
	}
}

// TestSleepIsNoLag: of short sleeps between short turns nothing is in the figure,
// which is then at most the time awake.
func TestSleepIsNoLag(t *testing.T) {
	h := newByHand(t)
	s := &signal{loop: h.Loop}
	s.timer.owner = s
	h.now = nanotime()
	h.wheel.advance(h.now)
	h.awake = h.now
	for range 10 {
		h.wheel.arm(&s.timer, h.now) // at the next tick
		h.turn()
	}
	h.observe(nanotime())
	if lag, awake := h.Lag(), h.stats.BusyNanos; uint64(lag) > awake {
		t.Errorf("the figure is %d ns after %d ns awake", lag, awake)
	}
}

// TestBacklog: when more is ready than a turn takes, the wait for all of it counts
// and not the turn.
func TestBacklog(t *testing.T) {
	const perTurn, ready = 2, 9
	h := newByHand(t)
	h.batch = h.batch[:perTurn]
	for range ready {
		near, far := socketPair(t)
		defer unix.Close(far)
		h.adopt(t, near)
		send(far, []byte("x"))
	}
	h.now = nanotime()
	h.turn()
	since := h.marked
	if since == 0 {
		t.Fatal("a poll took all that it could, and no mark is on its way")
	}
	turns := 1
	for ; h.marked == since && turns <= ready; turns++ {
		if wait := h.backlog(perTurn); wait != h.now-since {
			t.Errorf("turn %d: the wait is %d ns, want what has passed since the mark was sent, %d", turns, wait, h.now-since)
		}
		h.turn()
	}
	if want := (ready + 1 + perTurn - 1) / perTurn; turns != want { // the mark is the last
		t.Errorf("the mark was through after %d turns, want %d", turns, want)
	}
	if h.pace.last[1] != h.waited {
		t.Errorf("the last turn counts for %d ns, want the wait of %d", h.pace.last[1], h.waited)
	}
	if wait := h.backlog(perTurn); wait < h.waited || h.waited == 0 {
		t.Errorf("the mark took %d ns, and the wait is %d", h.waited, wait)
	}
	if wait := h.backlog(perTurn - 1); wait != 0 {
		t.Errorf("after a poll that took everything the wait is %d ns", wait)
	}
}
