package queue

import "time"

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
	wait := q.predict(w)
	if q.set.Timeout > 0 && wait > q.set.Timeout {
		return true
	}
	return w.Deadline != 0 && q.now+int64(wait) > w.Deadline
}

// Drain is how long it takes until all who wait like w now have been served, as far
// as is known: 0 while the rate is not, an hour at most.
func (q *Queue) Drain(w *Waiter, now int64) time.Duration {
	q.advance(now)
	if !q.served(w) {
		return 0
	}
	g := q.group(w)
	g.pass(q.now)
	return g.pace.wait(g.size)
}

// predict divides those who are served before w, and of its group, by the rate at
// which its group is served.
func (q *Queue) predict(w *Waiter) time.Duration {
	g := q.group(w)
	g.pass(q.now)
	return g.pace.wait(min(q.ahead(w), g.size))
}

// ahead is how many are served before a newcomer.
func (q *Queue) ahead(w *Waiter) int {
	c := q.class(w.Class)
	n := 0
	for i := range min(int(w.Class), classes-1) {
		n += q.classes[i].size
	}
	return n + c.ahead(w.Tenant, q.newestFirst(w))
}

// newestFirst reports whether a newcomer has the best prospects of its tenant. While
// nobody like it is served at all it has none, and must not take the place of others.
func (q *Queue) newestFirst(w *Waiter) bool {
	return q.overloaded && !q.group(w).pace.stalled()
}

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
	var from *list[Waiter]
	switch c := &q.classes[last]; {
	case c == q.class(w.Class):
		from = q.roomWithin(c, w)
	case int(w.Class) < last:
		from = &c.waiters
	}
	switch {
	case from == nil:
		return false
	case q.newestFirst(w):
		q.drop(from.first.of, Pushed)
	default:
		q.drop(from.last.of, Pushed)
	}
	return true
}

// roomWithin is whose place a newcomer may take within its class; nil: nobody's.
func (q *Queue) roomWithin(c *class, w *Waiter) *list[Waiter] {
	own := c.tenant(w.Tenant)
	switch {
	case own == nil || own.size < c.largest:
		return &c.sizes[c.largest].first.of.waiters
	case q.newestFirst(w):
		return &own.waiters
	}
	return nil
}

// pastDeadline reports whether serving the waiter is of no use any more.
func (w *Waiter) pastDeadline(now int64) bool { return w.Deadline != 0 && now > w.Deadline }
