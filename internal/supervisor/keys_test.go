package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"sluice/internal/config"
	"sluice/internal/spec"
	"sluice/internal/testkit"
	"sluice/internal/tlsterm/authority"
	"sluice/internal/tlsterm/keyring"
)

// shop is a directory of certificates that change.
type shop struct {
	*testing.T
	dir   string
	root  *testkit.Authority
	calls time.Duration // makes the time of each file another
}

func newShop(t *testing.T) *shop {
	return &shop{T: t, dir: t.TempDir(), root: testkit.NewAuthority(t, "root")}
}

// put writes a new certificate with its key into one file.
func (s *shop) put(name string) testkit.Issued {
	s.Helper()
	issued := s.root.Issue(testkit.Wish{Names: []string{name + ".example"}})
	s.write(name, issued.Both())
	return issued
}

func (s *shop) write(name string, content []byte) {
	s.Helper()
	s.calls += time.Second
	path, at := testkit.WriteFile(s.T, s.dir, name, content), time.Unix(1_000_000_000, 0).Add(s.calls)
	if err := os.Chtimes(path, at, at); err != nil {
		s.Fatal(err)
	}
}

// config is one listener with these certificates.
func (s *shop) config(names ...string) *config.Config {
	cfg := testConfig("127.0.0.1:0")
	cfg.Log.Level = "error"
	cfg.Listeners[0].TLS = &config.ListenerTLS{MinVersion: "1.2", Curves: []string{"P-256"}}
	for _, n := range names {
		file := filepath.Join(s.dir, n)
		cfg.Listeners[0].TLS.Certificates = append(cfg.Listeners[0].TLS.Certificates, config.Certificate{Cert: file, Key: file})
	}
	return cfg
}

// keep remembers the last keys that each worker got.
func keep(st *stage) func(worker int) *spec.Keys {
	last := make([]*spec.Keys, len(st.lives))
	var mu sync.Mutex // guards last
	st.answer = func(w, _ int, m *spec.Message) string {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case m == nil:
		case m.Kind == spec.KindKeys:
			last[w] = m.Keys
		case m.Kind == spec.KindSpec:
			last[w] = m.Spec.Keys
		}
		return ""
	}
	return func(w int) *spec.Keys {
		mu.Lock()
		defer mu.Unlock()
		return last[w]
	}
}

// New files reach the workers without a reload; files at fault change nothing; a worker
// that starts anew gets what is in force.
func TestCertificatesChange(t *testing.T) {
	files := newShop(t)
	files.put("a")
	play(t, 2, func(st *stage) {
		st.renewConfig(files.config("a"))
		keys := keep(st)
		st.run()
		st.expect("0s w0.1 gets spec 1 127.0.0.1:0\n0s w1.1 gets spec 1 127.0.0.1:0")
		began := keys(0)
		st.after(3 * keysLook)
		files.write("a", []byte("half a file"))
		st.after(3 * keysLook)
		st.expect("")
		if st.s.keys.refused != 1 || st.s.keys.renewed != 0 {
			st.Errorf("%d refused, %d renewed", st.s.keys.refused, st.s.keys.renewed)
		}
		next := files.put("a")
		st.after(3 * keysLook)
		st.expect(`16s w0.1 gets keys 1: 1 certificates, 1 tickets
			16s w1.1 gets keys 1: 1 certificates, 1 tickets`)
		if keys(1).Certificates[0].Chain != string(next.Chain) || string(keys(1).Tickets[0]) != string(began.Tickets[0]) {
			st.Error("the keys are not those of the new file, and the old tickets")
		}
		st.s.members[1].process.end()
		st.expect("18s w1.1 killed\n18s w1.2 gets spec 1 127.0.0.1:0")
		if keys(1).Certificates[0].Chain != string(next.Chain) {
			st.Error("the new worker has the old certificate")
		}
		shown := st.s.Certificates()
		if len(shown.All) != 1 || shown.All[0].Names[0] != "a.example" || !shown.All[0].Expires.Equal(next.Leaf.NotAfter) || shown.Taken != 1 || shown.Refused != 1 {
			st.Errorf("%+v", shown)
		}
		if st.s.Generation() != 1 {
			st.Errorf("generation %d", st.s.Generation())
		}
	})
}

