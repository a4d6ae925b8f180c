package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/measure"
	"sluice/cmd/hb/plan"
	"sluice/cmd/hb/report"
)

// flags are the command line's, as they were written.
type flags struct {
	users, rate, think, arrivals string
	step                         float64
	every, duration, warmUp      time.Duration
	requests                     int64
	seed                         uint64

	targets, method, body, auth, connect string
	fields                               []string
	noKeepAlive, cookies                 bool
	timeout, connectTimeout              time.Duration

	wire wireFlags

	json, csv, hdr string
	pictures       []string
	failIf         []string
	quiet          bool
}

func (f *flags) define(c *cobra.Command) {
	s := c.Flags()
	s.SortFlags = false
	s.StringVarP(&f.users, "users", "u", "", "virtual clients, or a ramp like 10..250 (default 10; with --rate 100)")
	s.StringVar(&f.rate, "rate", "", "requests per second, or a ramp like 100..1000: an open loop")
	s.Float64Var(&f.step, "step", 0, "step of the ramp (default a tenth of it)")
	s.DurationVar(&f.every, "every", 0, "time of each step of the ramp")
	s.DurationVarP(&f.duration, "duration", "d", 0, "time of the run (default 10s, or until --requests are done)")
	s.Int64VarP(&f.requests, "requests", "n", 0, "end after so many requests")
	s.DurationVar(&f.warmUp, "warm-up", 0, "load first, without measuring")
	s.StringVar(&f.think, "think", "", "wait after each answer: 500ms, or exp:500ms for random waits")
	s.StringVar(&f.arrivals, "arrivals", "fixed", "gaps of an open loop: fixed, or poisson")
	s.Uint64Var(&f.seed, "seed", 0, "of what is random (default a new one)")

	s.StringVarP(&f.targets, "file", "f", "", "read targets from this file, one in a line")
	s.StringVarP(&f.method, "method", "X", "", "method (default GET, with a body POST)")
	s.StringArrayVarP(&f.fields, "header", "H", nil, "header field \"Name: value\"; repeatable")
	s.StringVar(&f.body, "body", "", "file with the request body")
	s.StringVar(&f.auth, "auth", "", "NAME:PASSWORD for basic authentication")
	s.BoolVar(&f.cookies, "cookies", false, "each user keeps the cookies it gets")
	s.BoolVar(&f.noKeepAlive, "no-keep-alive", false, "a new connection for each request")
	s.StringVar(&f.connect, "connect", "", "HOST:PORT to connect to, whatever the URL says")
	s.DurationVar(&f.timeout, "timeout", 30*time.Second, "for an answer")
	s.DurationVar(&f.connectTimeout, "connect-timeout", 5*time.Second, "for a connection and its TLS handshake")

	f.wire.define(c)

	s.StringArrayVar(&f.failIf, "fail-if", nil, "threshold like p99>2s, errors>0.1%, rps<1000; repeatable")
	s.StringVar(&f.json, "json", "", "write the result as JSON to this file (-: stdout, instead of the text)")
	s.StringVar(&f.csv, "csv", "", "write a line for each step to this file (-: stdout, instead of the text)")
	s.StringVar(&f.hdr, "hdr", "", "write the percentile distribution to this file, for HdrHistogram's plotters")
	s.StringArrayVar(&f.pictures, "picture", nil, "draw throughput, response time and connections: NAME.svg or NAME.png; repeatable")
	s.BoolVarP(&f.quiet, "quiet", "q", false, "no line of progress")
}

// plan makes the plan.
func (f *flags) plan(args []string) (*plan.Plan, error) {
	p := &plan.Plan{
		WarmUp: f.warmUp, Requests: f.requests, Seed: f.seed,
		KeepAlive: !f.noKeepAlive, Cookies: f.cookies, Connect: f.connect,
		Timeout: f.timeout, ConnectTimeout: f.connectTimeout,
	}
	if p.Seed == 0 {
		p.Seed = rand.Uint64()
	}
	var err error
	if p.Targets, err = f.readTargets(args); err != nil {
		return nil, err
	}
	if err = f.wire.plan(p); err != nil {
		return nil, err
	}
	if p.Stages, err = f.stages(); err != nil {
		return nil, err
	}
	if err = plan.CheckStreams(p.Stages, p.Streams); err != nil {
		return nil, err
	}
	if f.think != "" {
		if p.Think, err = plan.ParseThink(f.think); err != nil {
			return nil, err
		}
	}
	p.Poisson = f.arrivals == "poisson"
	return p, f.check()
}

