// Package drive puts users before a contender and takes down what happens: what
// they met, from the load generator's report, and what the backend says of itself.
package drive

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/bench/proc"
)

// Users are virtual clients of one load generator, each of which asks again after
// its answer and a pause.
type Users struct {
	URL      string
	From, To int           // the same: no ramp
	Step     int           // users that come at a time
	Every    time.Duration // and how long they stay alone; of a load that is no ramp, its whole time
	Think    string        // pause, as hb writes it: 100ms, exp:100ms; empty: none
}

// Steps is the number of users in each step.
func (u Users) Steps() []int {
	all := []int{u.From}
	for n := u.From + u.Step; n < u.To; n += u.Step {
		all = append(all, n)
	}
	if u.To > u.From {
		all = append(all, u.To)
	}
	return all
}

// args are hb's.
func (u Users) args() []string {
	args := []string{"--quiet", "--json", "-", "--users", strconv.Itoa(u.From)}
	if u.To > u.From {
		args[len(args)-1] += ".." + strconv.Itoa(u.To)
		args = append(args, "--step", strconv.Itoa(u.Step), "--every", u.Every.String())
	} else {
		args = append(args, "--duration", u.Every.String())
	}
	if u.Think != "" {
		args = append(args, "--think", u.Think)
	}
	return append(args, u.URL)
}

// Report is what hb tells of its load (hb --json).
type Report struct {
	Total  Stage   `json:"total"`
	Stages []Stage `json:"stages"`
}

// Stage is one step.
type Stage struct {
	Users    int              `json:"users"`
	Seconds  float64          `json:"seconds"`
	Rate     float64          `json:"good_per_second"`
	Good     int64            `json:"good"`
	Errors   int64            `json:"errors"`
	Failures map[string]int64 `json:"failures"`
	Response Times            `json:"response_seconds"` // of good answers
	Failed   Times            `json:"error_seconds"`
}

// Times are in seconds.
type Times struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Add adds what other users met in the same time. Means are exact, medians and
// percentiles are the worst of all: they cannot be added.
func (s *Stage) Add(o Stage) {
	if good := s.Good + o.Good; good > 0 {
		s.Response.Mean = (s.Response.Mean*float64(s.Good) + o.Response.Mean*float64(o.Good)) / float64(good)
	}
	s.Users += o.Users
	s.Rate += o.Rate
	s.Good += o.Good
	s.Errors += o.Errors
	s.Response.worst(o.Response)
	s.Failed.worst(o.Failed)
}

func (t *Times) worst(o Times) {
	t.P50, t.P99, t.Max = max(t.P50, o.P50), max(t.P99, o.P99), max(t.Max, o.Max)
}

// Cut is what a backend tells of the time since the last cut.
type Cut struct {
	Seconds         float64 `json:"seconds"`
	Good            int64   `json:"good"`
	Lies            int64   `json:"lies"`
	Held            int     `json:"held"`
	MostHeld        int     `json:"most_held"`
	MeanHeld        float64 `json:"mean_held"`
	Connections     int     `json:"connections"`
	MostConnections int     `json:"most_connections"`
}

// Event is something to do during a load, at a time from its begin.
type Event struct {
	At time.Duration
	Do func(context.Context) error
}

// Generator is the load generator's program.
type Generator struct {
	Path string
	Dir  string // for its logs
}

// Run runs all users at once and does the events in the order of their times. It
// gives a report for each of the users.
func (g Generator) Run(ctx context.Context, users []Users, events []Event) ([]Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now()
	loads := make([]*load, len(users))
	for i, u := range users {
		l, err := g.start(u, i)
		if err != nil {
			return nil, err
		}
		defer l.process.Stop()
		loads[i] = l
	}
	slices.SortStableFunc(events, func(a, b Event) int { return int(a.At - b.At) })
	for _, e := range events {
		if err := wait(ctx, begin.Add(e.At), loads); err != nil {
			return nil, err
		}
		if err := e.Do(ctx); err != nil {
			return nil, err
		}
	}
	reports := make([]Report, len(users))
	for i, l := range loads {
		var err error
		if reports[i], err = l.finish(ctx); err != nil {
			return nil, err
		}
	}
	return reports, nil
}

// load is one hb that runs.
type load struct {
	process *proc.Process
	out     *bytes.Buffer // complete once the process has ended
	log     string
}

func (g Generator) start(u Users, number int) (*load, error) {
	l := &load{out: &bytes.Buffer{}, log: filepath.Join(g.Dir, fmt.Sprintf("hb%d.log", number))}
	var err error
	l.process, err = proc.Start(proc.Command{Path: g.Path, Args: u.args(), Output: l.out, Log: l.log})
	return l, err
}

// wait waits for a time, or for a load that ends before.
func wait(ctx context.Context, until time.Time, loads []*load) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-loads[0].process.Done():
		if err := loads[0].process.Wait(); err != nil {
			return loads[0].fault(err)
		}
		return nil // an event at the very end
	}
}

func (l *load) finish(ctx context.Context) (Report, error) {
	select {
	case <-l.process.Done():
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
	if err := l.process.Wait(); err != nil {
		return Report{}, l.fault(err)
	}
	var r Report
	err := json.Unmarshal(l.out.Bytes(), &r)
	return r, err
}

func (l *load) fault(err error) error {
	said, _ := os.ReadFile(l.log)
	return fmt.Errorf("hb: %w: %s", err, strings.TrimSpace(string(said)))
}

// Control is a backend's address for the experiment, http://HOST:PORT.
type Control string

// Cut asks for what has happened since the last cut.
func (c Control) Cut(ctx context.Context) (Cut, error) {
	var cut Cut
	text, err := c.post(ctx, "/cut")
	if err == nil {
		err = json.Unmarshal(text, &cut)
	}
	return cut, err
}

// Set changes the backend; the query is as curve=hang.
func (c Control) Set(ctx context.Context, query string) error {
	_, err := c.post(ctx, "/set?"+query)
	return err
}

func (c Control) post(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, string(c)+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("backend: status %d: %s", response.StatusCode, strings.TrimSpace(string(text)))
	}
	return text, err
}

// Cuts are events that cut at each of the times and put what was told, but for the
// first, into a list.
func (c Control) Cuts(into *[]Cut, times []time.Duration) []Event {
	var all []Event
	for i, at := range times {
		all = append(all, Event{at, func(ctx context.Context) error {
			cut, err := c.Cut(ctx)
			if i > 0 {
				*into = append(*into, cut)
			}
			return err
		}})
	}
	return all
}
