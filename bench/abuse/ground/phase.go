package ground

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sluice/bench/abuse/attack"
	"sluice/bench/proc"
)

// Phase is one part of a round.
type Phase string

// The phases. In Control another Sluice is attacked than the one that users ask.
const (
	Calm     Phase = "calm"
	Attacked Phase = "attacked"
	Control  Phase = "control"
)

// Phases are all of them.
var Phases = []Phase{Calm, Attacked, Control}

// Seen is what was seen in a phase, of the Sluice that users ask.
type Seen struct {
	Users    []Met              `json:"users"`    // in the order of Users
	CPU      float64            `json:"cpu"`      // CPU seconds per second
	Peak     int64              `json:"peak"`     // bytes of resident memory
	Turn     float64            `json:"turn"`     // seconds of a loop's turn, the mean: how long it is busy with others before one is served
	Counters map[string]float64 `json:"counters"` // that moved, of those that tell of abuse
	Left     float64            `json:"left"`     // client connections that were there seconds after the end
	Attack   *attack.Tally      `json:"attack,omitempty"`
}

// Watch runs a phase.
func (g *Ground) Watch(ctx context.Context, c attack.Class, p Phase) (Seen, error) {
	s, err := g.build(ctx)
	if err != nil {
		return Seen{}, err
	}
	defer s.close()
	attacked := s
	if p == Control {
		if attacked, err = g.build(ctx); err != nil {
			return Seen{}, err
		}
		defer attacked.close()
	}
	if p == Calm {
		return g.observe(ctx, s)
	}
	a, err := g.assail(c, attacked)
	if err != nil {
		return Seen{}, err
	}
	defer a.process.Stop()
	seen, err := g.observe(ctx, s)
	if err != nil {
		return Seen{}, err
	}
	tally, err := a.end()
	if err != nil {
		return Seen{}, err
	}
	seen.Attack = &tally
	if seen.Left, err = s.settle(ctx); err != nil {
		return Seen{}, err
	}
	return seen, nil
}

// observe has all users ask a site, and reads what that costs it.
func (g *Ground) observe(ctx context.Context, s *site) (Seen, error) {
	began := time.Now()
	before, _, err := s.use()
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{Users: make([]Met, len(crowd))}
	errs := make([]error, len(crowd))
	var all sync.WaitGroup
	for i, u := range crowd {
		all.Go(func() { seen.Users[i], errs[i] = g.visit(ctx, u, s) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return Seen{}, err
	}
	after, peak, err := s.use()
	if err != nil {
		return Seen{}, err
	}
	seen.CPU, seen.Peak = (after-before).Seconds()/time.Since(began).Seconds(), peak
	now, err := s.metrics(ctx)
	seen.Counters, seen.Turn = now.told, now.busy/max(1, now.turns)
	return seen, err
}

// settleWithin is how long connections may stay after the attacker has gone.
const settleWithin = 4 * time.Second

// settle waits until no client's connection is left, or long enough; it gives how many are.
func (s *site) settle(ctx context.Context) (left float64, err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; {
		now, err := s.metrics(ctx)
		left = now.connections
		if err != nil || left == 0 || time.Since(began) > settleWithin {
			return left, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return left, ctx.Err()
		}
	}
}

// assault is an attacker at work.
type assault struct {
	process *proc.Process
	out     *bytes.Buffer // complete once the process has ended
	log     string
}

// assail begins to attack a site.
func (g *Ground) assail(c attack.Class, s *site) (assault, error) {
	a := assault{out: &bytes.Buffer{}, log: filepath.Join(s.Dir, "attacker.log")}
	to := s.target()
	var err error
	a.process, err = proc.Start(proc.Command{
		Path: g.attacker, Args: []string{c.Name, to.Plain, to.Secure}, Output: a.out, Log: a.log, CPUs: g.attacks,
	})
	return a, err
}

// end ends it, and tells what it has done.
func (a assault) end() (attack.Tally, error) {
	a.process.Stop()
	var t attack.Tally
	if err := json.Unmarshal(a.out.Bytes(), &t); err != nil {
		said, _ := os.ReadFile(a.log)
		return t, fmt.Errorf("the attacker said nothing (%v): %w; its log: %s", a.process.Wait(), err, bytes.TrimSpace(said))
	}
	return t, nil
}
