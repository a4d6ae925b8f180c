package accesslog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// drain empties the queue, as pass does, and gives what was in it.
func drain(q *queue) []byte {
	var all []byte
	for {
		lines, more := q.peek()
		all = append(all, lines...)
		q.consume(len(lines))
		if !more {
			return all
		}
	}
}

func TestQueueLimit(t *testing.T) {
	half := bytes.Repeat([]byte{'x'}, (chunkSize-chunkHead)/2)
	for _, c := range []struct {
		limit int64
		want  int // lines of half a chunk each
	}{
		{0, 4}, {1, 4}, {2*chunkSize - 1, 4}, {2 * chunkSize, 4}, {3*chunkSize - 1, 4}, {3 * chunkSize, 6}, {16 * chunkSize, 32},
	} {
		q := newQueue(c.limit)
		want := c.want
		for round := range 3 {
			for i := range want {
				ok, sealed := q.put(half)
				if !ok {
					t.Fatalf("limit %d, round %d: line %d of %d was dropped", c.limit, round, i, want)
				}
				if wantSealed := i%2 == 0 && (i > 0 || round > 0); sealed != wantSealed {
					t.Errorf("limit %d, round %d, line %d: sealed %v", c.limit, round, i, sealed)
				}
			}
			if ok, sealed := q.put(half); ok || sealed {
				t.Errorf("limit %d, round %d: line %d was taken", c.limit, round, want)
			}
			if got := len(drain(q)); got != want*len(half) {
				t.Errorf("limit %d, round %d: %d bytes came out, want %d", c.limit, round, got, want*len(half))
			}
			// The last chunk, full and read, stays until the reader sees the next.
			if got := q.held.Load(); got != 1 {
				t.Errorf("limit %d, round %d: %d chunks are held by an empty queue", c.limit, round, got)
			}
			want = c.want - 2
		}
	}
}

func TestQueueLineLength(t *testing.T) {
	q := newQueue(0)
	whole := bytes.Repeat([]byte{'x'}, chunkSize-chunkHead)
	if ok, _ := q.put(whole); !ok {
		t.Error("a line of a chunk's length was dropped")
	}
	if ok, _ := q.put(append(whole, 'x')); ok {
		t.Error("a line longer than a chunk was taken")
	}
	if got := drain(q); !bytes.Equal(got, whole) {
		t.Errorf("%d bytes came out, want %d", len(got), len(whole))
	}
}

// A transcript: what the reader sees between the writer's steps.
func TestQueueTurns(t *testing.T) {
	q := newQueue(0)
	big := bytes.Repeat([]byte{'B'}, chunkSize-chunkHead-3)
	for i, step := range []struct {
		put, want string
		more      bool
	}{
		{"", "", false},
		{"a\n", "a\n", false},
		{"", "", false},
		{"b\n", "b\n", false},    // the same chunk goes on
		{string(big), "", true},  // the first chunk is sealed, and was read already
		{"", string(big), false}, // the second
		{"cc\n", "cc\n", false},  // fills it to the byte
		{"d\n", "", true},        // a third
		{"e\n", "d\ne\n", false}, // which grew meanwhile
	} {
		if step.put != "" {
			if ok, _ := q.put([]byte(step.put)); !ok {
				t.Fatalf("step %d: dropped", i)
			}
		}
		lines, more := q.peek()
		if string(lines) != step.want || more != step.more {
			t.Errorf("step %d: %d bytes, more %v; want %d, %v", i, len(lines), more, len(step.want), step.more)
		}
		q.consume(len(lines))
	}
}

func TestQueueReusesChunks(t *testing.T) {
	q := newQueue(8 * chunkSize)
	line := bytes.Repeat([]byte{'x'}, 1000)
	for range 200 { // three chunks
		q.put(line)
		drain(q)
	}
	if n := testing.AllocsPerRun(200, func() {
		q.put(line)
		lines, _ := q.peek()
		q.consume(len(lines))
	}); n != 0 {
		t.Errorf("%v allocations per line, though the reader keeps up", n)
	}
	spares := 0
	for i := range q.spare {
		if c := q.spare[i].Load(); c != nil {
			spares++
			if c.next.Load() != nil || c.n.Load() != 0 {
				t.Error("a spare chunk was not cleared")
			}
		}
	}
	if spares == 0 {
		t.Error("no chunk was kept")
	}
}

// One writer and one reader at full speed: every line that was taken comes out once,
// whole and in order.
func TestQueueConcurrently(t *testing.T) {
	const lines = 50_000
	q := newQueue(0)
	var taken, seen [][]byte
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		rng := rand.New(rand.NewPCG(5, 6))
		for i := range lines {
			line := fmt.Appendf(nil, "%d %s\n", i, bytes.Repeat([]byte{'x'}, rng.IntN(300)))
			if ok, _ := q.put(line); ok {
				taken = append(taken, line)
			}
		}
	})
	var all []byte
	for running := true; running; {
		select {
		case <-stop:
			running = false
		default:
		}
		all = append(all, drain(q)...)
	}
	wg.Wait()
	seen = bytes.SplitAfter(all, newline)
	seen = seen[:len(seen)-1] // what follows the last newline: nothing
	if len(seen) != len(taken) {
		t.Fatalf("%d lines came out, %d were taken", len(seen), len(taken))
	}
	for i := range seen {
		if !bytes.Equal(seen[i], taken[i]) {
			t.Fatalf("line %d: %q, want %q", i, seen[i], taken[i])
		}
	}
}