// Files that change while a reload is under way are taken after it, if they are still
// those of the configuration in force.
func TestCertificatesChangeDuringReload(t *testing.T) {
	for _, refused := range []bool{false, true} {
		files := newShop(t)
		files.put("a")
		files.put("b")
		play(t, 1, func(st *stage) {
			st.renewConfig(files.config("a"))
			keys := keep(st)
			st.run()
			st.expect("0s w0.1 gets spec 1 127.0.0.1:0")
			normal := st.answer
			st.answer = func(w, life int, m *spec.Message) string {
				if normal(w, life, m); m != nil && m.Kind == spec.KindSpec && m.Spec.Generation == 2 {
					return "hang"
				}
				return ""
			}
			st.next(files.config("a", "b"), nil)
			outcome := make(chan error, 1)
			go func() { outcome <- st.s.Reload() }()
			st.after(time.Second)
			next := files.put("a")
			st.after(3 * keysLook)
			st.expect("0s w0.1 gets spec 2 127.0.0.1:0")
			reply := &spec.Message{Kind: spec.KindReady, Generation: 2}
			if refused {
				reply.Kind = spec.KindRefused
			}
			m := st.s.members[0]
			st.s.deliver(heard{m, m.process, reply})
			if err := <-outcome; (err != nil) != refused {
				st.Errorf("reload: %v", err)
			}
			st.after(3 * keysLook)
			// Either way the worker ends with the certificates of the configuration in force, as
			// the files have them now.
			want := map[bool]int{false: 2, true: 1}[refused]
			if got := keys(0); len(got.Certificates) != want || got.Certificates[0].Chain != string(next.Chain) {
				st.Errorf("refused %v: %d certificates, the first new: %v", refused, len(got.Certificates), got.Certificates[0].Chain == string(next.Chain))
			}
			st.forget()
		})
	}
}

// The keys of session tickets change by the clock, and stay over the death of a worker
// and a reload.
func TestTicketsRotate(t *testing.T) {
	files := newShop(t)
	files.put("a")
	play(t, 2, func(st *stage) {
		cfg := files.config("a")
		cfg.TLS.Tickets.Rotate = config.Duration(time.Hour)
		st.renewConfig(cfg)
		keys := keep(st)
		st.run()
		first := string(keys(0).Tickets[0])
		if first != string(keys(1).Tickets[0]) {
			st.Error("two workers seal with different keys")
		}
		st.s.members[0].process.end()
		st.after(time.Minute)
		st.next(cfg, nil)
		if err := st.s.Reload(); err != nil {
			st.Fatal(err)
		}
		if len(keys(0).Tickets) != 1 || first != string(keys(0).Tickets[0]) {
			st.Error("death and reload changed the key")
		}
		st.after(59 * time.Minute)
		st.forget()
		st.after(2 * time.Hour)
		var seen []string
		for _, l := range st.script {
			if strings.Contains(l.what, "keys") {
				seen = append(seen, l.at.String()+" "+l.who+" "+l.what)
			}
		}
		slices.Sort(seen)
		want := "2h0m0s w0.2 gets keys 2: 1 certificates, 3 tickets, 2h0m0s w1.1 gets keys 2: 1 certificates, 3 tickets, " +
			"3h0m0s w0.2 gets keys 2: 1 certificates, 3 tickets, 3h0m0s w1.1 gets keys 2: 1 certificates, 3 tickets"
		if got := strings.Join(seen, ", "); got != want {
			st.Errorf("got  %s\nwant %s", got, want)
		}
		st.forget()
		if string(keys(0).Tickets[0]) != string(keys(1).Tickets[0]) || string(keys(0).Tickets[0]) == first {
			st.Error("the new key is the old one, or not that of both")
		}
	})
}

// A configuration whose certificates are not good does not come into force, and whoever
// starts with one is told.
func TestFaultyCertificates(t *testing.T) {
	files := newShop(t)
	files.put("a")
	play(t, 1, func(st *stage) {
		st.renewConfig(files.config("a"))
		st.run()
		st.next(files.config("none"), nil)
		var faults config.Faults
		if err := st.s.Reload(); !errors.As(err, &faults) || faults[0].Path != "listeners[0].tls.certificates[0].cert" {
			st.Errorf("reload: %v", err)
		}
		st.forget()
	})
	if _, err := readKeys(files.config("none")); err == nil {
		t.Error("no fault")
	}
}

