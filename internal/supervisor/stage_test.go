package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/placement"
	"sluice/internal/segment"
	"sluice/internal/spec"
	"sluice/internal/topology"
)

// stage plays a supervisor with workers that are goroutines, in virtual time. What
// happens to the workers is written down, and compared as a transcript.
type stage struct {
	*testing.T
	s      *Supervisor
	cancel context.CancelFunc
	began  time.Time
	ended  chan error // the result of Run

	// answer is what worker w does in its nth life when it gets a message:
	// "" the usual, "refuse", "die", "hang" (say nothing), or "no start".
	answer func(w, life int, m *spec.Message) string

	mu     sync.Mutex
	config *config.Config // what Load gives
	fault  error          // or this
	lives  []int
	script []line
}

// line is one line of the transcript.
type line struct {
	at   time.Duration // since the beginning
	who  string        // w0.1: worker 0 in its first life
	what string
}

// play runs scene on a stage with the given number of workers, in a bubble.
func play(t *testing.T, workers int, scene func(*stage)) {
	synctest.Test(t, func(t *testing.T) {
		st := &stage{T: t, began: time.Now(), ended: make(chan error, 1), lives: make([]int, workers)}
		st.answer = func(int, int, *spec.Message) string { return "" }
		st.config = testConfig("127.0.0.1:0")
		places := make([]placement.Worker, workers)
		for i := range places {
			places[i] = placement.Worker{Index: i, Node: i, CPUs: []int{i}, Loops: 1}
		}
		s, err := assemble(Options{Load: st.load, Build: "test"}, st.config, places, []topology.Node{{ID: 0}}, new(slog.LevelVar))
		if err != nil {
			t.Fatal(err)
		}
		s.launch = st.launch
		st.s = s
		scene(st)
		if st.cancel != nil {
			st.cancel()
			<-st.ended
		}
	})
}

func testConfig(listeners ...string) *config.Config {
	cfg := config.Default()
	cfg.Admin.Listen = "off"
	cfg.State = "off"
	cfg.Listeners = nil
	for _, address := range listeners {
		cfg.Listeners = append(cfg.Listeners, config.Listener{Name: address, Address: address, Backlog: 16, Steering: config.SteerAuto, Away: config.AwayWait})
	}
	return cfg
}

// run begins the life of the supervisor, and returns when it waits.
func (st *stage) run() {
	ctx, cancel := context.WithCancel(context.Background())
	st.cancel = cancel
	go func() {
		err := st.s.Run(ctx)
		st.ended <- err
		st.ended <- err // for play
	}()
	synctest.Wait()
}

func (st *stage) load() (*config.Config, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.config, st.fault
}

// next is what the next Load gives.
func (st *stage) next(cfg *config.Config, fault error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.config, st.fault = cfg, fault
}

// renewConfig puts a configuration in the place of the first, before the supervisor runs.
func (st *stage) renewConfig(cfg *config.Config) {
	st.Helper()
	ring, err := readKeys(cfg)
	if err != nil {
		st.Fatal(err)
	}
	next := *st.s.current
	next.config, next.ring = cfg, ring
	st.s.compose(&next)
	st.s.current = &next
	st.next(cfg, nil)
}

func (st *stage) note(who, what string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.script = append(st.script, line{time.Since(st.began), who, what})
}

// forget throws the transcript away.
func (st *stage) forget() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.script = nil
}

// expect compares the transcript since the last time. Workers do not wait for each
// other: lines of one moment stand in the order of the workers.
func (st *stage) expect(want string) {
	st.Helper()
	synctest.Wait()
	st.mu.Lock()
	script := st.script
	st.script = nil
	st.mu.Unlock()
	slices.SortStableFunc(script, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.who, b.who))
	})
	var got, wanted []string
	for _, l := range script {
		got = append(got, fmt.Sprintf("%v %s %s", l.at, l.who, l.what))
	}
	for text := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
		wanted = append(wanted, strings.TrimSpace(text))
	}
	if !slices.Equal(got, wanted) && len(got)+len(want) > 0 {
		st.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
	}
}

