package affinity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"sluice/internal/placement"
	"sluice/internal/topology"
)

// childEnv makes the test binary a child that prints its place and ends.
const childEnv = "SLUICE_AFFINITY_TEST_CHILD"

// place is how a process finds itself: what a worker inherits.
type place struct {
	CPUs string // of every thread, by /proc/self/task
	Mode int    // memory policy
	Node bool   // node 0 is in the policy's mask
	Num  int    // runtime.NumCPU, by which the Go runtime sizes itself
}

// init keeps the main thread for TestMain: it alone cannot end, so that no test
// may change it.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(printPlace())
	}
	os.Exit(m.Run())
}

func printPlace() int {
	p, err := currentPolicy()
	if err != nil {
		p = &policy{mode: unix.MPOL_DEFAULT}
	}
	lists, err := threadCPUs()
	if err != nil || len(slices.Compact(slices.Sorted(slices.Values(lists)))) != 1 {
		fmt.Fprintln(os.Stderr, "threads differ:", lists, err)
		return 1
	}
	here := place{CPUs: lists[0], Mode: p.mode, Node: p.nodes.IsSet(0), Num: runtime.NumCPU()}
	if err := json.NewEncoder(os.Stdout).Encode(here); err != nil {
		return 1
	}
	return 0
}

// threadCPUs reads the CPU list of every thread of this process.
func threadCPUs() ([]string, error) {
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		return nil, err
	}
	var lists []string
	for _, file := range files {
		status, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return nil, err
		}
		_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:")
		list, _, _ := strings.Cut(rest, "\n")
		lists = append(lists, strings.TrimSpace(list))
	}
	return lists, nil
}

// spawn is a start function that runs the child and reads its place.
func spawn(into *place) func() error {
	return func() error {
		child := exec.Command("/proc/self/exe")
		// A race-built child would wait a second at its end for more reports.
		child.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
		child.Stderr = os.Stderr
		out, err := child.Output()
		if err != nil {
			return err
		}
		return json.Unmarshal(out, into)
	}
}

// TestChildInherits starts a real process for each kind of worker.
func TestChildInherits(t *testing.T) {
	all := topology.Allowed()
	last := all[len(all)-1:]
	numa := haveNUMA(t)
	for _, c := range []struct {
		name   string
		worker placement.Worker
		cpus   []int
		mode   int
	}{
		{"one CPU, memory preferred", placement.Worker{CPUs: last, Memory: placement.MemoryPrefer}, last, unix.MPOL_PREFERRED},
		{"one CPU, memory bound", placement.Worker{CPUs: last, Memory: placement.MemoryBind}, last, unix.MPOL_BIND},
		{"all CPUs, no policy", placement.Worker{CPUs: all, Memory: placement.MemoryDefault}, all, unix.MPOL_DEFAULT},
		{"no CPUs named", placement.Worker{Memory: placement.MemoryDefault}, all, unix.MPOL_DEFAULT},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got place
			degraded, err := Start(c.worker, spawn(&got))
			if err != nil {
				t.Fatal(err)
			}
			want := place{CPUs: topology.FormatCPUs(c.cpus), Num: len(c.cpus), Mode: c.mode, Node: c.mode != unix.MPOL_DEFAULT}
			if !numa {
				want.Mode, want.Node = unix.MPOL_DEFAULT, false
			}
			if got != want {
				t.Errorf("child is %+v, want %+v", got, want)
			}
			if wantDegraded := !numa && c.mode != unix.MPOL_DEFAULT; (len(degraded) > 0) != wantDegraded {
				t.Errorf("degraded: %v, want any: %t", degraded, wantDegraded)
			}
		})
	}
}

