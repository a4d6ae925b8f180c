// Package stats turns the rounds of a benchmark into figures that may be claimed.
//
// Two proxies are compared round by round, since a round shares the machine's mood:
// the ratio of each round, then the geometric mean of the ratios with a 95 %
// interval, by Student's t on their logarithms. All figures are positive; a round
// that failed is 0 and drops out.
package stats

import (
	"encoding/json"
	"fmt"
	"math"
)

// Interval is a mean with its 95 % confidence interval. Of one value it has no
// bounds (infinite), of none no mean either (NaN); in JSON these are null.
type Interval struct {
	Mean, Lo, Hi float64
	N            int // values that it is from
}

// MarshalJSON writes null for what JSON has no number for.
func (i Interval) MarshalJSON() ([]byte, error) {
	finite := func(f float64) *float64 {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil
		}
		return &f
	}
	return json.Marshal(struct {
		Mean *float64 `json:"mean"`
		Lo   *float64 `json:"lo"`
		Hi   *float64 `json:"hi"`
		N    int      `json:"rounds"`
	}{finite(i.Mean), finite(i.Lo), finite(i.Hi), i.N})
}

// Excludes says whether x lies outside the interval: only then may a difference from x be claimed.
func (i Interval) Excludes(x float64) bool { return x < i.Lo || x > i.Hi }

// Multiple says what may be claimed of a ratio to a base: more, less, or that no
// difference is shown.
func (i Interval) Multiple() string {
	said := "no difference is shown"
	switch {
	case i.N < 2:
		return "open, less than two rounds have no interval"
	case i.Lo > 1:
		said = "more"
	case i.Hi < 1:
		said = "less"
	}
	return fmt.Sprintf("%s: %.2f × [%.2f, %.2f]", said, i.Mean, i.Lo, i.Hi)
}

// Order is the order in which n entrants run in a round: A B C, B C A, C A B, …
func Order(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (i + round) % n
	}
	return order
}

// Ratios are a[i]/b[i] of the rounds that both have and where both are positive.
func Ratios(a, b []float64) []float64 {
	var r []float64
	for i := range min(len(a), len(b)) {
		if a[i] > 0 && b[i] > 0 {
			r = append(r, a[i]/b[i])
		}
	}
	return r
}

// GeoMean is the geometric mean of the positive ones of values.
func GeoMean(values []float64) Interval {
	logs := make([]float64, 0, len(values))
	for _, v := range values {
		if v > 0 {
			logs = append(logs, math.Log(v))
		}
	}
	m := mean(logs)
	return Interval{Mean: math.Exp(m.Mean), Lo: math.Exp(m.Lo), Hi: math.Exp(m.Hi), N: m.N}
}

// mean is the arithmetic mean.
func mean(values []float64) Interval {
	n := len(values)
	if n == 0 {
		return Interval{Mean: math.NaN(), Lo: math.Inf(-1), Hi: math.Inf(1)}
	}
	mean, squares := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(n)
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	half := math.Inf(1)
	if n > 1 {
		half = student(n-1) * math.Sqrt(squares/float64(n-1)/float64(n))
	}
	return Interval{Mean: mean, Lo: mean - half, Hi: mean + half, N: n}
}

// students are the 0.975 quantiles of Student's t for 1, 2, … degrees of freedom.
var students = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
	2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// student is the 0.975 quantile of Student's t. Beyond the table it is the normal
// quantile with the first two terms of its expansion in 1/df (Abramowitz and
// Stegun 26.7.5), good to 0.001 there.
func student(df int) float64 {
	if df <= len(students) {
		return students[df-1]
	}
	const z = 1.959964
	n := float64(df)
	return z + (z*z*z+z)/(4*n) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*n*n)
}
