package testkit

import (
	"testing"
	"time"
)

// Patience bounds every wait, so that what never comes fails a test instead of
// stopping it. Nothing is measured against it.
const Patience = 60 * time.Second

// lookEvery is how often a condition is looked at that nobody announces.
const lookEvery = 5 * time.Millisecond

// Eventually returns when holds does, and fails the test if it never does. what
// completes the sentence "waited in vain until …".
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	over := time.NewTimer(Patience)
	defer over.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-over.C:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
