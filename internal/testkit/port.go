package testkit

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Ports for programs that cannot tell which one the kernel gave them: below those
// that the kernel gives out by itself (ip_local_port_range, ip(7)), so that no
// connection takes one between the look and the program's start.
const (
	firstPort = 20000
	lastPort  = 29999
)

// FreePort finds a port that nobody listens on.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(firstPort + rand.IntN(lastPort-firstPort+1))
		if l, err := net.Listen("tcp", net.JoinHostPort("", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}
