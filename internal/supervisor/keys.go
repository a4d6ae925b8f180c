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
	"sluice/internal/segment"
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
	staples authority.Staples

	serial     uint64 // of the keys given out last
	challenges []spec.Challenge
	proofs     []proof // that are awaited

	renewed uint64 // times that files which had changed were taken
	refused uint64 // and were not, since something was wrong with them
	orders  authority.Orders
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

// ordered: certificates were asked for.
type ordered struct{ orders authority.Orders }

// challenged: an authority wants to see that a name is ours, or has seen it.
type challenged struct {
	name  string
	shown *spec.Challenge // nil: it has
	done  chan<- error    // told when every worker shows it; has room for one
}

// proof is a challenge that waits for the workers.
type proof struct {
	serial uint64 // of the keys that have it; 0: none yet
	done   chan<- error
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

// watchKeys delivers what changes about the certificates of the edition in force, until the
// function that it returns is called. It has goroutines of its own, as a file system and an
// authority may take their time.
func (s *Supervisor) watchKeys() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.watchFiles(ctx) })
	running.Go(func() { s.askAuthorities(ctx) })
	running.Go(func() { s.askForCertificates(ctx) })
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

// askForCertificates asks for those of tls.acme. They come by their files, as others do.
func (s *Supervisor) askForCertificates(ctx context.Context) {
	issuer := authority.Issuer{Show: s.show, Hide: func(name string) { s.deliver(challenged{name: name}) }}
	for now := range ticks(ctx, keysLook) {
		shown := s.shown.Load()
		if shown.ready && shown.current.config.TLS.ACME != nil && issuer.Look(ctx, now, shown.current.config.TLS.ACME, shown.current.ring.Certs) {
			s.deliver(ordered{issuer.Orders()})
		}
	}
}

// show has every worker show an authority what it wants to see, and returns when all do.
func (s *Supervisor) show(ctx context.Context, shown spec.Challenge) error {
	done := make(chan error, 1)
	s.deliver(challenged{shown.Name, &shown, done})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// challenge puts the word of an authority into effect.
func (s *Supervisor) challenge(c challenged) {
	s.keys.challenges = slices.DeleteFunc(slices.Clone(s.keys.challenges), func(old spec.Challenge) bool { return old.Name == c.name })
	if c.shown != nil {
		s.keys.challenges = append(s.keys.challenges, *c.shown)
		s.keys.proofs = append(s.keys.proofs, proof{done: c.done})
	}
	s.refresh()
}

// prove tells those who wait for a challenge that every worker shows it. One that is dead,
// or not yet there, accepts nobody before it does.
func (s *Supervisor) prove() {
	s.keys.proofs = slices.DeleteFunc(s.keys.proofs, func(p proof) bool {
		missing := slices.ContainsFunc(s.members, func(m *member) bool {
			return m.process != nil && m.state == segment.Serving && m.process.keysHave < p.serial
		})
		if p.serial == 0 || missing {
			return false
		}
		p.done <- nil
		return true
	})
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
	if r.edition.generation != s.current.generation {
		return // its files are of no use now; those of the next are looked at
	}
	next := *s.current
	next.ring = r.ring
	s.current = &next
	s.keys.renewed++
	slog.Info("certificates were read again", "certificates", len(r.ring.Certs))
	s.refresh()
}

// refresh gives the workers the keys that are in force now: files were read again, a key of
// session tickets has had its time, an authority has said something. Those that have the
// next configuration already get its keys when it is in force.
func (s *Supervisor) refresh() {
	next := *s.current
	last := s.current
	s.compose(&next)
	s.current = &next
	if next.keys != nil && last.keys != nil {
		serial := next.keys.Serial
		if next.keys.Serial = last.keys.Serial; reflect.DeepEqual(last.keys, next.keys) {
			return
		}
		next.keys.Serial = serial
	}
	if next.keys == nil {
		return
	}
	for i := range s.keys.proofs {
		if p := &s.keys.proofs[i]; p.serial == 0 {
			p.serial = next.keys.Serial
		}
	}
	for _, m := range s.members {
		if m.process != nil && m.process.want == next.generation {
			m.process.send(&parcel{message: &spec.Message{Kind: spec.KindKeys, Generation: next.generation, Keys: next.keys}})
		}
	}
}

// compose makes the keys of an edition that is not in force yet, with a serial number of
// their own.
func (s *Supervisor) compose(e *edition) {
	e.keys, s.keys.renewAt = nil, time.Time{}
	if e.ring.Keys == nil {
		return
	}
	now := time.Now()
	whole := *e.ring.Keys
	s.keys.serial++
	whole.Serial, whole.Challenges = s.keys.serial, s.keys.challenges
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
	if err := spec.Fits(e.config, &whole); err != nil { // without these they did
		slog.Warn("what authorities said of certificates is not shown", "error", err)
		whole.Certificates = e.ring.Keys.Certificates
	}
	e.keys = &whole
}
