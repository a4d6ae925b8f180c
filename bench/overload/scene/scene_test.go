package scene

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bench/overload/contender"
	"sluice/bench/overload/drive"
	"sluice/bench/overload/outcome"
	"sluice/bench/overload/sharing"
	"sluice/bench/peers"
	"sluice/bench/toolchain"
)

// TestCurves: what the scenes say about the curves is so.
func TestCurves(t *testing.T) {
	for text, want := range map[string]int{blog: blogBest, halved: 26, flat: 32, cliff: cliffBest} {
		c, err := sharing.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := c.Best(1000)
		if n < want-1 || n > want+1 {
			t.Errorf("%s is best with %d, not with %d", text, n, want)
		}
	}
	c, err := sharing.Parse(wide)
	if err != nil || c(250) < 1000*c(1)/5 {
		t.Errorf("%s does not scale: %v", wide, err)
	}
}

func TestNames(t *testing.T) {
	names := Names()
	if unique := slices.Compact(slices.Sorted(slices.Values(names))); len(unique) != len(names) {
		t.Errorf("names occur twice: %v", names)
	}
	if err := Check(names); err != nil {
		t.Error(err)
	}
	if err := Check([]string{"blog", "other"}); err == nil || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("the error is %v", err)
	}
}

// TestJudges: each scene whose contenders all do the same has figures for its targets.
func TestJudges(t *testing.T) {
	for _, p := range plays() {
		s := outcome.Scene{Name: p.name}
		for _, c := range append(p.contenders, contender.Contender{Name: bestFixed}) {
			step := outcome.Step{Users: 250, Seconds: 1, Rate: 1, Worked: 1, Mean: 1, P99: 1, Errors: 1, MedianError: 0.01, SlowestError: 1, MostConnections: 1}
			round := outcome.Round{Held: &step, Ramp: []outcome.Step{step}, Shares: []outcome.Step{step, step, step}}
			for _, what := range []string{afterHalving, afterReturn, afterHang} {
				round.Times = append(round.Times, outcome.Time{What: what, Seconds: 1})
			}
			s.Entries = append(s.Entries, outcome.Entry{Name: c.Name, Rounds: []outcome.Round{round, round}})
		}
		p.judge(&Rig{}, &s)
		if len(s.Checks) == 0 {
			t.Errorf("%s has no target", p.name)
		}
		for _, c := range s.Checks {
			if c.Got.N != 2 || math.IsNaN(c.Got.Mean) {
				t.Errorf("%s: %s: no figure, %+v", p.name, c.What, c.Got)
			}
		}
	}
}

func TestDivided(t *testing.T) {
	stage := func(rate, mean float64) drive.Report {
		return drive.Report{Stages: []drive.Stage{
			{Rate: 1000},
			{Users: 83, Seconds: 10, Rate: rate, Good: int64(10 * rate), Response: drive.Times{Mean: mean, P99: mean * 3}},
		}}
	}
	r := divided([]drive.Report{stage(100, 0.2), stage(300, 0.4)}, drive.Cut{Seconds: 10, Good: 4000})
	if len(r.Shares) != 2 || r.Held.Rate != 400 || r.Held.Users != 166 || r.Held.Worked != 400 || r.Held.Seconds != 10 {
		t.Errorf("together %+v, shares %+v", r.Held, r.Shares)
	}
	if math.Abs(r.Held.Mean-0.35) > 1e-9 || math.Abs(r.Held.P99-1.2) > 1e-9 {
		t.Errorf("mean %v, p99 %v", r.Held.Mean, r.Held.P99)
	}
	if one := divided([]drive.Report{stage(100, 0.2)}, drive.Cut{}); one.Shares != nil {
		t.Errorf("one alone has shares: %+v", one.Shares)
	}
}

// TestExpected: nine turns of three and five of one, in the scene of the blog.
func TestExpected(t *testing.T) {
	r := &Rig{Rounds: 3, Load: Load{From: 10, To: 250, Step: 10, Every: 10 * time.Second, Hold: 20 * time.Second, Settle: 50 * time.Second, Phase: 45 * time.Second}}
	want := map[string]time.Duration{
		"blog": 14 * 290 * time.Second, "three": 6 * 180 * time.Second, "shift": 4 * 140 * time.Second, "hang": 3 * 110 * time.Second,
	}
	for _, p := range plays() {
		if w, ok := want[p.name]; ok && r.expected(p) != w {
			t.Errorf("%s takes %v, want %v", p.name, r.expected(p), w)
		}
	}
}