// after lets virtual time pass.
func (st *stage) after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (st *stage) signal(s os.Signal) {
	st.s.deliver(signalled{s})
	synctest.Wait()
}

// launch stands in for the real one.
func (st *stage) launch(m *member, _ *segment.Segment, deliver func(event)) (*process, error) {
	w := m.place.Index
	st.mu.Lock()
	st.lives[w]++
	life := st.lives[w]
	st.mu.Unlock()
	if st.answer(w, life, nil) == "no start" {
		st.note(fmt.Sprintf("w%d.%d", w, life), "does not start")
		return nil, errors.New("no more processes")
	}
	dead := make(chan struct{})
	p := &process{pid: 100*(w+1) + life, started: time.Now(), outbox: make(chan *parcel, outboxRoom)}
	p.end = sync.OnceFunc(func() { close(dead) })
	go st.act(m, p, life, dead, deliver)
	return p, nil
}

// act is the life of one worker.
func (st *stage) act(m *member, p *process, life int, dead chan struct{}, deliver func(event)) {
	name := fmt.Sprintf("w%d.%d", m.place.Index, life)
	cause := "signal: killed"
	for gone := false; !gone; {
		select {
		case <-dead:
			st.note(name, "killed")
			gone = true
		case parcel := <-p.outbox:
			st.note(name, "gets "+title(parcel.message))
			reply, exit := st.reply(m.place.Index, life, parcel.message)
			parcel.discard()
			if reply != nil {
				deliver(heard{m, p, reply})
			}
			if exit != "" {
				cause, gone = exit, true
			}
		}
	}
	deliver(exited{m, p, cause})
	for parcel := range p.outbox {
		parcel.discard()
	}
}

// reply is what a worker says to a message, and how it ends if it does.
func (st *stage) reply(w, life int, m *spec.Message) (reply *spec.Message, exit string) {
	switch st.answer(w, life, m) {
	case "hang":
		return nil, ""
	case "die":
		return nil, "exit status 2"
	case "refuse":
		return &spec.Message{Kind: spec.KindRefused, Generation: m.Spec.Generation, Text: "no"}, ""
	}
	switch m.Kind {
	case spec.KindSpec:
		return &spec.Message{Kind: spec.KindReady, Generation: m.Spec.Generation}, ""
	case spec.KindKeys:
		return &spec.Message{Kind: spec.KindRenewed, Serial: m.Keys.Serial}, ""
	case spec.KindPing:
		return &spec.Message{Kind: spec.KindPong}, ""
	case spec.KindDrain:
		return &spec.Message{Kind: spec.KindDrained}, "exit status 0"
	case spec.KindStop:
		return nil, "exit status 0"
	}
	return nil, ""
}

// title is a message in a transcript: spec 2 :80 :443.
func title(m *spec.Message) string {
	switch m.Kind {
	case spec.KindSpec:
		text := fmt.Sprint("spec ", m.Spec.Generation)
		for _, l := range m.Spec.Listeners {
			text += " " + l.Name
		}
		return text
	case spec.KindDrain:
		return "drain " + m.Limit.String()
	case spec.KindKeys:
		return fmt.Sprintf("keys %d: %d certificates, %d tickets", m.Generation, len(m.Keys.Certificates), len(m.Keys.Tickets))
	}
	return string(m.Kind)
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(workerRole())
	}
	if len(os.Args) > 1 && os.Args[1] == "supervise" {
		os.Exit(supervisorRole(os.Args[2], os.Args[3]))
	}
	// The goroutine that package os/signal starts for the first Notify must not
	// belong to a bubble of synctest: it never ends.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR2)
	signal.Stop(signals)
	code := m.Run()
	if code == 0 {
		code = leaks()
	}
	os.Exit(code)
}
