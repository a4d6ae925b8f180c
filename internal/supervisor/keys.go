package supervisor

import (
	"log/slog"
	"time"

	"sluice/internal/config"
	"sluice/internal/spec"
	"sluice/internal/tlsterm/keyring"
)

// readKeys reads the files that a configuration names, and makes sure that what is in
// them can be given to a worker. Only some moments of bad luck lie between a certificate
// that has expired and a start: it is served, and told.
func readKeys(cfg *config.Config) (*keyring.Ring, error) {
	ring, err := keyring.Read(cfg)
	if err != nil {
		return nil, err
	}
	for _, doubt := range ring.Doubts(time.Now()) {
		slog.Warn("certificate", "doubt", doubt.Error())
	}
	return ring, spec.Fits(cfg, ring.Keys)
}
