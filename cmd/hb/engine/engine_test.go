package engine

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/measure"
	"sluice/cmd/hb/plan"
)

// backend is a server in memory: each connection has its own goroutine, and each
// answer takes its time.
type backend struct {
	service func(path string) time.Duration
	paths   [2]atomic.Int64 // requests of /a and /b
	serving sync.WaitGroup
}

func (b *backend) dial(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	b.serving.Go(func() { b.serve(far) })
	return near, nil
}

func (b *backend) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if request.URL.Path == "/b" {
			b.paths[1].Add(1)
		} else {
			b.paths[0].Add(1)
		}
		<-time.After(b.service(request.URL.Path))
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// dialH2 is dial for a backend that speaks HTTP/2.
func (b *backend) dialH2(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	handler := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(b.service(r.URL.Path)):
		case <-r.Context().Done():
		}
	}
	b.serving.Go(func() { (&http2.Server{}).ServeConn(far, &http2.ServeConnOpts{Handler: http.HandlerFunc(handler)}) })
	return near, nil
}

func takes(d time.Duration) func(string) time.Duration {
	return func(string) time.Duration { return d }
}

// virtualAlarm waits in virtual time.
type virtualAlarm struct{ ctx context.Context }

func (v virtualAlarm) Wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-v.ctx.Done():
	}
}

// outside is a machine in memory with this server.
func outside(dial client.DialFunc) Outside {
	return Outside{Dial: dial, NewAlarm: func(ctx context.Context) (Alarm, error) { return virtualAlarm{ctx}, nil }}
}

// newPlan is a plan of these stages for a server in memory.
func newPlan(stages ...plan.Stage) *plan.Plan {
	u := &url.URL{Scheme: "http", Host: "a", Path: "/a"}
	return &plan.Plan{
		Targets: []plan.Target{{Weight: 1, Method: "GET", URL: u}}, Stages: stages, Seed: 1, Streams: 1,
		KeepAlive: true, Timeout: time.Minute, ConnectTimeout: time.Minute,
	}
}

// drive runs a plan in virtual time against a server.
func drive(t *testing.T, p *plan.Plan, b *backend) *measure.Result {
	t.Helper()
	result, err := Run(t.Context(), p, outside(b.dial), nil)
	b.serving.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// about reports whether a count is what it should be, or up to two less for each
// user: what is under way as a stage begins or ends.
func about(got int64, want, users int) bool { return got <= int64(want) && got >= int64(want-2*users) }

func TestClosedLoop(t *testing.T) {
	for _, c := range []struct {
		name  string
		think plan.Think
		each  int // requests of a user in a second
	}{
		{"no think time", plan.Think{}, 100},
		{"think time", plan.Think{Mean: 90 * time.Millisecond}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlan(plan.Stage{Users: 5, For: 2 * time.Second})
				p.Think = c.think
				s := drive(t, p, &backend{service: takes(10 * time.Millisecond)}).Stages[0]
				if !about(s.Good(), 5*2*c.each, 5) || s.Errors() != 0 || s.Connects != 5 || s.Open != 5 || s.Elapsed != 2*time.Second {
					t.Errorf("%d good, %d errors, %d connects, %d open in %v", s.Good(), s.Errors(), s.Connects, s.Open, s.Elapsed)
				}
				if p99 := measure.Quantile(s.Response, 99); p99.Round(time.Millisecond) != 10*time.Millisecond {
					t.Errorf("p99 %v", p99)
				}
			})
		})
	}
}

