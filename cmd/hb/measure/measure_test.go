package measure

import (
	"crypto/tls"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/plan"
)

var begin = time.Unix(1000, 0)

// exchange is one that took so long.
func exchange(status int, took time.Duration) *client.Answer {
	return &client.Answer{
		Status: status, Begin: begin, First: begin.Add(took / 2), End: begin.Add(took),
		Sent: 10, Received: 100, Connects: 1, Connect: time.Millisecond,
	}
}

// over gives an exchange a handshake of so many milliseconds.
func over(a *client.Answer, millis int, resumed bool) *client.Answer {
	a.Handshake = time.Duration(millis) * time.Millisecond
	a.Terms = client.Terms{Version: tls.VersionTLS13, Resumed: resumed}
	return a
}

func TestHandshakes(t *testing.T) {
	sum, s := NewSample(), NewSample()
	for i, resumed := range []bool{false, true, true} {
		s.Add(over(exchange(200, time.Second), i+1, resumed), nil, time.Time{})
	}
	sum.Merge(s)
	sum.Merge(s)
	s.Reset()
	full, resumed := client.Terms{Version: tls.VersionTLS13}, client.Terms{Version: tls.VersionTLS13, Resumed: true}
	if sum.Handshakes[full] != 2 || sum.Handshakes[resumed] != 4 || sum.Resumed() != 4 || sum.Handshake.TotalCount() != 6 {
		t.Errorf("%v, %d resumed, %d times", sum.Handshakes, sum.Resumed(), sum.Handshake.TotalCount())
	}
	if len(s.Handshakes) != 0 || s.Handshake.TotalCount() != 0 {
		t.Errorf("after Reset: %v", s.Handshakes)
	}
	s.Add(over(exchange(200, time.Second), 1, false), nil, time.Time{})
	if s.Handshakes[full] != 1 || sum.Handshakes[full] != 2 {
		t.Errorf("samples share what they count: %v, %v", s.Handshakes, sum.Handshakes)
	}
}

func TestAdd(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  *client.Answer
		failure *client.Failure
		// good, errors, answers, unfinished; entries in the histograms
		want [10]int64
	}{
		{"good", exchange(200, time.Second), nil, [10]int64{1, 0, 1, 0, 1, 1, 1, 1, 0, 0}},
		{"redirect", exchange(399, time.Second), nil, [10]int64{1, 0, 1, 0, 1, 1, 1, 1, 0, 0}},
		{"the client's fault", exchange(400, time.Second), nil, [10]int64{0, 1, 1, 0, 0, 0, 0, 1, 1, 0}},
		{"the server's fault", exchange(599, time.Second), nil, [10]int64{0, 1, 1, 0, 0, 0, 0, 1, 1, 0}},
		{"no answer", exchange(0, time.Second), &client.Failure{Kind: client.Reset, Err: io.EOF}, [10]int64{0, 1, 0, 0, 0, 0, 0, 1, 1, 0}},
		{"over TLS", over(exchange(200, time.Second), 1, false), nil, [10]int64{1, 0, 1, 0, 1, 1, 1, 1, 0, 1}},
		{"the end", exchange(0, time.Second), &client.Failure{Kind: client.Stopped, Err: io.EOF}, [10]int64{0, 0, 0, 1, 0, 0, 0, 1, 0, 0}},
	} {
		s := NewSample()
		s.Add(c.answer, c.failure, time.Time{})
		got := [10]int64{s.Good(), s.Errors(), s.Requests, s.Unfinished}
		for i, h := range s.histograms() {
			got[4+i] = (*h).TotalCount()
		}
		if got != c.want || s.Sent != 10 || s.Received != 100 || s.Connects != 1 {
			t.Errorf("%s: %v, want %v; %+v", c.name, got, c.want, s)
		}
	}
}

// The first failure of a kind is told, and stays the first.
func TestExamples(t *testing.T) {
	sum, s := NewSample(), NewSample()
	fail := func(k client.Kind, why string) {
		s.Add(exchange(0, time.Second), &client.Failure{Kind: k, Err: errors.New(why)}, time.Time{})
	}
	fail(client.Reset, "one")
	fail(client.Reset, "two")
	sum.Merge(s)
	s.Reset()
	fail(client.Reset, "three")
	fail(client.Closed, "four")
	sum.Merge(s)
	if got := sum.Examples; got[client.Reset] != "one" || got[client.Closed] != "four" || s.Examples[client.Reset] != "three" {
		t.Errorf("%q, %q", got, s.Examples)
	}
}

func TestDue(t *testing.T) {
	s := NewSample()
	s.Add(exchange(200, 100*time.Millisecond), nil, begin.Add(-900*time.Millisecond))
	for name, c := range map[string]struct{ got, want time.Duration }{
		"response":   {Quantile(s.Response, 50), time.Second},
		"service":    {Quantile(s.Service, 50), 100 * time.Millisecond},
		"first byte": {Mean(s.FirstByte), 50 * time.Millisecond},
		"connect":    {Mean(s.Connect), time.Millisecond},
	} {
		if off := c.got - c.want; off < -c.want/1000 || off > c.want/1000 {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

func TestMicros(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		-1: 1, 0: 1, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, time.Hour: longest, time.Hour + 1: longest, 100 * time.Hour: longest,
	} {
		if got := micros(d); got != want {
			t.Errorf("%v: %d µs, want %d", d, got, want)
		}
	}
}

func TestMergeAndReset(t *testing.T) {
	var result Result
	for i, status := range []int{200, 503} {
		s := &Stage{Stage: plan.Stage{Users: 10 * (i + 1), For: time.Second}, Elapsed: time.Second, Open: int64(10 - i), Sample: NewSample()}
		s.Add(exchange(status, time.Second), nil, time.Time{})
		s.Add(exchange(0, time.Second), &client.Failure{Kind: client.TimedOut, Err: io.EOF}, time.Time{})
		s.Overdue = 3
		result.Stages = append(result.Stages, s)
	}
	total := result.Total()
	if total.Users != 20 || total.Elapsed != 2*time.Second || total.Open != 10 || total.Requests != 2 || total.Good() != 1 ||
		total.Errors() != 3 || total.Overdue != 6 || total.Rate() != 0.5 || total.ErrorShare() != 0.75 {
		t.Errorf("%+v, %+v", total, total.Sample)
	}
	if total.Response.TotalCount() != 1 || total.Failed.TotalCount() != 3 {
		t.Errorf("%d and %d times", total.Response.TotalCount(), total.Failed.TotalCount())
	}
	total.Reset()
	if total.Requests != 0 || total.Errors() != 0 || total.Overdue != 0 || total.Failed.TotalCount() != 0 || total.Connect.TotalCount() != 0 {
		t.Errorf("after a reset: %+v", total.Sample)
	}
}

// Nothing is lost or counted twice while samples are taken away.
func TestRecorder(t *testing.T) {
	r := NewRecorder()
	var adding sync.WaitGroup
	for range 4 {
		adding.Go(func() {
			for range 1000 {
				r.Add(exchange(200, time.Millisecond), nil, time.Time{})
			}
		})
	}
	total, spare := NewSample(), NewSample()
	for range 10 {
		spare.Reset()
		spare = r.Swap(spare)
		total.Merge(spare)
	}
	adding.Wait()
	total.Merge(r.Swap(NewSample()))
	if total.Requests != 4000 || total.Response.TotalCount() != 4000 {
		t.Errorf("%d requests, %d times", total.Requests, total.Response.TotalCount())
	}
}
