// Package scene is the experiment: which backends there are, which contenders meet
// each, what the users do, and what is wanted of the outcome.
//
// A scene is played in rounds, in which the contenders take turns. Each turn has a
// backend and a contender that were started for it, and ends them.
package scene

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sluice/bench/overload/contender"
	"sluice/bench/overload/drive"
	"sluice/bench/overload/outcome"
	"sluice/bench/peers"
	"sluice/bench/stats"
)

// Rig is what the scenes are played with.
type Rig struct {
	Dir       string                // for what lives as long as the run
	Cache     string                // for what may be kept for the next run
	Backend   string                // program of package bench/overload/backend
	Generator drive.Generator       // of the users
	Programs  map[string]peers.Peer // of the contenders, by name
	Rounds    int
	Load      Load
	Limits    []int // fixed limits that are tried to find the application's best
	Progress  io.Writer

	ports peers.Ports
}

// Load is what the users do.
type Load struct {
	From, To, Step int           // users
	Every          time.Duration // time of each step of the ramp
	Settle         time.Duration // before a measurement without a ramp: what a contender has to learn in
	Hold           time.Duration // time of a measurement with all users
	Phase          time.Duration // time of each phase of a backend that changes
	Think          string        // pause of a user, as hb writes it
}

// play is one scene.
type play struct {
	name, title string
	backend     func(context.Context, *Rig, string) (*server, error) // starts it, with a directory for what it writes
	contenders  []contender.Contender
	asks        contender.Asks
	prepare     func(context.Context, *Rig, *play, *outcome.Scene) error // what must be known before; may be nil
	turn        turn
	judge       func(*Rig, *outcome.Scene)
	notes       []string
}

// turn is what the users do with one contender, and how long that takes.
type turn struct {
	play func(context.Context, *Rig, *stage) (outcome.Round, error)
	long func(Load) time.Duration
}

// stage is what stands for one turn.
type stage struct {
	control drive.Control
	ports   []int // to ask: of the contender, or of its copies
}

// Names are those of the scenes, in the order they are played.
func Names() []string {
	var all []string
	for _, p := range plays() {
		all = append(all, p.name)
	}
	return all
}

// Run plays the named scenes and gives what came out, also of those before an error.
// What stands in the way of a contender or of a scene is told there; the error is the
// end of ctx.
func Run(ctx context.Context, r *Rig, names []string) ([]outcome.Scene, error) {
	var all []outcome.Scene
	for _, p := range plays() {
		if !slices.Contains(names, p.name) {
			continue
		}
		s, err := r.run(ctx, p)
		if err != nil {
			s.Notes = append(s.Notes, "not played to its end: "+err.Error())
		}
		p.judge(r, &s)
		s.WriteSummary(r.Progress)
		all = append(all, s)
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
	}
	return all, nil
}

// Check says which of names is no scene.
func Check(names []string) error {
	for _, n := range names {
		if !slices.Contains(Names(), n) {
			return fmt.Errorf("no scene %q; there are %v", n, Names())
		}
	}
	return nil
}

// run plays the rounds of a scene.
func (r *Rig) run(ctx context.Context, p play) (outcome.Scene, error) {
	s := outcome.Scene{Name: p.name, Title: p.title, Notes: slices.Clone(p.notes)}
	fmt.Fprintf(r.Progress, "%s %s: about %v\n", time.Now().UTC().Format(time.TimeOnly), p.name, r.expected(p).Round(time.Minute))
	if p.prepare != nil {
		if err := p.prepare(ctx, r, &p, &s); err != nil {
			return s, err
		}
	}
	var present []contender.Contender
	for _, c := range p.contenders {
		if missing := r.Programs[c.Program].Missing; missing != "" {
			s.Notes = append(s.Notes, c.Name+": not measured: "+missing)
			continue
		}
		present = append(present, c)
		s.Entries = append(s.Entries, outcome.Entry{Name: c.Name})
	}
	for round := range r.Rounds {
		for _, i := range stats.Order(len(present), round) {
			c := present[i]
			if c.Aside && round > 0 {
				continue
			}
			out, err := r.give(ctx, p, c)
			if ctx.Err() != nil {
				return s, ctx.Err()
			}
			said := "ok"
			if err != nil {
				said, out = err.Error(), outcome.Round{Failed: err.Error()}
			}
			fmt.Fprintf(r.Progress, "%s %s round %d/%d %s: %s\n", time.Now().UTC().Format(time.TimeOnly), p.name, round+1, r.Rounds, c.Name, said)
			s.Entries[i].Rounds = append(s.Entries[i].Rounds, out)
		}
	}
	return s, nil
}