// check finds what cannot be together, or cannot be at all.
func (f *flags) check() error {
	switch {
	case f.arrivals != "fixed" && f.arrivals != "poisson":
		return fmt.Errorf("--arrivals %q: write fixed or poisson", f.arrivals)
	case f.arrivals == "poisson" && f.rate == "":
		return errors.New("--arrivals needs --rate; users of a closed loop have --think exp:TIME")
	case f.think != "" && f.rate != "":
		return errors.New("--think is for a closed loop; with --rate, requests come when they are due")
	case f.requests < 0 || f.warmUp < 0:
		return errors.New("--requests and --warm-up cannot be negative")
	case f.timeout <= 0 || f.connectTimeout <= 0:
		return errors.New("time-outs are above 0")
	case f.json == "-" && f.csv == "-":
		return errors.New("only one of --json and --csv can go to stdout")
	}
	for _, name := range f.pictures {
		if err := report.CheckPicture(name); err != nil {
			return err
		}
	}
	return nil
}

func (f *flags) stages() ([]plan.Stage, error) {
	load := plan.Load{Step: f.step, Every: f.every, Duration: f.duration}
	users := f.users
	var err error
	if f.rate != "" {
		if load.Rate, err = plan.ParseRange(f.rate); err != nil {
			return nil, fmt.Errorf("--rate %w", err)
		}
	}
	if users == "" && f.rate == "" {
		users = "10"
	} else if users == "" {
		users = "100"
	}
	if load.Users, err = plan.ParseRange(users); err != nil {
		return nil, fmt.Errorf("--users %w", err)
	}
	if load.Duration == 0 && f.requests == 0 && !load.Users.Ramp() && !load.Rate.Ramp() {
		load.Duration = defaultDuration
	}
	return load.Stages()
}

// readTargets reads those of the arguments, then those of the file.
func (f *flags) readTargets(args []string) ([]plan.Target, error) {
	defaults, err := f.defaults()
	if err != nil {
		return nil, err
	}
	var all []plan.Target
	for _, arg := range args {
		t, err := plan.ParseTarget(arg, defaults)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if f.targets != "" {
		text, err := os.ReadFile(f.targets)
		if err != nil {
			return nil, err
		}
		more, err := plan.ParseTargets(bytes.NewReader(text), defaults)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.targets, err)
		}
		all = append(all, more...)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no target: hb http://127.0.0.1:8080/")
	}
	return all, nil
}

// defaults are what the flags say about every target.
func (f *flags) defaults() (plan.Defaults, error) {
	d := plan.Defaults{Method: f.method, ReadFile: os.ReadFile}
	for _, text := range f.fields {
		field, err := plan.ParseField(text)
		if err != nil {
			return d, err
		}
		d.Fields = append(d.Fields, field)
	}
	if f.auth != "" {
		d.Fields = append(d.Fields, client.BasicAuth(f.auth))
	}
	if f.body == "" {
		return d, nil
	}
	var err error
	d.Body, err = os.ReadFile(f.body)
	return d, err
}

// openReports opens every file that the result goes to. The text goes to stdout
// unless something else does.
func (f *flags) openReports(stdout io.Writer) (*reports, error) {
	r := &reports{}
	if f.json != "-" && f.csv != "-" {
		r.outputs = append(r.outputs, output{keepOpen{stdout}, report.WriteText})
	}
	wanted := []struct {
		name  string
		write func(io.Writer, *measure.Result) error
	}{{f.json, report.WriteJSON}, {f.csv, report.WriteCSV}, {f.hdr, report.WriteHDR}}
	for _, name := range f.pictures {
		wanted = append(wanted, struct {
			name  string
			write func(io.Writer, *measure.Result) error
		}{name, func(w io.Writer, result *measure.Result) error { return report.WritePicture(w, name, result) }})
	}
	for _, o := range wanted {
		switch o.name {
		case "":
		case "-":
			r.outputs = append(r.outputs, output{keepOpen{stdout}, o.write})
		default:
			file, err := os.Create(o.name)
			if err != nil {
				r.close()
				return nil, err
			}
			r.outputs = append(r.outputs, output{file, o.write})
		}
	}
	return r, nil
}
