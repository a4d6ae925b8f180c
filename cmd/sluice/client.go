package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/config"
)

// Bounds of a question to a running Sluice.
const (
	askTimeout = 60 * time.Second // a reload waits for every worker
	maxAnswer  = 64 << 20         // bytes; a status of 512 servers is below 1 MiB
)

// adminFlag gives a command its --admin.
func adminFlag(c *cobra.Command, address *string) {
	c.Flags().StringVar(address, "admin", config.Default().Admin.Listen, "admin address of the running Sluice: host:port or unix:PATH")
}

// ask sends one request to the admin interface at address, and returns its status
// code and body.
func ask(ctx context.Context, address, method, path string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, nil)
	if err != nil {
		return 0, nil, err
	}
	transport := &http.Transport{DialContext: dialTo(address), DisableKeepAlives: true}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return 0, nil, unreachable(address, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, body, err
}

// dialTo connects to address, whatever the URL says.
func dialTo(address string) func(context.Context, string, string) (net.Conn, error) {
	network, target := "tcp", address
	if path, isUnix := strings.CutPrefix(address, "unix:"); isUnix {
		network, target = "unix", path
	}
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, target)
	}
}

// unreachable says what the operator can do.
func unreachable(address string, err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("nobody answers on %s; is Sluice running, and is this its admin address? (--admin)", address)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: permission denied; be the user that Sluice runs as", address)
	}
	return fmt.Errorf("%s: %w", address, err)
}
