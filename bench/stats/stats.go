// Package stats turns the rounds of a benchmark into figures that may be claimed.
//
// Two proxies are compared round by round, since a round shares the machine's mood:
// the ratio of each round, then the geometric mean of the ratios with a 95 %
// interval, by Student's t on their logarithms. A round that failed is NaN and
// drops out.
package stats

import (
	"math"
	"slices"
)

// Interval is a mean with its 95 % confidence interval.
type Interval struct {
	Mean float64 `json:"mean"`
	Lo   float64 `json:"lo"`
	Hi   float64 `json:"hi"`
	N    int     `json:"rounds"`
}

// Excludes says whether x lies outside the interval: only then may a difference from x be claimed.
func (i Interval) Excludes(x float64) bool { return x < i.Lo || x > i.Hi }

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

// GeoMean is the geometric mean of positive values. One value has an infinite interval.
func GeoMean(values []float64) Interval {
	logs := make([]float64, 0, len(values))
	for _, v := range values {
		if v > 0 {
			logs = append(logs, math.Log(v))
		}
	}
	m := Mean(logs)
	return Interval{Mean: math.Exp(m.Mean), Lo: math.Exp(m.Lo), Hi: math.Exp(m.Hi), N: m.N}
}

// Mean is the arithmetic mean. NaN values drop out; without any value the mean is NaN.
func Mean(values []float64) Interval {
	values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	n := len(values)
	if n == 0 {
		return Interval{Mean: math.NaN(), Lo: math.NaN(), Hi: math.NaN()}
	}
	mean, square := 0.0, 0.0
	for _, v := range values {
		mean += v / float64(n)
	}
	for _, v := range values {
		square += (v - mean) * (v - mean)
	}
	half := math.Inf(1)
	if n > 1 {
		half = student(n-1) * math.Sqrt(square/float64(n-1)/float64(n))
	}
	return Interval{Mean: mean, Lo: mean - half, Hi: mean + half, N: n}
}

// Median is the middle value; NaN drops out.
func Median(values []float64) float64 {
	values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	slices.Sort(values)
	return (values[(n-1)/2] + values[n/2]) / 2
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