// What an authority said is shown as long as it holds, be it of a file or of the authority
// itself.
func TestStaplesEnd(t *testing.T) {
	files := newShop(t)
	issued := files.put("a")
	files.write("a", append(issued.Both(), files.root.PEM()...))
	second := files.put("b")
	play(t, 1, func(st *stage) {
		word := func(of testkit.Issued, life time.Duration) []byte {
			return files.root.Word(of, ocsp.Good, time.Now(), time.Now().Add(life))
		}
		files.write("a.ocsp", word(issued, time.Hour))
		cfg := files.config("a", "b")
		cfg.TLS.Tickets.Rotate = config.Duration(24 * time.Hour)
		cfg.Listeners[0].TLS.Certificates[0].OCSP = filepath.Join(files.dir, "a.ocsp")
		st.renewConfig(cfg)
		keys := keep(st)
		st.run()
		shown := func() (has [2]bool) {
			for i, c := range keys(0).Certificates {
				has[i] = c.Staple != nil
			}
			return has
		}
		look := func(when string, want [2]bool) {
			st.Helper()
			if got := shown(); got != want {
				st.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		look("at the start", [2]bool{true, false})
		parsed, err := keyring.ParseStaple(word(second, 2*time.Hour), second.Leaf, files.root.Cert())
		if err != nil {
			st.Fatal(err)
		}
		name := authority.FingerprintOf(keyring.Cert{Leaf: second.Leaf})
		st.s.deliver(stapled{authority.Staples{name: parsed}})
		st.after(time.Hour - time.Second)
		look("within the hour", [2]bool{true, true})
		st.after(time.Second)
		look("after an hour", [2]bool{false, true})
		st.after(time.Hour)
		look("after two", [2]bool{false, false})
		st.forget()
	})
}

// Who proves a name waits until every worker that serves shows the proof; one that dies
// meanwhile is not waited for, and the next shows it.
func TestProofsAreShown(t *testing.T) {
	files := newShop(t)
	files.put("a")
	play(t, 2, func(st *stage) {
		st.renewConfig(files.config("a"))
		keys := keep(st)
		normal := st.answer
		var silent atomic.Bool
		silent.Store(true)
		st.answer = func(w, life int, m *spec.Message) string {
			if normal(w, life, m); m != nil && m.Kind == spec.KindKeys && w == 1 && silent.Load() {
				return "hang"
			}
			return ""
		}
		st.run()
		shown := make(chan error, 1)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		go func() {
			shown <- st.s.show(ctx, spec.Challenge{Name: "a.example", Certificate: spec.Certificate{Chain: "proof"}})
		}()
		st.after(time.Minute)
		select {
		case err := <-shown:
			st.Fatalf("a worker does not show it: %v", err)
		default:
		}
		if c := keys(0).Challenges; len(c) != 1 || c[0].Name != "a.example" || c[0].Chain != "proof" {
			st.Errorf("%+v", c)
		}
		silent.Store(false)
		st.s.members[1].process.end()
		if err := <-shown; err != nil {
			st.Error(err)
		}
		st.after(time.Second)
		if len(keys(1).Challenges) != 1 {
			st.Error("the new worker does not show it")
		}
		st.s.deliver(challenged{name: "a.example"})
		st.after(time.Second)
		if len(keys(0).Challenges)+len(keys(1).Challenges) != 0 {
			st.Error("it is shown on")
		}
		// At once, where all answer.
		if err := st.s.show(ctx, spec.Challenge{Name: "b.example"}); err != nil {
			st.Error(err)
		}
		over, end := context.WithCancel(ctx)
		end()
		if err := st.s.show(over, spec.Challenge{Name: "c.example"}); err != nil && !errors.Is(err, context.Canceled) {
			st.Error(err)
		}
		st.forget()
	})
}

// A proof that is wanted while a reload is under way is shown after it.
func TestProofDuringReload(t *testing.T) {
	files := newShop(t)
	files.put("a")
	play(t, 1, func(st *stage) {
		st.renewConfig(files.config("a"))
		keys := keep(st)
		st.run()
		normal := st.answer
		st.answer = func(w, life int, m *spec.Message) string {
			if normal(w, life, m); m != nil && m.Kind == spec.KindSpec && m.Spec.Generation == 2 {
				return "hang"
			}
			return ""
		}
		outcome, shown := make(chan error, 1), make(chan error, 1)
		go func() { outcome <- st.s.Reload() }()
		st.after(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		go func() { shown <- st.s.show(ctx, spec.Challenge{Name: "a.example"}) }()
		st.after(time.Second)
		m := st.s.members[0]
		st.s.deliver(heard{m, m.process, &spec.Message{Kind: spec.KindReady, Generation: 2}})
		if err := <-outcome; err != nil {
			st.Fatal(err)
		}
		if err := <-shown; err != nil || len(keys(0).Challenges) != 1 {
			st.Errorf("%v, %d challenges", err, len(keys(0).Challenges))
		}
		st.forget()
	})
}