// Each load shape with three streams of HTTP/2 for each user: a user's connection
// carries what else three users would ask for.
func TestStreams(t *testing.T) {
	const long = 1003 * time.Millisecond
	for _, c := range []struct {
		name   string
		stages []plan.Stage
		think  time.Duration
		good   []int // of each stage
		open   []int64
		count  int64 // the run ends after so many, all of which are good; 0: by time
	}{
		{"closed loop", []plan.Stage{{Users: 5, For: 2 * time.Second}}, 0, []int{5 * 3 * 200}, []int64{5}, 0},
		{"think time", []plan.Stage{{Users: 5, For: 2 * time.Second}}, 90 * time.Millisecond, []int{5 * 3 * 20}, []int64{5}, 0},
		{"ramp", []plan.Stage{{Users: 1, For: long}, {Users: 4, For: long}}, 0, []int{3 * 100, 12 * 100}, []int64{1, 4}, 0},
		{"open loop", []plan.Stage{{Users: 2, Rate: 500, For: 2 * time.Second}}, 0, []int{1000}, []int64{2}, 0},
		{"a number", []plan.Stage{{Users: 2}}, 0, []int{1000}, []int64{2}, 1000},
		{"a small number", []plan.Stage{{Users: 1}}, 0, []int{3}, []int64{1}, 3},
		{"too high a rate", []plan.Stage{{Users: 2, Rate: 1000, For: long}}, 0, []int{600}, []int64{2}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlan(c.stages...)
				p.Protocol, p.Streams, p.Think.Mean, p.Requests = client.HTTP2, 3, c.think, c.count
				b := &backend{service: takes(10 * time.Millisecond)}
				if c.count > 0 { // one user's requests do not end together
					var n atomic.Int64
					b.service = func(string) time.Duration { return time.Duration(n.Add(1)) * time.Millisecond }
				}
				result, err := Run(t.Context(), p, outside(b.dialH2), nil)
				synctest.Wait() // for the servers
				if err != nil || result.Protocol != client.HTTP2 || result.Streams != 3 {
					t.Fatalf("%v, %+v", err, result)
				}
				for i, s := range result.Stages {
					if !about(s.Good(), c.good[i], 3*s.Users) || c.count > 0 && s.Good() != c.count || s.Errors() != 0 || s.Open != c.open[i] {
						t.Errorf("%d users: %d good, want %d; %d errors, %d open", s.Users, s.Good(), c.good[i], s.Errors(), s.Open)
					}
				}
			})
		})
	}
}

func TestExponentialThink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlan(plan.Stage{Users: 500, For: 4 * time.Second})
		p.Think = plan.Think{Mean: 100 * time.Millisecond, Exponential: true}
		s := drive(t, p, &backend{service: takes(time.Millisecond)}).Stages[0]
		want := 500 * 4 / 0.101 // 1/sqrt(n) of it is 0.7 %
		if got := float64(s.Good()); got < want*0.97 || got > want*1.03 {
			t.Errorf("%v good, want about %v", got, want)
		}
	})
}

func TestRamps(t *testing.T) {
	const long = 1003 * time.Millisecond // no answer comes at the very moment when a stage ends
	ramp := func(users ...int) (all []plan.Stage) {
		for _, u := range users {
			all = append(all, plan.Stage{Users: u, For: long})
		}
		return all
	}
	for _, stages := range [][]plan.Stage{ramp(1, 2, 4), ramp(4, 2, 1)} {
		synctest.Test(t, func(t *testing.T) {
			result := drive(t, newPlan(stages...), &backend{service: takes(10 * time.Millisecond)})
			for i, s := range result.Stages {
				// Leaving users finish what they are at, in the next stage.
				over := 0
				if i > 0 {
					over = stages[i-1].Users
				}
				if got := s.Good(); got > int64(100*s.Users+over) || got < int64(98*s.Users) {
					t.Errorf("%d users: %d good", s.Users, got)
				}
				if i > 0 && stages[0].Users == 1 && (s.Open != int64(s.Users) || s.Connects != int64(s.Users-over)) {
					t.Errorf("%d users: %d open, %d connects", s.Users, s.Open, s.Connects)
				}
			}
			if total := result.Total(); total.Elapsed != 3*long || total.Unfinished != int64(stages[2].Users) {
				t.Errorf("%v, %d unfinished", total.Elapsed, total.Unfinished)
			}
		})
	}
}

