package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// socketFD is where an app worker finds its listening socket: the first
// descriptor after the standard ones.
const socketFD = 3

// Bounds of an app worker.
const (
	headTimeout = 10 * time.Second
	idleTimeout = 10 * time.Minute // longer than Sluice keeps a connection, so that the server never closes first
	drainLimit  = 2 * time.Second
)

// Main is an app worker's whole life; its value is the exit code. args are the
// worker's name and node. It serves on descriptor 3 until its standard input
// ends or SIGTERM comes.
func Main(args []string) int {
	if err := serve(args, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "sluice: demo app worker:", err)
		return 1
	}
	return 0
}

func serve(args []string, lifeline io.Reader) error {
	if len(args) != 2 {
		return fmt.Errorf("takes a name and a node, not %q; it is started by sluice run --demo", args)
	}
	node, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	l, err := net.FileListener(os.NewFile(socketFD, "listener"))
	if err != nil {
		return err
	}
	// Ctrl-C reaches every process of the terminal at once. The supervisor must
	// drain first, with the apps still there; it ends the lifeline when it has.
	signal.Ignore(syscall.SIGINT)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go untilEnd(lifeline, stop)

	server := &http.Server{Handler: app{name: args[0], node: node}.handler(), ReadHeaderTimeout: headTimeout, IdleTimeout: idleTimeout}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	farewell, cancel := context.WithTimeout(context.Background(), drainLimit)
	defer cancel()
	if server.Shutdown(farewell) != nil {
		return server.Close()
	}
	return nil
}

// untilEnd calls stop when the lifeline ends.
func untilEnd(lifeline io.Reader, stop func()) {
	io.Copy(io.Discard, lifeline) // an error is an end as well
	stop()
}
