package testkit

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// Load is a number of clients that send one request after another, each on a
// connection of its own, until Stop. A connection is kept as long as the
// responses allow, and opened anew after a failure.
type Load struct {
	address string
	request string
	running sync.WaitGroup
	stop    chan struct{}

	mu    sync.Mutex
	tally Tally // guarded by mu
}

// Tally is what the clients of a load have seen.
type Tally struct {
	Good        int             // responses, complete and 200
	Connections int             // opened
	Failures    []string        // anything else
	Times       []time.Duration // of the good ones, from the request's first byte to the response's last
}

// Quantile is the time that a share q of the good requests did not exceed.
func (t *Tally) Quantile(q float64) time.Duration {
	if len(t.Times) == 0 {
		return 0
	}
	slices.Sort(t.Times)
	return t.Times[min(int(q*float64(len(t.Times))), len(t.Times)-1)]
}

// StartLoad starts the clients. The request is whole, a GET.
func StartLoad(t testing.TB, address, request string, clients int) *Load {
	l := &Load{address: address, request: request, stop: make(chan struct{})}
	for range clients {
		l.running.Go(l.client)
	}
	t.Cleanup(func() { l.Stop() })
	return l
}

// Stop ends the clients after their present request, and returns their tally.
func (l *Load) Stop() Tally {
	l.mu.Lock()
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.mu.Unlock()
	l.running.Wait()
	return l.tally
}

// Good is how many requests have been answered well so far.
func (l *Load) Good() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally.Good
}

// AwaitMore waits until n more requests have been answered well.
func (l *Load) AwaitMore(t testing.TB, n int) {
	t.Helper()
	until := l.Good() + n
	Eventually(t, fmt.Sprintf("%d more requests are answered", n), func() bool { return l.Good() >= until })
}

func (l *Load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// client is the life of one client.
func (l *Load) client() {
	for !l.stopped() {
		conn, err := net.DialTimeout("tcp", l.address, Patience)
		if err != nil {
			l.failed(fmt.Sprintf("connecting: %v", err))
			continue
		}
		l.mu.Lock()
		l.tally.Connections++
		l.mu.Unlock()
		l.converse(conn)
		conn.Close()
	}
}

// converse sends requests on one connection.
func (l *Load) converse(conn net.Conn) {
	in := bufio.NewReader(conn)
	for n := 1; !l.stopped(); n++ {
		began := time.Now()
		conn.SetDeadline(began.Add(Patience))
		if _, err := io.WriteString(conn, l.request); err != nil {
			l.failed(fmt.Sprintf("sending request %d of a connection: %v", n, err))
			return
		}
		m, err := readResponse(in, "GET")
		if err != nil {
			l.failed(fmt.Sprintf("response %d of a connection, %q, %d bytes: %v", n, m.Start, len(m.Body), err))
			return
		}
		if m.Status() != 200 {
			l.failed(fmt.Sprintf("response %d of a connection: %s %s", n, m.Start, m.Body))
		} else {
			l.succeeded(time.Since(began))
		}
		if m.Get("Connection") == "close" {
			return
		}
	}
}

func (l *Load) succeeded(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.Good++
	l.tally.Times = append(l.tally.Times, took)
}

func (l *Load) failed(how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.Failures = append(l.tally.Failures, how)
}
