package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"sluice/internal/config"
)

// newRoot builds the tree of commands. It is built anew for each command line, so
// that tests can run many.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "A NUMA-aware HTTP reverse proxy",
		Long: `Sluice is an HTTP reverse proxy for Linux: one listener process for each NUMA
node, and an event loop on each CPU.

  sluice run --demo                                     see it work
  sluice run --listen :8080 --to http://127.0.0.1:3000  before one app
  sluice run --config sluice.yaml                       before many
  sluice status --watch                                 what it does now`,
		Version:       build(),
		Args:          noSuchCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return misuse("%v; see %s --help", err, c.CommandPath())
	})
	root.AddCommand(newRun(), newCheck(), newStatus(), newReload(), newTopology(), newPlace(), newTune(), newVersion())
	return root
}

// usageError is a fault in the command line.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// misuse says what is wrong with the command line, and what would be right.
func misuse(format string, args ...any) error {
	return usageError{fmt.Sprintf(format, args...)}
}

// noSuchCommand refuses what is no command, and suggests the nearest.
func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return misuse("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return misuse("there is no command %q; sluice --help lists them", args[0])
}

// takes checks the number of arguments of a command, and names them if it is wrong.
func takes(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return misuse("%s lacks %s: sluice %s", c.Name(), names[len(args)], c.Use)
		case len(args) > len(names):
			return misuse("%s does not take %q: sluice %s", c.Name(), args[len(names)], c.Use)
		}
		return nil
	}
}

// describe is the text of an error for stderr. A configuration's faults say
// themselves where they are.
func describe(err error) string {
	if faults := (config.Faults)(nil); errors.As(err, &faults) {
		return err.Error()
	}
	return "sluice: " + err.Error()
}