// expected is how long the rounds of a scene take, but for what must be known before
// and for starting programs.
func (r *Rig) expected(p play) time.Duration {
	turns := 0
	for _, c := range p.contenders {
		if c.Aside {
			turns++
		} else {
			turns += r.Rounds
		}
	}
	return time.Duration(turns) * p.turn.long(r.Load)
}

// give starts the backend and the contender, lets the users come, and ends all: one turn.
func (r *Rig) give(ctx context.Context, p play, c contender.Contender) (outcome.Round, error) {
	dir, err := os.MkdirTemp(r.Dir, p.name+"-")
	if err != nil {
		return outcome.Round{}, err
	}
	defer os.RemoveAll(dir)
	backend, err := p.backend(ctx, r, dir)
	if err != nil {
		return outcome.Round{}, err
	}
	defer backend.stop()
	stage := &stage{control: backend.control}
	for copy := range max(1, c.Copies) {
		running, err := r.start(ctx, c, p.asks, backend.port, filepath.Join(dir, fmt.Sprint("copy", copy)))
		if err != nil {
			return outcome.Round{}, err
		}
		defer running.Stop()
		stage.ports = append(stage.ports, running.Port)
	}
	return p.turn.play(ctx, r, stage)
}

func (r *Rig) start(ctx context.Context, c contender.Contender, asks contender.Asks, backend int, dir string) (*contender.Running, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	port, err := r.ports.Next()
	if err != nil {
		return nil, err
	}
	return c.Start(ctx, r.Programs[c.Program].Path, contender.Setup{Dir: dir, Port: port, Backend: backend, Asks: asks})
}

// ---- what the users do ----

// ramp lets the users come step by step, and then stay.
var ramp = turn{playRamp, func(l Load) time.Duration { return time.Duration(len(l.steps()))*l.Every + l.measured(0) }}

// steps are the numbers of users of a ramp.
func (l Load) steps() []int { return drive.Users{From: l.From, To: l.To, Step: l.Step}.Steps() }

// before is how many steps as long as the measurement stand before it.
func (l Load) before(atLeast time.Duration) int { return max(1, int((atLeast+l.Hold-1)/l.Hold)) }

// measured is how long a measurement with all users takes, with what stands before it.
func (l Load) measured(before time.Duration) time.Duration {
	return time.Duration(l.before(before)+1) * l.Hold
}

func playRamp(ctx context.Context, r *Rig, s *stage) (outcome.Round, error) {
	l := r.Load
	users := drive.Users{URL: contender.URL(s.ports[0]), From: l.From, To: l.To, Step: l.Step, Every: l.Every, Think: l.Think}
	var cuts []drive.Cut
	reports, err := r.Generator.Run(ctx, []drive.Users{users}, s.control.Cuts(&cuts, every(l.Every, len(users.Steps()))))
	if err != nil {
		return outcome.Round{}, err
	}
	var round outcome.Round
	for i, stage := range reports[0].Stages {
		round.Ramp = append(round.Ramp, outcome.NewStep(stage, cuts[i]))
	}
	held, err := r.hold(ctx, s, 0, "")
	round.Held = held.Held
	return round, err
}

