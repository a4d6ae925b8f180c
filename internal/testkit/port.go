package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// Ports for programs that cannot tell which one the kernel gave them: below those
// that the kernel gives out by itself (ip_local_port_range, ip(7)), so that no
// connection takes one between the look and the program's start.
const (
	firstPort = 20000
	ports     = 10000
)

// offset is where in the range FreePort begins, since tests of other packages run
// at the same time; given counts what it has looked at.
var (
	offset = rand.Uint32N(ports)
	given  atomic.Uint32
)

// FreePort finds a port that nobody listens on. It gives none twice.
func FreePort(t testing.TB) string {
	t.Helper()
	for range ports {
		port := strconv.Itoa(firstPort + int((offset+given.Add(1))%ports))
		if l, err := net.Listen("tcp", net.JoinHostPort("", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}
