package gate

import (
	"sync"
	"testing"

	"sluice/internal/segment"
)

// TestClaim: there are as many permits as the limit says, and no limit is none.
func TestClaim(t *testing.T) {
	for _, c := range []struct {
		name         string
		limit, taken int64
		want         bool
	}{
		{"no limit", 0, 1000, true},
		{"none taken", 1, 0, true},
		{"the last", 5, 4, true},
		{"all taken", 5, 5, false},
		{"limit lowered", 5, 9, false},
		{"one too many given back", 1, -1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g segment.Gate
			var mine segment.ServerStats
			g.Limit.Store(c.limit)
			g.InFlight.Store(c.taken)
			if got := Open(&g); got != c.want {
				t.Errorf("open %v, want %v", got, c.want)
			}
			p, ok := Claim(&g, &mine, 7)
			if ok != c.want || p.Out() != c.want {
				t.Errorf("claimed %v, out %v, want %v", ok, p.Out(), c.want)
			}
			more := int64(0)
			if c.want {
				more = 1
				if p.Since() != 7 {
					t.Errorf("since %d, want 7", p.Since())
				}
			}
			if got := g.InFlight.Load() - c.taken; got != more || mine.Permits.Load() != more {
				t.Errorf("%d more in flight and %d in the account, want %d", got, mine.Permits.Load(), more)
			}
		})
	}
}

// ledger is what an account says.
type ledger struct{ permits, good, slow, ignored, failed, sum, squares, area, since int64 }

func read(s *segment.ServerStats) ledger {
	return ledger{
		s.Permits.Load(), int64(s.Good.Load()), int64(s.Slow.Load()), int64(s.Ignored.Load()), int64(s.Failed.Load()),
		int64(s.Sum.Load()), int64(s.Squares.Load()), int64(s.Area.Load()), int64(s.Since.Load()),
	}
}

// TestEnd: each outcome has its account, and only good work has a time.
func TestEnd(t *testing.T) {
	const from = int64(1e9)
	for _, c := range []struct {
		name         string
		how          Outcome
		took, target int64
		want         ledger
	}{
		{"good", Good, 3000, 0, ledger{good: 1, sum: 3000, squares: 9, area: 3000, since: from + 3000}},
		{"good, at the target", Good, 5000, 5000, ledger{good: 1, sum: 5000, squares: 25, area: 5000, since: from + 5000}},
		{"good, over the target", Good, 5001, 5000, ledger{good: 1, slow: 1, sum: 5001, squares: 25, area: 5001, since: from + 5001}},
		{"good, a minute", Good, 60e9, 0, ledger{good: 1, sum: 60e9, squares: 60e6 * 60e6, area: 60e9, since: from + 60e9}},
		{"good, at once", Good, 0, 0, ledger{good: 1, since: from}},
		{"ignored", Ignored, 3000, 1, ledger{ignored: 1, area: 3000, since: from + 3000}},
		{"failed", Failed, 3000, 1, ledger{failed: 1, area: 3000, since: from + 3000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g segment.Gate
			var mine segment.ServerStats
			p, _ := Claim(&g, &mine, from)
			for range 2 { // the second does nothing
				p.End(&mine, from+c.took, c.how, c.target)
				if got := read(&mine); got != c.want {
					t.Errorf("account %+v, want %+v", got, c.want)
				}
				if g.InFlight.Load() != 0 || p.Out() {
					t.Errorf("%d in flight, out %v", g.InFlight.Load(), p.Out())
				}
			}
		})
	}
}

// TestEndElsewhere: a permit may end in another loop, whose clock is behind. Then
// the sum of both accounts is right, and no time is negative.
func TestEndElsewhere(t *testing.T) {
	var g segment.Gate
	var one, other segment.ServerStats
	p, _ := Claim(&g, &one, 1000)
	p.End(&other, 900, Good, 1)
	settle(&one, 5000, 0)
	settle(&other, 5000, 0)
	if one.Permits.Load() != 1 || other.Permits.Load() != -1 || g.InFlight.Load() != 0 {
		t.Errorf("permits %d and %d, in flight %d", one.Permits.Load(), other.Permits.Load(), g.InFlight.Load())
	}
	if other.Good.Load() != 1 || other.Sum.Load() != 0 || other.Slow.Load() != 0 {
		t.Errorf("good %d, sum %d, slow %d", other.Good.Load(), other.Sum.Load(), other.Slow.Load())
	}
	if area := int64(one.Area.Load() + other.Area.Load()); area != 900-1000 {
		t.Errorf("area of both %d, want -100: the clocks differ by so much", area)
	}
}

// TestUndo: a permit that was of no use leaves a trace in the integral only.
func TestUndo(t *testing.T) {
	var g segment.Gate
	var mine segment.ServerStats
	p, _ := Claim(&g, &mine, 100)
	p.Undo(&mine, 150)
	if got, want := read(&mine), (ledger{area: 50, since: 150}); got != want || g.InFlight.Load() != 0 || p.Out() {
		t.Errorf("account %+v, in flight %d, out %v, want %+v", got, g.InFlight.Load(), p.Out(), want)
	}
	p.End(&mine, 160, Good, 0)
	if g.InFlight.Load() != 0 || mine.Good.Load() != 0 {
		t.Error("it ended although it had been undone")
	}
}

// TestZeroPermit: it is none, and ends without effect.
func TestZeroPermit(t *testing.T) {
	var p Permit
	var mine segment.ServerStats
	p.End(&mine, 10, Failed, 0)
	if p.Out() || read(&mine) != (ledger{}) {
		t.Errorf("out %v, account %+v", p.Out(), read(&mine))
	}
}

// TestArea: the integral grows by the permits that were out, however they overlap.
func TestArea(t *testing.T) {
	var g segment.Gate
	var mine segment.ServerStats
	a, _ := Claim(&g, &mine, 1000)
	b, _ := Claim(&g, &mine, 1010) // a for 10
	a.End(&mine, 1030, Good, 0)    // both for 20
	b.End(&mine, 1100, Ignored, 0) // b for 70
	Claim(&g, &mine, 1500)         // none for 400
	settle(&mine, 1502, 0)         // one for 2
	if got, want := mine.Area.Load(), uint64(10+2*20+70+2); got != want {
		t.Errorf("area %d, want %d", got, want)
	}
}

// TestLimitHolds: loops that claim and give back at once never have more than the
// limit between them, and in the end nothing is out.
func TestLimitHolds(t *testing.T) {
	const loops, limit, claims = 4, 3, 20000
	var g segment.Gate
	g.Limit.Store(limit)
	accounts := make([]segment.ServerStats, loops)
	var wait sync.WaitGroup
	for i := range loops {
		wait.Go(func() {
			mine := &accounts[i]
			for now := range int64(claims) {
				p, ok := Claim(&g, mine, now)
				if n := g.InFlight.Load(); n > limit {
					t.Errorf("%d in flight, limit %d", n, limit)
				}
				switch {
				case !ok:
				case now%3 == 0:
					p.Undo(mine, now)
				default:
					p.End(mine, now, Outcome(now%4), 0)
				}
			}
		})
	}
	wait.Wait()
	ended, permits := uint64(0), int64(0)
	for i := range accounts {
		permits += accounts[i].Permits.Load()
		ended += accounts[i].Good.Load() + accounts[i].Ignored.Load() + accounts[i].Failed.Load()
	}
	if g.InFlight.Load() != 0 || permits != 0 || ended == 0 {
		t.Errorf("%d in flight, %d in the accounts, %d ended", g.InFlight.Load(), permits, ended)
	}
}
