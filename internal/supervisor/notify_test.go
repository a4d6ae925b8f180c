package supervisor

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/placement"
	"sluice/internal/spec"
)

// What the service manager hears in a life, by either kind of socket name.
func TestNotify(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@sluice-test-%d", os.Getpid())} {
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		n := newNotifier(func(key string) string { return map[string]string{"NOTIFY_SOCKET": name}[key] })
		n.ready(1)
		n.reloading()
		n.refused(1)
		n.stopping()
		for _, want := range []string{
			`^READY=1\nSTATUS=serving configuration 1$`,
			`^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*\nSTATUS=reloading$`,
			`^READY=1\nSTATUS=the last reload was refused; serving configuration 1$`,
			`^STOPPING=1\nSTATUS=stopping$`,
		} {
			buffer := make([]byte, 200)
			read, err := manager.Read(buffer)
			if got := string(buffer[:read]); err != nil || !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%s: heard %q, error %v, want %s", name, got, err, want)
			}
		}
		n.close()
		manager.Close()
	}
}

// Without a manager, or with one that is gone, nothing happens.
func TestNotifyNobody(t *testing.T) {
	for _, name := range []string{"", filepath.Join(t.TempDir(), "nobody")} {
		n := newNotifier(func(key string) string { return map[string]string{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000"}[key] })
		n.ready(1)
		a := &alarm{now: time.Now(), next: time.Now().Add(time.Hour)}
		if n.feed(a); a.acted {
			t.Errorf("%q: a watchdog is fed", name)
		}
		n.close()
	}
}

func TestWatchdogInterval(t *testing.T) {
	ours := strconv.Itoa(os.Getpid())
	for _, test := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", 0}, {"0", "", 0}, {"-5", "", 0}, {"soon", "", 0},
		{"30000000", "", 15 * time.Second}, {"30000000", ours, 15 * time.Second}, {"30000000", ours + "0", 0},
	} {
		if got := watchdogInterval(test.usec, test.pid); got != test.want {
			t.Errorf("WATCHDOG_USEC=%s WATCHDOG_PID=%s: every %s, want %s", test.usec, test.pid, got, test.want)
		}
	}
}

// The watchdog is fed at once, and then at its interval.
func TestWatchdogFeeds(t *testing.T) {
	n := &notifier{every: time.Second, feedAt: time.Unix(100, 0)}
	for _, step := range []struct {
		at, next float64
		acted    bool
	}{{99, 100, false}, {100, 160, true}, {100.5, 101, false}, {101.2, 161.2, true}, {102, 102.2, false}} {
		now := time.UnixMilli(int64(step.at * 1000))
		a := &alarm{now: now, next: now.Add(time.Minute)}
		n.feed(a)
		if a.acted != step.acted || a.next.UnixMilli() != int64(step.next*1000) {
			t.Errorf("at %v: fed %v, next %v, want %v, %v", step.at, a.acted, a.next, step.acted, step.next)
		}
	}
}

func TestEnvironment(t *testing.T) {
	w := placement.Worker{Loops: 4, MemoryLimit: 1 << 30}
	for _, test := range []struct {
		ours  []string
		limit int64
		want  []string
	}{
		{[]string{"A=1"}, 0, []string{"A=1", "GOMAXPROCS=6"}},
		{[]string{"A=1"}, 1 << 30, []string{"A=1", "GOMAXPROCS=6", "GOMEMLIMIT=1073741824"}},
		{[]string{"GOMEMLIMIT=9"}, 1 << 30, []string{"GOMEMLIMIT=9", "GOMAXPROCS=6"}},
		{[]string{"GOMAXPROCS=1"}, 0, []string{"GOMAXPROCS=1", "GOMAXPROCS=6"}},
	} {
		w.MemoryLimit = test.limit
		i := len(test.ours) + 1 // behind GOMAXPROCS
		test.want = slices.Insert(test.want, i, "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING=true")
		if got := environment(test.ours, w); !slices.Equal(got, test.want) {
			t.Errorf("%v with %d bytes: got %v, want %v", test.ours, test.limit, got, test.want)
		}
	}
}

// A manager that watches hears from the event loop as long as it turns.
func TestWatchdogInLife(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "10000000")
	play(t, 1, func(st *stage) {
		st.answer = func(_, _ int, m *spec.Message) string { return "" }
		st.run()
		st.after(12 * time.Second)
		st.signal(unix.SIGINT)
		<-st.ended
	})
	var heard []string
	buffer := make([]byte, 200)
	for len(heard) == 0 || heard[len(heard)-1] != "STATUS=ended" {
		n, err := manager.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(buffer[:n]), "\n")
		heard = append(heard, first)
	}
	want := []string{"WATCHDOG=1", "READY=1", "WATCHDOG=1", "WATCHDOG=1", "STOPPING=1", "STATUS=ended"}
	if !slices.Equal(heard, want) {
		t.Errorf("heard %v, want %v", heard, want)
	}
}
