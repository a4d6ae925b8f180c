package queue

// Next takes out the waiter that is to be served next by a server; nil if nobody
// waits who may go there. Those on the way to it whose deadline has passed are
// dropped as Late and, when the queue has stood, those who have waited longer than
// twice the target as Stale.
func (q *Queue) Next(server int, now int64) *Waiter {
	q.advance(now)
	q.dropStale()
	if q.Waiting(server) == 0 {
		return nil
	}
	for i := range q.classes {
		c := &q.classes[i]
		if c.size == 0 {
			continue
		}
		if w := q.nextOf(c, server); w != nil {
			q.take(w)
			return w
		}
	}
	return nil
}

// nextOf is the waiter of a class whose turn it is.
func (q *Queue) nextOf(c *class, server int) *Waiter {
	var after *node[tenant]
	for n := c.turns.first; n != nil; n = after {
		after = n.after // n may go with its last waiter
		if w := q.firstOf(n.of, server); w != nil {
			return w
		}
	}
	return nil
}

// firstOf is the waiter of a tenant that is to be served first by a server.
func (q *Queue) firstOf(t *tenant, server int) *Waiter {
	n := q.start(t)
	for n != nil {
		w := n.of
		n = q.step(n)
		switch {
		case w.pastDeadline(q.now):
			q.drop(w, Late)
		case q.may(w, server):
			return w
		}
	}
	return nil
}

// start is where the order of a tenant's waiters begins.
func (q *Queue) start(t *tenant) *node[Waiter] {
	if q.overloaded {
		return t.waiters.last
	}
	return t.waiters.first
}

// step is who comes after n in that order.
func (q *Queue) step(n *node[Waiter]) *node[Waiter] {
	if q.overloaded {
		return n.before
	}
	return n.after
}

// take lets a waiter go to be served. Its tenant has had its turn.
func (q *Queue) take(w *Waiter) {
	c, t := q.class(w.Class), w.tenant
	c.turns.remove(&t.inTurns)
	c.turns.push(&t.inTurns, t)
	q.tide.out()
	q.group(w).depart(q.now)
	q.remove(w)
}

// Leave takes a waiter out that waits no longer. It is false if it is not in the
// queue, or not any more.
func (q *Queue) Leave(w *Waiter, now int64) bool {
	q.advance(now)
	if w.in != q {
		return false
	}
	q.remove(w)
	return true
}

// dropStale drops those who have waited longer than twice the target when the
// queue has stood. In each class it looks at one more than it drops.
func (q *Queue) dropStale() {
	if !q.overloaded || q.set.Target <= 0 {
		return
	}
	oldest := q.now - 2*int64(q.set.Target)
	for i := range q.classes {
		c := &q.classes[i]
		for c.waiters.first != nil && c.waiters.first.of.since < oldest {
			q.drop(c.waiters.first.of, Stale)
		}
	}
}

// judge decides whether the queue has stood: it was not empty for a while, and
// clearly more came than went. It has no longer when as many go as come.
func (q *Queue) judge() {
	switch {
	case q.overloaded:
		q.overloaded = !q.tide.ebbs()
	case q.length > 0 && q.now-q.filled >= standing:
		q.overloaded = q.tide.rises()
	}
}
