// Package verdict judges a run by thresholds: conditions that a test shall not
// meet, like "p99>2s", "errors>0.1%" or "rps<1000". They hold for the whole
// measured run, all its stages together.
package verdict

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/measure"
)

// Threshold is one condition of failure.
type Threshold struct {
	text   string
	metric metric
	test   func(got, limit float64) bool
	limit  float64 // seconds, a count, a rate, or a part of all requests
	share  bool    // the limit was given in percent
}

// unit says how a metric's limit is written, and its value shown.
type unit int

const (
	duration unit = iota
	count
	rate
)

// metric is what can be judged.
type metric struct {
	unit unit
	get  func(*measure.Stage) float64
}

// operators, the longer first, since the shorter are parts of them.
var operators = []struct {
	sign string
	test func(got, limit float64) bool
}{
	{">=", func(got, limit float64) bool { return got >= limit }},
	{"<=", func(got, limit float64) bool { return got <= limit }},
	{">", func(got, limit float64) bool { return got > limit }},
	{"<", func(got, limit float64) bool { return got < limit }},
}

// metrics are those with a fixed name; percentiles are made by findMetric.
var metrics = map[string]metric{
	"rps":        {rate, (*measure.Stage).Rate},
	"mean":       {duration, ofResponses(func(s *measure.Stage) time.Duration { return measure.Mean(s.Response) })},
	"max":        {duration, quantile(100)},
	"errors":     {count, func(s *measure.Stage) float64 { return float64(s.Errors()) }},
	"4xx":        {count, func(s *measure.Stage) float64 { return float64(s.Status[4]) }},
	"5xx":        {count, func(s *measure.Stage) float64 { return float64(s.Status[5]) }},
	"refused":    {count, failures(client.Refused)},
	"resets":     {count, failures(client.Reset, client.StreamReset, client.StreamRefused)},
	"timeouts":   {count, failures(client.TimedOut)},
	"unfinished": {count, func(s *measure.Stage) float64 { return float64(s.Unfinished + s.Overdue) }},
}

const form = `write METRIC>VALUE or METRIC<VALUE, like p99>2s, errors>0.1%, rps<1000`

// Parse reads a threshold.
func Parse(text string) (Threshold, error) {
	plain := strings.ReplaceAll(text, " ", "")
	for _, op := range operators {
		name, value, found := strings.Cut(plain, op.sign)
		if !found {
			continue
		}
		m, ok := findMetric(name)
		if !ok {
			return Threshold{}, fmt.Errorf("threshold %q: there is no metric %q; there are p50 … p99.9, mean, max, rps, errors, 4xx, 5xx, refused, resets, timeouts, unfinished", text, name)
		}
		t := Threshold{text: plain, metric: m, test: op.test}
		if t.limit, t.share, ok = limit(m.unit, value); !ok {
			return Threshold{}, fmt.Errorf("threshold %q: %q is no %s; %s", text, value, m.unit, form)
		}
		return t, nil
	}
	return Threshold{}, fmt.Errorf("threshold %q: %s", text, form)
}

// findMetric finds a metric by name.
func findMetric(name string) (metric, bool) {
	if digits, ok := strings.CutPrefix(name, "p"); ok {
		percent, err := strconv.ParseFloat(digits, 64)
		return metric{duration, quantile(percent)}, err == nil && percent > 0 && percent <= 100
	}
	m, ok := metrics[name]
	return m, ok
}

// limit reads a value in the metric's unit. Counts may be a part of all requests.
func limit(u unit, text string) (value float64, share, ok bool) {
	if u == duration {
		d, err := time.ParseDuration(text)
		return d.Seconds(), false, err == nil && d >= 0
	}
	if percent, found := strings.CutSuffix(text, "%"); found && u == count {
		text, share = percent, true
	}
	value, err := strconv.ParseFloat(text, 64)
	if share {
		value /= 100
	}
	return value, share, err == nil && value >= 0 && !math.IsInf(value, 0)
}

func quantile(percent float64) func(*measure.Stage) float64 {
	return ofResponses(func(s *measure.Stage) time.Duration { return measure.Quantile(s.Response, percent) })
}

// ofResponses makes a metric of times: not a number if there were none.
func ofResponses(get func(*measure.Stage) time.Duration) func(*measure.Stage) float64 {
	return func(s *measure.Stage) float64 {
		if s.Good() == 0 {
			return math.NaN()
		}
		return get(s).Seconds()
	}
}

// failures makes a metric of the failures of some kinds together.
func failures(kinds ...client.Kind) func(*measure.Stage) float64 {
	return func(s *measure.Stage) float64 {
		var n int64
		for _, k := range kinds {
			n += s.Failures[k]
		}
		return float64(n)
	}
}

// Judge lists the thresholds that a run fails, each as a line. What was not
// measured at all fails, whatever its limit.
func Judge(thresholds []Threshold, total *measure.Stage) []string {
	var failed []string
	for _, t := range thresholds {
		got := t.metric.get(total)
		if t.share {
			got /= math.Max(1, float64(total.Requests+total.Broken()))
		}
		switch {
		case math.IsNaN(got) || total.Requests+total.Broken() == 0:
			failed = append(failed, t.text+": no good answer to measure")
		case t.test(got, t.limit):
			failed = append(failed, t.text+": it is "+t.show(got))
		}
	}
	return failed
}

func (t Threshold) show(got float64) string {
	switch {
	case t.share:
		return strconv.FormatFloat(got*100, 'g', 3, 64) + "%"
	case t.metric.unit == duration:
		return time.Duration(math.Round(got * 1e9)).String()
	case t.metric.unit == rate:
		return strconv.FormatFloat(got, 'f', 1, 64)
	}
	return strconv.FormatFloat(got, 'f', -1, 64)
}

func (u unit) String() string {
	return [...]string{"duration", "count or percentage", "rate"}[u]
}
