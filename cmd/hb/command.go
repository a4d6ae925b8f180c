package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/cmd/hb/engine"
	"sluice/cmd/hb/measure"
	"sluice/cmd/hb/plan"
	"sluice/cmd/hb/report"
	"sluice/cmd/hb/verdict"
)

const long = `hb loads an HTTP server and says how it bore it.

  hb http://127.0.0.1:8080/                          10 users for 10 seconds
  hb --users 100 --think exp:1s --duration 1m URL    users who think
  hb --rate 5000 --users 200 URL                     5000 requests/s, come what may
  hb --users 10..250 --step 10 --every 10s --picture ramp.svg URL
  hb --fail-if 'p99>200ms' --fail-if 'errors>0.1%' URL
  hb --http2 --users 64 --streams 8 https://host/    8 requests at once on each connection
  hb --no-keep-alive --resume off https://host/      full TLS handshakes

A TARGET is [WEIGHT] [METHOD] URL [@FILE], like "3 POST http://host/orders @order.json";
the file is the body. With several targets, each is chosen as often as its weight says.

With --rate, response times count from when a request was due, not from when a
user was free to send it: a server that stalls is charged for all who would have
come meanwhile. A request without an answer, or with a status of 400 or more, is an
error; response times are those of the others.

HTTP/2 and HTTP/3 are spoken only when asked for: a measurement shall not depend on
what a server prefers. There, a user has --streams requests under way over one
connection. A request that a server ends a connection without (GOAWAY) goes by another.

Exit codes: 0, 1 could not run, 2 wrong usage, 3 a threshold was met.`

// newCommand builds the command. It is built anew for each command line, so that
// tests can run many.
func newCommand() *cobra.Command {
	f := &flags{}
	c := &cobra.Command{
		Use:           "hb [flags] TARGET...",
		Short:         "Load an HTTP server and say how it bore it",
		Long:          long,
		Version:       cmp.Or(version, "unknown"),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && f.targets == "" && c.Flags().NFlag() == 0 {
				return c.Help()
			}
			return run(c, f, args)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f.define(c)
	return c
}

// run reads the command line, drives the plan, reports and judges.
func run(c *cobra.Command, f *flags, args []string) error {
	p, err := f.plan(args)
	if err != nil {
		return usageError{err}
	}
	thresholds, err := f.thresholds()
	if err != nil {
		return usageError{err}
	}
	files, err := f.openReports(c.OutOrStdout())
	if err != nil {
		return err
	}
	defer files.close()
	result, err := drive(c.Context(), p, f.quiet, c.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := files.write(result); err != nil {
		return err
	}
	if failed := verdict.Judge(thresholds, result.Total()); len(failed) > 0 {
		return failedError{errors.New("hb: failed: " + strings.Join(failed, "\nhb: failed: "))}
	}
	return nil
}

// drive runs the plan, with a line of progress if somebody is there to see it.
func drive(ctx context.Context, p *plan.Plan, quiet bool, stderr io.Writer) (*measure.Result, error) {
	var watch func(engine.Tick)
	if columns := terminal(stderr); !quiet && columns > 0 {
		progress := report.NewProgress(stderr, len(p.Stages), columns)
		defer progress.End()
		watch = progress.Show
	}
	return engine.Run(ctx, p, engine.Outside{}, watch)
}

// terminal is the width of the terminal that w is; 0 if it is none.
func terminal(w io.Writer) (columns int) {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0
	case size.Col == 0:
		return 80 // it does not say; the width of old
	}
	return int(size.Col)
}

// reports are the files that the result goes to, opened before the run: an hour of
// load shall not end with a directory that does not exist.
type reports struct {
	outputs []output
}

type output struct {
	file  io.WriteCloser
	write func(io.Writer, *measure.Result) error
}

// keepOpen is stdout, which is not ours to close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

func (r *reports) write(result *measure.Result) error {
	for _, o := range r.outputs {
		if err := errors.Join(o.write(o.file, result), o.file.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (r *reports) close() {
	for _, o := range r.outputs {
		o.file.Close()
	}
}

// defaultDuration bounds a run that says neither how long nor how much.
const defaultDuration = 10 * time.Second

// thresholds reads those of --fail-if.
func (f *flags) thresholds() ([]verdict.Threshold, error) {
	var all []verdict.Threshold
	for _, text := range f.failIf {
		t, err := verdict.Parse(text)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}
