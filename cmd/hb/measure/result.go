package measure

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/plan"
)

// Stage is what was measured in one stage of the plan.
type Stage struct {
	plan.Stage
	Elapsed time.Duration
	Open    int64 // most connections that were open at once
	*Sample
}

// Rate is the good answers per second.
func (s *Stage) Rate() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Good()) / s.Elapsed.Seconds()
}

// Result is what a run has measured.
type Result struct {
	Protocol    client.Protocol
	Streams     int // requests that each user had under way at once
	Stages      []*Stage
	Interrupted bool // by the user, before the plan was done
}

// Total is all stages as one.
func (r *Result) Total() *Stage {
	total := &Stage{Sample: NewSample()}
	for _, s := range r.Stages {
		total.Users = max(total.Users, s.Users)
		total.Stage.Rate = max(total.Stage.Rate, s.Stage.Rate)
		total.For += s.For
		total.Elapsed += s.Elapsed
		total.Open = max(total.Open, s.Open)
		total.Merge(s.Sample)
	}
	return total
}

// Quantile is the time that a share of what is in the histogram did not exceed;
// percent is from 0 to 100.
func Quantile(h *hdrhistogram.Histogram, percent float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(percent)) * time.Microsecond
}

// Mean is the mean of what is in the histogram.
func Mean(h *hdrhistogram.Histogram) time.Duration {
	return time.Duration(h.Mean() * float64(time.Microsecond))
}
