package segment

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func create(t *testing.T, shape Shape) *Segment {
	t.Helper()
	s, err := Create(shape)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// reopen gives a descriptor of its own for the segment, as a worker gets one.
func reopen(t *testing.T, s *Segment) int {
	t.Helper()
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", s.FD()), unix.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func TestFiguresSurviveReopen(t *testing.T) {
	s := create(t, Shape{Workers: 2, Loops: 3, Servers: 4})
	slot, err := s.Assign("app", "http://127.0.0.1:9000")
	if err != nil {
		t.Fatal(err)
	}
	s.Worker(1).Loops.Store(3)
	s.Loop(1, 2).Requests.Add(41)
	s.Server(1, 2, slot).Response.Observe(5_000_000)

	other, err := Open(reopen(t, s))
	if err != nil {
		t.Fatal(err)
	}
	if other.Shape() != s.Shape() {
		t.Errorf("shape %+v, want %+v", other.Shape(), s.Shape())
	}
	other.Loop(1, 2).Requests.Inc()
	other.Gate(slot).Limit.Store(7)
	if farm, url, ok := other.ServerName(slot); !ok || farm != "app" || url != "http://127.0.0.1:9000" {
		t.Errorf("slot %d belongs to %q %q %v", slot, farm, url, ok)
	}
	if got := other.Server(1, 2, slot).Response.Count(); got != 1 {
		t.Errorf("%d responses, want 1", got)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if got := s.Loop(1, 2).Requests.Load(); got != 42 {
		t.Errorf("%d requests after the other mapping is gone, want 42", got)
	}
	if got := s.Gate(slot).Limit.Load(); got != 7 {
		t.Errorf("limit %d, want 7", got)
	}
}

func TestCreateRefusesShapes(t *testing.T) {
	for _, c := range []struct {
		shape Shape
		want  string
	}{
		{Shape{0, 1, 1}, "0 workers: must be from 1 to 64"},
		{Shape{MaxWorkers + 1, 1, 1}, "65 workers: must be from 1 to 64"},
		{Shape{1, 0, 1}, "0 loops per worker: must be from 1 to 256"},
		{Shape{1, MaxLoops + 1, 1}, "257 loops per worker: must be from 1 to 256"},
		{Shape{1, 1, -1}, "-1 servers: must be from 1 to 512"},
		{Shape{1, 1, MaxServers + 1}, "513 servers: must be from 1 to 512"},
	} {
		if _, err := Create(c.shape); err == nil || err.Error() != "segment: "+c.want {
			t.Errorf("%+v: %v, want %q", c.shape, err, c.want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(*header)
		want   error
	}{
		{"magic", func(h *header) { h.Magic++ }, ErrNotSegment},
		{"version", func(h *header) { h.Version++ }, ErrVersion},
		{"layout", func(h *header) { h.Layout++ }, ErrLayout},
		{"one worker more", func(h *header) { h.Workers++ }, ErrLayout},
		{"too many loops", func(h *header) { h.Loops = MaxLoops + 1 }, ErrLayout},
		{"no servers", func(h *header) { h.Servers = 0 }, ErrLayout},
		{"size", func(h *header) { h.Size += page }, ErrNotSegment},
	} {
		s := create(t, Shape{Workers: 1, Loops: 2, Servers: 8})
		c.damage(s.header())
		fd := reopen(t, s)
		if _, err := Open(fd); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if err := unix.Close(fd); err != nil {
			t.Errorf("%s: Open closed a descriptor that it refused", c.name)
		}
	}
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	open := func(fd int, err error) int {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	plain := open(unix.Open(t.TempDir()+"/file", unix.O_RDWR|unix.O_CREAT, 0o600))
	loose := open(unix.MemfdCreate("loose", unix.MFD_ALLOW_SEALING))
	empty := open(unix.MemfdCreate("empty", unix.MFD_ALLOW_SEALING))
	if err := seal(empty, 0); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fd   int
		want string
	}{
		"a file":            {plain, "not a segment"},
		"an unsealed memfd": {loose, "not a segment: its size is not sealed"},
		"an empty memfd":    {empty, "not a segment: it does not begin with the magic number"},
		"no descriptor":     {-1, "bad file descriptor"},
	} {
		if _, err := Open(c.fd); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestSizeIsSealed(t *testing.T) {
	s := create(t, Shape{Workers: 1, Loops: 1, Servers: 1})
	for _, size := range []int64{0, int64(s.at.size) - page, int64(s.at.size) + page} {
		if err := s.File().Truncate(size); !errors.Is(err, os.ErrPermission) {
			t.Errorf("truncate to %d: %v, want EPERM", size, err)
		}
	}
}

// What nobody touches takes no memory: a segment for many servers, of which one
// worker with two loops uses one, stays far below 200 KiB.
func TestSparse(t *testing.T) {
	s := create(t, Shape{Workers: 4, Loops: 16, Servers: MaxServers})
	slot, err := s.Assign("app", "http://127.0.0.1:9000")
	if err != nil {
		t.Fatal(err)
	}
	s.Worker(0).Loops.Store(2)
	for l := range 2 {
		s.Loop(0, l).Duration.Observe(1e6)
		s.Server(0, l, slot).Requests.Inc()
	}
	for w := range 4 { // readers add nothing
		s.Totals(w)
		s.ServerTotals(w, slot)
		s.ResetGauges(w)
	}
	for i := range MaxServers {
		s.ServerName(i)
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.FD(), &st); err != nil {
		t.Fatal(err)
	}
	if kib := st.Blocks / 2; kib < 4 || kib > 32 {
		t.Errorf("%d KiB of %d KiB are in memory, want 4 to 32", kib, s.at.size/1024)
	}
}

func TestIndexBeyondShapePanics(t *testing.T) {
	s := create(t, Shape{Workers: 2, Loops: 3, Servers: 4})
	for want, call := range map[string]func(){
		"segment: worker 2 of 2":       func() { s.Worker(2) },
		"segment: worker -1 of 2":      func() { s.Loop(-1, 0) },
		"segment: loop 3 of 3":         func() { s.Loop(0, 3) },
		"segment: server slot 4 of 4":  func() { s.Server(0, 0, 4) },
		"segment: server slot 5 of 4":  func() { s.Gate(5) },
		"segment: server slot 6 of 4":  func() { s.Release(6) },
		"segment: server slot -1 of 4": func() { s.ServerName(-1) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %q", got, want)
				}
			}()
			call()
		}()
	}
}

func TestCloexec(t *testing.T) {
	s := create(t, Shape{Workers: 1, Loops: 1, Servers: 1})
	other, err := Open(reopen(t, s)) // opened without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for name, fd := range map[string]int{"created": s.FD(), "opened": other.FD()} {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s: a child would inherit the descriptor (%v)", name, err)
		}
	}
}
