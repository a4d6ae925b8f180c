package admission

import (
	"testing"

	"sluice/internal/admission/gate"
	"sluice/internal/admission/queue"
	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// line100 is a worker's line before a hundred servers without a free permit.
func line100(tb testing.TB) (d *Desk, l *Line, farm *upstream.Farm) {
	const servers = 100
	gates := make([]segment.Gate, servers)
	accounts := make([]segment.ServerStats, servers)
	figures := make([]segment.LineStats, servers)
	office := &Office{Gates: func(slot int) *segment.Gate { return &gates[slot] }, Ring: func(int) {}}
	d = office.NewDesk(func(slot int) *segment.ServerStats { return &accounts[slot] }, 0)
	farm = &upstream.Farm{Farm: config.Farm{Name: "farm"}}
	farm.Admission.Queue = 1000
	for slot := range servers {
		gates[slot].Limit.Store(1)
		farm.Servers = append(farm.Servers, &upstream.Server{State: &upstream.State{Slot: slot}, Farm: farm, Weight: 1})
	}
	l = NewLine()
	l.Apply(d, farm, func(slot int) *segment.LineStats { return &figures[slot] }, 0)
	for _, s := range farm.Servers {
		if _, ok := l.Claim(d, s, 0); !ok {
			tb.Fatal("no permit")
		}
	}
	return d, l, farm
}

// nowhere is a loop that never runs.
type nowhere struct{}

func (nowhere) Submit(func()) {}

// handing joins a request and gives back the permit that it waits for, over and
// over; the permits that are out stay as many as they are.
func handing(tb testing.TB) func() {
	d, l, farm := line100(tb)
	waiters := make([]Waiter, 100)
	for i := range waiters[:99] {
		waiters[i] = Waiter{To: nowhere{}}
		waiters[i].Only = -1
		if v, _ := l.Join(d, &waiters[i], 0); v != queue.Held {
			tb.Fatal(v)
		}
	}
	d.gates(0).InFlight.Store(0)
	p, _ := l.Claim(d, farm.Servers[0], 0)
	next, now := 99, int64(0)
	return func() {
		now++
		w := &waiters[next]
		*w = Waiter{To: nowhere{}}
		w.Only = -1
		l.Join(d, w, now)
		l.End(d, &p, gate.Good, 0, now)
		if next = (next + 1) % len(waiters); !waiters[next].Permit.Out() {
			tb.Fatal("the first who waits has no permit")
		}
		p, waiters[next].Permit = waiters[next].Permit, Permit{}
	}
}

// BenchmarkHeld is a request that waits before a hundred servers, with a hundred
// others: Join and End, each with the lock held for most of its time.
func BenchmarkHeld(b *testing.B) {
	hand := handing(b)
	for b.Loop() {
		hand()
	}
}

// BenchmarkPass is one that need not wait: what admission costs while the limit
// does not bind.
func BenchmarkPass(b *testing.B) {
	d, l, farm := line100(b)
	d.gates(0).InFlight.Store(0)
	now := int64(0)
	for b.Loop() {
		now++
		if l.Crowded() || !d.Open(farm.Servers[0]) {
			b.Fatal("no permit")
		}
		p, _ := l.Claim(d, farm.Servers[0], now)
		l.End(d, &p, gate.Good, 0, now)
	}
}

// TestAllocations: neither passing nor waiting allocates, but for what the owner of
// a Waiter makes.
func TestAllocations(t *testing.T) {
	hand := handing(t)
	if n := testing.AllocsPerRun(1000, hand); n != 0 {
		t.Errorf("%v allocations to wait", n)
	}
	d, l, farm := line100(t)
	d.gates(0).InFlight.Store(0)
	if n := testing.AllocsPerRun(1000, func() {
		p, _ := l.Claim(d, farm.Servers[0], 1)
		l.End(d, &p, gate.Good, 0, 1)
	}); n != 0 {
		t.Errorf("%v allocations to pass", n)
	}
}
