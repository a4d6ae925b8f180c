package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"sluice/internal/config"
)

// newCheck is `sluice check FILE`: is this configuration good?
func newCheck() *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration: exit code 0, or 1 with every fault",
		Long: `Check a configuration. The exit code is 0 if it is good, else 1: then every fault is
told at once, with its line, what is wrong, and what to write instead.`,
		Args: takes("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := config.Load(args[0])
			if err != nil {
				return err
			}
			if show {
				return cfg.Print(c.OutOrStdout())
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is good: %s, %s, %s\n", args[0],
				plural(len(cfg.Listeners), "listener"), plural(len(cfg.Farms), "farm"), plural(len(cfg.Routes), "route"))
			return nil
		},
	}
	c.Flags().BoolVar(&show, "print", false, "print the configuration with all defaults")
	return c
}

// plural is "1 farm", "2 farms".
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
