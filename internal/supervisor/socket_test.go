package supervisor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/placement"
)

// crew is workers with the given numbers of loops.
func crew(loops ...int) []placement.Worker {
	workers := make([]placement.Worker, len(loops))
	for i, n := range loops {
		workers[i] = placement.Worker{Index: i, CPUs: []int{i}, Loops: n}
	}
	return workers
}

func option(t *testing.T, fd, level, name int) int {
	t.Helper()
	value, err := unix.GetsockoptInt(fd, level, name)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// Each loop of each worker has its socket, and together they get every connection.
func TestSocketsOfAListener(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0", "0.0.0.0:0", "[::]:0", "localhost:0"} {
		t.Run(address, func(t *testing.T) {
			l, err := openListening(config.Listener{Name: "web", Address: address, Backlog: 64}, crew(2, 1), false)
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			if len(l.sockets) != 2 || len(l.sockets[0]) != 2 || len(l.sockets[1]) != 1 {
				t.Fatalf("sockets %v, want two for worker 0 and one for worker 1", l.sockets)
			}
			for _, fd := range append(l.sockets[0], l.sockets[1]...) {
				flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
				cloexec, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				if flags&unix.O_NONBLOCK == 0 || cloexec&unix.FD_CLOEXEC == 0 {
					t.Errorf("socket %d blocks or is inherited", fd)
				}
				if option(t, fd, unix.SOL_SOCKET, unix.SO_REUSEPORT) == 0 || option(t, fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN) == 0 {
					t.Errorf("socket %d does not share its port, or does not listen", fd)
				}
			}
			if got, want := accepted(t, l, 40), 40; got != want {
				t.Errorf("%d connections were accepted, want %d", got, want)
			}
		})
	}
}

// accepted connects n times, over every family that l listens on, and counts what
// its sockets accept.
func accepted(t *testing.T, l *listening, n int) (count int) {
	t.Helper()
	host, port, err := net.SplitHostPort(l.bound)
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{host}
	switch {
	case strings.HasPrefix(l.address, ":"):
		hosts = []string{"127.0.0.1", "::1"}
	case host == "0.0.0.0":
		hosts = []string{"127.0.0.1"}
	case host == "::":
		hosts = []string{"::1"}
	}
	for i := range n {
		c, err := net.Dial("tcp", net.JoinHostPort(hosts[i%len(hosts)], port))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for _, sockets := range l.sockets {
		for _, fd := range sockets {
			for {
				connection, _, err := unix.Accept(fd)
				if err != nil {
					break
				}
				unix.Close(connection)
				count++
			}
		}
	}
	return count
}

// Somebody else who shares his port by SO_REUSEPORT would get half of our
// connections. He is found, unless it is ourselves on another address.
func TestPortOfSomebodyElse(t *testing.T) {
	for _, test := range []struct{ theirs, ours string }{
		{"127.0.0.1:%d", "127.0.0.1:%d"}, {"127.0.0.1:%d", ":%d"}, {"0.0.0.0:%d", "127.0.0.1:%d"}, {"[::1]:%d", "[::1]:%d"},
	} {
		theirs, err := openListening(config.Listener{Address: fmt.Sprintf(test.theirs, 0), Backlog: 1}, crew(1), false)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(theirs.bound)
		number, _ := strconv.Atoi(port)
		listener := config.Listener{Name: "web", Address: fmt.Sprintf(test.ours, number), Backlog: 1}
		_, err = openListening(listener, crew(1), false)
		if err == nil || !strings.Contains(err.Error(), "another process uses that port") || !strings.Contains(err.Error(), `listener "web"`) {
			t.Errorf("%s beside %s: got %v, want a refusal", listener.Address, theirs.bound, err)
		}
		ours, err := openListening(listener, crew(1), true)
		if err != nil {
			t.Errorf("%s beside our own %s: %v", listener.Address, theirs.bound, err)
		} else {
			ours.close()
		}
		theirs.close()
	}
}

func TestBindFaults(t *testing.T) {
	for _, test := range []struct {
		err  error
		want []string
	}{
		{os.NewSyscallError("bind", unix.EADDRINUSE), []string{"another process uses that port", "ss -tanp"}},
		{os.NewSyscallError("bind", unix.EACCES), []string{"permission denied", "cap_net_bind_service", fmt.Sprint(firstFreePort())}},
		{os.NewSyscallError("bind", unix.EADDRNOTAVAIL), []string{"no such address", "ip address"}},
		{os.NewSyscallError("socket", unix.EMFILE), []string{"too many open files", "ulimit -n"}},
		{errors.New("whatever it is"), []string{"whatever it is"}},
	} {
		got := bindFault(config.Listener{Name: "web", Address: ":80"}, "tcp", test.err).Error()
		for _, want := range append(test.want, `listener "web": cannot listen on :80: `) {
			if !strings.Contains(got, want) {
				t.Errorf("%v: got %q, which lacks %q", test.err, got, want)
			}
		}
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	for _, address := range []string{"[fe80::1%nowhere]:0", "192.0.2.1:0"} {
		before := openDescriptors(t)
		if l, err := openListening(config.Listener{Name: "web", Address: address}, crew(1), false); err == nil {
			t.Errorf("%s was opened as %s", address, l.bound)
			l.close()
		}
		if after := openDescriptors(t); after != before {
			t.Errorf("%s: %d descriptors are open, %d were", address, after, before)
		}
	}
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestParseAddress(t *testing.T) {
	for _, test := range []struct {
		text, want string
		dual       bool
	}{
		{":8080", "[::]:8080", true},
		{"0.0.0.0:80", "0.0.0.0:80", false},
		{"[::]:80", "[::]:80", false},
		{"[::ffff:127.0.0.1]:80", "127.0.0.1:80", false},
		{"[fe80::1%lo]:80", "[fe80::1%lo]:80", false},
		{"localhost:65535", "127.0.0.1:65535", false},
	} {
		got, dual, err := parseAddress(test.text)
		if err != nil || got != netip.MustParseAddrPort(test.want) || dual != test.dual {
			t.Errorf("%s: got %v, dual %v, error %v; want %s, %v", test.text, got, dual, err, test.want, test.dual)
		}
	}
	for _, text := range []string{"", "80", "127.0.0.1", "[::1]", "example.com:80", "127.0.0.1:http", ":65536", ":-1"} {
		if got, _, err := parseAddress(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}
