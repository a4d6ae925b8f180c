package worker

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/accesslog"
	"sluice/internal/admission"
	"sluice/internal/affinity/spread"
	"sluice/internal/config"
	"sluice/internal/http3"
	"sluice/internal/proxy"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/spec"
	"sluice/internal/tcp"
	"sluice/internal/tlsterm"
	"sluice/internal/upstream"
)

// traffic serves clients: one lane per loop, and what the lanes share. Its
// methods are called as Traffic says.
type traffic struct {
	shared  *segment.Segment
	index   int // of this worker
	servers *upstream.Servers
	lines   *admission.Lines // touched on the first lane's loop only
	shedder *shedder
	roamer  *roamer // nil if loops stay on the worker's CPUs
	keeper  *keeper // nil before the first configuration
	lanes   []*lane
	current *spec.Spec // in effect; nil before the first
	maker   tlsterm.Maker
	tcp     tcp.Open
	log     *accesslog.Log
	logged  config.AccessLog // what log was opened for
	porches porches
	closing chan struct{}
	once    sync.Once
}

// NewTraffic makes the traffic half of worker index.
func NewTraffic(shared *segment.Segment, index int) Traffic {
	return &traffic{
		shared: shared, index: index, servers: upstream.NewServers(),
		lines:   admission.NewLines(func(slot int) *segment.LineStats { return shared.Line(index, slot) }),
		shedder: newShedder(index, readProcess), tcp: tcp.Open{}, closing: make(chan struct{}),
		porches: porches{open: map[*http3.Server]struct{}{}},
	}
}

// Apply implements Traffic. What can fail comes first, so that an error leaves
// everything as it was.
func (t *traffic) Apply(s *spec.Spec) error {
	if _, err := proxy.NewSnapshot(s.Config, nil, nil); err != nil {
		return err
	}
	terminators, err := t.terminatorsOf(s, s.Keys)
	if err != nil {
		return err
	}
	servers, err := tlsterm.Servers(s.Config, s.Keys)
	if err != nil {
		return err
	}
	log, err := t.openLog(s)
	if err != nil {
		return err
	}
	if t.lanes == nil {
		if err := t.start(s); err != nil {
			log.Close()
			return err
		}
	}
	t.servers.Secure(servers)
	farms, gone := t.servers.Apply(s.Config, slots(s.Servers))
	var lines []*admission.Line
	t.on(t.lanes[:1], func(l *lane) { lines = t.lines.Apply(l.desk, farms, l.loop.Now()) })
	snapshot, err := proxy.NewSnapshot(s.Config, farms, lines)
	if err != nil {
		return err
	}
	raw := t.tcp.Listeners(s.Config, farms)
	t.shedder.apply(s.Config.Overload)
	t.each(func(l *lane) { l.apply(s, snapshot, gone, log, terminators, raw) })
	t.current = s
	if log != t.log {
		t.log.Close()
		t.log, t.logged = log, s.Config.Log.Access
	}
	return nil
}

// Renew implements Traffic.
func (t *traffic) Renew(keys *spec.Keys) error {
	terminators, err := t.terminatorsOf(t.current, keys)
	if err != nil {
		return err
	}
	servers, err := tlsterm.Servers(t.current.Config, keys)
	if err != nil {
		return err
	}
	t.servers.Renew(t.current.Config, servers)
	t.each(func(l *lane) { l.renew(t.current, keys, terminators) })
	return nil
}

// terminatorsOf are those of the listeners of s, nil for one without TLS.
func (t *traffic) terminatorsOf(s *spec.Spec, keys *spec.Keys) ([]*tlsterm.Terminator, error) {
	terminators, err := t.maker.New(s.Config, keys, "h2", "http/1.1")
	for len(terminators) < len(s.Listeners) {
		terminators = append(terminators, nil)
	}
	return terminators, err
}

// slots finds a server's place in the segment.
func slots(servers []spec.ServerSlot) func(farm, url string) int {
	type identity struct{ farm, url string }
	known := make(map[identity]int, len(servers))
	for _, s := range servers {
		known[identity{s.Farm, s.URL}] = s.Slot
	}
	return func(farm, url string) int { return known[identity{farm, url}] }
}

// openLog is the access log that s asks for: the present one if it is the same.
func (t *traffic) openLog(s *spec.Spec) (*accesslog.Log, error) {
	if t.lanes != nil && s.Config.Log.Access == t.logged {
		return t.log, nil
	}
	log, err := accesslog.Open(s.Config.Log.Access, s.Loops)
	if err != nil {
		return nil, fmt.Errorf("log.access: %w", err)
	}
	return log, nil
}

