package supervisor

import (
	"context"
	"iter"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"sluice/internal/config"
	"sluice/internal/spec"
	"sluice/internal/tlsterm/authority"
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
	staples authority.Staples

	renewed uint64 // times that files which had changed were taken
	refused uint64 // and were not, since something was wrong with them
}

// reread: files of certificates had changed, and were read again.
type reread struct {
	edition *edition // whose files they are
	ring    *keyring.Ring
	err     error
}

// stapleLook is how often it is looked whether an authority should be asked.
const stapleLook = 10 * time.Second

// stapled: authorities have said something new.
type stapled struct{ staples authority.Staples }

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

// watchKeys delivers what changes about the certificates of the edition in force, until the
// function that it returns is called. It has goroutines of its own, as a file system and an
// authority may take their time.
func (s *Supervisor) watchKeys() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.watchFiles(ctx) })
	running.Go(func() { s.askAuthorities(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// watchFiles delivers certificates whose files have changed.
func (s *Supervisor) watchFiles(ctx context.Context) {
	var watcher keyring.Watcher
	for range ticks(ctx, keysLook) {
		if e := s.shown.Load().current; watcher.Changed(e.ring) {
			ring, err := readKeys(e.config)
			s.deliver(reread{e, ring, err})
		}
	}
}

// askAuthorities delivers what they say about certificates.
func (s *Supervisor) askAuthorities(ctx context.Context) {
	var stapler authority.Stapler
	for now := range ticks(ctx, stapleLook) {
		if staples, changed := stapler.Look(ctx, now, s.shown.Load().current.ring.Certs); changed {
			s.deliver(stapled{staples})
		}
	}
}

// ticks yields the time, at once and then at each interval, until ctx ends.
func ticks(ctx context.Context, interval time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for ctx.Err() == nil && yield(time.Now()) {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
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
	now := time.Now()
	whole := *e.ring.Keys
	whole.Tickets, s.keys.renewAt = s.keys.tickets.Keys(now, e.ring, time.Duration(e.config.TLS.Tickets.Rotate))
	whole.Certificates = slices.Clone(whole.Certificates)
	for i, c := range e.ring.Certs {
		staple := c.Staple
		if staple == nil {
			staple = s.keys.staples[authority.FingerprintOf(c)]
		}
		if staple == nil || !now.Before(staple.Until) {
			continue // clients take an old word for worse than none
		}
		whole.Certificates[i].Staple = staple.DER
		if staple.Until.Before(s.keys.renewAt) {
			s.keys.renewAt = staple.Until
		}
	}
	e.keys = &whole
}
