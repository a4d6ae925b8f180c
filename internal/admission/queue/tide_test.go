package queue

import (
	"testing"
	"time"
)

// feed lets so many come and go in parts of 250 ms, one after the other.
func feed(parts ...part) *tide {
	now := int64(time.Hour)
	t := &tide{begun: now, last: now}
	for _, p := range parts {
		for range p.in {
			t.in()
		}
		for range p.out {
			t.out()
		}
		for range 5 {
			now += partTime / 5
			t.pass(now)
		}
	}
	return t
}

// five is five times the same.
func five(p part) []part { return []part{p, p, p, p, p} }

func TestTide(t *testing.T) {
	for _, c := range []struct {
		name        string
		parts       []part
		rises, ebbs bool
	}{
		{"nothing is known yet", nil, false, true},
		{"four parts", five(part{200, 100})[:4], false, false},
		{"five parts", five(part{200, 100}), true, false},
		{"as many come as go", five(part{200, 200}), false, true},
		{"more go", five(part{200, 300}), false, true},
		{"10 % more come", five(part{1100, 1000}), true, false},
		{"9 % more come", five(part{1090, 1000}), false, false},
		{"50 % more of 200 come", five(part{24, 16}), true, false},
		{"35 % more of 200 come: it may be chance", five(part{23, 17}), false, false},
		{"a burst", []part{{900, 100}, {100, 100}, {100, 100}, {100, 100}, {100, 100}}, false, false},
		{"a burst over two parts", []part{{100, 100}, {500, 100}, {500, 100}, {100, 100}, {100, 100}}, false, false},
		{"one part with hardly more", []part{{200, 100}, {200, 100}, {105, 100}, {200, 100}, {200, 100}}, false, false},
		{"what was before does not count", append(five(part{100, 500}), five(part{200, 100})...), true, false},
		{"over again", append(five(part{200, 100}), five(part{100, 100})...), false, true},
		{"nobody goes", five(part{50, 0}), true, false},
		{"parts with few requests last longer", append(five(part{10, 9}), part{50, 0}), false, false},
	} {
		tide := feed(c.parts...)
		if tide.rises() != c.rises || tide.ebbs() != c.ebbs {
			t.Errorf("%s: rises %v, ebbs %v, want %v, %v", c.name, tide.rises(), tide.ebbs(), c.rises, c.ebbs)
		}
	}
}

// TestTideFewRequests: with few requests a part lasts until there were 40, for two
// seconds at most.
func TestTideFewRequests(t *testing.T) {
	now := int64(time.Hour)
	for _, c := range []struct {
		everyMs int64
		want    time.Duration
	}{{1, 250 * time.Millisecond}, {10, 400 * time.Millisecond}, {40, 1600 * time.Millisecond}, {100, 2 * time.Second}} {
		tide := &tide{begun: now, last: now}
		at := now
		for ended := false; !ended; ended = tide.pass(at) {
			tide.in()
			at += c.everyMs * ms
		}
		if got := time.Duration(at - now); got != c.want {
			t.Errorf("one every %d ms: a part of %v, want %v", c.everyMs, got, c.want)
		}
	}
}

// TestTideForgets: after two seconds without a request nothing is known.
func TestTideForgets(t *testing.T) {
	tide := feed(five(part{200, 100})...)
	if tide.pass(tide.last + longestPart - 1); !tide.rises() {
		t.Error("forgotten too soon")
	}
	tide = feed(five(part{200, 100})...)
	if ended := tide.pass(tide.last + longestPart); !ended || tide.rises() || !tide.ebbs() {
		t.Error("not forgotten")
	}
}

// TestStanding: a queue that was empty a moment ago has not stood, however many
// more have come than gone.
func TestStanding(t *testing.T) {
	for _, c := range []struct {
		filled int64 // so long ago, ns
		want   bool
	}{{standing - 1, false}, {standing, true}} {
		q := New(1, Settings{Length: 9})
		q.tide = *feed(five(part{200, 100})...)
		q.now = q.tide.last
		q.Join(&Waiter{Only: -1}, q.now)
		q.filled = q.now - c.filled
		q.judge()
		if q.overloaded != c.want {
			t.Errorf("not empty for %v: overloaded %v", time.Duration(c.filled), q.overloaded)
		}
	}
}

// TestEmptyEndsOverload: by whichever way the last one goes.
func TestEmptyEndsOverload(t *testing.T) {
	w := &Waiter{Only: 1}
	for name, empty := range map[string]func(*Queue){
		"served":   func(q *Queue) { q.Next(1, 0) },
		"left":     func(q *Queue) { q.Leave(w, 0) },
		"vanished": func(q *Queue) { q.Set(1, q.set) },
	} {
		q := New(2, Settings{Length: 9})
		q.Join(w, 0)
		q.overloaded = true
		if empty(q); q.overloaded || q.Len() != 0 {
			t.Errorf("%s: %d wait, overloaded %v", name, q.Len(), q.overloaded)
		}
	}
}
