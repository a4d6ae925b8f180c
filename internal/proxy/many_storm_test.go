package proxy

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// tempest has clients and servers of both protocols do all they may do, and much that
// they may not, at random. Server a speaks HTTP/1.1, b HTTP/2. In one of four Sluice drains
// before the end.
type tempest struct {
	*ground
	*stage
	dice    *rand.Rand
	visits  []*visitor
	asked   int
	seen    map[string]int // by path: how often a server has begun with it
	whole   int            // answers
	cut     int            // those that were cut, visibly
	refused int
	tunnels int      // that were whole
	away    []string // paths of requests that are said not to have been begun
}

// TestManyStorm: whatever happens, each answer is whole or visibly cut and belongs to its
// request, with its trailers, and so does what servers get and what tunnels carry; a request
// that is not idempotent reaches a server at most once, and one that is said not to have been
// begun none; and in the end nothing is open, held, lent or counted.
func TestManyStorm(t *testing.T) {
	whole, cut, tunnels, away := 0, 0, 0, 0
	for seed := range stormSeeds(t) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTempest(t, seed)
				defer w.finish()
				defer w.close()
				for i := range 250 {
					if i == 200 && seed%4 == 3 {
						w.ground.on(w.proxy.Drain)
					}
					w.step()
					synctest.Wait()
				}
				w.calm()
				whole, cut, tunnels, away = whole+w.whole, cut+w.cut, tunnels+w.tunnels, away+len(w.away)
			})
		})
	}
	t.Logf("%d answers and %d tunnels were whole, %d were cut, %d requests sent away", whole, tunnels, cut, away)
	if whole < 500 || tunnels < 50 || cut < 50 {
		t.Error("too few to tell anything")
	}
}

// stormSeeds are twenty, or as many as SLUICE_STORM_SEEDS in the environment says: "20-500".
func stormSeeds(t *testing.T) iter.Seq[uint64] {
	from, to := uint64(0), uint64(20)
	if text := os.Getenv("SLUICE_STORM_SEEDS"); text != "" {
		if _, err := fmt.Sscanf(text, "%d-%d", &from, &to); err != nil {
			t.Fatalf("SLUICE_STORM_SEEDS is %q: write the first and the one after the last, as 20-500", text)
		}
	}
	return func(yield func(uint64) bool) {
		for seed := from; seed < to && yield(seed); seed++ {
		}
	}
}

func newTempest(t *testing.T, seed uint64) *tempest {
	w := &tempest{dice: rand.New(rand.NewPCG(seed, 7)), seen: map[string]int{}}
	w.ground = newGround("b", w.app)
	w.ground.http1 = w.serveHTTP1
	w.ground.far = time.Duration(w.dice.IntN(3)) * 10 * time.Millisecond
	w.ground.peer.Streams = 1 + w.dice.IntN(20)
	w.stage = newStage(t, w.ground, &script{servers: 2, farm: []string{"admission: {limit: 4, queue: 20, timeout: 3s}", "fail_for: 1s", "timeouts: {tunnel: 1m}"}})
	return w
}

// finish is that of the ground.
func (w *tempest) finish() { w.ground.finish() }

// step does one thing.
func (w *tempest) step() {
	switch n := w.dice.IntN(100); {
	case n < 35:
		w.byHTTP2()
	case n < 55:
		w.byHTTP1()
	case n < 58:
		w.ground.on(func() { w.either(func(v *visitor) { v.Close() }) })
	case n < 61:
		w.ground.on(func() { w.either(func(v *visitor) { v.Leave() }) })
	case n < 65:
		w.hurtServer()
	case n < 67:
		line := fmt.Sprintf("farm admission: {limit: %d, queue: %d, timeout: 3s}", 1+w.dice.IntN(8), w.dice.IntN(20))
		if err := w.reload(line); err != nil {
			w.t.Fatal(err)
		}
	case n < 68:
		w.mode(byte('a'+w.dice.IntN(2)), []string{"refuses", "accepts"}[w.dice.IntN(2)])
	default:
		w.ground.wait(time.Duration(w.dice.IntN(30)) * time.Millisecond)
	}
}

// either picks one of the clients' connections. In a task.
func (w *tempest) either(f func(*visitor)) {
	if n := len(w.visits); n > 0 {
		f(w.visits[w.dice.IntN(n)])
	}
}

// hurtServer ends a connection to a server, in order or not.
func (w *tempest) hurtServer() {
	how := w.dice.IntN(3)
	w.ground.on(func() {
		for conn, far := range w.served {
			switch how {
			case 0:
				conn.Drain()
			case 1:
				conn.Close()
			case 2:
				far.reset()
			}
			return
		}
	})
}

// calm lets all come to an end: also what clients and servers leave open.
func (w *tempest) calm() {
	w.mode('a', "accepts")
	w.mode('b', "accepts")
	w.ground.wait(10 * time.Minute)
	synctest.Wait()
	w.ground.on(func() {
		open := w.figures[0].Open.Load() + w.figures[1].Open.Load()
		if n := w.loop.Connections.Load(); n != 0 || open != 0 {
			w.t.Errorf("%d connections of clients and %d to servers have no end", n, open)
		}
		for _, path := range w.away {
			if n := w.seen[path]; n > 0 {
				w.t.Errorf("%s is said not to have been begun, and has reached servers %d times", path, n)
			}
		}
		for _, v := range w.visits {
			v.Close()
		}
	})
	synctest.Wait()
	w.end()
}
