package main

import (
	"context"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/demo"
	"sluice/internal/supervisor"
)

// runFlags say where the configuration comes from: exactly one of file, to, demo.
type runFlags struct {
	file   string
	listen string
	to     []string
	demo   bool
	admin  string
}

// newRun is `sluice run`: the supervisor's life.
func newRun() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run --config FILE|--to URL|--demo",
		Short: "Run Sluice in the foreground",
		Long: `Run Sluice in the foreground: with a file, before servers that are named here, or as a
demonstration. SIGHUP or "sluice reload" reads the configuration again, SIGTERM drains
and ends, SIGINT (Ctrl-C) ends at once, SIGUSR1 opens the access log anew.`,
		Example: `  sluice run --config sluice.yaml
  sluice run --listen :8080 --to http://127.0.0.1:3000 --to http://127.0.0.1:3001
  sluice run --demo`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			if f.demo {
				return f.runDemo(c)
			}
			return supervise(c.Context(), f.load, nil)
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.file, "config", "c", "", "configuration file")
	flags.StringVar(&f.listen, "listen", "", "address that clients connect to, with --to (default :8080)")
	flags.StringArrayVar(&f.to, "to", nil, "server that answers; may be given several times")
	flags.BoolVar(&f.demo, "demo", false, "run a demonstration with app workers of its own")
	flags.StringVar(&f.admin, "admin", "", "admin address: host:port, unix:PATH, or off; overrides the configuration")
	return c
}

// check refuses what has no single meaning.
func (f *runFlags) check(c *cobra.Command) error {
	sources := 0
	for _, name := range []string{"config", "to", "demo"} {
		if c.Flags().Changed(name) {
			sources++
		}
	}
	switch {
	case f.listen != "" && len(f.to) == 0:
		return misuse("--listen needs --to: sluice run --listen %s --to http://127.0.0.1:3000", f.listen)
	case sources == 0:
		return misuse("run needs --config FILE, or --to URL, or --demo")
	case sources > 1:
		return misuse("run takes one of --config, --to and --demo, not several")
	}
	return nil
}

// load makes the configuration, at the start and at every reload.
func (f *runFlags) load() (*config.Config, error) {
	if f.file != "" {
		c, err := config.Load(f.file)
		return f.override(c, err)
	}
	c, err := config.Simple(f.listen, f.to[0])
	if err == nil && len(f.to) > 1 {
		c.Farms[0] = config.NewFarm(c.Farms[0].Name, f.to...)
		c.Normalize()
	}
	return f.override(c, err)
}

// override puts the flags that stand above the configuration into it.
func (f *runFlags) override(c *config.Config, err error) (*config.Config, error) {
	if err != nil {
		return nil, err
	}
	if f.admin != "" {
		c.Admin.Listen = f.admin
	}
	return c, c.Validate()
}

// runDemo runs Sluice before app workers of the demo, which end after it.
func (f *runFlags) runDemo(c *cobra.Command) error {
	d, err := demo.Start(f.admin)
	if err != nil {
		return err
	}
	defer d.Stop()
	load := func() (*config.Config, error) { return d.Config(), nil }
	return supervise(c.Context(), load, func() { d.Welcome(c.OutOrStdout()) })
}

// supervise runs until a signal ends it. ready, unless it is nil, is called once
// every worker serves.
func supervise(ctx context.Context, load func() (*config.Config, error), ready func()) error {
	s, err := supervisor.New(supervisor.Options{Load: load, Build: release()})
	if err != nil {
		return err
	}
	if ready == nil {
		return s.Run(ctx)
	}
	over, finish := context.WithCancel(ctx)
	var announcer sync.WaitGroup
	announcer.Go(func() { announce(over, s.Ready, ready) })
	defer announcer.Wait()
	defer finish()
	return s.Run(ctx)
}

// announce calls then when isReady says so for the first time, unless ctx ends
// before. A person waits, so it looks often.
func announce(ctx context.Context, isReady func() bool, then func()) {
	const lookEvery = 20 * time.Millisecond
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if isReady() {
				then()
				return
			}
		}
	}
}
