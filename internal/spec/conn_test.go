package spec

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
)

// pair returns two connected ends, closed with the test.
func pair(t *testing.T) (supervisor, worker *Conn) {
	t.Helper()
	supervisor, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	fd, err := unix.FcntlInt(theirs.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if worker, err = Open(fd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { supervisor.Close(); worker.Close() })
	return supervisor, worker
}

// exchange sends m and returns what arrives. The send has its own goroutine: a
// large message does not fit the socket's buffer.
func exchange(t *testing.T, from, to *Conn, m *Message) *Message {
	t.Helper()
	sent := make(chan error, 1)
	go func() { sent <- from.Send(m) }()
	got, err := to.Receive()
	if err != nil {
		t.Fatalf("receive %s: %v", m.Kind, err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	return got
}

// cookie is the kernel's name of a socket, whichever descriptor it has.
func cookie(t *testing.T, fd int) uint64 {
	t.Helper()
	c, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		t.Fatalf("descriptor %d: %v", fd, err)
	}
	return c
}

func sockets(t *testing.T, n int) []int {
	t.Helper()
	fds := make([]int, n)
	for i := range fds {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds[i] = fd
	}
	t.Cleanup(func() { closeAll(fds) })
	return fds
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestConversation(t *testing.T) {
	supervisor, worker := pair(t)
	for _, step := range []struct {
		from, to *Conn
		m        Message
	}{
		{supervisor, worker, Message{Kind: KindSpec, Spec: &Spec{Version: Version, Generation: 7, Worker: 1, Node: -1, CPUs: []int{2, 3}, Pin: true, Loops: 2, Build: "v1"}}},
		{worker, supervisor, Message{Kind: KindReady, Generation: 7}},
		{supervisor, worker, Message{Kind: KindKeys, Generation: 7, Keys: &Keys{
			Certificates: []Certificate{{"-----BEGIN\n+/=\n", "<key> & \u2028", []byte{0, 255}}}, Listeners: []ListenerKeys{{}, {[]int{0}, "ca"}},
		}}},
		{worker, supervisor, Message{Kind: KindRenewed, Serial: 3, Text: "not a key"}},
		{supervisor, worker, Message{Kind: KindPing}},
		{worker, supervisor, Message{Kind: KindPong}},
		{supervisor, worker, Message{Kind: KindSpec, Spec: &Spec{Generation: 8, Servers: []ServerSlot{{"app", "http://a", 3}}}}},
		{worker, supervisor, Message{Kind: KindRefused, Generation: 8, Text: "no such \"file\"\nat all"}},
		{supervisor, worker, Message{Kind: KindReopen}},
		{supervisor, worker, Message{Kind: KindDrain, Limit: 30 * time.Second}},
		{worker, supervisor, Message{Kind: KindDrained}},
		{supervisor, worker, Message{Kind: KindStop}},
	} {
		if got := exchange(t, step.from, step.to, &step.m); !reflect.DeepEqual(got, &step.m) {
			t.Errorf("%s: got %+v, want %+v", step.m.Kind, got, step.m)
		}
	}
	supervisor.Close()
	if _, err := worker.Receive(); err != io.EOF {
		t.Errorf("after close: %v, want io.EOF", err)
	}
}

func TestPeerGoneWithoutReading(t *testing.T) {
	supervisor, worker := pair(t)
	if err := worker.Send(&Message{Kind: KindPong}); err != nil {
		t.Fatal(err)
	}
	supervisor.Close()
	if _, err := worker.Receive(); err != io.EOF {
		t.Errorf("got %v, want io.EOF", err)
	}
}

// The kernel passes at most 253 descriptors at once, so the numbers around a chunk
// and around two matter.
func TestDescriptors(t *testing.T) {
	for _, n := range []int{1, 2, chunkDescriptors - 1, chunkDescriptors, chunkDescriptors + 1, 2*chunkDescriptors + 1} {
		supervisor, worker := pair(t)
		fds := sockets(t, n)
		bells := fds[n-n/3:]
		sent := &Message{Kind: KindSpec, Spec: &Spec{Listeners: []Listener{
			{Name: "a", Address: ":1", Sockets: fds[:n/2]}, {Name: "none", Sockets: []int{}}, {Name: "b", Address: ":2", Sockets: fds[n/2 : n-n/3]},
		}, Bells: bells}}
		got := exchange(t, supervisor, worker, sent)
		var received []int
		for _, l := range got.Spec.Listeners {
			received = append(received, l.Sockets...)
		}
		if len(got.Spec.Bells) != len(bells) {
			t.Errorf("%d descriptors: %d bells came, want %d", n, len(got.Spec.Bells), len(bells))
		}
		received = append(received, got.Spec.Bells...)
		if len(received) != n {
			t.Fatalf("%d descriptors came, want %d", len(received), n)
		}
		for i, fd := range received {
			if cookie(t, fd) != cookie(t, fds[i]) {
				t.Errorf("%d descriptors: number %d is another socket", n, i)
			}
			if flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%d descriptors: number %d is not close-on-exec", n, i)
			}
		}
		if sent.Spec.Listeners[2].Sockets[0] != fds[n/2] || n > 2 && bells[0] != fds[n-n/3] {
			t.Error("Send changed the sender's spec")
		}
		closeAll(received)
	}
}

// Several may send at once: a message and its descriptors stay together.
func TestSendersDoNotMix(t *testing.T) {
	supervisor, worker := pair(t)
	fds := sockets(t, 3)
	const each = 1000
	var senders sync.WaitGroup
	for _, m := range []*Message{
		{Kind: KindSpec, Spec: &Spec{Listeners: []Listener{{Name: "a", Sockets: fds}}}},
		{Kind: KindPing},
		{Kind: KindSpec, Spec: &Spec{Listeners: []Listener{{Name: "b", Sockets: fds[:1]}}}},
	} {
		senders.Go(func() {
			for range each {
				if err := supervisor.Send(m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 3 * each {
		m, err := worker.Receive()
		if err != nil {
			t.Error(err)
			break
		}
		if m.Spec != nil {
			closeAll(m.Spec.Listeners[0].Sockets)
		}
	}
	worker.Close() // lets the senders go if the reader gave up
	senders.Wait()
}

func TestLargeMessage(t *testing.T) {
	supervisor, worker := pair(t)
	room := maxBody - len(`{"kind":"refused","text":""}`)
	if got := exchange(t, worker, supervisor, &Message{Kind: KindRefused, Text: strings.Repeat("x", room)}); len(got.Text) != room {
		t.Errorf("%d bytes of text came, want %d", len(got.Text), room)
	}
	if err := worker.Send(&Message{Kind: KindRefused, Text: strings.Repeat("x", room+1)}); err == nil {
		t.Error("a message of one byte more than the limit was sent")
	}
}

// A configuration is too large for a worker from some bytes on, and who sends it learns
// that before.
func TestFits(t *testing.T) {
	cfg := config.Default()
	keys := func(size int) *Keys { return &Keys{Certificates: []Certificate{{Chain: strings.Repeat("x", size)}}} }
	empty, err := json.Marshal(&Spec{Config: cfg, Keys: keys(0)})
	if err != nil {
		t.Fatal(err)
	}
	room := maxBody - 256<<10 - len(empty)
	if err := Fits(cfg, keys(room)); err != nil {
		t.Error(err)
	}
	if err := Fits(cfg, keys(room+1)); err == nil || !strings.Contains(err.Error(), "use fewer certificates") {
		t.Errorf("one byte more: %v", err)
	}
	if _, _, err := encode(&Message{Kind: KindSpec, Spec: &Spec{Config: cfg, Keys: keys(room), CPUs: make([]int, 8192)}}); err != nil {
		t.Error(err)
	}
}

// raw is a frame as a faulty peer might send it.
func raw(version byte, length, descriptors uint32, body string) []byte {
	b := []byte{'S', 'L', 'C', version}
	b = binary.BigEndian.AppendUint32(b, length)
	b = binary.BigEndian.AppendUint32(b, descriptors)
	return append(b, body...)
}

func TestFaultyPeer(t *testing.T) {
	const ping = `{"kind":"ping"}`
	twoSockets := `{"kind":"spec","spec":{"listeners":[{"name":"a","sockets":[0,1]}]}}`
	bell := `{"kind":"spec","spec":{"listeners":[{"name":"a","sockets":[0]}],"bells":[1]}}`
	bellTwice := `{"kind":"spec","spec":{"listeners":[{"name":"a","sockets":[0]}],"bells":[0]}}`
	sameTwice := `{"kind":"spec","spec":{"listeners":[{"name":"a","sockets":[0,0]}]}}`
	for _, test := range []struct {
		name  string
		frame []byte
		fds   int
		want  string
	}{
		{"other version", raw(Version+1, 15, 0, ping), 0, "version"},
		{"not ours", append([]byte("GET"), raw(Version, 15, 0, ping)[3:]...), 0, "not a control socket"},
		{"body over the limit", raw(Version, maxBody+1, 0, ""), 0, "limits"},
		{"descriptors over the limit", raw(Version, 15, maxDescriptors+1, ping), 0, "limits"},
		{"end in the header", raw(Version, 15, 0, ping)[:5], 0, "unexpected EOF"},
		{"end in the body", raw(Version, 15, 0, ping[:9]), 0, "unexpected EOF"},
		{"end before descriptors", raw(Version, uint32(len(twoSockets)), 2, twoSockets), 0, "unexpected EOF"},
		{"not JSON", raw(Version, 3, 0, "{{{"), 0, "invalid"},
		{"ping with a spec", raw(Version, 25, 0, `{"kind":"ping","spec":{}} `), 0, "a spec belongs"},
		{"ping with keys", raw(Version, 25, 0, `{"kind":"ping","keys":{}} `), 0, "keys belong"},
		{"keys without any", raw(Version, 15, 0, `{"kind":"keys"}`), 0, "keys belong"},
		{"spec without one", raw(Version, 15, 0, `{"kind":"spec"}`), 0, "a spec belongs"},
		{"descriptors that nobody names", raw(Version, 15, 2, ping), 2, "2 descriptors came, 0 are named"},
		{"too few descriptors", raw(Version, uint32(len(twoSockets)), 1, twoSockets), 1, "descriptor 1 of 1"},
		{"more descriptors than announced", raw(Version, uint32(len(twoSockets)), 2, twoSockets), 3, "3 came, 2 were announced"},
		{"too few bells", raw(Version, uint32(len(bell)), 1, bell), 1, "bell 0 is descriptor 1 of 1"},
		{"a socket that is a bell too", raw(Version, uint32(len(bellTwice)), 2, bellTwice), 2, "want descriptor 1"},
		{"one descriptor twice", raw(Version, uint32(len(sameTwice)), 2, sameTwice), 2, "want descriptor 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			supervisor, worker := pair(t)
			fds := sockets(t, test.fds)
			before := openDescriptors(t)
			supervisor.socket.Write(test.frame)
			if test.fds > 0 {
				supervisor.socket.WriteMsgUnix([]byte{0}, unix.UnixRights(fds...), nil)
			}
			supervisor.socket.CloseWrite()
			m, err := worker.Receive()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %+v, error %v, want an error with %q", m, err, test.want)
			}
			if after := openDescriptors(t); after != before {
				t.Errorf("%d descriptors are open, %d were: some leaked", after, before)
			}
		})
	}
}

func TestSendLimit(t *testing.T) {
	supervisor, _ := pair(t)
	supervisor.SetSendLimit(time.Now())
	err := supervisor.Send(&Message{Kind: KindPing})
	if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v, want a timeout", err)
	}
}

func TestOpenRefusesWhatIsNoSocket(t *testing.T) {
	for _, name := range []string{"file", "closed"} {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if name == "closed" {
			unix.Close(fd)
		}
		if c, err := Open(fd); err == nil {
			c.Close()
			t.Errorf("%s: was taken for a control socket", name)
		}
	}
}
