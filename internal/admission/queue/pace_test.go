package queue

import (
	"testing"
	"time"
)

// stream is a queue that n waiters fill, and from which one departs, and another
// joins, at a steady rate.
type stream struct {
	q   *Queue
	now int64
}

func newStream(n int, set Settings) *stream {
	s := &stream{New(1, set), int64(time.Hour)}
	for range n {
		s.q.Join(&Waiter{Only: -1}, s.now)
	}
	return s
}

// depart lets n depart at a rate.
func (s *stream) depart(n int, perSecond float64) {
	for range n {
		s.now += int64(float64(time.Second) / perSecond)
		w := s.q.Next(0, s.now)
		s.q.Join(w, s.now)
	}
}

func (s *stream) wait() time.Duration { return s.q.Wait(&Waiter{Only: -1}, s.now) }

// Wait is how long w would wait if it joined now, as far as is known: 0 while the
// rate is not, an hour at most.
func (q *Queue) Wait(w *Waiter, now int64) time.Duration {
	q.advance(now)
	if !q.served(w) {
		return 0
	}
	return q.predict(w)
}

// near reports whether a is within a share of b.
func near(a, b time.Duration, share float64) bool {
	return float64(a) >= float64(b)*(1-share) && float64(a) <= float64(b)*(1+share)
}

// TestDrain: what the line takes to be served, as clients that are refused are told,
// does not depend on where a newcomer would stand.
func TestDrain(t *testing.T) {
	for _, newestFirst := range []bool{false, true} {
		s := newStream(50, Settings{Length: 1000})
		if got := s.q.Drain(&Waiter{Only: -1}, s.now); got != 0 {
			t.Errorf("before the rate is known: %v", got)
		}
		s.depart(100, 10)
		s.q.overloaded = newestFirst
		if got := s.q.Drain(&Waiter{Only: -1}, s.now); !near(got, 5*time.Second, 0.1) {
			t.Errorf("50 at 10/s, newest first %v: %v, want 5s", newestFirst, got)
		}
		if got := s.q.Drain(&Waiter{Only: 7}, s.now); got != 0 {
			t.Errorf("for a server that there is not: %v", got)
		}
	}
}

// TestWait: the predicted wait is the number of those before over the rate, once
// that is known: after nine departures and a quarter of a second.
func TestWait(t *testing.T) {
	for _, c := range []struct {
		rate       float64
		departures int
		known      bool
		share      float64
	}{
		{5, 8, false, 0}, {5, 9, true, 0.1}, {5, 100, true, 0.1},
		{372, 90, false, 0}, {372, 110, true, 0.1}, {372, 2000, true, 0.1},
		{10000, 2400, false, 0}, {10000, 2800, true, 0.1}, {10000, 30000, true, 0.1},
	} {
		s := newStream(50, Settings{Length: 1000})
		s.depart(c.departures, c.rate)
		want := time.Duration(0)
		if c.known {
			want = time.Duration(50 / c.rate * 1e9)
		}
		if got := s.wait(); !near(got, want, c.share) {
			t.Errorf("%d departures at %.0f/s: 50 wait for %v, want %v", c.departures, c.rate, got, want)
		}
	}
}

// TestBurstIsNoRate: permits that come free all at once say nothing of the rate.
func TestBurstIsNoRate(t *testing.T) {
	s := newStream(100, Settings{Length: 1000})
	for range 50 {
		s.q.Next(0, s.now)
	}
	s.now += 200 * ms
	if got := s.wait(); got != 0 {
		t.Errorf("a wait of %v is predicted from a burst", got)
	}
}

