package admission

import (
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
	turn    int       // counts permits that could have gone to another worker
	called  []*Waiter // to be told, once the line's lock is given back
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

// Permit is leave for one request to be at one server. The zero Permit is none.
type Permit struct {
	gate.Permit
	slot int
}

// Open reports whether the server may have a permit left.
func (d *Desk) Open(s *upstream.Server) bool { return gate.Open(d.gates(s.Slot)) }

// Claim takes a permit of the server, if there is one and nobody waits before.
// now is executor time, here and below.
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
	waiters := d.gates(p.slot).Waiters.Load()
	if waiters == 0 {
		return
	}
	if d.turn++; waiters&d.worker == 0 || d.turn%ownTurns == 0 && waiters&^d.worker != 0 {
		d.ringOne(waiters &^ d.worker)
		return
	}
	l.Look(d, now)
}

// ownTurns: of so many permits that two workers wait for, one goes to the other.
const ownTurns = 10

// ringOne wakes one of the workers in the set, each in its turn.
func (d *Desk) ringOne(workers uint64) {
	if workers == 0 {
		return
	}
	d.ring(nth(workers, d.turn))
}
