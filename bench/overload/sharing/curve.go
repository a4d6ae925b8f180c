// Package sharing is what a server does to the requests that it holds, without a
// clock: all progress at the same rate, and that rate depends on how many they are.
//
// A Curve says how much work is done in a second while n requests are held; each
// gets the n-th part. A Station keeps the requests and says who is finished when.
// Time is a number that the caller passes, in seconds.
package sharing

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Curve is the work that all requests together get done in a second while there
// are n of them, n ≥ 1. One request is one unit of work in the mean.
type Curve func(n int) float64

// Blog is the curve that reproduces the published experiment: 281 requests/s with
// 222 held, 347 with 110, and at most 374 with 51.
const Blog = "usl:50.4,0.1,3.41e-4"

// usl is Gunther's Universal Scalability Law: one alone does rate, sigma is what
// requests wait for each other, kappa what they cost each other in pairs.
func usl(p []float64) Curve {
	rate, sigma, kappa := p[0], p[1], p[2]
	return func(n int) float64 {
		f := float64(n)
		return rate * f / (1 + sigma*(f-1) + kappa*f*(f-1))
	}
}

// servers do rate each, and there are so many: beyond them nothing is won and
// nothing is lost.
func servers(p []float64) Curve {
	rate, most := p[0], p[1]
	return func(n int) float64 { return rate * min(float64(n), most) }
}

// cliff scales with a little waiting (sigma) up to a number of requests, and
// thrashes beyond: the work falls with the square of the excess over width.
func cliff(p []float64) Curve {
	rate, sigma, edge, width := p[0], p[1], p[2], p[3]
	return func(n int) float64 {
		f := float64(n)
		work := rate * f / (1 + sigma*(f-1))
		if f > edge {
			work /= 1 + (f-edge)*(f-edge)/width
		}
		return work
	}
}

// hang does nothing for anybody.
func hang([]float64) Curve { return func(int) float64 { return 0 } }

// shapes are the curves by name, with their parameters.
var shapes = map[string]struct {
	parameters []string
	curve      func([]float64) Curve
}{
	"usl":     {[]string{"rate", "sigma", "kappa"}, usl},
	"servers": {[]string{"rate", "number"}, servers},
	"cliff":   {[]string{"rate", "sigma", "edge", "width"}, cliff},
	"hang":    {nil, hang},
}

// Parse reads a curve: usl:50.4,0.1,3.41e-4, servers:10.9,32, cliff:16,0.03,60,600
// or hang. Its error says what was wrong with it.
func Parse(text string) (Curve, error) {
	name, rest, _ := strings.Cut(text, ":")
	shape, ok := shapes[name]
	if !ok {
		return nil, fmt.Errorf("curve %q: write usl:, servers:, cliff: or hang", text)
	}
	var fields []string
	if rest != "" {
		fields = strings.Split(rest, ",")
	}
	if len(fields) != len(shape.parameters) {
		return nil, fmt.Errorf("curve %q: %s has %d parameters: %s", text, name, len(shape.parameters), strings.Join(shape.parameters, ", "))
	}
	values := make([]float64, len(fields))
	for i, f := range fields {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("curve %q: %s is %q; write a number from 0 on", text, shape.parameters[i], f)
		}
		values[i] = v
	}
	return shape.curve(values), nil
}

// Best is the number of requests, up to most, with which the curve does the most
// work in a second, and how much that is. Of equal ones it is the smallest.
func (c Curve) Best(most int) (n int, work float64) {
	for k := 1; k <= most; k++ {
		if w := c(k); w > work*(1+1e-9) {
			n, work = k, w
		}
	}
	return n, work
}