// haveNUMA reports whether this kernel and this container let us set a policy.
func haveNUMA(t *testing.T) bool {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore, err := setPolicy(placement.Worker{Memory: placement.MemoryPrefer})
	if err != nil {
		t.Logf("memory policy cannot be set here: %v", err)
		return false
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	return true
}

// TestParentIsUnchanged makes the runtime start threads while one is changed.
// None of them may carry the change, then or later.
func TestParentIsUnchanged(t *testing.T) {
	before := topology.FormatCPUs(topology.Allowed())
	worker := placement.Worker{CPUs: topology.Allowed()[:1], Memory: placement.MemoryPrefer}

	const newThreads = 20
	var during []string
	_, err := Start(worker, func() error {
		release := occupyThreads(t, newThreads)
		defer release()
		var err error
		during, err = threadCPUs()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(during) < newThreads {
		t.Fatalf("only %d threads: the test did not make new ones", len(during))
	}
	// One thread is the borrowed one.
	want := topology.FormatCPUs(worker.CPUs)
	if changed := count(during, want); want != before && changed != 1 {
		t.Errorf("%d threads on CPUs %s while start ran, want the borrowed one only", changed, want)
	}
	after, err := threadCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if changed := len(after) - count(after, before); changed != 0 {
		t.Errorf("%d threads are not on CPUs %s afterwards: %v", changed, before, after)
	}
}

// occupyThreads holds n goroutines in blocking reads, each on a thread that it
// is locked to, and returns when all have one.
func occupyThreads(t *testing.T, n int) (release func()) {
	t.Helper()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	var started, ended sync.WaitGroup
	for range n {
		started.Add(1)
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			started.Done()
			var b [1]byte
			unix.Read(pipe[0], b[:])
		})
	}
	started.Wait()
	return func() {
		unix.Close(pipe[1]) // end of file for every reader
		ended.Wait()
		unix.Close(pipe[0])
	}
}

func count(lists []string, want string) int {
	n := 0
	for _, list := range lists {
		if list == want {
			n++
		}
	}
	return n
}

// TestPolicyIsRestored checks that the thread a Start used has its old policy
// again, one that is not the default.
func TestPolicyIsRestored(t *testing.T) {
	if !haveNUMA(t) {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	undo, err := setPolicy(placement.Worker{Memory: placement.MemoryPrefer})
	if err != nil {
		t.Fatal(err)
	}
	defer undo()

	restore, err := setPolicy(placement.Worker{Memory: placement.MemoryBind})
	if err != nil {
		t.Fatal(err)
	}
	if p, _ := currentPolicy(); p.mode != unix.MPOL_BIND || !p.nodes.IsSet(0) {
		t.Errorf("policy is %+v, want bind to node 0", p)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if p, _ := currentPolicy(); p.mode != unix.MPOL_PREFERRED || !p.nodes.IsSet(0) {
		t.Errorf("policy is %+v after restore, want preferred node 0", p)
	}
}

// TestRefusalIsNoFailure asks for what no machine has. The child starts all the
// same, where the parent runs.
func TestRefusalIsNoFailure(t *testing.T) {
	worker := placement.Worker{CPUs: []int{maxCPUs - 1}, Node: 1000, Memory: placement.MemoryBind}
	var got place
	degraded, err := Start(worker, spawn(&got))
	if err != nil {
		t.Fatal(err)
	}
	if want := topology.FormatCPUs(topology.Allowed()); got.CPUs != want {
		t.Errorf("child is on CPUs %q, want %q", got.CPUs, want)
	}
	var what []string
	for _, d := range degraded {
		if d.Err == nil {
			t.Errorf("%q has no error", d.What)
		}
		what = append(what, d.What)
	}
	want := []string{"CPU affinity 8191", "memory policy bind node 1000"}
	if !slices.Equal(what, want) {
		t.Errorf("degraded: %q, want %q", what, want)
	}
}

// TestStartErrorIsReturned: a child that cannot start is the caller's to know.
func TestStartErrorIsReturned(t *testing.T) {
	failed := errors.New("no such program")
	worker := placement.Worker{CPUs: topology.Allowed(), Memory: placement.MemoryDefault}
	if err := Inherit(worker, func() error { return failed }); err != failed {
		t.Errorf("Inherit returned %v, want start's error", err)
	}
}

// TestInheritLogs: what could not be applied is a warning that names the worker.
func TestInheritLogs(t *testing.T) {
	var log bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	worker := placement.Worker{Index: 3, Node: 7, CPUs: []int{maxCPUs - 1}, Memory: placement.MemoryDefault}
	if err := Inherit(worker, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(log.String(), " ") // without the time
	want := `level=WARN msg="placement not applied" worker=3 node=7 what="CPU affinity 8191" error="invalid argument"` + "\n"
	if line != want {
		t.Errorf("logged %q, want %q", line, want)
	}
}

// TestUnrestoredThreadDies: a thread that stayed changed must never run another
// goroutine.
func TestUnrestoredThreadDies(t *testing.T) {
	var thread int
	worker := placement.Worker{CPUs: topology.Allowed()[:1], Memory: placement.MemoryDefault}
	degraded, err := Start(worker, func() error {
		thread = unix.Gettid()
		return refuseAffinity()
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "undo CPU affinity " + topology.FormatCPUs(worker.CPUs) + ": operation not permitted"
	if len(degraded) != 1 || degraded[0].String() != want {
		t.Errorf("degraded: %v, want %s", degraded, want)
	}
	// Signal 0 asks whether the thread still exists. It ends soon, or the test's
	// own time limit reports that it does not.
	for unix.Tgkill(unix.Getpid(), thread, 0) == nil {
		runtime.Gosched()
	}
}

// refuseAffinity makes sched_setaffinity fail with EPERM on the calling thread,
// for good (seccomp(2), a filter of four instructions on the call's number).
func refuseAffinity() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_SCHED_SETAFFINITY},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

func TestPinThread(t *testing.T) {
	all := topology.Allowed()
	for _, cpu := range all {
		if got := pinned(t, cpu); !slices.Equal(got, []int{cpu}) {
			t.Errorf("pinned to %d: thread is on %v", cpu, got)
		}
	}
	for _, cpu := range []int{-1, maxCPUs - 1, maxCPUs, 1 << 40} {
		if err := PinThread(cpu); !errors.Is(err, unix.EINVAL) {
			t.Errorf("PinThread(%d): %v, want EINVAL", cpu, err)
		}
	}
}

// pinned reads the CPUs of a pinned thread, and sets it free again: the main
// thread would outlive a goroutine that ends locked to it.
func pinned(t *testing.T, cpu int) []int {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadSet(t)
	if err := PinThread(cpu); err != nil {
		t.Error(err)
	}
	set := threadSet(t)
	if err := unix.SchedSetaffinityDynamic(0, before); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for c := range maxCPUs {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

func threadSet(t *testing.T) unix.CPUSetDynamic {
	t.Helper()
	set := unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(0, set); err != nil {
		t.Fatal(err)
	}
	return set
}
