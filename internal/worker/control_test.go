package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/spec"
)

// recorder is a Traffic that writes down what it is told. Drain and Probe wait
// for the test, and for Close.
type recorder struct {
	calls  chan string
	fault  error         // what Apply answers
	turn   chan struct{} // lets a Probe return
	empty  chan struct{} // lets a Drain return: the last connection is gone
	closed chan struct{}
}

func (r *recorder) Apply(s *spec.Spec) error {
	var sockets []string
	for _, l := range s.Listeners {
		sockets = append(sockets, fmt.Sprint(l.Name, l.Sockets))
	}
	for i, fd := range s.Bells {
		sockets = append(sockets, fmt.Sprintf("bell%d[%d]", i, fd))
	}
	r.calls <- fmt.Sprintf("apply %d %s", s.Generation, strings.Join(sockets, " "))
	return r.fault
}

func (r *recorder) Renew(keys *spec.Keys) error {
	r.calls <- fmt.Sprintf("renew %d", len(keys.Certificates))
	return r.fault
}

func (r *recorder) Drain(limit time.Duration) {
	r.calls <- fmt.Sprintf("drain %s", limit)
	select {
	case <-r.empty:
	case <-r.closed:
	}
}

func (r *recorder) Probe() {
	r.calls <- "probe"
	<-r.turn
}

func (r *recorder) ReopenLogs() error {
	r.calls <- "reopen"
	return errors.New("disk is gone")
}

func (r *recorder) Close() {
	r.calls <- "close"
	close(r.closed)
}

// rig is a control with a recorder behind it, and the test as supervisor before it.
type rig struct {
	t          *testing.T
	supervisor *spec.Conn
	traffic    *recorder
	stats      *segment.WorkerStats
	ended      chan struct{} // run has returned
}

