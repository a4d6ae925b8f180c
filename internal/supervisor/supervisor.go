// Package supervisor keeps the workers alive and tells them what to serve. It
// carries no traffic.
//
// It owns what must outlive a worker: the listening sockets, the shared segment,
// the limits of servers, the configuration in force. One goroutine, the event loop in Run, owns all of
// its state, so there is no lock; everything else reaches it as an event:
//
//	watch    (per process) messages of a worker, then its exit
//	signals  SIGHUP, SIGTERM, SIGINT, SIGUSR1
//	load     (per reload) the configuration that was read
//	watch    certificates that have changed (keys.go)
//	Reload   a call from the admin interface
//
// and sees it as an immutable snapshot (view.go). The event loop never waits: a
// message goes to a worker by its outbox, a file is read by a goroutine.
//
// The life of a configuration, which the files follow:
//
//  1. it is read and checked                              reload.go
//  2. its new sockets and segment slots are prepared      edition.go, socket.go; steering.go, program.go
//  3. it is sent to every worker; all answer              member.go, process.go
//  4. it is in force, and the sockets that it lacks close reload.go
//
// If anything fails before step 4, the one before stays in force everywhere.
package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"sluice/internal/admin"
	"sluice/internal/admission/regulator"
	"sluice/internal/config"
	"sluice/internal/homes"
	"sluice/internal/placement"
	"sluice/internal/segment"
	"sluice/internal/topology"
)

// Options are what a supervisor needs from its caller.
type Options struct {
	// Load reads the configuration: once in New, and for each reload, on a goroutine
	// of its own. The values that it returns are not changed afterwards.
	Load func() (*config.Config, error)

	// Build is the version of the binary.
	Build string

	// Root is where /sys and /proc are found; empty: the real ones.
	Root string
}

// Supervisor is a running Sluice. New makes it, Run is its life; the other
// methods may be called from any goroutine.
type Supervisor struct {
	options Options          // immutable
	started time.Time        // immutable
	shared  *segment.Segment // immutable
	nodes   []topology.Node  // immutable: of the machine at the start
	level   *slog.LevelVar   // of the supervisor's log
	bells   bells            // immutable
	launch  func(*member, *segment.Segment, func(event)) (*process, error)

	events    chan event
	regulator *regulator.Regulator     // has a lock of its own
	homes     *homes.Homes             // has a lock of its own
	over      chan struct{}            // closed when the event loop has ended
	shown     atomic.Pointer[snapshot] // written by the event loop, after each event

	// The rest belongs to the event loop, and to New and Run before it begins.
	phase      phase
	failure    error // why Sluice does not start
	stopBy     time.Time
	members    []*member
	current    *edition
	generation uint64 // the last one given out
	loading    bool   // a configuration is being read
	change     *change
	askers     []chan<- error // reloads that have not begun
	admin      *admin.Server
	notify     *notifier
	keys       keys
}

// phase is where the supervisor is in its life.
type phase int

const (
	starting phase = iota // not every worker has served yet
	serving
	draining // SIGTERM: requests in progress end
	stopping // everything is closed
)

// event is something that happened: exited, heard, signalled, asked, loaded, reread,
// stapled, challenged or cancelled.
type event any

// cancelled: the context of Run has ended.
type cancelled struct{}

// New reads the configuration, plans the workers and opens every listening
// socket, so that what is wrong shows before anything is started. It returns
// config.Faults, a bind error, or what else is in the way. It makes the program's
// log (log/slog) one of text on standard error.
func New(o Options) (*Supervisor, error) {
	cfg, err := o.Load()
	if err != nil {
		return nil, err
	}
	level := new(slog.LevelVar)
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
	setLevel(level, cfg)
	machine, err := topology.Read(o.Root)
	if err != nil {
		return nil, err
	}
	workers, err := planWorkers(machine, cfg.Workers)
	if err != nil {
		return nil, err
	}
	return assemble(o, cfg, workers, machine.Nodes, level)
}

// assemble makes the supervisor of the given workers on a machine of these nodes.
func assemble(o Options, cfg *config.Config, workers []placement.Worker, nodes []topology.Node, level *slog.LevelVar) (*Supervisor, error) {
	ring, err := readKeys(cfg)
	if err != nil {
		return nil, err
	}
	s := &Supervisor{
		options: o, started: time.Now(), nodes: nodes, level: level, launch: launch,
		events: make(chan event), over: make(chan struct{}), generation: 1,
	}
	if s.shared, err = segment.Create(shapeFor(workers, cfg)); err != nil {
		return nil, err
	}
	if s.current, err = newEdition(cfg, ring, s.generation, nil, workers, s.shared); err != nil {
		s.shared.Close()
		return nil, err
	}
	s.compose(s.current)
	if s.bells, err = newBells(len(workers)); err != nil {
		s.current.closeBut(nil)
		s.shared.Close()
		return nil, err
	}
	s.regulator = regulator.New(regulator.Options{
		Shared: s.shared, Ring: s.bells.ring, Answered: s.bells.answered,
		State: regulator.Path(cfg.State, os.Getenv, os.Getuid()),
	})
	s.homes = homes.New(os.DirFS(cmp.Or(o.Root, "/")), nodes, s.shared)
	s.regulate()
	for _, w := range workers {
		s.members = append(s.members, &member{place: w, state: segment.Starting})
	}
	s.steer()
	s.publish()
	return s, nil
}