func TestOpenLoop(t *testing.T) {
	for _, poisson := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := newPlan(plan.Stage{Users: 50, Rate: 1000, For: 3 * time.Second}, plan.Stage{Users: 50, Rate: 2000, For: 3 * time.Second})
			p.Poisson = poisson
			stages := drive(t, p, &backend{service: takes(20 * time.Millisecond)}).Stages
			slack := 50.0 // of an even schedule: what is under way as a stage ends
			if poisson {
				slack = 310 // four standard deviations of 6,000
			}
			for i, want := range []float64{3_000, 6_000} {
				if got := float64(stages[i].Good()); got < want-slack || got > want+slack {
					t.Errorf("poisson %v: %v good, want %v", poisson, got, want)
				}
			}
			if max := measure.Quantile(stages[0].Response, 100); !poisson && max.Round(time.Millisecond) != 20*time.Millisecond {
				t.Errorf("longest %v", max)
			}
		})
	}
}

// A server that answers in 1 ms stands still for one second. From when requests
// are sent, one in 300 is slow, since its only user waits and sends none. From when
// they are due, all that come in that second are, half of them by 500 ms or more.
func TestCoordinatedOmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		stalled := false
		b := &backend{service: func(string) time.Duration {
			if !stalled && time.Since(begin) >= time.Second {
				stalled = true
				return time.Second
			}
			return time.Millisecond
		}}
		s := drive(t, newPlan(plan.Stage{Users: 1, Rate: 100, For: 3 * time.Second}), b).Stages[0]
		if !about(s.Good(), 300, 1) {
			t.Errorf("%d good", s.Good())
		}
		if p99 := measure.Quantile(s.Service, 99); p99 > 2*time.Millisecond {
			t.Errorf("since sent: p99 %v", p99)
		}
		// Of 300 requests, 100 came in the second, and 11 while it was made up for.
		for _, c := range []struct {
			percent         float64
			atLeast, atMost time.Duration
		}{{60, 0, 2 * time.Millisecond}, {83, 450 * time.Millisecond, 570 * time.Millisecond}, {100, time.Second, 1010 * time.Millisecond}} {
			if got := measure.Quantile(s.Response, c.percent); got < c.atLeast || got > c.atMost {
				t.Errorf("since due: p%v is %v, want %v to %v", c.percent, got, c.atLeast, c.atMost)
			}
		}
	})
}

// A rate that the users cannot keep leaves requests that nobody has sent.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlan(plan.Stage{Users: 1, Rate: 100, For: time.Second})
		s := drive(t, p, &backend{service: takes(110 * time.Millisecond)}).Stages[0]
		if s.Good() != 9 || s.Unfinished != 1 || s.Overdue != 90 {
			t.Errorf("%d good, %d unfinished, %d overdue", s.Good(), s.Unfinished, s.Overdue)
		}
	})
}

func TestCount(t *testing.T) {
	for _, c := range []struct {
		name string
		load plan.Stage
		warm time.Duration
	}{
		{"closed", plan.Stage{Users: 7}, 0},
		{"after a warm-up", plan.Stage{Users: 7}, time.Second},
		{"open", plan.Stage{Users: 7, Rate: 100}, 0},
		{"more users than requests", plan.Stage{Users: 2000}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlan(c.load)
				p.Requests, p.WarmUp = 1000, c.warm
				b := &backend{service: takes(10 * time.Millisecond)}
				result := drive(t, p, b)
				s := result.Stages[0]
				if s.Good() != 1000 || s.Unfinished != 0 || s.Overdue != 0 || result.Interrupted {
					t.Errorf("%d good, %d unfinished, %d overdue", s.Good(), s.Unfinished, s.Overdue)
				}
				if served := b.paths[0].Load(); (served > 1000) != (c.warm > 0) {
					t.Errorf("%d served", served)
				}
			})
		})
	}
}

