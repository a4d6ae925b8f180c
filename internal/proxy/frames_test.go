package proxy

import (
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/internal/reactor"
)

// mostFrames lie between the accepted connection's task and the write to the
// server, both left out: whoever reads a stack trace shall see the way at once.
const mostFrames = 5

// recorder is a Stream that keeps the stack of its first Write.
type recorder struct {
	reactor.Stream
	stack []string
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.stack == nil {
		pcs := make([]uintptr, 64)
		frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
		for f, more := frames.Next(); more; f, more = frames.Next() {
			if strings.HasPrefix(f.Function, "sluice/internal/proxy") {
				r.stack = append(r.stack, f.Function)
			}
		}
	}
	return r.Stream.Write(p)
}

func TestFramesFromAcceptToUpstreamWrite(t *testing.T) {
	toServer, server := net.Pipe()
	client, accepted := net.Pipe()
	exec := reactor.NewGoroutines()
	seen := &recorder{Stream: reactor.Blocking(toServer)}
	dial := func(reactor.Address, time.Duration) (reactor.Stream, error) { return seen, nil }
	p := overGoroutines(t, exec, dial)
	p.Serve(reactor.Blocking(accepted), netip.AddrPort{}, nil, &Listener{Port: []byte("8080")})

	go io.WriteString(client, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	buf := make([]byte, 4096)
	server.Read(buf)
	go io.WriteString(server, "HTTP/1.1 204 No Content\r\n\r\n")
	io.ReadAll(client)
	exec.Wait()
	if n := len(seen.stack); n == 0 || n > mostFrames {
		t.Errorf("%d frames, want 1 to %d:\n%s", n, mostFrames, strings.Join(seen.stack, "\n"))
	}
}
