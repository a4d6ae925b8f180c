package stats

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

func close(a, b float64) bool { return math.Abs(a-b) <= 1e-3*math.Abs(b) }

func TestOrderIsALatinSquare(t *testing.T) {
	if got := Order(3, 1); !slices.Equal(got, []int{1, 2, 0}) {
		t.Errorf("Order(3, 1) = %v, want B C A", got)
	}
	const n = 5
	for place := range n {
		var seen []int
		for round := range n {
			seen = append(seen, Order(n, round)[place])
		}
		slices.Sort(seen)
		if !slices.Equal(seen, []int{0, 1, 2, 3, 4}) {
			t.Errorf("place %d of %d rounds holds %v, want each entrant once", place, n, seen)
		}
	}
	if !slices.Equal(Order(n, n), Order(n, 0)) {
		t.Error("the order does not come round again")
	}
}

func TestRatiosDropFailedRounds(t *testing.T) {
	got := Ratios([]float64{2, 5, 6, 0, 8}, []float64{1, 0, 2, 1})
	if !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("got %v, want [2 3]", got)
	}
}

func TestMean(t *testing.T) {
	// 1…5: standard deviation √2.5, half width 2.776·√2.5/√5 = 1.963.
	for _, c := range []struct {
		name         string
		values       []float64
		mean, lo, hi float64
	}{
		{"five", []float64{1, 2, 3, 4, 5}, 3, 3 - 1.963, 3 + 1.963},
		{"constant", []float64{7, 7}, 7, 7, 7},
	} {
		got := mean(c.values)
		if !close(got.Mean, c.mean) || !close(got.Lo, c.lo) || !close(got.Hi, c.hi) || got.N != len(c.values) {
			t.Errorf("%s: got %+v, want %v [%v, %v]", c.name, got, c.mean, c.lo, c.hi)
		}
	}
}

func TestTooFewRoundsClaimNothing(t *testing.T) {
	for _, c := range []struct {
		values []float64
		json   string
	}{
		{[]float64{4}, `{"mean":4,"lo":0,"hi":null,"rounds":1}`},
		{[]float64{0, -1}, `{"mean":null,"lo":0,"hi":null,"rounds":0}`},
	} {
		got := GeoMean(c.values)
		if got.Excludes(1e-300) || got.Excludes(1e300) {
			t.Errorf("%v claims something: %+v", c.values, got)
		}
		if text, err := json.Marshal(got); err != nil || string(text) != c.json {
			t.Errorf("%v: got %s, %v; want %s", c.values, text, err, c.json)
		}
	}
}

func TestGeoMean(t *testing.T) {
	up, down := GeoMean([]float64{0.8, 0.9, 1.0}), GeoMean([]float64{1 / 0.8, 1 / 0.9, 1.0})
	if !close(up.Mean, math.Cbrt(0.72)) {
		t.Errorf("mean %v, want the cube root of 0.72", up.Mean)
	}
	if !close(up.Lo, 1/down.Hi) || !close(up.Hi, 1/down.Lo) {
		t.Errorf("the interval of the inverse is not the inverse: %+v, %+v", up, down)
	}
	if got := GeoMean([]float64{2, 0, 8}); !close(got.Mean, 4) || got.N != 2 {
		t.Errorf("got %+v, want 4 of 2", got)
	}
}

func TestExcludes(t *testing.T) {
	i := Interval{Mean: 0.9, Lo: 0.8, Hi: 1}
	for x, want := range map[float64]bool{0.79: true, 0.8: false, 1: false, 1.01: true} {
		if i.Excludes(x) != want {
			t.Errorf("Excludes(%v) = %v", x, !want)
		}
	}
}

func TestStudentIsSmooth(t *testing.T) {
	for df := 2; df < 200; df++ {
		if student(df) >= student(df-1)+5e-4 {
			t.Errorf("t rises from %d to %d degrees: %v, %v", df-1, df, student(df-1), student(df))
		}
	}
	// Published values: 2.0211 at 40, 1.9840 at 100.
	if math.Abs(student(40)-2.0211) > 5e-4 || math.Abs(student(100)-1.9840) > 5e-4 {
		t.Errorf("t(40) = %v, t(100) = %v", student(40), student(100))
	}
}

func TestMultiple(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		n      int
		want   string
	}{
		{1.1, 1.3, 5, "more: 1.20 × [1.10, 1.30]"},
		{0.7, 0.9, 5, "less: 0.80 × [0.70, 0.90]"},
		{0.95, 1.25, 5, "no difference is shown: 1.10 × [0.95, 1.25]"},
		{math.Inf(-1), math.Inf(1), 1, "open, less than two rounds have no interval"},
	} {
		if got := (Interval{Mean: (c.lo + c.hi) / 2, Lo: c.lo, Hi: c.hi, N: c.n}).Multiple(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