func newRig(t *testing.T) *rig {
	ours, theirs, err := spec.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	fd, err := unix.FcntlInt(theirs.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := spec.Open(fd)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := segment.Create(segment.Shape{Workers: 1, Loops: 1, Servers: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, supervisor: ours, stats: shared.Worker(0), ended: make(chan struct{}), traffic: &recorder{
		calls: make(chan string, 100), turn: make(chan struct{}), empty: make(chan struct{}), closed: make(chan struct{}),
	}}
	go func() {
		defer close(r.ended)
		newControl(conn, shared, new(slog.LevelVar), func(*segment.Segment, int) Traffic { return r.traffic }).run()
	}()
	t.Cleanup(func() {
		ours.Send(&spec.Message{Kind: spec.KindStop}) // fails if the test has hung up, and waited
		<-r.ended
		ours.Close()
		shared.Close()
	})
	return r
}

func (r *rig) say(m *spec.Message) {
	r.t.Helper()
	if err := r.supervisor.Send(m); err != nil {
		r.t.Fatal(err)
	}
}

// sayConfig sends generation g with one listener for each name.
func (r *rig) sayConfig(g uint64, drain time.Duration, listeners ...spec.Listener) {
	r.t.Helper()
	cfg := &config.Config{Log: config.Log{Level: "info"}, Timeouts: config.Timeouts{Drain: config.Duration(drain)}}
	r.say(&spec.Message{Kind: spec.KindSpec, Spec: &spec.Spec{Version: spec.Version, Generation: g, Listeners: listeners, Config: cfg}})
}

func (r *rig) hears(want string) {
	r.t.Helper()
	m, err := r.supervisor.Receive()
	if err != nil {
		r.t.Fatalf("waiting for %q: %v", want, err)
	}
	if got := strings.TrimSpace(fmt.Sprintf("%s %d %s", m.Kind, m.Generation+m.Serial, m.Text)); got != want {
		r.t.Fatalf("the worker said %q, want %q", got, want)
	}
}

func (r *rig) calls(want string) {
	r.t.Helper()
	if got := <-r.traffic.calls; got != want {
		r.t.Fatalf("traffic was told %q, want %q", got, want)
	}
}

// shows is what readers of the segment see.
func (r *rig) shows(state segment.WorkerState, generation int64) {
	r.t.Helper()
	if s, g := segment.WorkerState(r.stats.State.Load()), r.stats.Generation.Load(); s != state || g != generation {
		r.t.Errorf("the segment shows %s with generation %d, want %s with %d", s, g, state, generation)
	}
}

// ends says that run returned and nothing more was asked of traffic.
func (r *rig) ends() {
	r.t.Helper()
	<-r.ended
	if len(r.traffic.calls) > 0 {
		r.t.Errorf("traffic was told %q at the end", <-r.traffic.calls)
	}
}

func TestLifeUntilStop(t *testing.T) {
	r := newRig(t)
	r.sayConfig(1, time.Minute)
	r.calls("apply 1 ")
	r.hears("ready 1")
	r.sayConfig(2, time.Minute)
	r.calls("apply 2 ")
	r.hears("ready 2")
	r.shows(segment.Serving, 2)
	r.say(&spec.Message{Kind: spec.KindReopen})
	r.calls("reopen")
	r.say(&spec.Message{Kind: spec.KindReady}) // not for a worker: survived
	r.say(&spec.Message{Kind: spec.KindStop})
	r.calls("close")
	r.ends()
}

func TestDrainEndsTheWorker(t *testing.T) {
	r := newRig(t)
	r.sayConfig(1, time.Minute)
	r.calls("apply 1 ")
	r.hears("ready 1")
	r.say(&spec.Message{Kind: spec.KindDrain, Limit: 3 * time.Second})
	r.calls("drain 3s")
	r.shows(segment.Draining, 1)
	r.say(&spec.Message{Kind: spec.KindDrain, Limit: time.Second}) // changes nothing
	r.sayConfig(2, time.Minute)
	r.hears("refused 2 worker 0 drains, and takes no configuration")
	r.traffic.empty <- struct{}{}
	r.hears("drained 0")
	r.calls("close")
	r.ends()
}

func TestStopCutsDrainShort(t *testing.T) {
	r := newRig(t)
	r.sayConfig(1, time.Minute)
	r.calls("apply 1 ")
	r.hears("ready 1")
	r.say(&spec.Message{Kind: spec.KindDrain, Limit: time.Hour})
	r.calls("drain 1h0m0s")
	r.say(&spec.Message{Kind: spec.KindStop})
	r.calls("close")
	r.ends()
}

func TestOrphanDrains(t *testing.T) {
	r := newRig(t)
	r.sayConfig(1, 7*time.Second)
	r.calls("apply 1 ")
	r.hears("ready 1")
	r.supervisor.Close()
	r.calls("drain 7s")
	r.traffic.empty <- struct{}{}
	r.calls("close")
	r.ends()
}

func TestOrphanOfADrainGoesOnDraining(t *testing.T) {
	r := newRig(t)
	r.sayConfig(1, 7*time.Second)
	r.calls("apply 1 ")
	r.say(&spec.Message{Kind: spec.KindDrain, Limit: time.Hour})
	r.calls("drain 1h0m0s")
	r.supervisor.Close()
	r.traffic.empty <- struct{}{}
	r.calls("close")
	r.ends()
}

func TestBeforeTheFirstSpec(t *testing.T) {
	for _, kind := range []spec.Kind{spec.KindStop, spec.KindDrain, ""} {
		r := newRig(t)
		r.say(&spec.Message{Kind: spec.KindReopen})
		r.say(&spec.Message{Kind: spec.KindPing})
		r.hears("pong 0")
		if kind != "" {
			r.say(&spec.Message{Kind: kind})
		} else {
			r.supervisor.Close()
		}
		r.ends()
	}
}

// A pong needs a turn of the loops; while they hang one Probe is enough.
func TestPingWaitsForTheLoops(t *testing.T) {
	r := newRig(t)
	r.sayConfig(1, time.Minute)
	r.calls("apply 1 ")
	r.hears("ready 1")
	r.say(&spec.Message{Kind: spec.KindPing})
	r.calls("probe")
	r.say(&spec.Message{Kind: spec.KindPing})
	r.sayConfig(2, time.Minute) // the worker still listens
	r.calls("apply 2 ")
	r.hears("ready 2")
	r.traffic.turn <- struct{}{}
	r.hears("pong 0")
	r.say(&spec.Message{Kind: spec.KindPing})
	r.calls("probe")
	r.traffic.turn <- struct{}{}
	r.hears("pong 0")
	r.say(&spec.Message{Kind: spec.KindStop})
	r.calls("close")
	r.ends()
}

func listen(t *testing.T) (l *net.TCPListener, fd int) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); file.Close() })
	return l, int(file.Fd())
}

// socketsOf takes the descriptors out of the call "apply 1 a[5] b[6]".
func (r *rig) socketsOf(generation uint64, names ...string) []int {
	r.t.Helper()
	call := <-r.traffic.calls
	fds := make([]int, len(names))
	format := fmt.Sprintf("apply %d", generation)
	args := []any{}
	for i, name := range names {
		format += " " + name + "[%d]"
		args = append(args, &fds[i])
	}
	if _, err := fmt.Sscanf(call, format, args...); err != nil {
		r.t.Fatalf("traffic was told %q, want the form %q", call, format)
	}
	return fds
}

