package upstream

import (
	"errors"
	"os"
	"syscall"

	"sluice/internal/segment"
)

// Blame says why Borrow or Open gave no connection, and whether that is ours: of a
// shortage on this machine, or of connections.max, no server is to be blamed.
func Blame(err error) (why segment.Reason, ours bool) {
	var handshake *HandshakeError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return segment.ConnectTimeout, false
	case errors.As(err, &handshake):
		return segment.TLSFailed, false
	case errors.Is(err, ErrFull) || isShortage(err):
		return segment.NoServer, true
	}
	return segment.ConnectFailed, false
}

// isShortage reports whether err is this machine's lack of descriptors, ports or
// memory (socket(2), connect(2)).
func isShortage(err error) bool {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}
