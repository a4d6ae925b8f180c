package main

import (
	"sync"
	"testing"
)

// TestPost: entries that many post at once are all there, and what one account
// gives another has.
func TestPost(t *testing.T) {
	l := &ledger{}
	const clients, entries = 4, 500_000
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() { l.post(entries) })
	}
	wg.Wait()
	sum := int64(0)
	for _, a := range l.account {
		sum += a.balance
	}
	if got := l.post(1); got != clients*entries+1 || sum != 0 {
		t.Errorf("%d entries, and %d are lost", got, sum)
	}
}
