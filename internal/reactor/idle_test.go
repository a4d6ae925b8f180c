package reactor

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// resting is a session without a word said: it goes back to rest when woken.
type resting struct {
	*Conn
	woken *int
}

func (r *resting) Run() {
	*r.woken++
	if r.Ready() { // closed
		return
	}
	r.SetReadTimeout(time.Hour)
	r.Idle(r)
}

// An idle connection holds no task, no goroutine and no buffer.
func TestIdleConnectionsAreSmall(t *testing.T) {
	const conns = 10_000
	const most = 600 // bytes each, of 1 KiB for the whole program
	h := newByHand(t)
	heap, goroutines := heapInUse(), runtime.NumGoroutine()
	all := h.rest(t, conns, new(int))
	each := (heapInUse() - heap) / conns
	t.Logf("%d bytes per idle connection", each)
	if each > most {
		t.Errorf("an idle connection takes %d bytes, want at most %d", each, most)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines, %d before", now, goroutines)
	}
	for _, c := range all {
		c.Close() // one by one: a loop that ends would wake them all
		h.runReady()
	}
}

// All idle connections wake at once, again and again: what one storm has taken,
// the next one uses.
func TestWakeStorm(t *testing.T) {
	const conns = 3 * keptTasks
	h := newByHand(t)
	woken := 0
	heap, goroutines := heapInUse(), runtime.NumGoroutine()
	h.rest(t, conns, &woken)
	var after [3]int64
	for storm := range after {
		h.pass(time.Hour + time.Second)
		if woken != conns*(storm+1) {
			t.Errorf("storm %d: connections were woken %d times", storm, woken)
		}
		if !settle(func() bool { return runtime.NumGoroutine() <= goroutines+keptTasks }) {
			t.Errorf("storm %d: %d goroutines, want at most %d more than %d", storm, runtime.NumGoroutine(), keptTasks, goroutines)
		}
		after[storm] = heapInUse() - heap
	}
	const task = 200 // bytes of the heap at the least; the runtime's own come and go
	if grown := (after[2] - after[1]) / conns; grown > task/2 {
		t.Errorf("each storm takes %d bytes more for each connection", grown)
	}
}

// rest makes n idle connections, which wake after at most an hour.
func (h byHand) rest(t *testing.T, n int, woken *int) (all []*Conn) {
	t.Helper()
	allowDescriptors(t, uint64(n+200))
	all = make([]*Conn, n)
	for i := range all {
		all[i] = h.adopt(t, silentSocket(t))
		all[i].SetReadTimeout(time.Hour)
		all[i].Idle(&resting{all[i], woken})
	}
	return all
}

// silentSocket is one descriptor on which nothing ever arrives. It has no peer,
// so that twice as many fit into a process.
func silentSocket(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// allowDescriptors raises the limit until the test ends.
func allowDescriptors(t *testing.T, n uint64) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if before.Cur >= n {
		return
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: max(n, before.Max)}); err != nil {
		t.Fatalf("this test needs %d descriptors, the limit is %d: %v", n, before.Max, err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &before) })
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what the first found unused is free now
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
