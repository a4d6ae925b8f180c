package reactor

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deadlineWaits are the ways to wait on a connection for something that does not
// come; each calls ended with the outcome.
var deadlineWaits = map[string]func(c *Conn, ended func(error)){
	"read": func(c *Conn, ended func(error)) {
		_, err := c.Read(make([]byte, 1))
		ended(err)
	},
	"await": func(c *Conn, ended func(error)) { ended(c.Await()) },
	"idle":  func(c *Conn, ended func(error)) { c.Idle(jobFunc(func() { ended(c.Await()) })) },
	"write": func(c *Conn, ended func(error)) {
		_, err := c.Write(make([]byte, 16<<20))
		ended(err)
	},
}

// Each script sets and moves deadlines while something waits, in virtual time:
// the wait must end within two ticks of the time it should, and not before.
//
//	10s     set the deadline to 10 seconds from now
//	none    take it away
//	+3s     let 3 seconds pass
func TestDeadlines(t *testing.T) {
	for _, tc := range []struct {
		script string
		after  time.Duration // when the wait ends, from its start; 0: never
	}{
		{"10s", 10 * time.Second},
		{"1ns", 1},
		{"16ms", 16 * time.Millisecond},
		{"32s", 32 * time.Second},
		{"33s", 33 * time.Second}, // beyond the wheel's horizon
		{"100s", 100 * time.Second},
		{"30m", 30 * time.Minute},
		{"10s none", 0},
		{"10s +9s none +9s 10s", 28 * time.Second},
		{"10s +5s 10s", 15 * time.Second},                     // moved later
		{"10s +9s 10s +9s 10s +9s 10s", 37 * time.Second},     // and later
		{"60s 5s", 5 * time.Second},                           // moved earlier
		{"60s +50s 5s", 55 * time.Second},                     //
		{"30m +1s 20ms", 1*time.Second + 20*time.Millisecond}, //
		{"5s 60s 10s", 10 * time.Second},                      // later, then earlier
	} {
		for name, wait := range deadlineWaits {
			t.Run(name+"/"+tc.script, func(t *testing.T) {
				h := newByHand(t)
				c := h.silentConn(t)
				set := c.SetReadTimeout
				if name == "write" {
					set = c.SetWriteTimeout
				}
				var err error
				var at int64
				began := h.now
				h.start(func() { wait(c, func(e error) { err, at = e, h.now-began }) })
				h.play(t, tc.script, set)
				for at == 0 && h.sleepOut() {
				}
				if tc.after == 0 {
					if at != 0 {
						t.Errorf("ended after %v, %v; want no end", time.Duration(at), err)
					}
					return
				}
				mustFail(t, name, err, os.ErrDeadlineExceeded)
				if late := time.Duration(at) - tc.after; late < 0 || late > 2*tickNanos {
					t.Errorf("ended after %v, want %v", time.Duration(at), tc.after)
				}
			})
		}
	}
}

// sleepOut sleeps as long as the loop would, which is for ever if it returns
// false.
func (h byHand) sleepOut() bool {
	ms := h.wheel.sleep(h.now)
	if ms >= 0 {
		h.pass(time.Duration(ms) * time.Millisecond)
	}
	return ms >= 0
}

// silentConn is a connection that has nothing to read, and takes nothing.
func (h byHand) silentConn(t *testing.T) *Conn {
	t.Helper()
	near, far := socketPair(t)
	t.Cleanup(func() { unix.Close(far) })
	c := h.adopt(t, near)
	c.writable = false
	return c
}

// play sets deadlines and lets time pass, in steps smaller than a tick.
func (h byHand) play(t *testing.T, script string, set func(time.Duration)) {
	t.Helper()
	for _, word := range strings.Fields(script) {
		if word == "none" {
			set(0)
			continue
		}
		d, err := time.ParseDuration(strings.TrimPrefix(word, "+"))
		if err != nil {
			t.Fatal(err)
		}
		if word[0] != '+' {
			set(d)
			continue
		}
		for until := h.now + int64(d); h.now < until; {
			h.pass(min(tickNanos/2, time.Duration(until-h.now)))
		}
	}
}

// The two deadlines of a connection share a timer, and each ends its own wait.
func TestReadAndWriteDeadlines(t *testing.T) {
	for _, tc := range []struct{ read, write time.Duration }{
		{time.Second, 2 * time.Second},
		{2 * time.Second, time.Second},
		{time.Second, time.Second},
		{100 * time.Second, time.Second},
		{time.Second, 100 * time.Second},
	} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			h := newByHand(t)
			c := h.silentConn(t)
			c.SetReadTimeout(tc.read)
			c.SetWriteTimeout(tc.write)
			began := h.now
			ended := map[string]time.Duration{}
			for _, name := range []string{"read", "write"} {
				h.start(func() { deadlineWaits[name](c, func(error) { ended[name] = time.Duration(h.now - began) }) })
			}
			for len(ended) < 2 && h.sleepOut() {
			}
			for name, want := range map[string]time.Duration{"read": tc.read, "write": tc.write} {
				if late := ended[name] - want; late < 0 || late > 2*tickNanos {
					t.Errorf("the %s ended after %v, want %v", name, ended[name], want)
				}
			}
		})
	}
}

