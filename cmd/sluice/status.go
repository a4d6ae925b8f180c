package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/admin"
)

// between two looks: rates are made of the difference.
const lookEvery = time.Second

// clearScreen moves to the top left corner and clears what is below (ECMA-48).
const clearScreen = "\x1b[H\x1b[J"

// newStatus is `sluice status`: what a running Sluice does.
func newStatus() *cobra.Command {
	var (
		address, farm              string
		raw, follow, limits, nodes bool
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "Show processes, nodes, listeners, farms and servers of a running Sluice",
		Long: `Show processes, nodes, listeners, farms and servers of a running Sluice. REQ/S and BUSY
are those of the last second: BUSY is the share of time that its loops were not asleep.
IDLE connections wait between requests, ACTIVE ones have a request in progress. LIMIT is
how many requests a server may have at once, QUEUE how many wait for it. P50 and P99 are
response times since the start: half, and 99 of 100 requests, took no longer.
Certificates EXPIRE SOON with less than 14 days left; those that are asked for by ACME
with less than a quarter of their life, if that is less. Below stands what went wrong there.

With --nodes: per NUMA node traffic, and where the memory of workers is: heap and stacks,
by the kernel's word. OWN-SERVERS is the share of requests sent to servers of the node
itself, among those to servers of a known node, since the start; SPILLED are those that
left it because its servers had no permit left. MEMORY is on the node, of any worker;
LOCAL and REMOTE are shares of what the node's own workers have: on their node, and on
others. REQ/S and BUSY are those of the last 5 to 10 seconds. AWAY are loops that may run
on CPUs of other workers now (workers.affinity: soft).

With --limits: how many requests each server may have at once, how many it has, how many
wait for it, and how long those waited that did. ELASTICITY is what one per cent more at
once would bring in throughput, in per cent, with its standard error; "-" if nothing is
known. Below stand the last moves. With --watch too: a picture over time on a terminal.`,
		Example: `  sluice status
  sluice status --limits --watch --farm app
  sluice status --limits --json`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			w := &watcher{address: address, farm: farm, out: c.OutOrStdout(), every: lookEvery}
			switch {
			case raw && follow:
				return misuse("--json and --watch exclude each other")
			case farm != "" && !limits:
				return misuse("--farm needs --limits")
			case nodes && limits:
				return misuse("--nodes and --limits exclude each other")
			case raw && nodes:
				return w.json(c.Context(), "/nodes")
			case raw && limits:
				return w.json(c.Context(), w.limitsPath(everyDecision))
			case raw:
				return w.json(c.Context(), "/status")
			case follow && limits:
				return w.untilSignal(c.Context(), w.watchLimits)
			case follow && nodes:
				return w.untilSignal(c.Context(), w.watchNodes)
			case follow:
				return w.untilSignal(c.Context(), w.watch)
			case nodes:
				return w.nodes(c.Context())
			case limits:
				return w.limits(c.Context())
			}
			return w.once(c.Context())
		},
	}
	adminFlag(c, &address)
	c.Flags().BoolVar(&raw, "json", false, "print what /status answers, or /nodes, or /limits")
	c.Flags().BoolVar(&follow, "watch", false, "show it anew each second, until Ctrl-C")
	c.Flags().BoolVar(&nodes, "nodes", false, "show each NUMA node, and where the memory of workers is")
	c.Flags().BoolVar(&limits, "limits", false, "show the limit of each server, and why it is so")
	c.Flags().StringVar(&farm, "farm", "", "with --limits: of this farm only")
	return c
}

// watcher looks at a running Sluice.
type watcher struct {
	address string
	farm    string // whose limits to show; empty: all
	out     io.Writer
	every   time.Duration
}

// json prints the answer as it came.
func (w *watcher) json(ctx context.Context, path string) error {
	body, err := w.fetch(ctx, path)
	if err != nil {
		return err
	}
	_, err = w.out.Write(body)
	return err
}

// once prints one table, after two looks.
func (w *watcher) once(ctx context.Context) error {
	before, err := w.look(ctx)
	if err != nil {
		return err
	}
	if !w.pause(ctx, w.every) {
		return ctx.Err()
	}
	after, err := w.look(ctx)
	if err != nil {
		return err
	}
	return printStatus(w.out, before, after)
}

// untilSignal does something until Ctrl-C, which is how it ends.
func (w *watcher) untilSignal(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := do(ctx); ctx.Err() == nil {
		return err
	}
	return nil
}

// watch prints a table after each look but the first, until ctx ends.
func (w *watcher) watch(ctx context.Context) error {
	before, err := w.look(ctx)
	for err == nil && w.pause(ctx, w.every) {
		var after *admin.Status
		if after, err = w.look(ctx); err != nil {
			break
		}
		var screen strings.Builder
		screen.WriteString(clearScreen)
		if err = printStatus(&screen, before, after); err == nil {
			_, err = io.WriteString(w.out, screen.String())
		}
		before = after
	}
	return err
}

// pause waits until the next look; false if ctx ended first.
func (w *watcher) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *watcher) look(ctx context.Context) (*admin.Status, error) {
	body, err := w.fetch(ctx, "/status")
	if err != nil {
		return nil, err
	}
	s := new(admin.Status)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%s: the answer is not a status of Sluice: %w", w.address, err)
	}
	return s, nil
}

func (w *watcher) fetch(ctx context.Context, path string) ([]byte, error) {
	code, body, err := ask(ctx, w.address, http.MethodGet, path)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %s", w.address, code, strings.TrimSpace(string(body)))
	}
	return body, err
}
