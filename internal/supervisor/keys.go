package supervisor

import (
	"log/slog"
	"reflect"
	"time"

	"sluice/internal/config"
	"sluice/internal/spec"
	"sluice/internal/tlsterm/keyring"
)

// keysLook is how often the files of certificates are looked at. What has changed is read
// at the second look that finds it so.
const keysLook = 2 * time.Second

// keys is what the event loop knows of keys beside those of the edition in force.
type keys struct {
	tickets keyring.Tickets
	renewAt time.Time // the next key of session tickets; zero: nobody needs one
	fresh   *reread   // came during a reload, and waits for its end

	renewed uint64 // times that files which had changed were taken
	refused uint64 // and were not, since something was wrong with them
}

// reread: files of certificates had changed, and were read again.
type reread struct {
	edition *edition // whose files they are
	ring    *keyring.Ring
	err     error
}

// readKeys reads the files that a configuration names, and makes sure that what is in
// them can be given to a worker. A certificate that has expired is served, and told:
// without it its site would be no better off, and all others worse.
func readKeys(cfg *config.Config) (*keyring.Ring, error) {
	ring, err := keyring.Read(cfg)
	if err != nil {
		return nil, err
	}
	for _, doubt := range ring.Doubts(time.Now()) {
		slog.Warn("certificate", "doubt", doubt.Error())
	}
	return ring, spec.Fits(cfg, ring.Keys)
}

// watchKeys delivers what has changed in the files of the edition in force, until the
// function that it returns is called. It has a goroutine of its own, as a file system may
// take its time.
func (s *Supervisor) watchKeys() (end func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(keysLook)
		defer tick.Stop()
		var watcher keyring.Watcher
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			if e := s.shown.Load().current; watcher.Changed(e.ring) {
				ring, err := readKeys(e.config)
				s.deliver(reread{e, ring, err})
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

// renew puts what was read again into effect. The configuration stays, and connections
// that are open. Files that are at fault change nothing.
func (s *Supervisor) renew(r reread) {
	if r.err != nil {
		s.keys.refused++
		slog.Error("certificates have changed and cannot be used; the old ones are", "error", r.err)
		return
	}
	s.keys.fresh = &r
	s.refresh()
}

// refresh gives the workers the keys that are in force now: of files that were read
// again, and of session tickets, whose time may be over. While a reload is under way it
// does nothing; the end of that calls it.
func (s *Supervisor) refresh() {
	if s.change != nil {
		s.keys.renewAt = time.Time{}
		return
	}
	next := *s.current
	if fresh := s.keys.fresh; fresh != nil && fresh.edition.generation == s.current.generation {
		next.ring = fresh.ring
		s.keys.renewed++
		slog.Info("certificates were read again", "certificates", len(fresh.ring.Certs))
	}
	s.keys.fresh = nil
	s.compose(&next)
	last := s.current
	s.current = &next
	if reflect.DeepEqual(last.keys, next.keys) {
		return
	}
	for _, m := range s.members {
		if m.process != nil && m.process.want == next.generation {
			m.process.send(&parcel{message: &spec.Message{Kind: spec.KindKeys, Generation: next.generation, Keys: next.keys}})
		}
	}
}

// compose makes the keys of an edition that is not in force yet.
func (s *Supervisor) compose(e *edition) {
	e.keys, s.keys.renewAt = nil, time.Time{}
	if e.ring.Keys == nil {
		return
	}
	whole := *e.ring.Keys
	whole.Tickets, s.keys.renewAt = s.keys.tickets.Keys(time.Now(), e.ring, time.Duration(e.config.TLS.Tickets.Rotate))
	e.keys = &whole
}
