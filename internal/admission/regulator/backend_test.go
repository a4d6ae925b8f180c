package regulator

import (
	"math/rand/v2"
	"testing"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/admission/limit"
)

// backend is a server under the Universal Scalability Law (Gunther 2007) that takes
// its requests through the gate: users in a closed loop, spread over the loops of
// both workers, in virtual time.
type backend struct {
	*rig
	random     *rand.Rand
	slot       int
	users      int
	speed      float64 // 1: 372 requests/s at its best, with 51 in flight
	out        []gate.Permit
	done       int
	step, next time.Duration // between two steps of the regulator; the next one
}

// rate is how many requests it completes per second with n of them on it.
func (b *backend) rate(n int) float64 {
	f := float64(n)
	return b.speed * 50.4 * f / (1 + 0.1*(f-1) + 3.41e-4*f*(f-1))
}

// best is the highest rate that it has with any number of requests.
func (b *backend) best() float64 {
	most := 0.0
	for n := range 300 {
		most = max(most, b.rate(n))
	}
	return most
}

// run lets it work for a while, and returns its throughput.
func (b *backend) run(d time.Duration) float64 {
	b.done = 0
	for until := b.mono + d; b.mono < until; {
		b.admit()
		wait := until - b.mono
		if n := len(b.out); n > 0 {
			wait = time.Duration(b.random.ExpFloat64() / b.rate(n) * 1e9)
		}
		if b.mono+wait >= b.next { // exponential waits have no memory: draw again afterwards
			b.pass(b.next - b.mono)
			b.Regulator.step()
			b.next += b.step/2 + time.Duration(b.random.Int64N(int64(b.step))) // late now and then
			continue
		}
		b.pass(wait)
		i := b.random.IntN(len(b.out))
		b.end(&b.out[i], b.random.IntN(2), b.random.IntN(2), b.slot, gate.Good)
		b.out[i] = b.out[len(b.out)-1]
		b.out = b.out[:len(b.out)-1]
		b.done++
	}
	return float64(b.done) / d.Seconds()
}

// admit lets those who wait go while there are permits, and shows how many are
// left.
func (b *backend) admit() {
	for len(b.out) < b.users && gate.Open(b.shared.Gate(b.slot)) {
		b.out = append(b.out, b.claim(b.random.IntN(2), b.random.IntN(2), b.slot))
	}
	waiting := b.users - len(b.out)
	for w, n := range []int{waiting / 2, waiting - waiting/2} {
		if b.shared.Line(w, b.slot).Waiting.Load() != int64(n) {
			b.wait(w, b.slot, n)
		}
	}
}

// newBackend is one with users, behind a regulator with this state file.
func newBackend(r *rig, users int, set limit.Settings) *backend {
	s := r.server("http://backend", set)
	r.Use([]Server{s})
	return &backend{
		rig: r, random: rand.New(rand.NewPCG(1, 2)), slot: s.Slot, users: users, speed: 1,
		step: step, next: r.mono + step,
	}
}

// The limit finds the best point of a backend, and finds it again when that moves;
// none of it is lost when workers die and Sluice begins anew. No fault is seen.
func TestLimitFollowsABackend(t *testing.T) {
	path := t.TempDir() + "/limits.json"
	b := newBackend(newRig(t, path), 250, adaptive)
	b.run(time.Minute)
	if got := b.run(time.Minute) / b.best(); got < 0.93 {
		t.Errorf("%.2f of the best throughput, at a limit of %d", got, b.limit(b.slot))
	}
	b.speed = 0.5
	b.run(15 * time.Second)
	if got := b.run(time.Minute) / b.best(); got < 0.9 {
		t.Errorf("at half its speed %.2f of the best throughput, at a limit of %d", got, b.limit(b.slot))
	}
	if v := b.View(); v.Leaks+v.Stranded != 0 || len(v.Servers[0].Moves) == 0 || v.Servers[0].InFlight == 0 {
		t.Errorf("%d leaks, %d stranded, %d moves, %d in flight", v.Leaks, v.Stranded, len(v.Servers[0].Moves), v.Servers[0].InFlight)
	}
	b.finish()
	found := b.View().Servers[0].Decision.Centre

	next := newBackend(newRig(t, path), 250, adaptive)
	if got := next.View().Servers[0].Decision.Centre; got != found {
		t.Errorf("the next one begins at %g, and %g was learned", got, found)
	}
	if got := next.run(5*time.Second) / next.best(); got < 0.9 {
		t.Errorf("%.2f of the best throughput from the start", got)
	}
}

// Without a limit the same users overload it: the test can tell.
func TestBackendWithoutLimit(t *testing.T) {
	b := newBackend(newRig(t, ""), 250, limit.Settings{Kind: limit.Off})
	if got := b.run(time.Minute) / b.best(); got > 0.85 {
		t.Errorf("%.2f of the best throughput without a limit", got)
	}
}
