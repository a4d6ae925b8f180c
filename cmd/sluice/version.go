package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// newVersion is `sluice version`.
func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			fmt.Fprintln(c.OutOrStdout(), build())
			return nil
		},
	}
}

// build names the binary: "sluice 8b5c0e4 (go1.26.0, linux/amd64)".
func build() string {
	return fmt.Sprintf("sluice %s (%s, %s/%s)", release(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// release is the version alone, as metrics and /status show it.
func release() string {
	if version == "" {
		return "unknown" // built without the Makefile
	}
	return version
}
