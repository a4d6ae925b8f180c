package supervisor

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sluice/internal/placement"
	"sluice/internal/segment"
	"sluice/internal/spec"
)

const (
	// A worker that died is started again at once; one that keeps dying waits
	// longer each time, so that a fault on start does not eat the machine. A start
	// takes some 20 ms of CPU time, and while the only worker is away nobody is
	// served: a second is long enough.
	firstPause = 100 * time.Millisecond
	mostPause  = time.Second
	goodLife   = 60 * time.Second // a worker that lived so long begins anew

	// Pings every 30 s, the end 90 s after the first that finds no answer: the
	// intervals of ARR and of IIS application pools. Pings are counted and not time,
	// since all of Sluice may have stood still (Ctrl-Z, a frozen container).
	pingInterval = 30 * time.Second
	pingsAtMost  = 3 // without an answer

	// answerLimit is how long a worker may take to put a configuration into effect,
	// its start included.
	answerLimit = 30 * time.Second
)

// member is a worker's place: processes come and go in it. It belongs to the
// event loop.
type member struct {
	place    placement.Worker
	process  *process // nil: none runs
	state    segment.WorkerState
	restarts int
	pause    restartPause
	startAt  time.Time // the next process; zero: not planned
	away     away
}

// restartPause decides how long to wait before the next start. The zero value is
// that of a worker that never died.
type restartPause struct{ next time.Duration }

// after gives the pause after a worker that lived so long.
func (r *restartPause) after(lived time.Duration) time.Duration {
	if lived >= goodLife {
		r.next = 0
	}
	pause := r.next
	r.next = min(max(2*pause, firstPause), mostPause)
	return pause
}

// start begins a process in m and sends it the configuration that is, or is about
// to be, in force.
func (s *Supervisor) start(m *member) {
	m.startAt = time.Time{}
	m.state = segment.Starting
	s.describe(m)
	first, err := s.target().specFor(m.place, s.bells, s.options.Build)
	if err == nil {
		m.process, err = s.launch(m, s.shared, s.deliver)
	}
	if err != nil {
		first.discard()
		s.lost(m, 0, fmt.Errorf("worker %d cannot be started: %w", m.place.Index, err))
		return
	}
	s.describe(m)
	s.send(m, first)
}

// describe tells the readers of the segment who works there. What a process held
// ends with it: its permits, and then its gauges. A place where none has been yet
// is left alone, so that the loops are the first to touch their memory.
func (s *Supervisor) describe(m *member) {
	w := s.shared.Worker(m.place.Index)
	w.Node.Store(int64(m.place.Node))
	w.Loops.Store(int64(m.place.Loops))
	w.Restarts.Store(int64(m.restarts))
	if m.process != nil {
		w.PID.Store(int64(m.process.pid))
		w.Started.Store(m.process.started.UnixNano())
		return
	}
	w.State.Store(int64(m.state))
	w.Generation.Store(0)
	w.Away.Store(0)
	if w.PID.Swap(0) != 0 {
		s.regulator.GiveBack(m.place.Index)
		s.shared.ResetGauges(m.place.Index)
	}
}

// send gives the process of m a configuration and expects an answer.
func (s *Supervisor) send(m *member, parcel *parcel) {
	p := m.process
	p.want, p.have = parcel.message.Spec.Generation, 0
	if keys := parcel.message.Spec.Keys; keys != nil {
		p.keysSent = keys.Serial
	}
	p.answerBy = time.Now().Add(answerLimit)
	p.send(parcel)
}