// hold measures with all users, who are divided among the copies of the contender,
// after they have been there for at least a while. The backend is set as the order
// says, if there is one, before they come.
//
// The time before is made of steps too, each with a user more, and the last is what
// counts. hb's own warm-up will not do: it leaves out the answers that come after it to
// requests from before its end, which is a response time's worth of the throughput.
func (r *Rig) hold(ctx context.Context, s *stage, before time.Duration, order string) (outcome.Round, error) {
	if order != "" {
		if err := s.control.Set(ctx, order); err != nil {
			return outcome.Round{}, err
		}
	}
	steps := r.Load.before(before)
	var users []drive.Users
	for i, port := range s.ports {
		part := (r.Load.To + i) / len(s.ports)
		users = append(users, drive.Users{
			URL: contender.URL(port), From: max(1, part-steps), To: part, Step: 1, Every: r.Load.Hold, Think: r.Load.Think,
		})
	}
	var cuts []drive.Cut
	times := every(r.Load.Hold, steps+1)[steps:]
	reports, err := r.Generator.Run(ctx, users, s.control.Cuts(&cuts, times))
	if err != nil {
		return outcome.Round{}, err
	}
	return divided(reports, cuts[0]), nil
}

// divided joins the last steps of all users.
func divided(reports []drive.Report, cut drive.Cut) outcome.Round {
	var round outcome.Round
	var sum drive.Stage
	for _, report := range reports {
		last := report.Stages[len(report.Stages)-1]
		if len(reports) > 1 {
			round.Shares = append(round.Shares, outcome.NewStep(last, drive.Cut{}))
		}
		sum.Seconds = last.Seconds
		sum.Add(last)
	}
	held := outcome.NewStep(sum, cut)
	round.Held = &held
	return round
}

// settled measures with all users after they have been there for so many times the
// time to settle, with the backend as the order says; empty: as it is.
func settled(order string, times time.Duration) turn {
	return turn{
		func(ctx context.Context, r *Rig, s *stage) (outcome.Round, error) {
			return r.hold(ctx, s, times*r.Load.Settle, order)
		},
		func(l Load) time.Duration { return l.measured(times * l.Settle) },
	}
}

// change is an order to the backend at a time.
type change struct {
	at    time.Duration
	order string // as curve=hang
}

// course lets so many users come at once, changes the backend under them, and looks at
// it every second.
func (r *Rig) course(ctx context.Context, s *stage, n int, think string, long time.Duration, changes []change) (outcome.Round, error) {
	var cuts []drive.Cut
	events := s.control.Cuts(&cuts, every(time.Second, int(long/time.Second)))
	for _, c := range changes {
		events = append(events, drive.Event{At: c.at, Do: func(ctx context.Context) error { return s.control.Set(ctx, c.order) }})
	}
	users := drive.Users{URL: contender.URL(s.ports[0]), From: n, To: n, Every: long, Think: think}
	reports, err := r.Generator.Run(ctx, []drive.Users{users}, events)
	if err != nil {
		return outcome.Round{}, err
	}
	held := outcome.NewStep(reports[0].Total, drive.Cut{})
	return outcome.Round{Held: &held, Course: outcome.NewCourse(cuts)}, nil
}

// every are the times 0, d, 2d, … of n steps.
func every(d time.Duration, n int) []time.Duration {
	times := make([]time.Duration, n+1)
	for i := range times {
		times[i] = time.Duration(i) * d
	}
	return times
}

// curve is the order for a curve.
func curve(text string) string { return url.Values{"curve": {text}}.Encode() }

// Method says in sentences how the rig measures.
func (r *Rig) Method() []string {
	l := r.Load
	think := "a pause of " + l.Think
	if l.Think == "" {
		think = "no pause"
	}
	return []string{
		"All are real processes that talk over loopback: the load generator (cmd/hb), the contender, the backend. Nothing is bound to a CPU.",
		fmt.Sprintf("Closed loop: a user asks again after each answer and %s. A ramp has %d to %d users, %d more every %v; then all users but one stay for %v, and after that all are measured for %v. "+
			"Scenes without a ramp let the users come at once and stay for %v before.", think, l.From, l.To, l.Step, l.Every, l.Hold, l.Hold, l.Settle),
		fmt.Sprintf("Each turn starts backend and contender anew; Sluice has its defaults and remembers nothing. %d round(s), in turning order (A B C, B C A, …); "+
			"entrants that no target is about have one.", r.Rounds),
		"Ratios are taken round by round while all users are there, if nothing else is said; given are their geometric mean and its 95 % interval (Student's t on logarithms). " +
			"A target is met or missed only if the whole interval is on one side of it; else it is open.",
		"Response times are the users', of good answers. What the backend holds, and its connections, it counts itself.",
	}
}
