// Package outcome holds what the scenes of the experiment gave, compares, judges,
// and writes it: as text, Markdown, JSON and CSV, and as pictures.
package outcome

import (
	"math"
	"time"

	"sluice/bench/overload/drive"
	"sluice/bench/proc"
	"sluice/bench/stats"
)

// Results are those of one run of the experiment.
type Results struct {
	When     time.Time    `json:"when"`
	Machine  proc.Machine `json:"machine"`
	Versions []Version    `json:"versions"`
	Method   []string     `json:"method"` // how it was measured, a sentence each
	Scenes   []Scene      `json:"scenes"`
}

// Version is that of one program; or why it does not take part.
type Version struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Missing string `json:"missing,omitempty"`
}

// Scene is one backend with its contenders.
type Scene struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Entries []Entry  `json:"entries"`
	Checks  []Check  `json:"checks"`
	Notes   []string `json:"notes,omitempty"`
}

// Entry is one contender, with its rounds.
type Entry struct {
	Name   string  `json:"name"`
	Rounds []Round `json:"rounds"`
}

// Round is one contender's turn. What the scene does not have is empty.
type Round struct {
	Failed string  `json:"failed,omitempty"` // why there is nothing else
	Ramp   []Step  `json:"ramp,omitempty"`   // users come step by step
	Held   *Step   `json:"held,omitempty"`   // then all of them stay
	Course []Point `json:"course,omitempty"` // what the backend did, second by second
	Shares []Step  `json:"shares,omitempty"` // of each of several equal proxies
	Times  []Time  `json:"times,omitempty"`  // what was timed
}

// Step is a time with so many users. Response times are of good answers, as the
// users saw them, in seconds.
type Step struct {
	Users           int     `json:"users"`
	Seconds         float64 `json:"seconds"`
	Rate            float64 `json:"good_per_second"`
	Errors          float64 `json:"errors_per_second"`
	Mean            float64 `json:"mean_seconds"`
	P50             float64 `json:"p50_seconds"`
	P99             float64 `json:"p99_seconds"`
	SlowestError    float64 `json:"slowest_error_seconds"`
	MedianError     float64 `json:"median_error_seconds"`
	Worked          float64 `json:"backend_good_per_second"` // requests that the backend has done its work for
	MostHeld        int     `json:"backend_most_held"`
	MeanHeld        float64 `json:"backend_mean_held"`
	MostConnections int     `json:"backend_most_connections"`
}

// NewStep joins what the users and what the backend saw.
func NewStep(s drive.Stage, c drive.Cut) Step {
	step := Step{
		Users: s.Users, Seconds: s.Seconds, Rate: s.Rate,
		Mean: s.Response.Mean, P50: s.Response.P50, P99: s.Response.P99,
		SlowestError: s.Failed.Max, MedianError: s.Failed.P50,
		MostHeld: c.MostHeld, MeanHeld: c.MeanHeld, MostConnections: c.MostConnections,
	}
	if s.Seconds > 0 {
		step.Errors = float64(s.Errors) / s.Seconds
	}
	if c.Seconds > 0 {
		step.Worked = float64(c.Good) / c.Seconds
	}
	return step
}

// Point is one interval of a course, seen by the backend.
type Point struct {
	At          float64 `json:"at_seconds"` // its end
	Rate        float64 `json:"good_per_second"`
	Held        float64 `json:"mean_held"`
	Connections int     `json:"connections"`
}

// NewCourse makes points of cuts that follow each other.
func NewCourse(cuts []drive.Cut) []Point {
	at := 0.0
	points := make([]Point, len(cuts))
	for i, c := range cuts {
		at += c.Seconds
		points[i] = Point{At: at, Held: c.MeanHeld, Connections: c.MostConnections}
		if c.Seconds > 0 {
			points[i].Rate = float64(c.Good) / c.Seconds
		}
	}
	return points
}

// Time is something that was timed in a course.
type Time struct {
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
}

// settleOver is how long the throughput is averaged before it counts as regained, in
// seconds: in one second chance alone moves it by several percent.
const settleOver = 5

// Settle is how long after from, in seconds, the throughput is back at rate: it is
// so over the next five seconds, and over all the time until the end. If never, it is
// all that time.
func Settle(course []Point, from, end, rate float64) float64 {
	for after := 0.0; from+after+settleOver <= end; after++ {
		begin := from + after
		if MeanRate(course, begin, begin+settleOver) >= rate && MeanRate(course, begin, end) >= rate {
			return after
		}
	}
	return end - from
}

