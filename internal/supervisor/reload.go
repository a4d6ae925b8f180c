package supervisor

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sluice/internal/config"
	"sluice/internal/placement"
	"sluice/internal/tlsterm/keyring"
	"sluice/internal/topology"
)

// changeLimit bounds a reload from the moment that the workers are told, with a
// restart of one that died on the way.
const changeLimit = 45 * time.Second

// errStopping answers a reload that comes too late.
var errStopping = errors.New("sluice is stopping; the configuration is not reloaded")

// change is a reload under way.
type change struct {
	next   *edition       // with the workers; nil: still being read
	askers []chan<- error // wait for the outcome
	endBy  time.Time      // zero: still being read
	deaths int            // of workers that had next and not yet answered
}

// asked: somebody wants a reload.
type asked struct{ reply chan<- error } // nil if nobody waits for the outcome

// loaded: the configuration has been read, and the files of its certificates.
type loaded struct {
	config *config.Config
	ring   *keyring.Ring
	err    error
}

// Reload reads the configuration anew and puts it into effect. It returns nil when
// every worker serves it. Any error says why the old one is still in force
// everywhere: config.Faults, a bind error, a worker's refusal, or a change that
// needs a restart. Calls that come while one is under way are served by one more.
func (s *Supervisor) Reload() error {
	reply := make(chan error, 1)
	select {
	case s.events <- asked{reply}:
		return <-reply // the event loop answers everybody before it ends
	case <-s.over:
		return errStopping
	}
}

// ask notes a wish for a reload and begins one if none is under way.
func (s *Supervisor) ask(reply chan<- error) {
	s.askers = append(s.askers, reply)
	s.beginReload()
}

// beginReload reads the configuration for all who have asked up to now: what it
// finds is newer than any of their wishes.
func (s *Supervisor) beginReload() {
	if s.phase >= draining {
		s.answerAskers(errStopping)
		return
	}
	if len(s.askers) == 0 || s.loading || s.change != nil || s.phase == starting {
		return
	}
	s.loading = true
	s.change = &change{askers: s.askers}
	s.askers = nil
	s.notify.reloading()
	go s.load()
}

// load reads the configuration and its certificates. It has a goroutine of its own, as a file system
// may take its time.
func (s *Supervisor) load() {
	var l loaded
	if l.config, l.err = s.options.Load(); l.err == nil {
		l.ring, l.err = readKeys(l.config)
	}
	if l.err == nil {
		s.noteIdle(l.config.Workers)
	}
	s.deliver(l)
}

// noteIdle logs the CPUs that were off when Sluice started and are on now, if a start
// would put loops there. A reload does not: loops, their sockets and their places in
// the segment are made once.
func (s *Supervisor) noteIdle(w config.Workers) {
	machine, err := topology.Read(s.options.Root)
	if err != nil {
		return // nothing is known, and nothing was asked
	}
	if idle := s.idle(machine, w); len(idle) > 0 {
		slog.Warn("these CPUs have no loop, as they were off when Sluice started; a restart gives them one", "cpus", topology.FormatCPUs(idle))
	}
}

// idle are those CPUs, ascending. Our own affinity says nothing of them: threads whose
// CPUs were set while others were off (package affinity) are kept from these.
func (s *Supervisor) idle(machine *topology.Machine, w config.Workers) []int {
	machine.Affinity.CPUs = nil
	plan, err := placement.Plan(machine, Wishes(w))
	if err != nil {
		return nil
	}
	var cpus []int
	for _, worker := range plan.Workers {
		cpus = append(cpus, slices.DeleteFunc(slices.Clone(worker.CPUs), func(cpu int) bool {
			return slices.ContainsFunc(s.nodes, func(n topology.Node) bool { return slices.Contains(n.CPUs, cpu) })
		})...)
	}
	slices.Sort(cpus)
	return cpus
}

// take prepares the configuration that was read and sends it to the workers.
func (s *Supervisor) take(l loaded) {
	s.loading = false
	if s.change == nil {
		return // given up meanwhile
	}
	err := l.err
	if err == nil {
		s.change.next, err = s.prepare(l.config, l.ring)
	}
	if err != nil {
		s.finishReload(err)
		return
	}
	s.steer()
	s.regulate()
	s.change.endBy = time.Now().Add(changeLimit)
	for _, m := range s.members {
		if m.process == nil {
			continue
		}
		parcel, err := s.change.next.specFor(m.place, s.bells, s.options.Build)
		if err != nil {
			s.rollBack(err)
			return
		}
		s.send(m, parcel)
	}
	s.progress()
}

