package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/testkit"
)

// crowdVariable in the environment sets how many slow clients come: 10000 is what
// Sluice must bear, the default what a small machine does in passing.
const (
	crowdVariable = "SLUICE_E2E_CROWD"
	defaultCrowd  = 2000
)

// crowd is many clients that send their heads a byte a second, without a goroutine
// for each.
type crowd struct {
	sockets []int // -1: has ended
	ended   int
	refused int // of these, told 408
}

func newCrowd(t *testing.T, address string, size int) *crowd {
	t.Helper()
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{}
	t.Cleanup(c.close)
	for range size {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatalf("client %d: %v; the limit of open files (ulimit -n) must be above %d", len(c.sockets), err, size)
		}
		c.sockets = append(c.sockets, fd)
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
			t.Fatal(err)
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *crowd) close() {
	for i, fd := range c.sockets {
		if fd >= 0 {
			unix.Close(fd)
			c.sockets[i] = -1
		}
	}
}

// send has each client send the same byte.
func (c *crowd) send(b byte) {
	for _, fd := range c.sockets {
		if fd >= 0 {
			unix.Write(fd, []byte{b}) // EPIPE: harvest sees the end
		}
	}
}

// harvest notes whose connection has ended, and what they were told.
func (c *crowd) harvest() {
	buffer := make([]byte, 4096)
	for i, fd := range c.sockets {
		if fd < 0 {
			continue
		}
		n, err := unix.Read(fd, buffer)
		if errors.Is(err, unix.EAGAIN) {
			continue
		}
		if n > 0 && strings.HasPrefix(string(buffer[:n]), "HTTP/1.1 408 ") {
			c.refused++
		}
		unix.Close(fd)
		c.sockets[i] = -1
		c.ended++
	}
}

// Thousands of clients that send their heads a byte a second harm nobody else, and
// are ended when their time is over. It runs alone, for the sake of the latencies.
func TestSlowCrowd(t *testing.T) {
	size := defaultCrowd
	if text := os.Getenv(crowdVariable); text != "" {
		var err error
		if size, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	const clients, enough = 4, 2000
	limit := 6*time.Second + time.Duration(size)*time.Millisecond // longer than it takes them all to come
	b := testkit.Serve(t, testkit.Answering(ok))
	s := start(t, farm(b.URL()), fmt.Sprintf("timeouts: {header: %s}", limit))
	request := testkit.Request("GET", "/")
	measure := func() testkit.Tally {
		load := testkit.StartLoad(t, s.web(), request, clients)
		load.AwaitMore(t, enough)
		return load.Stop()
	}
	alone := measure()

	c := newCrowd(t, s.web(), size)
	began := time.Now()
	testkit.Eventually(t, "the whole crowd is there", func() bool { return s.connections() == size })
	load := testkit.StartLoad(t, s.web(), request, clients)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	over := time.After(limit + testkit.Patience)
	head := "GET / HTTP/1.1\r\nHost: a\r\nX-A: " + strings.Repeat("a", 1000)
	for i := 0; c.ended < size; i++ {
		if i == 3 && c.ended > 0 {
			t.Errorf("%d clients were ended after %s, before their time", c.ended, time.Since(began))
		}
		c.send(head[i])
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("%d of %d clients are still there", size-c.ended, size)
		}
		c.harvest()
	}
	took := time.Since(began)
	crowded := load.Stop()

	t.Logf("p50 and p99 of a normal client: %s and %s alone, %s and %s beside %d slow clients, which were gone %s after the last had come",
		alone.Quantile(0.5), alone.Quantile(0.99), crowded.Quantile(0.5), crowded.Quantile(0.99), size, took.Round(time.Millisecond))
	if len(alone.Failures)+len(crowded.Failures) > 0 {
		t.Errorf("normal clients failed: %q %q", alone.Failures, crowded.Failures)
	}
	if c.refused != size {
		t.Errorf("%d of %d slow clients were told 408", c.refused, size)
	}
	// Far above the noise of a busy machine, far below what a loop costs that deals
	// with the crowd for seconds.
	if p99, most := crowded.Quantile(0.99), 10*alone.Quantile(0.99)+100*time.Millisecond; p99 > most {
		t.Errorf("p99 of a normal client is %s beside the crowd, more than %s", p99, most)
	}
}
