package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"sluice/internal/admin"
)

// seen is a look at one server, in the given second.
func seen(second int64, limit, inFlight int) *admin.Limits {
	return &admin.Limits{Time: time.Unix(second, 500e6), Servers: []admin.LimitStatus{{Farm: "app", URL: "u",
		AdmissionStatus: admin.AdmissionStatus{Limit: limit, InFlight: inFlight, Waiting: 2 * inFlight, Throughput: 10}}}}
}

func TestHistory(t *testing.T) {
	h := history{}
	for _, l := range []*admin.Limits{seen(1000, 10, 4), seen(1000, 20, 6), seen(1001, 30, 8), seen(1003, 0, 1)} {
		h.note(l)
	}
	r := h[serverName{"app", "u"}]
	for _, c := range []struct {
		name       string
		n, seconds int
		now        int64
		limit      []float64
		inFlight   []float64
	}{
		{"by the second", 5, 1, 1003, []float64{-1, 15, 30, -1, -1}, []float64{-1, 5, 8, -1, 1}},
		{"by two", 3, 2, 1003, []float64{-1, 20, -1}, []float64{-1, 6, 1}},
		{"by two, a second later", 3, 2, 1004, []float64{20, -1, -1}, []float64{6, 1, -1}},
		{"long after", 2, 1, 1003 + keepSeconds, []float64{-1, -1}, []float64{-1, -1}},
	} {
		past := r.columns(c.n, c.seconds, time.Unix(c.now, 0))
		if got := values(past, func(m *moment) series { return m.limit }); !slices.Equal(got, c.limit) {
			t.Errorf("%s: limit %v, want %v", c.name, got, c.limit)
		}
		if got := values(past, func(m *moment) series { return m.inFlight }); !slices.Equal(got, c.inFlight) {
			t.Errorf("%s: in flight %v, want %v", c.name, got, c.inFlight)
		}
	}
}

// The ring forgets: a new second takes the place of one that is keepSeconds older.
func TestHistoryForgets(t *testing.T) {
	h := history{}
	h.note(seen(1000, 10, 4))
	h.note(seen(1000+keepSeconds, 20, 6))
	past := h[serverName{"app", "u"}].columns(keepSeconds+1, 1, time.Unix(1000+keepSeconds, 0))
	if first, last := past[0].limit.mean(), past[keepSeconds].limit.mean(); first == 10 || last != 20 {
		t.Errorf("the first second has %g, the last one %g", first, last)
	}
}

// What decisions tell of the time before the first look is not lost.
func TestHistoryRecallsDecisions(t *testing.T) {
	l := seen(1010, 40, 7)
	l.Servers[0].Decisions = []admin.DecisionStatus{
		{At: time.Unix(1010-2*keepSeconds, 0), Centre: 5, Throughput: 50},
		{At: time.Unix(1004, 0), Centre: 20, Throughput: 200},
		{At: time.Unix(1007, 0), Centre: 30, Throughput: 300},
	}
	h := history{}
	h.note(l)
	h.note(l) // decisions are recalled once
	past := h[serverName{"app", "u"}].columns(8, 1, l.Time)
	if got, want := values(past, func(m *moment) series { return m.limit }), []float64{5, 20, 20, 20, 30, 30, 30, 40}; !slices.Equal(got, want) {
		t.Errorf("limit %v, want %v", got, want)
	}
	if got, want := values(past, func(m *moment) series { return m.work }), []float64{50, 200, 200, 200, 300, 300, 300, 10}; !slices.Equal(got, want) {
		t.Errorf("throughput %v, want %v", got, want)
	}
	if got, want := values(past, func(m *moment) series { return m.inFlight }), []float64{-1, -1, -1, -1, -1, -1, -1, 7}; !slices.Equal(got, want) {
		t.Errorf("in flight %v, want %v: nobody looked before", got, want)
	}
}

func TestWaitSinceTheLastLook(t *testing.T) {
	r := &record{waited: admin.Distribution{Count: 10, Mean: 1}}
	for _, c := range []struct {
		now  admin.Distribution
		want float64
	}{
		{admin.Distribution{Count: 10, Mean: 1}, 0},       // none since
		{admin.Distribution{Count: 20, Mean: 1.25}, 1.5},  // 10 more took 15 s together
		{admin.Distribution{Count: 30, Mean: 1}, 0.5},     // 10 more took 5 s
		{admin.Distribution{Count: 3, Mean: 9}, 0},        // Sluice was started again
		{admin.Distribution{Count: 4, Mean: 9.25}, 10},    // and goes on from there
		{admin.Distribution{Count: 5, Mean: 0.000001}, 0}, // never negative
	} {
		if got := r.wait(c.now); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %g s, want %g s", c.now, got, c.want)
		}
	}
}
