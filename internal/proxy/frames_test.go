package proxy

import (
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/upstream"
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
	stats := func(int) *segment.ServerStats { return new(segment.ServerStats) }
	var takeovers segment.Counter
	p := New(exec, upstream.NewPool(exec, dial, nil, stats, &takeovers), new(segment.LoopStats), Place{})

	cfg, err := config.Simple(":8080", "http://127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	servers := upstream.NewServers()
	defer servers.Close()
	farms, _ := servers.Apply(cfg, func(string, string) int { return 0 })
	snapshot, err := NewSnapshot(cfg, farms)
	if err != nil {
		t.Fatal(err)
	}
	p.Apply(snapshot)
	p.Serve(reactor.Blocking(accepted), netip.AddrPort{}, &Listener{Port: "8080"})

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
