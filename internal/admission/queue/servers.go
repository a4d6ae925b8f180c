package queue

// SetSome is Set for servers whose numbers have gaps between them. None is avoided
// any more.
func (q *Queue) SetSome(servers []int, s Settings) {
	q.set, q.servers = s, 0
	for _, i := range servers {
		q.servers = max(q.servers, i+1)
	}
	q.roles = make([]role, q.servers)
	for _, i := range servers {
		q.roles[i].here = true
	}
	q.survey()
	for i := range q.classes {
		var after *node[Waiter]
		for n := q.classes[i].waiters.first; n != nil; n = after {
			after = n.after
			if !q.served(n.of) {
				q.drop(n.of, Gone)
			}
		}
	}
	bound := make([]group, q.servers)
	copy(bound, q.bound)
	q.bound = bound
}

// role is what a server is for those who wait.
type role struct {
	here    bool // there is one of this number
	avoided bool // it gets only those who may go to no other that is not avoided
}

// Avoid has a server left to those who may go to no other that is not avoided as
// well, or ends that.
func (q *Queue) Avoid(server int, avoid bool) {
	if q.has(server) && q.roles[server].avoided != avoid {
		q.roles[server].avoided = avoid
		q.survey()
	}
}

// survey sums up the roles.
func (q *Queue) survey() {
	q.here, q.open = 0, 0
	for i, r := range q.roles {
		if r.here {
			q.here |= 1 << (i % 64)
		}
		if r.here && !r.avoided {
			q.open |= 1 << (i % 64)
		}
	}
}

// has reports whether there is a server of this number.
func (q *Queue) has(server int) bool {
	return server >= 0 && server < q.servers && q.roles[server].here
}

// served reports whether there is a server that the waiter may go to.
func (q *Queue) served(w *Waiter) bool {
	if w.Only >= 0 {
		return q.has(w.Only)
	}
	return q.here&^w.Except != 0
}

// may reports whether the waiter is to be sent to a server, which exists.
func (q *Queue) may(w *Waiter, server int) bool {
	if w.Only >= 0 {
		return w.Only == server
	}
	return w.Except&(1<<(server%64)) == 0 && (!q.roles[server].avoided || q.open&^w.Except == 0)
}

// Waiting is how many wait that are to be sent to a server.
func (q *Queue) Waiting(server int) int {
	if !q.has(server) {
		return 0
	}
	if !q.roles[server].avoided {
		return q.bound[server].size + q.free.size + q.picky.size - q.except[server%64]
	}
	n := q.bound[server].size
	if q.open == 0 {
		n += q.free.size
	}
	if q.picky.size > 0 {
		n += q.choosing(server)
	}
	return n
}

// choosing is how many of the picky are to be sent to a server.
func (q *Queue) choosing(server int) (n int) {
	for i := range q.classes {
		for w := q.classes[i].waiters.first; w != nil; w = w.after {
			if w.of.Only < 0 && w.of.Except != 0 && q.may(w.of, server) {
				n++
			}
		}
	}
	return n
}
