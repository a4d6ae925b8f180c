// Command agent is the only program of a guest besides those under test. The
// kernel starts it as process 1, which prepares the machine and reaps orphans;
// its child follows the orders of the test.
//
//	init.go   process 1: what a kernel needs before programs can run
//	obey.go   orders, one after another
//	start.go  processes that a test starts
//	serve.go  a server that answers when it is told to
//	ask.go    a client with many connections
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case os.Getpid() == 1:
		return beInit()
	case len(args) == 1 && args[0] == "obey":
		return obey(os.Stdin, os.Stdout)
	case len(args) == 4 && args[0] == "serve":
		return serve(args[1], args[2], args[3] == "open")
	case len(args) == 4 && args[0] == "ask":
		count, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return ask(args[1], count, args[3])
	}
	return fmt.Errorf("no such role: %q; there are: serve ADDRESS NAME open|closed, ask ADDRESS COUNT TARGET", args)
}
