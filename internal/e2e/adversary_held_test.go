package e2e

import (
	"syscall"
	"testing"

	"sluice/internal/testkit"
)

// Reloads change the kind of the limit, its bounds, the queue and the servers while
// most requests are held: none is lost, none is left behind.
func TestHeldOverReloadsOfLimits(t *testing.T) {
	t.Parallel()
	const rounds, clients = 60, 24
	a, b := testkit.Serve(t, testkit.Answering(ok)), testkit.Serve(t, testkit.Answering(ok))
	both := []string{a.URL(), b.URL()}
	configurations := []string{
		farm(a.URL(), "admission: 1"),
		farmOf(both, "admission: {limit: adaptive, max: 2}"),
		farm(b.URL(), "admission: {limit: gradient2, max: 3}"),
		farm(b.URL(), "admission: off"),
		farmOf(both, "admission: {limit: 1, queue: 30, timeout: 60s}"),
		farm(a.URL(), "admission: {limit: adaptive, max: 3, target: 10ms}"),
		farmOf(both, "admission: 1", "retries: 2"),
	}
	s := start(t, configurations[0])
	load := testkit.StartLoad(t, s.web(), testkit.Request("GET", "/"), clients)
	for i := range rounds {
		load.AwaitMore(t, 5)
		s.configure(configurations[(i*3+1)%len(configurations)])
		s.reload()
	}
	load.AwaitMore(t, clients)
	if tally := load.Stop(); len(tally.Failures) > 0 || tally.Connections != clients {
		t.Errorf("%d of %d requests failed, first: %q; %d connections of %d clients",
			len(tally.Failures), tally.Good, tally.Failures[:min(1, len(tally.Failures))], tally.Connections, clients)
	}
	s.configure(farmOf(both))
	s.reload() // every server is shown again, with what it may have left out
	s.quiet()
}

// Workers are killed again and again while most requests are held. Each takes with
// it what was in its hands, one request of each client at most, and its successor
// has every permit.
func TestHeldWorkersKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	const kills, clients, limit = 6, 24, 3
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL(), "admission: 3"))
	load := testkit.StartLoad(t, s.web(), testkit.Request("GET", "/"), clients)
	for range kills {
		load.AwaitMore(t, clients)
		if err := syscall.Kill(s.workers()[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "a worker serves", func() bool { return s.status().Ready })
	}
	load.AwaitMore(t, clients)
	if l := s.limits().Servers[0]; l.In_flight > limit {
		t.Errorf("%d requests are at the server, which may have %d", l.In_flight, limit)
	}
	if tally := load.Stop(); len(tally.Failures) > kills*clients {
		t.Errorf("%d requests failed by %d kills with %d clients, first: %q", len(tally.Failures), kills, clients, tally.Failures[:1])
	}
	s.quiet()
}
