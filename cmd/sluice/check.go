package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/tlsterm/keyring"
)

// newCheck is `sluice check FILE`: is this configuration good?
func newCheck() *cobra.Command {
	var show, without bool
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration: exit code 0, or 1 with every fault",
		Long: `Check a configuration. The exit code is 0 if it is good, else 1: then every fault is
told at once, with its line, what is wrong, and what to write instead. The files of
certificates are looked at too: what will soon be wrong with them is a warning.`,
		Args: takes("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := config.Load(args[0])
			if err != nil {
				return err
			}
			if !without {
				if err := checkFiles(c.ErrOrStderr(), args[0], cfg, time.Now()); err != nil {
					return err
				}
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
	c.Flags().BoolVar(&without, "without-files", false, "do not look at the files of certificates, as they are elsewhere")
	return c
}

// checkFiles looks at the files of certificates that the configuration in file names. It
// writes warnings, and returns faults, of which an expired certificate is one.
func checkFiles(warnings io.Writer, file string, cfg *config.Config, now time.Time) error {
	ring, err := keyring.Read(cfg)
	if faults, ok := err.(config.Faults); ok {
		return config.Locate(file, faults)
	}
	if err != nil {
		return err
	}
	var grave, light config.Faults
	for _, d := range append(ring.Doubts(now), ring.Uncovered(cfg)...) {
		if d.Grave {
			grave = append(grave, d.Fault)
		} else {
			light = append(light, d.Fault)
		}
	}
	for _, f := range config.Locate(file, light) {
		fmt.Fprintln(warnings, "warning:", f.Error())
	}
	if len(grave) > 0 {
		return config.Locate(file, grave)
	}
	return nil
}

// plural is "1 farm", "2 farms".
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}