// A Write fails when its peer takes nothing for the time of SetStall, and does
// not while the peer takes anything at all, though it be too little for the
// kernel to call the socket writable.
func TestStall(t *testing.T) {
	const stall = 10 * time.Second
	const little = 40 << 10 // the kernel counts a Unix peer's progress in buffers of up to 32 KiB
	for _, tc := range []struct {
		name  string
		takes int           // bytes that the peer takes, again and again
		every time.Duration // and how often
		stops time.Duration // when it stops
		fails time.Duration // when the write must fail, or up to a stall later; 0: never
	}{
		{"takes nothing", 0, time.Second, time.Hour, 10 * time.Second},
		{"takes little, often", little, time.Second, time.Hour, 0},
		{"takes little, just in time", little, 9 * time.Second, time.Hour, 0},
		{"takes little, but too late", little, 21 * time.Second, time.Hour, 10 * time.Second},
		{"stops", little, time.Second, 35 * time.Second, 44 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newByHand(t)
			x, y := socketPair(t)
			defer unix.Close(y)
			c := h.adopt(t, x)
			c.SetStall(stall)
			var failed time.Duration
			began := h.now
			h.start(func() {
				_, err := c.Write(make([]byte, 64<<20))
				mustFail(t, "write", err, os.ErrDeadlineExceeded, net.ErrClosed)
				failed = time.Duration(h.now - began)
			})
			for next := tc.every; failed == 0 && h.now-began < int64(3*time.Minute); h.pass(tickNanos) {
				if past := time.Duration(h.now - began); past >= next && past < tc.stops {
					recv(y, make([]byte, tc.takes))
					next += tc.every
				}
				h.meet()
			}
			if late := failed - tc.fails; late < 0 || late > stall || (failed == 0) != (tc.fails == 0) {
				t.Errorf("failed after %v, want %v", failed, tc.fails)
			}
		})
	}
}

// A deadline that is moved later, as it is for each request, does not touch the
// wheel.
func TestMovingLaterIsFree(t *testing.T) {
	h := newByHand(t)
	c := h.silentConn(t)
	c.SetReadTimeout(time.Second)
	before, slots := c.timer, h.wheel.used
	for range 100 {
		h.now += int64(10 * time.Millisecond)
		c.SetReadTimeout(time.Second)
		c.SetReadTimeout(0)
		c.SetReadTimeout(2 * time.Second)
		c.SetWriteTimeout(time.Minute)
	}
	if c.timer != before || h.wheel.used != slots {
		t.Error("the timer was moved in the wheel")
	}
}

// A deadline that passed while nobody waited ends the next wait at once, though
// its timer has fired long ago.
func TestDeadlineThatHasPassed(t *testing.T) {
	for name, wait := range deadlineWaits {
		t.Run(name, func(t *testing.T) {
			h := newByHand(t)
			c := h.silentConn(t)
			c.SetReadTimeout(time.Second)
			c.SetWriteTimeout(time.Second)
			h.pass(5 * time.Second)
			err := errors.New("still waiting")
			h.start(func() { wait(c, func(e error) { err = e }) })
			h.runReady() // the idle job has a task of its own
			mustFail(t, name, err, os.ErrDeadlineExceeded)
		})
	}
}

// What has arrived is read although the deadline has passed.
func TestDataBeforeDeadline(t *testing.T) {
	h := newByHand(t)
	x, y := socketPair(t)
	a, b := h.adopt(t, x), h.adopt(t, y)
	a.SetReadTimeout(time.Second)
	h.start(func() { b.Write([]byte("late, but here")) })
	h.turn()
	h.pass(time.Minute)
	read := false
	h.start(func() {
		n, err := a.Read(make([]byte, 64))
		read = n > 0 && err == nil
		_, err = a.Read(make([]byte, 64))
		mustFail(t, "second read", err, os.ErrDeadlineExceeded)
	})
	if !read {
		t.Error("data that was there was not read")
	}
}

// A deadline in the past ends a wait in the same turn, without the wheel.
func TestDeadlineInThePast(t *testing.T) {
	for name, wait := range deadlineWaits {
		t.Run(name, func(t *testing.T) {
			h := newByHand(t)
			c := h.silentConn(t)
			err := errors.New("still waiting")
			h.start(func() { wait(c, func(e error) { err = e }) })
			c.SetDeadline(time.Unix(1, 0))
			h.runReady()
			mustFail(t, name, err, os.ErrDeadlineExceeded)
		})
	}
}

// The net.Conn forms of the deadlines take wall-clock times; one in the past
// ends a wait.
func TestNetDeadlines(t *testing.T) {
	l := startLoop(t, Options{})
	c, _ := tcpConn(t, l)
	reading := spawn(l, func() {
		_, err := c.Read(make([]byte, 1))
		mustFail(t, "read", err, os.ErrDeadlineExceeded)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%v is no time-out in the sense of package net", err)
		}
	})
	eventually(t, l, "the task waits", func() bool { return c.reader != nil })
	on(t, l, func() { c.SetDeadline(time.Now().Add(-time.Second)) })
	await(t, "the read ends", reading)
	inTask(t, l, func() {
		c.SetDeadline(time.Time{})
		c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		began := l.Clock()
		mustFail(t, "await", c.Await(), os.ErrDeadlineExceeded)
		if took := time.Duration(l.Clock() - began); took < 10*time.Millisecond {
			t.Errorf("the wait of 20ms ended after %v", took)
		}
		if c.writeBy != 0 {
			t.Error("the write deadline was not taken back")
		}
	})
}
