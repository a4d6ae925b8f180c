package worker

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/accesslog"
	"sluice/internal/admission"
	"sluice/internal/affinity"
	"sluice/internal/proxy"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/spec"
	"sluice/internal/tcp"
	"sluice/internal/tlsterm"
	"sluice/internal/upstream"
)

// lane is one loop with all that belongs to it. Loop only, once it runs.
type lane struct {
	index      int
	thread     atomic.Int64 // number of the loop's thread; 0: it does not run yet
	loop       *reactor.Loop
	pool       *upstream.Pool
	desk       *admission.Desk
	tcp        *tcp.Service
	proxy      *proxy.Proxy
	stats      *segment.LoopStats
	seen       reactor.Stats // what of the loop's figures is in stats already
	log        *accesslog.Log
	shedder    *shedder
	doorkeeper *doorkeeper
	greetings  map[*greeting]struct{} // connections whose PROXY header has not come
	scratch    []byte                 // for bytes that are looked at; nil: never used
	listeners  map[int]*listening     // by descriptor
	porches    map[int]*porch         // sockets for QUIC, by descriptor
	sounding   *sounding              // immutable
	retiring   map[uint64]*porch      // those that are no longer in the configuration, by cookie
	allPorches *porches               // of the worker
	draining   bool

	silent   map[*handshake]struct{} // TLS clients that have said nothing yet
	shakings map[string]*shakings    // by listener
	rota     rota                    // of handshakes

	siblings []*lane      // all of the worker, this one too; immutable
	unlooked int          // connections to come before the next look at them
	arriving atomic.Int64 // connections that siblings have handed over, and that are not here yet; any goroutine
}

// listening is a listening socket that this lane serves. A reload may give it
// another name.
type listening struct {
	*reactor.Listener
	as *entrance
}

// newLane makes loop i of the worker that s describes.
func newLane(shared *segment.Segment, office *admission.Office, s *spec.Spec, i int) (*lane, error) {
	l := &lane{
		index: i, stats: shared.Loop(s.Worker, i), listeners: map[int]*listening{}, porches: map[int]*porch{}, retiring: map[uint64]*porch{},
		greetings: map[*greeting]struct{}{}, silent: map[*handshake]struct{}{}, shakings: map[string]*shakings{},
	}
	l.rota = rota{lane: l, by: map[netip.Prefix]*network{}}
	options := reactor.Options{Observe: l.observe, Panicked: l.panicked, Pin: func() { l.settle(s) }}
	var err error
	if l.loop, err = reactor.New(options); err != nil {
		return nil, err
	}
	l.sounding = &sounding{submit: l.loop.Submit, lag: l.loop.Lag, clock: l.loop.Clock}
	stats := func(slot int) *segment.ServerStats { return shared.Server(s.Worker, i, slot) }
	l.pool = upstream.NewPool(l.loop, l.dial, l.adopt, stats, &l.stats.Takeovers)
	l.desk = office.NewDesk(stats, monotonic()-l.loop.Clock())
	l.proxy = proxy.New(l.loop, l.pool, l.desk, l.stats, proxy.Place{Worker: s.Worker, Node: s.Node, Loop: i})
	l.pool.CarryBy(l.proxy.Carry)
	l.tcp = tcp.New(l.loop, l.pool, l.stats, tcp.Place{Worker: s.Worker, Node: s.Node, Loop: i})
	return l, nil
}

// settle is what the loop's thread does first: it says its number, and goes to its
// CPU.
func (l *lane) settle(s *spec.Spec) {
	l.thread.Store(int64(unix.Gettid()))
	if !s.Pin || len(s.CPUs) == 0 {
		return
	}
	cpu := s.CPUs[l.index%len(s.CPUs)]
	if err := affinity.PinThread(cpu); err != nil {
		slog.Warn("a loop runs unpinned", "loop", l.index, "cpu", cpu, "error", err)
	}
}

// monotonic reads the clock that all processes of the machine share,
// CLOCK_MONOTONIC, ns.
func monotonic() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails for no clock that exists
	return t.Nano()
}

