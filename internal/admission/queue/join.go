package queue

import (
	"math"
	"time"
)

// longest is the longest wait that is predicted: beyond it nobody would wait.
const longest = time.Hour

// Join lets a waiter wait, or says why it cannot: Full, Late or Gone. To hold it
// another may be dropped. One that waits here already goes on waiting.
func (q *Queue) Join(w *Waiter, now int64) Verdict {
	q.advance(now)
	if w.in == q {
		return Held
	}
	q.tide.in()
	switch {
	case !q.served(w):
		return Gone
	case q.set.Length <= 0:
		return Full
	case q.late(w):
		return Late
	case q.length >= q.set.Length && !q.makeRoom(w):
		return Full
	}
	q.insert(w)
	return Held
}

// late reports whether a newcomer cannot be served in time, as far as is known.
func (q *Queue) late(w *Waiter) bool {
	wait := q.pace.wait(q.ahead(w))
	if q.set.Timeout > 0 && wait > q.set.Timeout {
		return true
	}
	return w.Deadline != 0 && q.now+int64(wait) > w.Deadline
}

// ahead is how many are served before a newcomer.
func (q *Queue) ahead(w *Waiter) int {
	c := q.class(w.Class)
	n := q.moreUrgent(w.Class)
	if q.newestFirst() {
		return n + c.others(w.Tenant)
	}
	return n + c.ahead(w.Tenant)
}

// moreUrgent is how many wait in the classes before one.
func (q *Queue) moreUrgent(urgency uint8) int {
	n := 0
	for i := range min(int(urgency), classes-1) {
		n += q.classes[i].size
	}
	return n
}

// Wait is how long one who joined now would have to wait behind all of its class
// and those before it, as far as is known: 0 until a rate is, an hour at most.
func (q *Queue) Wait(urgency uint8, now int64) time.Duration {
	q.advance(now)
	return q.pace.wait(q.moreUrgent(urgency) + q.class(urgency).size)
}

// newestFirst reports whether a newcomer has the best prospects of its tenant. While
// nobody is served at all it has none, and must not take the place of others.
func (q *Queue) newestFirst() bool { return q.overloaded && !q.pace.stalled() }

// makeRoom drops one that has less right to wait than a newcomer: one of the least
// urgent class if the newcomer is more urgent; else one of the largest tenant if the
// newcomer's is smaller. It is the one that would be served last: the newest or,
// when the newest are served first, the oldest. Then a newcomer has more right
// than the oldest of its own tenant too.
func (q *Queue) makeRoom(w *Waiter) bool {
	last := classes - 1
	for q.classes[last].size == 0 {
		last--
	}
	c := &q.classes[last]
	newcomer := q.class(w.Class)
	switch {
	case newcomer == c:
		return q.makeRoomWithin(c, w.Tenant)
	case int(w.Class) > last:
		return false
	}
	q.drop(q.lastServed(&c.waiters), Pushed)
	return true
}

// makeRoomWithin is makeRoom for a newcomer of the least urgent class present.
func (q *Queue) makeRoomWithin(c *class, key uint64) bool {
	own := c.tenant(key)
	switch {
	case own == nil || own.size < c.largest:
		q.drop(q.lastServed(&c.sizes[c.largest].first.of.waiters), Pushed)
	case q.newestFirst():
		q.drop(q.lastServed(&own.waiters), Pushed)
	default:
		return false
	}
	return true
}

// lastServed is the waiter of a list that would be served last.
func (q *Queue) lastServed(l *list[Waiter]) *Waiter {
	if q.newestFirst() {
		return l.first.of
	}
	return l.last.of
}

// pastDeadline reports whether serving the waiter is of no use any more.
func (w *Waiter) pastDeadline(now int64) bool { return w.Deadline != 0 && now > w.Deadline }

// seconds is a length of time in ns as seconds.
func seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }

// duration is a length of time in seconds, at most the longest.
func duration(s float64) time.Duration {
	return time.Duration(math.Min(s, longest.Seconds()) * float64(time.Second))
}
