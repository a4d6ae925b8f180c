// Command hb loads an HTTP server and says how it bore it: users who wait for
// answers (a closed loop) or requests that come at a rate whatever happens (an open
// loop), constant or as a ramp.
//
// The way of a run is the order of the packages: the command line becomes a plan
// (plan), the plan is driven (engine) by virtual clients (client), what they meet is
// counted (measure), shown (report), and judged (verdict).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker (Makefile).
var version string

// Exit codes.
const (
	exitOK     = 0
	exitFail   = 1 // the run could not begin, or a report could not be written
	exitUsage  = 2 // the command line is wrong
	exitFailed = 3 // a threshold of --fail-if was met
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError is a fault in the command line.
type usageError struct{ error }

func misuse(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// failedError is a run that met thresholds.
type failedError struct{ error }

// execute runs one command line and returns its exit code. Each error is one line
// on stderr.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := newCommand()
	c.SetArgs(args)
	c.SetOut(stdout)
	c.SetErr(stderr)
	err := c.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var usage usageError
	var failed failedError
	switch {
	case errors.As(err, &failed):
		fmt.Fprintln(stderr, err)
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "hb: %v; see hb --help\n", err)
		return exitUsage
	}
	fmt.Fprintln(stderr, "hb:", err)
	return exitFail
}