// prepare makes the next edition, and moves the admin interface if it has another
// address now.
func (s *Supervisor) prepare(cfg *config.Config, ring *keyring.Ring) (*edition, error) {
	if err := lastingFault(s.current.config, cfg); err != nil {
		return nil, err
	}
	next, err := newEdition(cfg, ring, s.generation+1, s.current, placesOf(s.members), s.shared)
	if err != nil {
		return nil, err
	}
	if err := s.admin.Apply(cfg); err != nil {
		next.closeBut(s.current)
		return nil, err
	}
	s.generation++
	s.compose(next)
	return next, nil
}

// target is the edition that a worker is started with: the one that is about to be
// in force, or the one that is.
func (s *Supervisor) target() *edition {
	if s.change != nil && s.change.next != nil {
		return s.change.next
	}
	return s.current
}

// takes says whether the last that p was sent is the reload under way.
func (s *Supervisor) takes(p *process) bool {
	return p.want == s.target().generation && p.want != s.current.generation
}

// progress looks whether what was awaited has come about.
func (s *Supervisor) progress() {
	switch {
	case s.phase == starting && s.everyWorkerHas(s.current.generation):
		s.phase = serving
		slog.Info("ready", "workers", len(s.members), "version", s.options.Build)
		s.notify.ready(s.current.generation)
		s.beginReload()
	case s.phase == serving && s.target() != s.current && s.everyWorkerHas(s.target().generation):
		s.commit()
	}
}

// commit puts the next edition into force: every worker has it.
func (s *Supervisor) commit() {
	last, next := s.current, s.change.next
	s.current = next
	s.regulate()
	last.closeBut(next)
	next.rest(time.Now())
	for i, l := range next.listening {
		l.setBacklog(next.config.Listeners[i].Backlog)
	}
	s.steer()
	setLevel(s.level, next.config)
	slog.Info("configuration reloaded", "generation", next.generation)
	s.finishReload(nil)
}

// rollBack gives every worker the edition in force again. What was opened for the
// next one is closed.
func (s *Supervisor) rollBack(err error) {
	next := s.change.next
	s.change.next = nil
	s.regulate()
	if adminErr := s.admin.Apply(s.current.config); adminErr != nil {
		slog.Error("the admin interface cannot go back to its address", "error", adminErr)
	}
	for _, m := range s.members {
		if m.process == nil || m.process.want != next.generation {
			continue
		}
		parcel, specErr := s.current.specFor(m.place, s.bells, s.options.Build)
		if specErr != nil {
			slog.Error("worker is replaced", "error", specErr)
			m.process.end()
			continue
		}
		s.send(m, parcel)
	}
	next.closeBut(s.current)
	s.finishReload(err)
}

// finishReload tells the outcome to all who wait for it, and begins the reload
// that was asked for meanwhile.
func (s *Supervisor) finishReload(err error) {
	askers := s.change.askers
	s.change = nil
	if err != nil {
		slog.Error("configuration not reloaded; the old one stays in force", "error", err)
		s.notify.refused(s.current.generation)
	} else {
		s.notify.ready(s.current.generation)
	}
	s.refresh()
	s.publish() // who is answered may look at once
	answer(askers, err)
	s.beginReload()
}

// answerAskers refuses the reloads that have not begun.
func (s *Supervisor) answerAskers(err error) {
	answer(s.askers, err)
	s.askers = nil
}

func answer(askers []chan<- error, err error) {
	for _, reply := range askers {
		if reply != nil {
			reply <- err
		}
	}
}

// lastingFault says which change a reload cannot make: of what was decided when
// Sluice and its processes were started.
func lastingFault(last, next *config.Config) error {
	for _, part := range []struct {
		key      string
		was, now any
	}{
		{"workers.per", last.Workers.Per, next.Workers.Per},
		{"workers.affinity", last.Workers.Affinity, next.Workers.Affinity},
		{"workers.memory", last.Workers.Memory, next.Workers.Memory},
		{"workers.loops", last.Workers.Loops, next.Workers.Loops},
		{"workers.reserve", last.Workers.Reserve, next.Workers.Reserve},
		{"workers.cpus", last.Workers.CPUs, next.Workers.CPUs},
		{"workers.nodes", last.Workers.Nodes, next.Workers.Nodes},
		{"state", last.State, next.State},
	} {
		if part.was != part.now {
			was := told(part.was)
			return fmt.Errorf("%s: %s: was %s when Sluice started, and a reload cannot change it; restart Sluice, or write %s",
				part.key, told(part.now), was, was)
		}
	}
	return nil
}

// told is a value in a sentence: an empty text shows.
func told(value any) string {
	if value == "" {
		return `""`
	}
	return fmt.Sprint(value)
}
