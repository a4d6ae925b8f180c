package queue

// class is the waiters of one urgency. Its tenants take turns: the one whose turn
// it is stands first in turns, and goes to the end when one of its waiters has
// been served. One that comes new stands at the end too, so that nobody gains a
// turn by leaving and coming back.
type class struct {
	size    int
	waiters list[Waiter] // by arrival
	turns   list[tenant]
	tenants map[uint64]*tenant // those in turns, by key

	// The largest tenant is found without looking at all of them.
	sizes   []list[tenant] // tenants by how many wait
	atLeast []int          // how many tenants have so many waiters or more
	largest int            // waiters of the largest tenant
}

// tenant is the waiters of one urgency that share a turn.
type tenant struct {
	key     uint64
	size    int
	waiters list[Waiter] // by arrival
	inTurns node[tenant]
	inSizes node[tenant]
}

// tenant finds the one of a key; nil if none of its waiters is here.
func (c *class) tenant(key uint64) *tenant { return c.tenants[key] }

// enter gives a tenant without waiters its turn at the end of the round.
func (c *class) enter(t *tenant, key uint64) {
	if c.tenants == nil {
		c.tenants = make(map[uint64]*tenant)
	}
	t.key = key
	c.tenants[key] = t
	c.turns.push(&t.inTurns, t)
}

// exit takes out a tenant without waiters.
func (c *class) exit(t *tenant) {
	delete(c.tenants, t.key)
	c.turns.remove(&t.inTurns)
}

// resize notes that a tenant has one waiter more (+1) or less (-1).
func (c *class) resize(t *tenant, d int) {
	if t.size > 0 {
		c.sizes[t.size].remove(&t.inSizes)
	}
	if d < 0 {
		c.atLeast[t.size]--
	}
	t.size += d
	c.size += d
	for len(c.sizes) <= t.size {
		c.sizes = append(c.sizes, list[tenant]{})
		c.atLeast = append(c.atLeast, 0)
	}
	if d > 0 {
		c.atLeast[t.size]++
	}
	if t.size > 0 {
		c.sizes[t.size].push(&t.inSizes, t)
	}
	c.largest = max(c.largest, t.size)
	if c.largest > 0 && c.atLeast[c.largest] == 0 {
		c.largest-- // the one that was it is the largest still, or there is none
	}
}

// ahead is how many of the class are served before a newcomer of a tenant, when
// within a tenant the first or the newest is served first. For a new tenant it is
// exact; others are in the middle of the round, as far as is known.
func (c *class) ahead(key uint64, newestFirst bool) int {
	t := c.tenant(key)
	switch {
	case t == nil:
		return len(c.tenants)
	case newestFirst:
		return (len(c.tenants) - 1) / 2
	case t.size == c.largest:
		return c.size
	}
	n := c.atLeast[t.size+1] / 2 // of the round in which the newcomer has its turn
	for turn := 1; turn <= t.size; turn++ {
		n += c.atLeast[turn]
	}
	return n
}