// TestWaitCounts: who is before a newcomer depends on its class and its tenant.
func TestWaitCounts(t *testing.T) {
	s := &stream{New(2, Settings{Length: 1000}), int64(time.Hour)}
	for i := range 100 {
		s.q.Join(&Waiter{Class: 3, Tenant: 1, Only: -1}, s.now)
		if i < 10 {
			s.q.Join(&Waiter{Class: 3, Tenant: 2, Only: -1}, s.now)
			s.q.Join(&Waiter{Class: 1, Tenant: 2, Only: -1}, s.now)
			s.q.Join(&Waiter{Class: 5, Tenant: 2, Only: -1}, s.now)
		}
	}
	s.depart(200, 100)
	for _, c := range []struct {
		name string
		w    Waiter
		want int
	}{
		{"before all", Waiter{Class: 0, Only: -1}, 0},
		{"a new tenant", Waiter{Class: 3, Tenant: 3, Only: -1}, 10 + 2},
		{"the large tenant", Waiter{Class: 3, Tenant: 1, Only: -1}, 10 + 110},
		{"the small tenant", Waiter{Class: 3, Tenant: 2, Only: -1}, 10 + 20},
		{"after all", Waiter{Class: 7, Only: -1}, 130},
		{"bound to a server for which nobody waits", Waiter{Class: 3, Tenant: 1, Only: 1}, 0},
		{"no such server", Waiter{Class: 3, Tenant: 1, Only: 2}, 0},
	} {
		if got, want := s.q.Wait(&c.w, s.now), time.Duration(c.want)*time.Second/100; !near(got, want, 0.1) {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
	}
}

// TestLate: whoever would wait beyond the timeout or a deadline is refused.
func TestLate(t *testing.T) {
	for _, c := range []struct {
		name     string
		timeout  time.Duration
		deadline time.Duration // from now on; 0: none
		want     Verdict
	}{
		{"no bound at all", 0, 0, Held},
		{"a timeout that is long enough", 600 * time.Millisecond, 0, Held},
		{"a timeout that is too short", 400 * time.Millisecond, 0, Late},
		{"a deadline that is late enough", 0, 600 * time.Millisecond, Held},
		{"a deadline that is too soon", 0, 400 * time.Millisecond, Late},
	} {
		s := newStream(50, Settings{Length: 1000, Timeout: c.timeout})
		s.q.set.Timeout = 0
		s.depart(300, 100)
		s.q.set.Timeout = c.timeout
		w := &Waiter{Only: -1}
		if c.deadline > 0 {
			w.Deadline = s.now + int64(c.deadline)
		}
		if got := s.q.Join(w, s.now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestEmptyTimeIsNoStall: while nobody waits the rate stays; after long it is not
// known any more.
func TestEmptyTimeIsNoStall(t *testing.T) {
	for _, c := range []struct {
		idle time.Duration
		want time.Duration
	}{{4 * time.Second, 100 * time.Millisecond}, {6 * time.Second, 0}} {
		s := newStream(10, Settings{Length: 1000})
		s.depart(500, 100)
		for s.q.Len() > 0 {
			s.q.Next(0, s.now)
			s.now += 10 * ms
		}
		s.now += int64(c.idle)
		for range 10 {
			s.q.Join(&Waiter{Only: -1}, s.now)
		}
		if got := s.wait(); !near(got, c.want, 0.15) {
			t.Errorf("after %v without waiters a wait of %v is predicted, want %v", c.idle, got, c.want)
		}
	}
}

// TestHang: when the servers hang, newcomers are refused within seconds; when they
// answer again, nobody is refused any more.
func TestHang(t *testing.T) {
	for _, c := range []struct {
		rate    float64
		waiting int
		refused time.Duration // after so long at most
	}{
		{10, 20, 7 * time.Second}, {50, 100, 6 * time.Second}, {372, 199, 9 * time.Second}, {372, 900, 4 * time.Second}, {5000, 900, 4 * time.Second},
	} {
		s := newStream(c.waiting, blogSettings)
		s.depart(int(5*c.rate), c.rate)
		hung := s.now
		for s.wait() <= blogSettings.Timeout && s.now-hung < int64(time.Minute) {
			s.now += 100 * ms
		}
		if after := time.Duration(s.now - hung); after < time.Second || after > c.refused {
			t.Errorf("%.0f/s, %d waiting: refused after %v, want 1 s to %v", c.rate, c.waiting, after, c.refused)
		}
		s.now = hung + int64(20*time.Second)
		if v := s.q.Join(&Waiter{Only: -1}, s.now); v != Late {
			t.Errorf("%.0f/s, %d waiting: %v after 20 s of nothing, want late", c.rate, c.waiting, v)
		}
		resumed := s.now
		for s.now-resumed < int64(time.Second) {
			s.now += int64(1e9 / c.rate)
			if v := s.q.Join(s.q.Next(0, s.now), s.now); v != Held {
				t.Fatalf("%.0f/s, %d waiting: %v, %v after they answer again", c.rate, c.waiting, v, time.Duration(s.now-resumed))
			}
		}
		want := time.Duration(float64(s.q.Len()) / c.rate * 1e9)
		if got := s.wait(); !near(got, want, 0.2) {
			t.Errorf("%.0f/s, %d waiting: a second after the hang a wait of %v is predicted, want %v", c.rate, c.waiting, got, want)
		}
	}
}

// TestHangFromTheStart: servers that have never answered are found to hang too, but
// not before ten seconds at an ordinary length.
func TestHangFromTheStart(t *testing.T) {
	s := newStream(0, blogSettings)
	var refused time.Duration
	for refused == 0 && s.now < int64(time.Hour+time.Minute) {
		s.now += 50 * ms
		if s.q.Join(&Waiter{Only: -1}, s.now) == Late {
			refused = time.Duration(s.now) - time.Hour
		}
	}
	if refused < 9*time.Second || refused > 12*time.Second {
		t.Errorf("refused after %v", refused)
	}
}

// TestHangEmpties: when all have left a hung queue, one may wait and see.
func TestHangEmpties(t *testing.T) {
	s := newStream(0, blogSettings)
	var waiters [100]Waiter
	for i := range waiters {
		waiters[i].Only = -1
		s.q.Join(&waiters[i], s.now)
	}
	s.depart(300, 100)
	s.now += int64(30 * time.Second)
	for i := range waiters {
		s.q.Leave(&waiters[i], s.now)
	}
	for i, want := range []Verdict{Held, Late, Late} {
		if got := s.q.Join(&Waiter{Only: -1}, s.now+int64(i)*ms); got != want {
			t.Errorf("newcomer %d after the hang is %v, want %v", i, got, want)
		}
	}
	s.now += int64(time.Second)
	s.q.Next(0, s.now)
	for range 100 {
		if got := s.q.Join(&Waiter{Only: -1}, s.now); got != Held {
			t.Fatalf("%v, when the one that waited has been served", got)
		}
	}
}

// TestOneServerHangs: those who are bound to a server that hangs, or have been to
// all others, are refused; the others are not.
func TestOneServerHangs(t *testing.T) {
	well := []Waiter{{Only: -1}, {Only: 1}}
	for name, hung := range map[string]Waiter{"bound": {Only: 0}, "kept from the other": {Only: -1, Except: 1 << 1}} {
		t.Run(name, func(t *testing.T) {
			q, now := New(2, blogSettings), int64(time.Hour)
			join := func(w Waiter, n int) (v Verdict) {
				for range n {
					v = q.Join(&Waiter{Only: w.Only, Except: w.Except}, now)
				}
				return v
			}
			join(hung, 100)
			for range 100 { // all goes well for a second
				now += 10 * ms
				q.Join(q.Next(0, now), now)
			}
			for _, w := range well {
				join(w, 5)
			}
			for range 2000 { // server 1 alone answers, for 20 s
				now += 10 * ms
				for _, w := range well {
					join(w, 1)
					q.Next(1, now)
				}
			}
			if got := join(hung, 1); got != Late {
				t.Errorf("to the server that hangs: %v, want late", got)
			}
			for _, w := range well {
				if got := q.Wait(&w, now); !near(got, 50*time.Millisecond, 0.3) {
					t.Errorf("to server %d: a wait of %v is predicted behind five, at 100/s", w.Only, got)
				}
				if got := join(w, 50); got != Held {
					t.Errorf("to server %d: %v, want held", w.Only, got)
				}
			}
		})
	}
}

// TestHangSimulated: 250 users before a server that hangs for 20 s.
func TestHangSimulated(t *testing.T) {
	for name, service := range services {
		s := newSim(5, blogSettings, blogPermits, service(blogTime))
		s.open(300)
		s.run(10 * time.Second)
		before := len(s.results)
		s.hangs = s.now + int64(20*time.Second)
		s.run(20 * time.Second)
		s.results = s.results[before:]
		refused := s.count(Late)
		s.run(2 * time.Second)
		s.results = nil
		s.run(10 * time.Second)
		if refused < 300*12 {
			t.Errorf("%s: %d refused as late in 20 s of nothing, want 300/s after a few seconds", name, refused)
		}
		if lost := len(s.results) - s.count(Held); lost > 0 {
			t.Errorf("%s: %d not served two seconds after the hang", name, lost)
		}
	}
}
