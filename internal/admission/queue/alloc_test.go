package queue

import "testing"

// TestNoAllocation: to join, to be served, to leave and to be pushed out cost no
// memory, once there were as many tenants.
func TestNoAllocation(t *testing.T) {
	const tenants = 40
	var waiters [2 * tenants]Waiter
	for i := range waiters {
		waiters[i] = Waiter{Class: uint8(i % 3), Tenant: uint64(i % tenants), Only: i%4 - 1, Except: uint64(i % 3)}
	}
	q, now := New(3, Settings{Length: tenants}), int64(0)
	round := func() {
		for i := range waiters {
			now += ms
			q.Join(&waiters[i], now)
			q.Dropped()
		}
		for i := range waiters {
			now += ms
			if i%2 == 0 {
				q.Leave(&waiters[i], now)
			}
			for server := range 3 {
				q.Next(server, now)
			}
		}
		if q.Len() != 0 {
			t.Fatalf("%d wait still", q.Len())
		}
	}
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations for %d waiters", n, len(waiters))
	}
}

// BenchmarkJoinNext is one who joins and one who is served, with 500 waiting.
func BenchmarkJoinNext(b *testing.B) {
	q, now := New(1, Settings{Length: 1000}), int64(0)
	var waiters [500]Waiter
	for i := range waiters {
		waiters[i] = Waiter{Only: -1, Tenant: uint64(i % 7)}
		q.Join(&waiters[i], now)
	}
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		q.Join(q.Next(0, now), now)
	}
}
