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
		AdmissionStatus: admin.AdmissionStatus{Limit: limit, InFlight: inFlight, Waiting: 2 * inFlight, Throughput: 10,
			Permits: admin.Permits{Good: uint64(100 * second)}}}}}
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
		work       []float64 // as the controller says at first, then as counted
	}{
		{"by the second", 5, 1, 1003, []float64{-1, 15, 30, -1, -1}, []float64{-1, 5, 8, -1, 1}, []float64{-1, 10, 100, -1, 100}},
		{"by two", 3, 2, 1003, []float64{-1, 20, -1}, []float64{-1, 6, 1}, []float64{-1, 55, 100}},
		{"by two, a second later", 3, 2, 1004, []float64{20, -1, -1}, []float64{6, 1, -1}, []float64{55, 100, -1}},
		{"long after", 2, 1, 1003 + keepSeconds, []float64{-1, -1}, []float64{-1, -1}, []float64{-1, -1}},
	} {
		past := r.columns(c.n, c.seconds, time.Unix(c.now, 0))
		if got := values(past, func(m *moment) series { return m.limit }); !slices.Equal(got, c.limit) {
			t.Errorf("%s: limit %v, want %v", c.name, got, c.limit)
		}
		if got := values(past, func(m *moment) series { return m.inFlight }); !slices.Equal(got, c.inFlight) {
			t.Errorf("%s: in flight %v, want %v", c.name, got, c.inFlight)
		}
		if got := values(past, func(m *moment) series { return m.work }); !slices.Equal(got, c.work) {
			t.Errorf("%s: good responses %v, want %v", c.name, got, c.work)
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

func TestSinceTheLastLook(t *testing.T) {
	at := func(second float64, good, held uint64, mean float64) (*admin.LimitStatus, time.Time) {
		s := &admin.LimitStatus{AdmissionStatus: admin.AdmissionStatus{
			Throughput: 77, Permits: admin.Permits{Good: good}, Wait: admin.Distribution{Count: held, Mean: mean},
		}}
		return s, time.Unix(1000, int64(second*1e9))
	}
	first, begin := at(0, 100, 10, 1)
	r := &record{told: countersOf(first, begin)}
	for _, c := range []struct {
		name       string
		second     float64
		good, held uint64
		mean       float64
		rate, wait float64
	}{
		{"no time passed: what the controller says", 0, 100, 10, 1, 77, 0},
		{"nothing since", 1, 100, 10, 1, 0, 0},
		{"10 more took 15 s together", 2, 150, 20, 1.25, 50, 1.5},
		{"10 more took 5 s", 4, 250, 30, 1, 50, 0.5},
		{"Sluice was started again", 5, 3, 3, 9, 77, 0},
		{"and goes on from there", 6, 13, 4, 9.25, 10, 10},
		{"never negative", 7, 13, 5, 0.000001, 0, 0},
	} {
		rate, wait := r.since(at(c.second, c.good, c.held, c.mean))
		if math.Abs(rate-c.rate) > 1e-9 || math.Abs(wait-c.wait) > 1e-9 {
			t.Errorf("%s: %g per second and %g s, want %g and %g", c.name, rate, wait, c.rate, c.wait)
		}
	}
}
