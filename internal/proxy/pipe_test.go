package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// overGoroutines makes a Proxy on plain goroutines, with the defaults and one
// server that dial leads to.
func overGoroutines(t *testing.T, exec reactor.Executor, dial upstream.Dial) *Proxy {
	t.Helper()
	figures := new(segment.ServerStats)
	pool := upstream.NewPool(exec, dial, nil, func(int) *segment.ServerStats { return figures }, new(segment.Counter))
	p := New(exec, pool, nil, new(segment.LoopStats), Place{})
	cfg, err := config.Simple(":8080", "http://127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	servers := upstream.NewServers()
	t.Cleanup(servers.Close)
	farms, _ := servers.Apply(cfg, func(string, string) int { return 0 })
	snapshot, err := NewSnapshot(cfg, farms, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Apply(snapshot)
	return p
}

// TestOverPipes has the same code serve on plain goroutines over net.Pipe, to
// net/http as client and as server.
func TestOverPipes(t *testing.T) {
	exec := reactor.NewGoroutines()
	defer exec.Wait()
	var serving sync.WaitGroup
	defer serving.Wait()
	dial := func(reactor.Address, time.Duration) (reactor.Stream, error) {
		near, far := net.Pipe()
		serving.Go(func() { echoOnce(t, far) })
		return reactor.Blocking(near), nil
	}
	p := overGoroutines(t, exec, dial)

	client, accepted := net.Pipe()
	defer client.Close()
	p.Serve(reactor.Blocking(accepted), netip.AddrPort{}, nil, &Listener{Port: []byte("8080")})
	answers := bufio.NewReader(client)
	for _, body := range []string{"", "one", strings.Repeat("two", 500), "three"} {
		request, err := http.NewRequest("POST", "http://www.example/", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan error, 1)
		go func() { // in one piece, as net.Pipe has no buffer
			w := bufio.NewWriterSize(client, 64<<10)
			sent <- request.Write(w)
			w.Flush()
		}()
		response, err := http.ReadResponse(answers, request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		if string(got) != "www.example "+body || err != nil || <-sent != nil {
			t.Errorf("sent %q, got %q, %v", body, got, err)
		}
	}
}

// echoOnce answers one request with its host and content, in chunks.
func echoOnce(t *testing.T, c net.Conn) {
	defer c.Close()
	request, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		t.Error(err)
		return
	}
	response := http.Response{ProtoMajor: 1, ProtoMinor: 1, StatusCode: 200, TransferEncoding: []string{"chunked"},
		Body: io.NopCloser(io.MultiReader(strings.NewReader(request.Host+" "), request.Body))}
	response.Write(c)
	io.Copy(io.Discard, c)
}