func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// A listener that stays keeps its very descriptors, whatever its name; what a
// refused configuration brought is closed, and no more.
func TestSocketsOverConfigurations(t *testing.T) {
	r := newRig(t)
	_, a := listen(t)
	_, b := listen(t)
	r.sayConfig(1, 0, spec.Listener{Name: "a", Sockets: []int{a}})
	first := r.socketsOf(1, "a")
	r.hears("ready 1")

	r.sayConfig(2, 0, spec.Listener{Name: "b", Sockets: []int{b}}, spec.Listener{Name: "renamed", Sockets: []int{a}})
	second := r.socketsOf(2, "b", "renamed")
	r.hears("ready 2")
	if second[1] != first[0] {
		t.Errorf("the socket that stayed is descriptor %d, was %d", second[1], first[0])
	}

	_, c := listen(t)
	r.traffic.fault = errors.New("no room")
	r.sayConfig(3, 0, spec.Listener{Name: "c", Sockets: []int{c}}, spec.Listener{Name: "a", Sockets: []int{a}})
	third := r.socketsOf(3, "c", "a")
	r.hears("refused 3 no room")
	r.shows(segment.Serving, 2)
	if isOpen(third[0]) {
		t.Error("a socket of the refused configuration stayed open")
	}
	if open := []bool{isOpen(second[0]), isOpen(second[1])}; !slices.Equal(open, []bool{true, true}) {
		t.Errorf("sockets in effect are open: %v, want both", open)
	}

	r.traffic.fault = nil
	r.sayConfig(4, 0, spec.Listener{Name: "b", Sockets: []int{b}})
	if fourth := r.socketsOf(4, "b"); fourth[0] != second[0] {
		t.Errorf("after a refusal the socket that stayed is descriptor %d, was %d", fourth[0], second[0])
	}
	r.hears("ready 4")
}

// Other certificates are taken for the configuration in effect, and for no other.
func TestKeys(t *testing.T) {
	r := newRig(t)
	say := func(generation uint64, certificates int) {
		keys := &spec.Keys{Certificates: make([]spec.Certificate, certificates), Serial: uint64(certificates)}
		r.say(&spec.Message{Kind: spec.KindKeys, Generation: generation, Keys: keys})
	}
	say(1, 1) // before any configuration
	r.sayConfig(1, 0)
	r.calls("apply 1 ")
	r.hears("ready 1")
	say(2, 2) // of one that did not come
	say(1, 3)
	r.calls("renew 3")
	r.hears("renewed 3")
	r.traffic.fault = errors.New("not a key")
	say(1, 4)
	r.calls("renew 4")
	r.hears("renewed 4 not a key")
	r.say(&spec.Message{Kind: spec.KindReopen})
	r.calls("reopen")
}

// The bells of the first configuration stay, also if it was refused; those that come
// with later ones are closed.
func TestBellsOverConfigurations(t *testing.T) {
	r := newRig(t)
	bells := make([]int, 2)
	for i := range bells {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		bells[i] = fd
	}
	say := func(g uint64) {
		cfg := &config.Config{Log: config.Log{Level: "info"}}
		r.say(&spec.Message{Kind: spec.KindSpec, Spec: &spec.Spec{Version: spec.Version, Generation: g, Config: cfg, Bells: bells}})
	}
	r.traffic.fault = errors.New("no room")
	say(1)
	first := r.socketsOf(1, "bell0", "bell1")
	r.hears("refused 1 no room")
	before := openDescriptors(t)
	for g, fault := range map[uint64]error{2: nil, 3: errors.New("no room")} {
		r.traffic.fault = fault
		say(g)
		if again := r.socketsOf(g, "bell0", "bell1"); !slices.Equal(again, first) {
			t.Errorf("configuration %d has the bells %v, the first had %v", g, again, first)
		}
		if _, err := r.supervisor.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors are open, %d were", after, before)
	}
	if n, err := unix.Write(first[1], []byte{1, 1, 1, 1, 1, 1, 1, 1}); n != 8 || err != nil {
		t.Errorf("a bell does not ring: %v", err)
	}
	if n, err := unix.Read(bells[1], make([]byte, 8)); n != 8 || err != nil {
		t.Errorf("bell 1 is another: %v", err)
	}
	r.say(&spec.Message{Kind: spec.KindStop})
	r.calls("close")
	r.ends()
	if isOpen(first[0]) || isOpen(first[1]) {
		t.Error("the bells are open at the end")
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

func TestSocketThatIsNone(t *testing.T) {
	r := newRig(t)
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	r.sayConfig(1, 0, spec.Listener{Name: "web", Sockets: []int{null}})
	r.hears("refused 1 listener web: socket 0: socket operation on non-socket")
}