// start makes and runs the lanes.
func (t *traffic) start(s *spec.Spec) error {
	office := &admission.Office{
		Worker: s.Worker, Gates: t.shared.Gate,
		Ring: func(worker int) { reactor.Ring(s.Bells[worker]) },
	}
	t.servers.Settle(s.Nodes, t.shared.Home)
	var stats []*segment.LoopStats
	for i := range s.Loops {
		l, err := newLane(t.shared, office, s, i)
		if err != nil {
			for _, l := range t.lanes {
				l.loop.Close()
			}
			t.lanes = nil
			return fmt.Errorf("loop %d: %w", i, err)
		}
		l.shedder, l.doorkeeper, l.allPorches = t.shedder, &t.shedder.doorkeeper, &t.porches
		t.lanes = append(t.lanes, l)
		stats = append(stats, l.stats)
		go l.loop.Run()
	}
	pools := make([]*upstream.Pool, len(t.lanes))
	for i, l := range t.lanes {
		pools[i] = l.pool
		l.siblings = t.lanes
	}
	upstream.Join(pools)
	t.shedder.start(stats)
	if len(s.Overflow) > 0 {
		t.roamer = newRoamer(spread.New(s.CPUs, s.Overflow, s.Loops), t.shared.Worker(t.index), thisMachine(), t.threads)
		t.roamer.start()
	}
	t.keeper = newKeeper(s.CPUs, s.Pin, thisKernel(), t.threads)
	t.keeper.start()
	return t.answer(s.Bells[s.Worker])
}

// threads are the numbers of the loops' threads.
func (t *traffic) threads() []int {
	threads := make([]int, len(t.lanes))
	for i, l := range t.lanes {
		threads[i] = int(l.thread.Load())
	}
	return threads
}

// answer has the worker look after its lines whenever its bell is rung.
func (t *traffic) answer(bell int) (err error) {
	t.on(t.lanes[:1], func(l *lane) {
		err = l.loop.Answer(bell, func() { t.lines.Look(l.desk, l.loop.Now()) })
	})
	return err
}

// each runs f on every lane's loop and returns when all have, or when Close has
// begun: a loop that has ended runs nothing.
func (t *traffic) each(f func(l *lane)) { t.on(t.lanes, f) }

// on is each for some of the lanes.
func (t *traffic) on(lanes []*lane, f func(l *lane)) {
	ran := make(chan struct{}, len(lanes))
	for _, l := range lanes {
		l.loop.Submit(func() {
			f(l)
			ran <- struct{}{}
		})
	}
	for range lanes {
		select {
		case <-ran:
		case <-t.closing:
			return
		}
	}
}

// Probe implements Prober.
func (t *traffic) Probe() { t.each(func(*lane) {}) }

// drainPoll is how often Drain looks whether all connections are gone.
const drainPoll = 20 * time.Millisecond

// Drain implements Traffic.
func (t *traffic) Drain(limit time.Duration) {
	t.each(func(l *lane) { l.drain() })
	over := time.NewTimer(limit)
	defer over.Stop()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for t.connections() > 0 {
		select {
		case <-tick.C:
		case <-over.C:
			return
		case <-t.closing:
			return
		}
	}
}

func (t *traffic) connections() (n int64) {
	for _, l := range t.lanes {
		n += l.load()
	}
	return n
}

// ReopenLogs implements Traffic.
func (t *traffic) ReopenLogs() error { return t.log.Reopen() }

// Close implements Traffic.
func (t *traffic) Close() {
	t.once.Do(func() {
		close(t.closing)
		t.shedder.close()
		t.roamer.close()
		t.keeper.close()
		t.porches.close()
		for _, l := range t.lanes {
			l.loop.Close()
		}
		t.servers.Close()
		t.log.Close()
	})
}

// portOf is the port that a listening socket is bound to, as text.
func portOf(fd int, address string) string {
	sa, err := unix.Getsockname(fd)
	if err == nil {
		switch a := sa.(type) {
		case *unix.SockaddrInet4:
			return strconv.Itoa(a.Port)
		case *unix.SockaddrInet6:
			return strconv.Itoa(a.Port)
		}
	}
	_, port, _ := net.SplitHostPort(address)
	return port
}