// planWorkers decides which worker runs where on a machine.
func planWorkers(machine *topology.Machine, w config.Workers) ([]placement.Worker, error) {
	wishes := Wishes(w)
	wishes.Allowed = topology.Allowed()
	plan, err := placement.Plan(machine, wishes)
	if err != nil {
		return nil, err
	}
	for _, note := range plan.Notes {
		slog.Info("placement", "note", note)
	}
	for _, wish := range plan.Unmet {
		slog.Warn("placement", "unmet", wish)
	}
	return plan.Workers, nil
}

// Wishes are a configuration's words for where workers run, for placement.Plan.
// What this process was given is not among them.
func Wishes(w config.Workers) placement.Wishes {
	return placement.Wishes{
		Per: w.Per, Loops: w.Loops, Affinity: w.Affinity, Memory: w.Memory,
		Reserve: w.Reserve, CPUs: w.CPUs, Nodes: w.Nodes,
	}
}

// shapeFor leaves room for as many servers again as there are, since a reload
// cannot enlarge the segment.
func shapeFor(workers []placement.Worker, cfg *config.Config) segment.Shape {
	shape := segment.Shape{Workers: len(workers)}
	for _, w := range workers {
		shape.Loops = max(shape.Loops, w.Loops)
	}
	shape.Servers = min(max(segment.DefaultServers, 2*len(serversOf(cfg))), segment.MaxServers)
	return shape
}

// Run starts the workers and serves until a signal or the end of ctx stops it. It
// returns nil after an orderly end, and an error if Sluice could not start: the
// admin address, or a worker that died or refused before all of them served.
// SIGTERM drains; SIGINT, a second SIGTERM and the end of ctx stop.
func (s *Supervisor) Run(ctx context.Context) error {
	defer s.shared.Close()
	defer s.bells.close()
	defer s.keepLimits()()
	defer s.closeSockets()
	s.notify = newNotifier(os.Getenv)
	defer s.notify.close()
	var err error
	if s.admin, err = admin.Serve(s); err != nil {
		close(s.over)
		return err
	}
	defer s.admin.Close()
	defer context.AfterFunc(ctx, func() { s.deliver(cancelled{}) })()
	defer s.relaySignals()()
	defer s.watchKeys()()
	defer close(s.over) // first: whoever is waited for above may be waiting for the event loop

	s.logListeners()
	for _, m := range s.members {
		if s.phase == starting {
			s.start(m)
		}
	}
	s.loop()
	s.notify.send("STATUS=ended")
	return s.failure
}

// loop is the event loop. It ends when the phase is stopping or draining and no
// worker is left.
func (s *Supervisor) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(s.tick()))
		s.publish()
		if s.phase >= draining && s.everyWorkerIsGone() {
			return
		}
		select {
		case e := <-s.events:
			s.handle(e)
		case <-timer.C:
		}
	}
}

func (s *Supervisor) handle(e event) {
	switch e := e.(type) {
	case exited:
		s.bury(e)
	case heard:
		s.listen(e.member, e.process, e.message)
	case signalled:
		s.obey(e.signal)
	case asked:
		s.ask(e.reply)
	case loaded:
		s.take(e)
	case reread:
		s.renew(e)
	case stapled:
		s.keys.staples = e.staples
		s.refresh()
	case ordered:
		s.keys.orders = e.orders
	case challenged:
		s.challenge(e)
	case cancelled:
		s.stop()
	}
	s.prove()
}

// deliver gives an event to the event loop, or drops it when that has ended.
func (s *Supervisor) deliver(e event) {
	select {
	case s.events <- e:
	case <-s.over:
	}
}

// alarm collects the moments at which something is to be done, while whatever is
// due is done.
type alarm struct {
	now   time.Time
	next  time.Time // the earliest moment to come
	acted bool
}

// due says whether t has come. The zero time never comes. Whoever acts on it must
// move its moment forward.
func (a *alarm) due(t time.Time) bool {
	switch {
	case t.IsZero():
		return false
	case !t.After(a.now):
		a.acted = true
		return true
	case t.Before(a.next):
		a.next = t
	}
	return false
}

// longestSleep: with nothing planned the event loop still looks around so often.
const longestSleep = time.Hour

// tick does all that is due, and returns when the next thing will be.
func (s *Supervisor) tick() time.Time {
	for {
		now := time.Now()
		a := &alarm{now: now, next: now.Add(longestSleep)}
		for _, m := range s.members {
			s.attend(m, a)
		}
		if s.change != nil && a.due(s.change.endBy) {
			s.rollBack(fmt.Errorf("the workers did not take the configuration within %s", changeLimit))
		}
		if s.change == nil { // else the next edition may be about to have them
			s.current.relieve(a)
		}
		if a.due(s.stopBy) {
			s.lose()
		}
		if a.due(s.keys.renewAt) {
			s.refresh()
		}
		s.notify.feed(a)
		if !a.acted {
			return a.next
		}
	}
}

func setLevel(level *slog.LevelVar, cfg *config.Config) {
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		slog.Warn("log.level is unknown; the last one stays", "error", err)
	}
}

func (s *Supervisor) logListeners() {
	for i, l := range s.current.listening {
		slog.Info("listening", "listener", s.current.config.Listeners[i].Name, "address", l.bound)
	}
	if address := s.admin.Addr(); address != nil {
		slog.Info("admin interface", "address", address.String())
	}
}