func (l *lane) dial(a reactor.Address, timeout time.Duration) (reactor.Stream, error) {
	c, err := l.loop.Dial(a, timeout)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (l *lane) adopt(fd int) (reactor.Stream, error) {
	c, err := l.loop.Adopt(fd, netip.AddrPort{})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// apply makes s the lane's configuration.
func (l *lane) apply(s *spec.Spec, snapshot *proxy.Snapshot, gone []*upstream.State, log *accesslog.Log, terminators []*tlsterm.Terminator, raw map[string]*tcp.Listener) {
	if log != l.log || l.log == nil {
		l.log = log
		w := log.Writer(l.index, &l.stats.LogDropped)
		l.proxy.LogTo(w)
		l.tcp.LogTo(w)
	}
	l.proxy.Apply(snapshot)
	l.proxy.Prove(proofsOf(s.Keys))
	l.tcp.Renew()
	for _, state := range gone {
		l.pool.Retire(state)
	}
	kept := map[int]bool{}
	entrances := make([]*entrance, len(s.Listeners))
	for i, ln := range s.Listeners {
		fd := ln.Sockets[l.index]
		kept[fd] = true
		as := newEntrance(s, ln, fd, terminators[i], raw[ln.Name])
		entrances[i] = as
		if on := l.listeners[fd]; on != nil {
			on.as = as
		} else {
			l.listen(fd, as)
		}
	}
	for fd, ln := range l.listeners {
		if !kept[fd] {
			ln.Close()
			delete(l.listeners, fd)
		}
	}
	l.applyQUIC(s, entrances)
}

// proofsOf are the answers to authorities that ask by HTTP, by path.
func proofsOf(keys *spec.Keys) map[string]string {
	proofs := map[string]string{}
	if keys == nil {
		return proofs
	}
	for _, c := range keys.Challenges {
		if c.Path != "" {
			proofs[c.Path] = c.Answer
		}
	}
	return proofs
}

// renew gives the listeners of s, which is in effect, other certificates.
func (l *lane) renew(s *spec.Spec, keys *spec.Keys, terminators []*tlsterm.Terminator) {
	l.proxy.Prove(proofsOf(keys))
	for i, ln := range s.Listeners {
		if on := l.listeners[ln.Sockets[l.index]]; on != nil {
			on.as = on.as.renewed(terminators[i])
		}
		if len(ln.Packets) > 0 {
			if p := l.porches[ln.Packets[l.index]]; p != nil {
				p.renew(s, p.as.renewed(terminators[i]))
			}
		}
	}
}

func (l *lane) listen(fd int, as *entrance) {
	on := &listening{as: as}
	var err error
	on.Listener, err = l.loop.Listen(fd, func(c *reactor.Conn) {
		if !l.refuse(c, on.as) && !l.handOver(c, on.as) {
			l.enter(c, on.as)
		}
	})
	if err != nil {
		slog.Error("a listening socket is not served", "listener", as.http.Name, "loop", l.index, "error", err)
		return
	}
	l.listeners[fd] = on
}

// drain takes what is queued, accepts no more, and has the sessions end.
func (l *lane) drain() {
	l.draining = true
	for fd, ln := range l.listeners {
		ln.Close()
		delete(l.listeners, fd)
	}
	for _, p := range l.porches {
		p.server.Drain()
	}
	for g := range l.greetings {
		g.wait(drainGrace)
	}
	for h := range l.silent {
		h.hurry()
	}
	l.tcp.Drain()
	l.proxy.Drain()
}

// observe adds what is new in the loop's figures to the segment's, which go on
// from one process to the next.
func (l *lane) observe(s reactor.Stats) {
	l.stats.Turns.Add(s.Turns - l.seen.Turns)
	l.stats.BusyNanos.Add(s.BusyNanos - l.seen.BusyNanos)
	l.stats.AcceptPauses.Add(s.AcceptPauses - l.seen.AcceptPauses)
	l.seen = s
}

// panicked reports a task that a fault of ours has ended, and closes its
// connection.
func (l *lane) panicked(job reactor.Job, value any, stack []byte) {
	l.stats.Panics.Inc()
	slog.Error("a task ended by a panic; its connection is closed", "loop", l.index, "panic", value, "stack", string(stack))
	if job, ok := job.(interface{ Abandon() }); ok {
		job.Abandon()
	}
}