// MeanRate is the mean throughput of the points that end after from and not after end.
func MeanRate(course []Point, from, end float64) float64 {
	const slack = 0.5 // cuts come a moment late
	sum, n := 0.0, 0
	for _, p := range course {
		if p.At > from+slack && p.At <= end+slack {
			sum, n = sum+p.Rate, n+1
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// Check is one target of the experiment.
type Check struct {
	What  string         `json:"what"`
	Least float64        `json:"least,omitempty"` // the figure must not be below; 0: no such bound
	Most  float64        `json:"most,omitempty"`  // nor above; 0: no such bound
	Got   stats.Interval `json:"got"`
}

// Verdict is met or missed when the whole interval is on one side of the bound, and
// open if it is not. One round has no interval, so it claims nothing, and says so.
func (c Check) Verdict() string {
	lo, hi, claim := c.Got.Lo, c.Got.Hi, ""
	switch {
	case c.Got.N == 0:
		return "not measured"
	case c.Least == 0 && c.Most == 0:
		return ""
	}
	if c.Got.N == 1 {
		lo, hi, claim = c.Got.Mean, c.Got.Mean, ", one round"
	}
	switch {
	case lo >= c.Least && (c.Most == 0 || hi <= c.Most):
		return "met" + claim
	case hi < c.Least || c.Most > 0 && lo > c.Most:
		return "missed" + claim
	}
	return "open"
}

// Figure takes one number from a round; 0 means that the round has none.
type Figure func(Round) float64

// Held takes a figure of the time when all users were there.
func Held(of func(Step) float64) Figure {
	return func(r Round) float64 {
		if r.Held == nil {
			return 0
		}
		return of(*r.Held)
	}
}

// Whole takes the throughput over the whole ramp.
func Whole(r Round) float64 {
	good, seconds := 0.0, 0.0
	for _, s := range r.Ramp {
		good, seconds = good+s.Rate*s.Seconds, seconds+s.Seconds
	}
	if seconds == 0 {
		return 0
	}
	return good / seconds
}

// WholeMean takes the mean response time over the whole ramp, in seconds.
func WholeMean(r Round) float64 {
	good, sum := 0.0, 0.0
	for _, s := range r.Ramp {
		good, sum = good+s.Rate*s.Seconds, sum+s.Rate*s.Seconds*s.Mean
	}
	if good == 0 {
		return 0
	}
	return sum / good
}

// Timed takes what was timed under a name; below a millisecond it is one.
func Timed(what string) Figure {
	return func(r Round) float64 {
		for _, t := range r.Times {
			if t.What == what {
				return max(t.Seconds, 0.001)
			}
		}
		return 0
	}
}

// Unfairness is how far one of equal proxies is from its fair share, at the most: as a
// part of the mean throughput. Equal to a thousandth is a thousandth.
func Unfairness(r Round) float64 {
	sum, most := 0.0, 0.0
	for _, s := range r.Shares {
		sum += s.Rate
	}
	if sum == 0 {
		return 0
	}
	for _, s := range r.Shares {
		most = max(most, math.Abs(s.Rate*float64(len(r.Shares))/sum-1))
	}
	return max(most, 0.001)
}

// of are the figures of an entry, a number for each round.
func (s *Scene) of(entry string, f Figure) []float64 {
	for _, e := range s.Entries {
		if e.Name == entry {
			values := make([]float64, len(e.Rounds))
			for i, r := range e.Rounds {
				values[i] = f(r)
			}
			return values
		}
	}
	return nil
}

// Ratio is a figure of one entry over that of another, round by round.
func (s *Scene) Ratio(entry, base string, f Figure) stats.Interval {
	return stats.GeoMean(stats.Ratios(s.of(entry, f), s.of(base, f)))
}

// Mean is the mean of a figure over the rounds.
func (s *Scene) Mean(entry string, f Figure) float64 { return stats.GeoMean(s.of(entry, f)).Mean }

// Worst is the greatest figure of all rounds: a promise about each of them.
func (s *Scene) Worst(entry string, f Figure) stats.Interval {
	worst, n := 0.0, 0
	for _, v := range s.of(entry, f) {
		if v > 0 {
			worst, n = max(worst, v), n+1
		}
	}
	if n == 0 {
		worst = math.NaN()
	}
	return stats.Interval{Mean: worst, Lo: worst, Hi: worst, N: n}
}

// Check adds a target.
func (s *Scene) Check(what string, least, most float64, got stats.Interval) {
	s.Checks = append(s.Checks, Check{what, least, most, got})
}