// small is a rig for moments instead of minutes, with the real backend and the real
// load generator.
func small(t *testing.T) (*Rig, *bytes.Buffer) {
	dir, said := t.TempDir(), &bytes.Buffer{}
	backend, err := toolchain.Go(t.Context(), dir, "backend", "sluice/bench/overload/backend")
	if err != nil {
		t.Fatal(err)
	}
	hb, err := toolchain.Go(t.Context(), dir, "hb", "sluice/cmd/hb")
	if err != nil {
		t.Fatal(err)
	}
	found, err := peers.Find(t.Context(), []string{peers.Direct, peers.HAProxy}, peers.Tools{})
	if err != nil {
		t.Fatal(err)
	}
	const moment = 500 * time.Millisecond
	r := &Rig{
		Dir: dir, Backend: backend, Generator: drive.Generator{Path: hb, Dir: dir}, Rounds: 2, Progress: said,
		Load:     Load{From: 2, To: 6, Step: 2, Every: moment, Hold: moment, Settle: moment, Phase: moment},
		Programs: map[string]peers.Peer{"gone": {Missing: "not for this machine"}},
	}
	for _, p := range found {
		r.Programs[p.Name] = p
	}
	return r, said
}

// TestPlay plays scenes with real processes.
func TestPlay(t *testing.T) {
	r, said := small(t)
	t.Run("ramp", func(t *testing.T) { tryRamp(t, r, said) })
	t.Run("course", func(t *testing.T) { tryCourse(t, r) })
}

// tryRamp: who is missing or beside is not measured as often, the limit of a proxy
// is seen by the backend, and a failed turn does not end the others.
func tryRamp(t *testing.T, r *Rig, said *bytes.Buffer) {
	turns := 0
	s, err := r.run(t.Context(), play{
		name: "small", backend: model("-curve", "servers:200,3"),
		contenders: []contender.Contender{contender.Straight, contender.HAProxy(2), {Name: "nobody", Program: "gone"}},
		turn: turn{func(ctx context.Context, r *Rig, s *stage) (outcome.Round, error) {
			if turns++; turns == 3 {
				return outcome.Round{}, errors.New("broken")
			}
			return playRamp(ctx, r, s)
		}, ramp.long},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Entries) != 2 || len(s.Entries[0].Rounds) != 2 || len(s.Entries[1].Rounds) != 1 || s.Entries[0].Rounds[1].Failed != "broken" {
		t.Fatalf("entries %+v\n%s", s.Entries, said)
	}
	if !slices.Contains(s.Notes, "nobody: not measured: not for this machine") {
		t.Errorf("notes %v", s.Notes)
	}
	for i, most := range []int{6, 2} {
		round := s.Entries[i].Rounds[0]
		if round.Failed != "" || round.Held == nil || len(round.Ramp) != 3 {
			t.Fatalf("%s: %+v", s.Entries[i].Name, round)
		}
		if h := round.Held; h.MostHeld > most || h.MostHeld < 1 || h.Rate <= 0 || h.Worked <= 0 || h.Users != 6 {
			t.Errorf("%s: %+v", s.Entries[i].Name, h)
		}
		if users := round.Ramp[2].Users; users != 6 {
			t.Errorf("the ramp ends with %d users", users)
		}
	}
}

// tryCourse: a backend that changes, and lies.
func tryCourse(t *testing.T, r *Rig) {
	round, err := r.give(t.Context(), play{
		name: "small", backend: model("-curve", "servers:200,3"),
		turn: turn{play: func(ctx context.Context, r *Rig, s *stage) (outcome.Round, error) {
			return r.course(ctx, s, 4, "10ms", 2*time.Second, []change{{time.Second, "lie=error:1"}})
		}},
	}, contender.Straight)
	if err != nil {
		t.Fatal(err)
	}
	if len(round.Course) != 2 || round.Course[0].Rate <= 10*round.Course[1].Rate || round.Held.Errors == 0 {
		t.Errorf("the course is %+v, with %v errors/s", round.Course, round.Held.Errors)
	}
}

// TestRunSaysWhatFailed: a scene that cannot be prepared says so and lets others be played.
func TestRunSaysWhatFailed(t *testing.T) {
	r := &Rig{Progress: io.Discard, Load: Load{Hold: time.Second}}
	_, err := r.run(t.Context(), play{turn: ramp, prepare: func(context.Context, *Rig, *play, *outcome.Scene) error { return errors.New("no database") }})
	if err == nil || err.Error() != "no database" {
		t.Errorf("the error is %v", err)
	}
}
