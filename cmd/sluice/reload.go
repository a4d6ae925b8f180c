package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// newReload is `sluice reload`: take the changed file into force, or say why not.
func newReload() *cobra.Command {
	var address string
	c := &cobra.Command{
		Use:   "reload",
		Short: "Let a running Sluice read its configuration again",
		Long: `Let a running Sluice read its configuration again, as SIGHUP does. No connection is
dropped. A faulty configuration is refused with its faults, and the old one runs on.`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			code, body, err := ask(c.Context(), address, http.MethodPost, "/reload")
			if err != nil {
				return err
			}
			text := strings.TrimSpace(string(body))
			switch code {
			case http.StatusOK:
				fmt.Fprintln(c.OutOrStdout(), text)
				return nil
			case http.StatusConflict:
				return refusal(text)
			}
			return errors.New(text)
		},
	}
	adminFlag(c, &address)
	return c
}

// refusal is why the old configuration stays in force, in the server's words.
type refusal string

func (r refusal) Error() string {
	return "the old configuration stays in force:\n" + string(r)
}
