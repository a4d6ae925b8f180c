// Package queue holds the requests of one farm in one worker until a server has
// room for them. It is bounded, ordered, and knows when it has become hopeless.
//
//	queue.go   who waits (Waiter), what is promised (Settings), what became of it (Verdict)
//	join.go    in: refused at once, held, or held in the place of another
//	servers.go which servers there are, and which of them are avoided
//	next.go    out: who is to be served next by a server; who left; who has waited too long
//	class.go   the waiters of one urgency: fair shares between their tenants
//	pace.go    how fast waiters are served (group, pace), and so how long a newcomer waits
//	tide.go    whether more come than go: when the newest are served first
//	list.go    linked lists without allocation
//
// A Queue has no clock, no goroutine, no lock and does no I/O: its owner holds one
// lock over all calls, and gives the time in nanoseconds of any steady clock.
//
// The order is: urgency first (RFC 9218, 4.1), then a turn for each tenant in
// rounds, then first come first served within a tenant. Under a load that comes as
// fast as it is served this is right. When for long more come than go, those who
// came first have waited in vain by the time that they are served, and everybody
// is served late; then the newest of a tenant is served first, so that most are
// served in good time and the others are told so (Maurer: Fail at Scale, ACM Queue
// 13(8), 2015, which joins it to CoDel, RFC 8289).
package queue

import (
	"math/bits"
	"time"
)

// classes are the urgencies of RFC 9218, 4.1: 0 is the first to be served.
const classes = 8

// Waiter is one held request. Its owner sets the exported fields before Join and
// leaves them alone while it waits; after that it may join again.
type Waiter struct {
	Class    uint8  // urgency 0 (first) to 7, RFC 9218, 4.1; above 7 counts as 7
	Tenant   uint64 // hash of the tenant's key; those with 0 have none, and share one turn
	Only     int    // index of the one server that it may go to; -1: any
	Except   uint64 // servers, by index modulo 64, that it must not go to; of no account with Only
	Deadline int64  // to be served after this moment is of no use to it, ns; 0: none
	Owner    any    // for the owner, to find from a Waiter what it is part of

	// Guarded by the owner's lock, as the queue is.
	in       *Queue // where it waits; nil: nowhere
	tenant   *tenant
	since    int64 // when it joined, ns
	inClass  node[Waiter]
	inTenant node[Waiter]
}

// Since is when the waiter joined, ns.
func (w *Waiter) Since() int64 { return w.since }

// Settings are the operator's wishes for one queue.
type Settings struct {
	Length  int           // as many may wait; 0: nobody does
	Timeout time.Duration // whoever would wait longer is refused; the owner ends waits that last longer. 0: no bound
	Target  time.Duration // when the queue has stood, who has waited twice as long is dropped; 0: nobody
}

// Verdict is what became of a waiter.
type Verdict uint8

// What Join answers, and what a Drop says.
const (
	Held   Verdict = iota // it waits
	Full                  // as many wait as may, and none of them has less right to
	Late                  // it cannot be served in time, or could not
	Gone                  // no server is left that it may go to
	Pushed                // dropped for another that has more right to wait
	Stale                 // dropped since it had waited too long when the queue had stood
)

var verdictNames = [...]string{"held", "full", "late", "gone", "pushed", "stale"}

// String gives the word that operators see.
func (v Verdict) String() string {
	if int(v) >= len(verdictNames) {
		return "unknown"
	}
	return verdictNames[v]
}

// Drop is a waiter that the queue has thrown out: for which reason.
type Drop struct {
	Waiter *Waiter
	Why    Verdict // Late, Gone, Pushed or Stale
}

