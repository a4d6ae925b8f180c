// Backend is a server whose response time depends on how many requests it holds
// (package sharing). It tells the truth about itself, and changes while it runs.
//
//	backend -listen 127.0.0.1:9000 -control 127.0.0.1:9001 [-curve usl:50.4,0.1,3.41e-4] [-work exponential|constant] [-delay 400ms] [-seed 1]
//
// Any request on the first address is work. The second is for the experiment: POST
// /cut tells what happened since the last cut, and POST /set?curve=…&delay=…&lie=…
// changes what is named.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"sluice/bench/overload/sharing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "backend:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	listen := flag.String("listen", "127.0.0.1:9000", "address for work")
	control := flag.String("control", "127.0.0.1:9001", "address for the experiment")
	curve := flag.String("curve", sharing.Blog, "how fast it works with so many requests")
	work := flag.String("work", "exponential", "of a request, in the mean 1: exponential or constant")
	delay := flag.Duration("delay", 0, "mean of an exponential wait of each request for something else")
	seed := flag.Uint64("seed", 1, "of what is random")
	flag.Parse()
	c, err := sharing.Parse(*curve)
	if err != nil {
		return err
	}
	if *work != "exponential" && *work != "constant" {
		return fmt.Errorf("-work %q: write exponential or constant", *work)
	}
	b := newBackend(c, *seed)
	b.constant, b.delay = *work == "constant", *delay
	return serve(ctx, b, *listen, *control)
}

// serve serves both addresses until ctx ends. Requests that are then held are cut off.
func serve(ctx context.Context, b *backend, listen, control string) error {
	servers := []*http.Server{
		{Addr: listen, Handler: b, ConnState: b.count},
		{Addr: control, Handler: b.control()},
	}
	failed := make(chan error, len(servers))
	for _, s := range servers {
		s.ReadHeaderTimeout = time.Minute
		l, err := net.Listen("tcp", s.Addr)
		if err != nil {
			return err
		}
		go func() { failed <- s.Serve(l) }()
		defer s.Close()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
}
