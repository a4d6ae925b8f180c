package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// model is the queue as its rules are read aloud: all who wait, by arrival, and
// the tenants of each class in the order of their turns. It is slow and plain.
type model struct {
	servers int
	waiters []*Waiter
	turns   [classes][]uint64
}

func urgency(w *Waiter) int { return min(int(w.Class), classes-1) }

func (m *model) may(w *Waiter, server int) bool {
	if w.Only >= 0 {
		return w.Only == server
	}
	return w.Except>>(server%64)&1 == 0
}

func (m *model) served(w *Waiter) bool {
	for s := range m.servers {
		if m.may(w, s) {
			return true
		}
	}
	return false
}

func (m *model) waiting(server int) int {
	return len(m.choose(func(w *Waiter) bool { return server < m.servers && m.may(w, server) }))
}

// choose is those who wait and are such, by arrival.
func (m *model) choose(such func(*Waiter) bool) []*Waiter {
	var chosen []*Waiter
	for _, w := range m.waiters {
		if such(w) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

// of is the waiters of a tenant in a class, by arrival.
func (m *model) of(class int, tenant uint64) []*Waiter {
	return m.choose(func(w *Waiter) bool { return urgency(w) == class && w.Tenant == tenant })
}

func (m *model) add(w *Waiter) {
	m.waiters = append(m.waiters, w)
	if c := urgency(w); !slices.Contains(m.turns[c], w.Tenant) {
		m.turns[c] = append(m.turns[c], w.Tenant)
	}
}

func (m *model) remove(w *Waiter) {
	m.waiters = slices.DeleteFunc(m.waiters, func(other *Waiter) bool { return other == w })
	if c := urgency(w); len(m.of(c, w.Tenant)) == 0 {
		m.turns[c] = slices.DeleteFunc(m.turns[c], func(key uint64) bool { return key == w.Tenant })
	}
}

// next is who is served next by a server that they may go to, and who is found
// late on the way.
func (m *model) next(now int64, newestFirst bool, may func(*Waiter) bool) (next *Waiter, late []*Waiter) {
	for class, turns := range m.turns {
		for i, key := range turns {
			order := m.of(class, key)
			if newestFirst {
				slices.Reverse(order)
			}
			for _, w := range order {
				if w.Deadline != 0 && now > w.Deadline {
					late = append(late, w)
					continue
				}
				if may(w) {
					m.turns[class] = append(slices.Delete(slices.Clone(turns), i, i+1), key)
					return w, late
				}
			}
		}
	}
	return nil, late
}

// ahead counts who is served before a newcomer, by serving all of them.
func (m *model) ahead(newcomer *Waiter, newestFirst bool) int {
	after := &model{servers: m.servers}
	for _, w := range m.waiters {
		after.add(w)
	}
	for c := range m.turns {
		after.turns[c] = slices.Clone(m.turns[c])
	}
	after.add(newcomer)
	for n := 0; ; n++ {
		w, _ := after.next(0, newestFirst, func(*Waiter) bool { return true })
		if w == newcomer {
			return n
		}
		after.remove(w)
	}
}

// victims are those whose place a newcomer may take in a full queue.
func (m *model) victims(newcomer *Waiter, newestFirst bool) (victims []*Waiter) {
	last := 0
	for _, w := range m.waiters {
		last = max(last, urgency(w))
	}
	take := func(list []*Waiter) {
		if newestFirst {
			victims = append(victims, list[0])
		} else {
			victims = append(victims, list[len(list)-1])
		}
	}
	if urgency(newcomer) < last {
		take(m.choose(func(w *Waiter) bool { return urgency(w) == last }))
	}
	if urgency(newcomer) != last {
		return victims
	}
	largest := 0
	for _, key := range m.turns[last] {
		largest = max(largest, len(m.of(last, key)))
	}
	own := m.of(last, newcomer.Tenant)
	if len(own) == largest && newestFirst {
		take(own)
	}
	if len(own) == largest {
		return victims
	}
	for _, key := range m.turns[last] {
		if list := m.of(last, key); len(list) == largest {
			take(list)
		}
	}
	return victims
}

// trial plays a queue and its model against each other.
type trial struct {
	*testing.T
	random             *rand.Rand
	q                  *Queue
	m                  model
	now                int64
	made               int
	left               []*Waiter // some who have left, to leave again and to come back
	verdict            [Stale + 1]int
	urgencies, tenants int // of the waiters to come
}

func (t *trial) waiter() *Waiter {
	if n := len(t.left); n > 0 && t.random.IntN(3) == 0 {
		w := t.left[n-1]
		t.left = t.left[:n-1]
		return w
	}
	t.made++
	w := &Waiter{Only: -1, Owner: fmt.Sprint("w", t.made), Class: uint8(t.random.IntN(t.urgencies)), Tenant: uint64(t.random.IntN(t.tenants))}
	if t.random.IntN(4) == 0 {
		w.Class, w.Tenant = 1, 1
	}
	switch t.random.IntN(6) {
	case 0:
		w.Only = t.random.IntN(t.m.servers + 2)
	case 1:
		w.Except = t.random.Uint64() & t.random.Uint64()
	}
	if t.random.IntN(3) == 0 {
		w.Deadline = t.now + t.random.Int64N(40)*ms
	}
	return w
}

func (t *trial) join() {
	w := t.waiter()
	t.q.advance(t.now)
	full := len(t.m.waiters) >= t.q.set.Length
	var legal []*Waiter
	want := Held
	if t.m.served(w) {
		newestFirst := t.q.newestFirst(w)
		t.ahead(w, newestFirst)
		legal = t.m.victims(w, newestFirst)
		switch {
		case t.q.set.Length == 0:
			want = Full
		case w.Deadline != 0 && t.now+int64(t.q.Wait(w, t.now)) > w.Deadline:
			want = Late
		case full && len(legal) == 0:
			want = Full
		}
	} else {
		want = Gone
	}
	got := t.q.Join(w, t.now)
	t.verdict[got]++
	if got != want {
		t.Fatalf("%s is %v, want %v", w.Owner, got, want)
	}
	drops := t.q.Dropped()
	if got != Held || !full {
		t.none(drops)
	} else if len(drops) != 1 || drops[0].Why != Pushed || !slices.Contains(legal, drops[0].Waiter) {
		t.Fatalf("%s pushed out %v", w.Owner, drops)
	} else {
		t.gone(drops[0].Waiter)
		t.verdict[Pushed]++
	}
	if got == Held {
		t.m.add(w)
	}
}

// ahead: the number of those before a newcomer is exact for a new tenant, and half
// a round off at most for another.
func (t *trial) ahead(w *Waiter, newestFirst bool) {
	got, want, off := t.q.ahead(w), t.m.ahead(w, newestFirst), 0
	if turns := t.m.turns[urgency(w)]; slices.Contains(turns, w.Tenant) {
		off = len(turns) / 2
	}
	if got < want-off || got > want+off {
		t.Fatalf("%d ahead of %s, want %d, give or take %d", got, w.Owner, want, off)
	}
}

func (t *trial) none(drops []Drop) {
	if len(drops) != 0 {
		t.Fatalf("dropped %s %v", drops[0].Waiter.Owner, drops[0].Why)
	}
}

func (t *trial) gone(w *Waiter) {
	t.m.remove(w)
	t.left = append(t.left, w)
}

func (t *trial) next() {
	server := t.random.IntN(t.m.servers + 1)
	t.q.advance(t.now)
	overloaded := t.q.overloaded
	want := map[*Waiter]Verdict{}
	if overloaded && t.q.set.Target > 0 {
		for _, w := range t.m.choose(func(w *Waiter) bool { return t.now-w.since > 2*int64(t.q.set.Target) }) {
			want[w] = Stale
			t.gone(w)
		}
	}
	var next *Waiter
	if t.m.waiting(server) > 0 {
		var late []*Waiter
		next, late = t.m.next(t.now, overloaded, func(w *Waiter) bool { return t.m.may(w, server) })
		for _, w := range late {
			want[w] = Late
			t.gone(w)
		}
	}
	if got := t.q.Next(server, t.now); got != next {
		t.Fatalf("next is %s, want %s", name(got), name(next))
	}
	if next != nil {
		t.gone(next)
	}
	t.drops(want)
}

func (t *trial) drops(want map[*Waiter]Verdict) {
	drops := t.q.Dropped()
	if len(drops) != len(want) {
		t.Fatalf("%d dropped, want %d", len(drops), len(want))
	}
	for _, d := range drops {
		t.verdict[d.Why]++
		if why, found := want[d.Waiter]; !found || why != d.Why {
			t.Fatalf("%s is %v, want %v", d.Waiter.Owner, d.Why, why)
		}
	}
}

func (t *trial) leave() {
	if n := len(t.m.waiters); n > 0 {
		w := t.m.waiters[t.random.IntN(n)]
		if !t.q.Leave(w, t.now) {
			t.Fatalf("%s could not leave", w.Owner)
		}
		t.gone(w)
	}
	if n := len(t.left); n > 0 && t.q.Leave(t.left[t.random.IntN(n)], t.now) {
		t.Fatal("left twice")
	}
}

func (t *trial) reload() {
	t.m.servers = 1 + t.random.IntN(5)
	t.q.Set(t.m.servers, Settings{Length: t.random.IntN(30), Target: time.Duration(t.random.Int64N(3) * 10 * ms)})
	want := map[*Waiter]Verdict{}
	for _, w := range t.m.choose(func(w *Waiter) bool { return !t.m.served(w) }) {
		want[w] = Gone
		t.gone(w)
	}
	t.drops(want)
}

// check holds the totals of both against each other.
func (t *trial) check() {
	if t.q.Len() != len(t.m.waiters) {
		t.Fatalf("%d wait, want %d", t.q.Len(), len(t.m.waiters))
	}
	for s := range t.m.servers + 1 {
		if got, want := t.q.Waiting(s), t.m.waiting(s); got != want {
			t.Fatalf("%d wait for server %d, want %d", got, s, want)
		}
	}
}

func (t *trial) step() {
	if t.random.IntN(2) == 0 {
		t.now += t.random.Int64N(6) * ms
	}
	switch n := t.random.IntN(1000); {
	case n < 2:
		t.reload()
	case n < 10:
		t.q.overloaded = t.q.length > 0 && !t.q.overloaded
	case n < 60:
		t.leave()
	case n < 510:
		t.next()
	default:
		t.join()
	}
	t.check()
}

// TestModel: over long sequences of calls the queue does what its rules say.
func TestModel(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			tr := &trial{T: t, random: rand.New(rand.NewPCG(seed, 7)), now: int64(seed) * ms}
			tr.urgencies, tr.tenants = 2+int(seed%3)*4, 1+int(seed%4)*3
			tr.q, tr.m.servers = New(3, Settings{Length: 20}), 3
			for range 10000 {
				tr.step()
			}
			for v, n := range tr.verdict {
				if n == 0 {
					t.Errorf("nobody was ever %v: the sequence tries too little", Verdict(v))
				}
			}
		})
	}
}
