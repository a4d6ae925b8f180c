package admission

import (
	"math/bits"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// Desk is one loop's side of admission: its accounts in the segment and its
// clock. Loop only.
type Desk struct {
	gates   func(slot int) *segment.Gate
	account func(slot int) *segment.ServerStats
	offset  int64     // CLOCK_MONOTONIC at executor time 0, ns
	worker  uint64    // the worker's bit in Gate.Waiters
	ring    func(int) // wakes another worker
	turn    int       // counts rings, so that each of several workers has its turn

	// To be done once the line's lock is given back.
	called []*Waiter // to be told
	rings  uint64    // workers to be woken
}

// Office is what the desks of one worker have in common.
type Office struct {
	Worker int
	Gates  func(slot int) *segment.Gate
	Ring   func(worker int) // wakes a worker whose line may be served
}

// NewDesk makes the desk of one loop. account gives the loop's figures of a server;
// offset is CLOCK_MONOTONIC at executor time 0, ns.
func (o *Office) NewDesk(account func(slot int) *segment.ServerStats, offset int64) *Desk {
	return &Desk{gates: o.Gates, account: account, offset: offset, worker: 1 << o.Worker, ring: o.Ring}
}

// Limited reports whether the server may have only so many permits.
func (d *Desk) Limited(s *upstream.Server) bool { return d.gates(s.Slot).Limit.Load() != 0 }

// Permit is leave for one request to be at one server. The zero Permit is none.
type Permit struct {
	gate.Permit
	slot int
}

// Open reports whether the server may have a permit left.
func (d *Desk) Open(s *upstream.Server) bool { return gate.Open(d.gates(s.Slot)) }

// Claim takes a permit of the server, if there is one. Only those may who have
// found that nobody waits before them (Crowded). now is executor time, here and
// below.
func (l *Line) Claim(d *Desk, s *upstream.Server, now int64) (p Permit, ok bool) {
	p.slot = s.Slot
	p.Permit, ok = gate.Claim(d.gates(s.Slot), d.account(s.Slot), now+d.offset)
	return p, ok
}

// End gives a permit back, once, and serves who waits for it. Good permits that
// were out for longer than target count as slow; 0: none do.
func (l *Line) End(d *Desk, p *Permit, how gate.Outcome, target time.Duration, now int64) {
	if !p.Out() {
		return
	}
	p.Permit.End(d.account(p.slot), now+d.offset, how, int64(target))
	switch waiters := d.gates(p.slot).Waiters.Load(); {
	case waiters == 0:
	case waiters&d.worker == 0:
		d.ringOne(waiters)
		d.tell()
	default:
		l.handOn(d, p.slot, now)
	}
}

// ringOne has one of the workers in the set woken, each in its turn.
func (d *Desk) ringOne(workers uint64) {
	d.turn++
	d.rings |= 1 << nth(workers, d.turn)
}

// tell calls who got a permit or was thrown out, and wakes other workers. It takes
// system calls, so no lock is held.
func (d *Desk) tell() {
	for i, w := range d.called {
		w.To.Submit(w.Call)
		d.called[i] = nil
	}
	d.called = d.called[:0]
	rings := d.rings
	for d.rings = 0; rings != 0; rings &= rings - 1 {
		d.ring(bits.TrailingZeros64(rings))
	}
}

// nth gives one of the members of a set of numbers, another for each i.
func nth(set uint64, i int) int {
	for range i % bits.OnesCount64(set) {
		set &= set - 1
	}
	return bits.TrailingZeros64(set)
}
