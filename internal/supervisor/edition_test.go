package supervisor

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/spec"
	"sluice/internal/tlsterm/keyring"
)

func newSegment(t *testing.T, servers int) *segment.Segment {
	t.Helper()
	shared, err := segment.Create(segment.Shape{Workers: 2, Loops: 2, Servers: servers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	return shared
}

// after makes the edition that follows last, for workers of one and two loops.
func editionAfter(t *testing.T, last *edition, shared *segment.Segment, listeners ...string) *edition {
	t.Helper()
	generation := uint64(1)
	if last != nil {
		generation = last.generation + 1
	}
	e, err := newEdition(testConfig(listeners...), &keyring.Ring{}, generation, last, crew(1, 2), shared)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// What an edition has that the last had too is the same; the rest is opened, and
// closed when the edition goes.
func TestEditionsShareSockets(t *testing.T) {
	shared := newSegment(t, 8)
	before := openDescriptors(t)
	first := editionAfter(t, nil, shared, "127.0.0.1:0", "[::1]:0")
	if got := openDescriptors(t) - before; got != 6 {
		t.Errorf("%d sockets are open for two listeners and three loops, want 6", got)
	}
	second := editionAfter(t, first, shared, "[::1]:0", "127.0.0.2:0")
	if second.listening[0] != first.listening[1] {
		t.Error("the listener that stays was opened again")
	}
	if got := openDescriptors(t) - before; got != 9 {
		t.Errorf("%d sockets are open for three listeners, want 9", got)
	}
	first.closeBut(second)
	if got := openDescriptors(t) - before; got != 6 {
		t.Errorf("%d sockets are open when the first is gone, want 6", got)
	}
	second.closeBut(nil)
	second.closeBut(nil)
	if got := openDescriptors(t) - before; got != 0 {
		t.Errorf("%d sockets are open when both are gone", got)
	}
}

// Two listeners on ports that the kernel chose keep their own.
func TestEditionKeepsChosenPorts(t *testing.T) {
	shared := newSegment(t, 8)
	first := editionAfter(t, nil, shared, "127.0.0.1:0", "127.0.0.1:0")
	second := editionAfter(t, first, shared, "127.0.0.1:0", "127.0.0.1:0")
	defer second.closeBut(nil)
	if !slices.Equal(second.listening, first.listening) {
		t.Errorf("%s and %s have become %s and %s", first.listening[0].bound, first.listening[1].bound, second.listening[0].bound, second.listening[1].bound)
	}
}

// A listener may widen or narrow its address on the same port: the port is ours.
func TestEditionOverlapsItself(t *testing.T) {
	shared := newSegment(t, 8)
	first := editionAfter(t, nil, shared, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(first.listening[0].bound)
	wide := editionAfter(t, first, shared, ":"+port)
	first.closeBut(wide)
	narrow := editionAfter(t, wide, shared, "127.0.0.1:"+port, "[::1]:"+port)
	wide.closeBut(narrow)
	narrow.closeBut(nil)
}

// An edition that cannot be had leaves nothing open, and the last as it was.
func TestEditionFails(t *testing.T) {
	shared := newSegment(t, 8)
	first := editionAfter(t, nil, shared, "127.0.0.1:0")
	defer first.closeBut(nil)
	before := openDescriptors(t)
	cfg := testConfig("127.0.0.1:0", "[::1]:0", "192.0.2.1:0")
	if _, err := newEdition(cfg, &keyring.Ring{}, 2, first, crew(1, 2), shared); err == nil || !strings.Contains(err.Error(), "192.0.2.1:0") {
		t.Errorf("got %v, want an error about 192.0.2.1:0", err)
	}
	if after := openDescriptors(t); after != before || first.listening[0].sockets == nil {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
}

// The worker's message has duplicates of its own sockets and of no other's.
func TestSpecFor(t *testing.T) {
	shared := newSegment(t, 8)
	e := editionAfter(t, nil, shared, "127.0.0.1:0", "[::1]:0")
	before := openDescriptors(t)
	w := crew(1, 2)[1]
	w.Node, w.Pin, w.Overflow = 3, true, []int{7, 9}
	p, err := e.specFor(w, nil, "v1")
	if err != nil {
		t.Fatal(err)
	}
	s := p.message.Spec
	if s.Worker != 1 || s.Node != 3 || !s.Pin || !slices.Equal(s.Overflow, w.Overflow) || s.Loops != 2 || s.Generation != 1 || s.Build != "v1" || s.Version != spec.Version {
		t.Errorf("the spec is %+v", s)
	}
	for i, l := range s.Listeners {
		if l.Name != e.config.Listeners[i].Name || l.Address != e.listening[i].bound || len(l.Sockets) != 2 {
			t.Errorf("listener %d is %+v", i, l)
		}
		for j, fd := range l.Sockets {
			if cookieOf(t, fd) != cookieOf(t, e.listening[i].sockets[1][j]) {
				t.Errorf("listener %d, loop %d has another socket", i, j)
			}
		}
	}
	e.closeBut(nil)
	if _, err := unix.Getsockname(s.Listeners[0].Sockets[0]); err != nil {
		t.Errorf("the message depends on our own descriptors: %v", err)
	}
	p.discard()
	if after := openDescriptors(t); after != before-6 {
		t.Errorf("%d descriptors are open, want %d", after, before-6)
	}
}

func cookieOf(t *testing.T, fd int) uint64 {
	t.Helper()
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		t.Fatal(err)
	}
	return cookie
}

// farm makes a configuration of one farm with servers of these ports.
func farm(ports ...int) *config.Config {
	cfg := testConfig()
	f := config.NewFarm("app")
	for _, port := range ports {
		f.Servers = append(f.Servers, config.Server{URL: fmt.Sprintf("http://127.0.0.1:%d", port), Weight: 1})
	}
	cfg.Farms = config.Farms{f}
	return cfg
}

// A server keeps its place. When places run out, those of servers that are gone
// are taken, but not while a connection is open, a permit is out or a request waits.
func TestSlots(t *testing.T) {
	shared := newSegment(t, 3)
	shared.Worker(1).Loops.Store(2)
	var last *edition
	step := func(want string, ports ...int) {
		t.Helper()
		e, err := newEdition(farm(ports...), &keyring.Ring{}, 1, last, crew(1, 2), shared)
		got := fmt.Sprint(err)
		if err == nil {
			got, last = "", e
			for _, s := range e.servers {
				got += fmt.Sprintf("%s=%d ", strings.TrimPrefix(s.URL, "http://127.0.0.1:"), s.Slot)
			}
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("servers %v: got %q, want %q", ports, got, want)
		}
	}
	step("1=0 2=1", 1, 2)
	step("3=2 2=1", 3, 2)
	step("1=0 2=1", 1, 2) // 3 is gone, and its place still its own
	step("1=0 3=2", 1, 3)
	shared.Server(1, 1, 1).Open.Inc() // a connection to 2, which is gone
	full := "segment: server http://127.0.0.1:4 of farm app: all 3 server slots are in use"
	step(full, 1, 4)
	step("1=0 3=2", 1, 3)
	shared.Server(1, 1, 1).Open.Dec()
	shared.Gate(1).InFlight.Store(1) // a permit of 2: the connection is about to come
	step(full, 1, 4)
	step("1=0 3=2", 1, 3)
	shared.Gate(1).InFlight.Store(0)
	shared.Gate(1).Waiters.Store(1) // a request that may go to 2
	step(full, 1, 4)
	step("1=0 3=2", 1, 3)
	shared.Gate(1).Waiters.Store(0)
	step("1=0 4=1", 1, 4)
}

func TestLastingFault(t *testing.T) {
	last := &config.Config{Workers: config.Workers{Per: "node", Affinity: "hard", Memory: "prefer"}, State: "auto"}
	if err := lastingFault(last, last); err != nil {
		t.Error(err)
	}
	for field, value := range map[string]any{"Per": "machine", "Affinity": "none", "Memory": "bind", "Loops": 2, "Reserve": "cpu", "CPUs": "0-3", "Nodes": "1"} {
		next := *last
		reflect.ValueOf(&next.Workers).Elem().FieldByName(field).Set(reflect.ValueOf(value))
		err := lastingFault(last, &next)
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("workers.%s: %v: ", strings.ToLower(field), value)) {
			t.Errorf("%s changed: got %v", field, err)
		}
	}
	if n := reflect.TypeFor[config.Workers]().NumField(); n != 7 {
		t.Errorf("config.Workers has %d fields, lastingFault knows 7", n)
	}
	named := &config.Config{Workers: config.Workers{CPUs: "0-3"}}
	if err := lastingFault(named, &config.Config{}); err == nil || !strings.HasPrefix(err.Error(), `workers.cpus: "": was 0-3 when`) {
		t.Errorf("no CPUs named any more: got %v", err)
	}
	if err := lastingFault(last, &config.Config{Workers: last.Workers, State: "off"}); err == nil || !strings.HasPrefix(err.Error(), "state: off: was auto") {
		t.Errorf("state changed: got %v", err)
	}
}
