// Package measure counts what virtual clients meet, and keeps their times in HDR
// histograms.
//
// Many clients share a Recorder. Whoever reports takes what it has and leaves an
// empty sample in its place, so that no client waits while samples are merged.
package measure

import (
	"cmp"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sluice/cmd/hb/client"
)

// Times are kept in microseconds, from one to an hour, with three digits.
const (
	longest = int64(time.Hour / time.Microsecond)
	digits  = 3
)

// classes are those of status codes: 1xx to 5xx stand at 1 to 5.
const classes = 6

// Sample is what was met in some time. Requests is the number of those that had an
// answer of any status; of these, the ones below 400 are good.
type Sample struct {
	Requests   int64
	Status     [classes]int64
	Failures   [client.Kinds]int64  // requests without an answer, by client.Kind
	Examples   [client.Kinds]string // why one of each had none
	Unfinished int64                // under way when the run ended
	Overdue    int64                // open loop: due by the end, but no user was free to send them
	Connects   int64
	Reopened   int64                  // kept connections that the server had closed meanwhile
	Sent       int64                  // bytes
	Received   int64                  // bytes
	Handshakes map[client.Terms]int64 // of TLS, by what they came to

	Response  *hdrhistogram.Histogram // of good answers, from when the request was due
	Service   *hdrhistogram.Histogram // of good answers, from when it was sent
	FirstByte *hdrhistogram.Histogram // of good answers, from when it was sent
	Connect   *hdrhistogram.Histogram // of connections, with their TLS handshake
	Handshake *hdrhistogram.Histogram // of TLS
	Failed    *hdrhistogram.Histogram // of answers of 400 and more, and of failures, from when due
}

// NewSample makes an empty one.
func NewSample() *Sample {
	s := &Sample{Handshakes: map[client.Terms]int64{}}
	for _, h := range s.histograms() {
		*h = hdrhistogram.New(1, longest, digits)
	}
	return s
}

func (s *Sample) histograms() []**hdrhistogram.Histogram {
	return []**hdrhistogram.Histogram{&s.Response, &s.Service, &s.FirstByte, &s.Connect, &s.Failed, &s.Handshake}
}

// Add counts one exchange that was due at a time; the zero time means when it began.
func (s *Sample) Add(a *client.Answer, failure *client.Failure, due time.Time) {
	if due.IsZero() {
		due = a.Begin
	}
	s.Sent += a.Sent
	s.Received += a.Received
	s.Connects += int64(a.Connects)
	if a.Connects > 0 {
		s.Connect.RecordValue(micros(a.Connect))
	}
	if a.Handshake > 0 {
		s.Handshake.RecordValue(micros(a.Handshake))
		s.Handshakes[a.Terms]++
	}
	if a.Reopened {
		s.Reopened++
	}
	switch {
	case failure != nil && failure.Kind == client.Stopped:
		s.Unfinished++
	case failure != nil:
		if s.Failures[failure.Kind]++; s.Examples[failure.Kind] == "" {
			s.Examples[failure.Kind] = failure.Err.Error()
		}
		s.Failed.RecordValue(micros(a.End.Sub(due)))
	case a.Status >= 400:
		s.answered(a)
		s.Failed.RecordValue(micros(a.End.Sub(due)))
	default:
		s.answered(a)
		s.Response.RecordValue(micros(a.End.Sub(due)))
		s.Service.RecordValue(micros(a.End.Sub(a.Begin)))
		s.FirstByte.RecordValue(micros(a.First.Sub(a.Begin)))
	}
}

func (s *Sample) answered(a *client.Answer) {
	s.Requests++
	s.Status[a.Status/100]++
}

// micros rounds up, so that nothing takes no time, and holds the bounds.
func micros(d time.Duration) int64 {
	return min(max(1, int64((d+time.Microsecond-1)/time.Microsecond)), longest)
}

// Merge adds another sample.
func (s *Sample) Merge(o *Sample) {
	s.Requests += o.Requests
	for i, n := range o.Status {
		s.Status[i] += n
	}
	for i, n := range o.Failures {
		s.Failures[i] += n
		s.Examples[i] = cmp.Or(s.Examples[i], o.Examples[i])
	}
	s.Unfinished += o.Unfinished
	s.Overdue += o.Overdue
	s.Connects += o.Connects
	s.Reopened += o.Reopened
	s.Sent += o.Sent
	s.Received += o.Received
	for session, n := range o.Handshakes {
		s.Handshakes[session] += n
	}
	others := o.histograms()
	for i, h := range s.histograms() {
		if (*others[i]).TotalCount() > 0 { // most have nothing, and each is long
			(*h).Merge(*others[i])
		}
	}
}

// Reset empties the sample.
func (s *Sample) Reset() {
	clear(s.Handshakes)
	empty := Sample{Handshakes: s.Handshakes}
	into := empty.histograms()
	for i, h := range s.histograms() {
		if (*h).TotalCount() > 0 {
			(*h).Reset()
		}
		*into[i] = *h
	}
	*s = empty
}

// Good is the number of answers below 400.
func (s *Sample) Good() int64 { return s.Requests - s.Status[4] - s.Status[5] }

// Broken is the number of requests without an answer.
func (s *Sample) Broken() int64 {
	var n int64
	for _, k := range s.Failures {
		n += k
	}
	return n
}

// Errors is the number of requests that were not good: no answer, or one of 400
// and more. What was under way at the end is neither.
func (s *Sample) Errors() int64 { return s.Broken() + s.Status[4] + s.Status[5] }

// ErrorShare is the errors' part of all that ended, from 0 to 1.
func (s *Sample) ErrorShare() float64 {
	ended := s.Requests + s.Broken()
	if ended == 0 {
		return 0
	}
	return float64(s.Errors()) / float64(ended)
}

// Resumed is the number of handshakes that went on with an earlier session.
func (s *Sample) Resumed() int64 {
	var n int64
	for session, count := range s.Handshakes {
		if session.Resumed {
			n += count
		}
	}
	return n
}

// Recorder collects what several clients meet.
type Recorder struct {
	mu  sync.Mutex
	now *Sample // guarded by mu
}

// NewRecorder makes an empty one.
func NewRecorder() *Recorder { return &Recorder{now: NewSample()} }

// Add counts one exchange; see Sample.Add.
func (r *Recorder) Add(a *client.Answer, failure *client.Failure, due time.Time) {
	r.mu.Lock()
	r.now.Add(a, failure, due)
	r.mu.Unlock()
}

// Swap takes what was collected and goes on with an empty sample.
func (r *Recorder) Swap(empty *Sample) *Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	full := r.now
	r.now = empty
	return full
}