// listen takes a message of a worker.
func (s *Supervisor) listen(m *member, p *process, message *spec.Message) {
	switch message.Kind {
	case spec.KindReady:
		if message.Generation != p.want {
			return // an older one, overtaken by the next
		}
		p.have, p.answerBy = p.want, time.Time{}
		p.keysHave = max(p.keysHave, p.keysSent)
		if p.pingAt.IsZero() {
			p.pingAt = time.Now().Add(pingInterval)
		}
		if m.state == segment.Starting {
			m.state = segment.Serving
			m.away = away{}
			s.steer()
			slog.Info("worker serves", "worker", m.place.Index, "pid", p.pid, "node", m.place.Node, "loops", m.place.Loops)
		}
		s.progress()
	case spec.KindRenewed:
		p.keysHave = max(p.keysHave, message.Serial)
		if message.Text != "" {
			slog.Error("worker does not use new certificates, but the old ones", "worker", m.place.Index, "error", message.Text)
		}
	case spec.KindRefused:
		if message.Generation == p.want {
			s.refused(m, fmt.Errorf("worker %d refused the configuration: %s", m.place.Index, message.Text))
		}
	case spec.KindPong:
		p.unanswered = 0
	case spec.KindDrained:
		slog.Debug("worker has drained", "worker", m.place.Index, "pid", p.pid)
	default:
		slog.Warn("a message that no worker sends", "worker", m.place.Index, "kind", string(message.Kind))
	}
}

// refused follows from a configuration that a worker could not put into effect.
// One that is about to come does not come. One that is in force, and was fine
// when others started, is the worker's trouble: another process may do better.
func (s *Supervisor) refused(m *member, err error) {
	switch {
	case s.phase == starting:
		s.fail(err)
	case s.takes(m.process):
		s.rollBack(err)
	case s.phase == serving:
		slog.Error("worker is replaced", "error", err)
		m.process.end()
	}
}

// bury follows the end of a process.
func (s *Supervisor) bury(e exited) {
	m, p := e.member, e.process
	m.process = nil
	close(p.outbox)
	if s.phase >= draining {
		slog.Info("worker ended", "worker", m.place.Index, "pid", p.pid, "cause", e.cause)
		s.describe(m)
		return
	}
	// What is about to come may be what killed it. Once may be chance.
	if s.takes(p) && p.have != p.want {
		if s.change.deaths++; s.change.deaths > 1 {
			s.rollBack(fmt.Errorf("worker %d died twice while it took the configuration (%s)", m.place.Index, e.cause))
		}
	}
	s.lost(m, time.Since(p.started), fmt.Errorf("worker %d (pid %d) died: %s", m.place.Index, p.pid, e.cause))
}

// lost plans the next process of m. While Sluice starts there is none: who has just
// typed the command should see it fail.
func (s *Supervisor) lost(m *member, lived time.Duration, err error) {
	if s.phase == starting {
		s.fail(err)
		return
	}
	pause := m.pause.after(lived)
	m.startAt = time.Now().Add(pause)
	m.state = segment.Restarting
	m.restarts++
	m.away.begin(time.Now(), pause)
	s.steer()
	s.describe(m)
	slog.Error("worker is restarted", "error", err, "lived", lived.Round(time.Millisecond), "pause", pause)
}

// attend does what is due for m: start, ping, end.
func (s *Supervisor) attend(m *member, a *alarm) {
	if a.due(m.startAt) {
		s.start(m)
	}
	if a.due(m.away.outAt) {
		m.away.outAt, m.away.out = time.Time{}, true
		slog.Warn("worker stays away; its new connections go to others, if there are any", "worker", m.place.Index)
		s.steer()
	}
	p := m.process
	if p == nil {
		return
	}
	if a.due(p.answerBy) {
		p.answerBy = time.Time{}
		err := fmt.Errorf("worker %d did not put the configuration into effect within %s", m.place.Index, answerLimit)
		s.refused(m, err)
		p.end()
		return
	}
	if !a.due(p.pingAt) {
		return
	}
	if p.unanswered == pingsAtMost {
		slog.Error("worker does not answer and is killed", "worker", m.place.Index, "pid", p.pid, "pings", p.unanswered)
		p.pingAt = time.Time{}
		p.end()
		return
	}
	p.say(spec.KindPing)
	p.unanswered++
	p.pingAt = a.now.Add(pingInterval)
}

func (s *Supervisor) everyWorkerHas(generation uint64) bool {
	return !slices.ContainsFunc(s.members, func(m *member) bool {
		return m.process == nil || m.process.have != generation
	})
}

func (s *Supervisor) everyWorkerIsGone() bool {
	return !slices.ContainsFunc(s.members, func(m *member) bool { return m.process != nil })
}

func placesOf(members []*member) []placement.Worker {
	places := make([]placement.Worker, len(members))
	for i, m := range members {
		places[i] = m.place
	}
	return places
}