// Queue holds waiters in order. Everything in it is guarded by its owner's lock.
type Queue struct {
	set     Settings
	servers int    // their numbers are below
	roles   []role // by server
	here    uint64 // servers that there are, by number modulo 64
	open    uint64 // of these, the ones that are not avoided

	length  int // waiters
	classes [classes]class
	spare   []*tenant // tenants without waiters, for use again

	free   group   // waiters that may go to any server
	picky  group   // those that may go to any but some
	bound  []group // those that may go to one, by server
	except [64]int // of the picky, how many must not go to servers of this index modulo 64

	now        int64 // the latest time that was told, ns
	filled     int64 // when the first waiter joined of those since the queue was empty, ns
	tide       tide
	overloaded bool // the newest of a tenant is served first

	dropped, taken []Drop // those to be fetched, and those of the last fetch
}

// New makes an empty queue before so many servers.
func New(servers int, s Settings) *Queue {
	q := new(Queue)
	q.Set(servers, s)
	return q
}

// Set puts other settings in force, before servers with the numbers from 0 on.
// Those who wait stay, also if they are more than may wait from now on; those to
// whom no server is left are dropped as Gone.
func (q *Queue) Set(servers int, s Settings) {
	all := make([]int, servers)
	for i := range all {
		all[i] = i
	}
	q.SetSome(all, s)
}

// Len is how many wait.
func (q *Queue) Len() int { return q.length }

// Dropped gives the waiters that Join, Next and Set have thrown out since the call
// before. The slice is valid until the next call.
func (q *Queue) Dropped() []Drop {
	if len(q.dropped) == 0 {
		return nil
	}
	clear(q.taken)
	q.dropped, q.taken = q.taken[:0], q.dropped
	return q.taken
}

// drop throws a waiter out.
func (q *Queue) drop(w *Waiter, why Verdict) {
	q.remove(w)
	q.dropped = append(q.dropped, Drop{w, why})
}

// insert puts a waiter, which is in no queue, at the end of its tenant's.
func (q *Queue) insert(w *Waiter) {
	if q.length == 0 {
		q.filled = q.now
	}
	c := q.class(w.Class)
	t := c.tenant(w.Tenant)
	if t == nil {
		t = q.newTenant()
		c.enter(t, w.Tenant)
	}
	w.in, w.tenant, w.since = q, t, q.now
	c.waiters.push(&w.inClass, w)
	t.waiters.push(&w.inTenant, w)
	c.resize(t, +1)
	q.count(w, +1)
}

// remove takes a waiter out.
func (q *Queue) remove(w *Waiter) {
	c, t := q.class(w.Class), w.tenant
	c.waiters.remove(&w.inClass)
	t.waiters.remove(&w.inTenant)
	c.resize(t, -1)
	if t.size == 0 {
		c.exit(t)
		q.spare = append(q.spare, t)
	}
	w.in, w.tenant = nil, nil
	q.count(w, -1)
	if q.length == 0 {
		q.overloaded = false
	}
}

// count adds d waiters like w to the totals.
func (q *Queue) count(w *Waiter, d int) {
	q.length += d
	q.group(w).resize(d, q.now)
	if w.Only >= 0 {
		return
	}
	for rest := w.Except; rest != 0; rest &= rest - 1 {
		q.except[bits.TrailingZeros64(rest)] += d
	}
}

// group is the one that a waiter, for whom there is a server, belongs to.
func (q *Queue) group(w *Waiter) *group {
	switch {
	case w.Only >= 0:
		return &q.bound[w.Only]
	case w.Except != 0:
		return &q.picky
	}
	return &q.free
}

// class is the one of an urgency.
func (q *Queue) class(urgency uint8) *class { return &q.classes[min(urgency, classes-1)] }

// newTenant takes a spare one, or makes one.
func (q *Queue) newTenant() *tenant {
	n := len(q.spare)
	if n == 0 {
		return new(tenant)
	}
	t := q.spare[n-1]
	q.spare = q.spare[:n-1]
	return t
}

// advance takes note of the time. A clock that goes back stands still.
func (q *Queue) advance(now int64) {
	if now <= q.now {
		return
	}
	q.now = now
	if q.tide.pass(now) {
		q.judge()
	}
}
