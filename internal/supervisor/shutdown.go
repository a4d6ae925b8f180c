package supervisor

import (
	"log/slog"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/segment"
	"sluice/internal/spec"
)

const (
	// drainGrace is what workers may take beyond timeouts.drain, to say goodbye to
	// the connections that are left then.
	drainGrace = 5 * time.Second

	// stopGrace is what workers may take to close everything. Then they are killed.
	stopGrace = 5 * time.Second
)

// signalled: the process got a signal.
type signalled struct{ signal os.Signal }

// relaySignals makes events of signals, until the function that it returns is
// called.
func (s *Supervisor) relaySignals() (end func()) {
	// A log line that nobody reads any more shall not end the program.
	signal.Ignore(unix.SIGPIPE)
	signals := make(chan os.Signal, 8) // a burst of SIGHUP is one wish
	signal.Notify(signals, unix.SIGHUP, unix.SIGTERM, unix.SIGINT, unix.SIGUSR1, unix.SIGUSR2)
	relayed := make(chan struct{})
	go func() {
		defer close(relayed)
		for signal := range signals {
			s.deliver(signalled{signal})
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-relayed
	}
}

// obey does what a signal asks for.
func (s *Supervisor) obey(signal os.Signal) {
	slog.Info("signal", "signal", signal.String())
	switch signal {
	case unix.SIGHUP:
		s.ask(nil)
	case unix.SIGUSR1:
		s.tellAll(spec.Message{Kind: spec.KindReopen})
	case unix.SIGUSR2: // left alone it would end the program
		slog.Warn("this version cannot upgrade its binary while it runs; restart it")
	case unix.SIGTERM:
		if s.phase < draining {
			s.drain()
		} else {
			s.stop()
		}
	case unix.SIGINT:
		s.stop()
	}
}

// drain lets requests in progress end. Nobody can connect any more once the
// workers have accepted what was queued and closed their side of the sockets.
func (s *Supervisor) drain() {
	limit := time.Duration(s.current.config.Timeouts.Drain)
	slog.Info("draining", "limit", limit)
	s.leaveService(draining)
	s.tellAll(spec.Message{Kind: spec.KindDrain, Limit: limit})
	s.stopBy = time.Now().Add(limit + drainGrace)
}

// stop closes everything in good order: idle workers end at once. Said a second
// time it kills.
func (s *Supervisor) stop() {
	if s.phase == stopping {
		s.kill()
		return
	}
	s.leaveService(stopping)
	s.tellAll(spec.Message{Kind: spec.KindStop})
	s.stopBy = time.Now().Add(stopGrace)
}

// lose follows from a stopBy that came: patience is over.
func (s *Supervisor) lose() {
	s.stopBy = time.Time{}
	slog.Warn("workers have not ended in time", "workers", s.running())
	s.stop()
}

func (s *Supervisor) kill() {
	for _, m := range s.members {
		if m.process != nil {
			m.process.end()
		}
	}
}

// fail ends a Sluice that cannot start. The first reason counts.
func (s *Supervisor) fail(err error) {
	if s.failure == nil {
		s.failure = err
	}
	if s.phase < stopping {
		s.stop()
	}
}

// leaveService is what drain and stop have in common.
func (s *Supervisor) leaveService(to phase) {
	if s.phase < draining {
		s.notify.stopping()
		s.abandonReload()
		s.closeSockets()
	}
	s.phase = to
	for _, m := range s.members {
		m.startAt = time.Time{}
		m.state = segment.Draining
	}
}

// abandonReload gives up the reload under way, and those to come. Workers that have
// its configuration keep it for the rest of their lives, which makes no difference
// now.
func (s *Supervisor) abandonReload() {
	if c := s.change; c != nil {
		s.change = nil
		if c.next != nil {
			c.next.closeBut(s.current)
		}
		answer(c.askers, errStopping)
	}
	s.answerAskers(errStopping)
}

// closeSockets closes our side of the sockets in force.
func (s *Supervisor) closeSockets() { s.current.closeBut(nil) }

func (s *Supervisor) tellAll(message spec.Message) {
	for _, m := range s.members {
		if m.process != nil {
			m.process.send(&parcel{message: &message})
		}
	}
}

// running lists the workers that are left.
func (s *Supervisor) running() []int {
	var indexes []int
	for _, m := range s.members {
		if m.process != nil {
			indexes = append(indexes, m.place.Index)
		}
	}
	return indexes
}