// Users who wait for their turn, or think, do not hold up the end.
func TestCountEndsWaiting(t *testing.T) {
	for _, p := range []*plan.Plan{
		newPlan(plan.Stage{Users: 100, Rate: 0.001}),
		newPlan(plan.Stage{Users: 100}),
	} {
		synctest.Test(t, func(t *testing.T) {
			p.Requests = 1
			if p.Stages[0].Rate == 0 {
				p.Think.Mean = time.Hour
			}
			s := drive(t, p, &backend{service: takes(time.Second)}).Stages[0]
			if s.Good() != 1 || s.Elapsed > 20*time.Minute {
				t.Errorf("%d good after %v", s.Good(), s.Elapsed)
			}
		})
	}
}

func TestWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlan(plan.Stage{Users: 10})
		p.Requests = 4000
		p.Targets[0].Weight = 3
		p.Targets = append(p.Targets, plan.Target{Weight: 1, Method: "GET", URL: &url.URL{Scheme: "http", Host: "a", Path: "/b"}})
		b := &backend{service: takes(time.Millisecond)}
		drive(t, p, b)
		if got := b.paths[1].Load(); got < 880 || got > 1120 { // 1000 ± 4.4 standard deviations
			t.Errorf("%d of 4000 for a weight of 1 in 4", got)
		}
	})
}

func TestDeadServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := func(context.Context, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }
		result, err := Run(t.Context(), newPlan(plan.Stage{Users: 1, For: time.Second}), outside(refuse), nil)
		if err != nil {
			t.Fatal(err)
		}
		s := result.Stages[0]
		if got := s.Failures[client.Refused]; got < 99 || got > 101 || s.Errors() != got || s.ErrorShare() != 1 {
			t.Errorf("%d refused, %d errors", got, s.Errors())
		}
	})
}

func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ticks := 0
		watch := func(tick Tick) {
			if ticks++; ticks == 3 {
				cancel()
			}
			if tick.Stage == 0 && ctx.Err() == nil && (tick.Span != time.Second || tick.Open != 2 || !about(tick.Last.Good(), 286, 2)) {
				t.Errorf("tick %d: %+v, %d good", ticks, tick, tick.Last.Good())
			}
		}
		p := newPlan(plan.Stage{Users: 2, For: time.Hour}, plan.Stage{Users: 3, For: time.Hour})
		p.WarmUp = time.Second
		b := &backend{service: takes(7 * time.Millisecond)} // so that the third tick finds every request under way
		result, err := Run(ctx, p, outside(b.dial), watch)
		b.serving.Wait()
		if err != nil || !result.Interrupted || len(result.Stages) != 1 || result.Stages[0].Unfinished != 2 {
			t.Errorf("%v, %+v", err, result)
		}
	})
}

// The machine's own network and clock.
func TestRealServer(t *testing.T) {
	for _, rate := range []float64{0, 5000} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(w, r.Body)
		}))
		u, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		p := newPlan(plan.Stage{Users: 8, Rate: rate})
		p.Requests = 500
		p.Targets[0] = plan.Target{Weight: 1, Method: "POST", URL: u, Body: []byte("echo")}
		result, err := Run(t.Context(), p, Outside{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if s := result.Stages[0]; s.Good() != 500 || s.Errors() != 0 {
			t.Errorf("rate %v: %d good, %d errors", rate, s.Good(), s.Errors())
		}
		server.Close()
	}
}

func TestTimer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	alarm, err := newTimer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for _, d := range []time.Duration{-1, 0, time.Microsecond, 2 * time.Millisecond} {
		alarm.Wait(d)
	}
	if took := time.Since(begin); took < 2*time.Millisecond {
		t.Errorf("woke after %v", took)
	}
	go cancel()
	alarm.Wait(time.Hour) // until the end
	alarm.Wait(time.Hour) // after it
}

func TestCannotBegin(t *testing.T) {
	p := newPlan(plan.Stage{Users: 1, For: time.Second})
	p.Connect = "nowhere"
	if _, err := Run(t.Context(), p, Outside{}, nil); err == nil || !strings.Contains(err.Error(), "missing port") {
		t.Errorf("error %v", err)
	}
}
