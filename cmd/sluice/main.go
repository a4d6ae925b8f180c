// Command sluice is a NUMA-aware HTTP reverse proxy.
//
// One binary plays three roles. The commands that a person types are here, one
// file each, below the tree of root.go. The other two are started by Sluice
// itself: a listener process (worker), and an app worker of the demo. They leave
// before the tree is built, since they need none of it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"sluice/internal/demo"
	"sluice/internal/worker"
)

// version is set by the linker (Makefile).
var version string

// Exit codes.
const (
	exitOK    = 0
	exitFail  = 1 // a fault in the configuration, a failed start, no answer, a part that was not done
	exitUsage = 2 // the command line is wrong
)

// controlFD is where a worker finds the socket to its supervisor: the first
// descriptor after the standard ones.
const controlFD = 3

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "worker":
			os.Exit(worker.Main(controlFD, worker.NewTraffic))
		case demo.Role:
			os.Exit(demo.Main(os.Args[2:]))
		}
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// execute runs one command line and returns its exit code. Each error is one line
// on stderr; the faults of a configuration are one line each.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "sluice:", err)
		return exitUsage
	}
	fmt.Fprintln(stderr, describe(err))
	return exitFail
}
