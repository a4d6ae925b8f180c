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
		address     string
		raw, follow bool
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "Show processes, nodes, listeners, farms and servers of a running Sluice",
		Long: `Show processes, nodes, listeners, farms and servers of a running Sluice. REQ/S and BUSY
are those of the last second: BUSY is the share of time that its loops were not asleep.
IDLE connections wait between requests, ACTIVE ones have a request in progress. P50 and
P99 are response times since the start: half, and 99 of 100 requests, took no longer.`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			w := &watcher{address: address, out: c.OutOrStdout(), every: lookEvery}
			switch {
			case raw && follow:
				return misuse("--json and --watch exclude each other")
			case raw:
				return w.json(c.Context())
			case follow:
				return w.watch(c.Context())
			}
			return w.once(c.Context())
		},
	}
	adminFlag(c, &address)
	c.Flags().BoolVar(&raw, "json", false, "print what /status answers")
	c.Flags().BoolVar(&follow, "watch", false, "show it anew each second, until Ctrl-C")
	return c
}

// watcher looks at a running Sluice.
type watcher struct {
	address string
	out     io.Writer
	every   time.Duration
}

// json prints the answer as it came.
func (w *watcher) json(ctx context.Context) error {
	body, err := w.fetch(ctx)
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
	if !w.pause(ctx) {
		return ctx.Err()
	}
	after, err := w.look(ctx)
	if err != nil {
		return err
	}
	return printStatus(w.out, before, after)
}

// watch prints a table after each look but the first, until Ctrl-C.
func (w *watcher) watch(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	before, err := w.look(ctx)
	for err == nil && w.pause(ctx) {
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
	if ctx.Err() != nil {
		return nil // Ctrl-C is how it ends
	}
	return err
}

// pause waits until the next look; false if ctx ended first.
func (w *watcher) pause(ctx context.Context) bool {
	timer := time.NewTimer(w.every)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *watcher) look(ctx context.Context) (*admin.Status, error) {
	body, err := w.fetch(ctx)
	if err != nil {
		return nil, err
	}
	s := new(admin.Status)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("%s: the answer is not a status of Sluice: %w", w.address, err)
	}
	return s, nil
}

func (w *watcher) fetch(ctx context.Context) ([]byte, error) {
	code, body, err := ask(ctx, w.address, http.MethodGet, "/status")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %s", w.address, code, strings.TrimSpace(string(body)))
	}
	return body, err
}
