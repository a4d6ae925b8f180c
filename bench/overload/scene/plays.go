package scene

import (
	"context"
	"time"

	"sluice/bench/overload/contender"
	"sluice/bench/overload/outcome"
	"sluice/bench/overload/sharing"
)

// The backends. Blog is at its best with 51 requests; halved, with 26.
const (
	blog      = sharing.Blog
	blogBest  = 51
	halved    = "usl:25.2,0.1,1.364e-3" // half as fast, and held back four times as much by each other
	flat      = "servers:10.9,32"
	wide      = "servers:5000,100000"
	cliff     = "cliff:16,0.03,60,600"
	cliffBest = 62
)

// plays are the scenes in the order they are played.
func plays() []play {
	both := []contender.Contender{contender.Straight, contender.Learning}
	return []play{
		{
			name: "blog", title: "a backend with the curve of the published experiment, users come step by step",
			backend: model("-curve", blog),
			contenders: append(both, contender.Fixed(blogBest),
				contender.HAProxy(blogBest), contender.HAProxy(10), contender.HAProxy(200), contender.HAProxy(0), contender.Envoy()),
			turn: ramp, judge: judgeBlog,
		},
		{
			name: "flat", title: "a backend of 32 servers, which nothing slows down",
			backend: model("-curve", flat), contenders: both, turn: ramp, judge: judgeHarmless,
		},
		{
			name: "delay", title: "a backend that only waits, 0.4 s in the mean, for any number of requests",
			backend: model("-curve", wide, "-delay", "400ms"), contenders: both, turn: ramp, judge: judgeHarmless,
		},
		{
			name: "cliff", title: "a backend that thrashes beyond 60 requests",
			backend: model("-curve", cliff), contenders: append(both, contender.Fixed(cliffBest)), turn: ramp,
			judge: judgeAgainst(contender.Fixed(cliffBest).Name),
		},
		{
			name: "shift", title: "the capacity falls to half, and returns",
			backend: model("-curve", blog), contenders: []contender.Contender{contender.Learning, aside(contender.Fixed(blogBest))},
			turn: turn{shift, func(l Load) time.Duration { return l.Settle + 2*l.Phase }}, judge: judgeShift,
		},
		{
			name: "hang", title: "the backend hangs, and recovers; 600 users, of whom 250 may wait, 2 s each",
			backend: model("-curve", blog), contenders: []contender.Contender{contender.Learning},
			asks: contender.Asks{Queue: hangQueue, Timeout: hangTimeout},
			turn: turn{hang, func(l Load) time.Duration { return l.Settle + hangFor + l.Phase }}, judge: judgeHang,
		},
		{
			name: "three", title: "three Sluices before one backend, with a third of the users each",
			backend: model("-curve", blog), contenders: []contender.Contender{contender.Fixed(blogBest), contender.Three()},
			turn: settled("", shareIn), judge: judgeThree,
		},
		lying("error", "error:0.2", "a fifth of the answers is a fast 500", contender.Asks{}),
		lying("quiet", "quiet:0.2", "a fifth of the answers is a fast 200 that means failure, as a rule says", contender.Asks{Failures: "X-Status: degraded"}),
		lying("trickle", "trickle:0.05", "a twentieth of the answers trickles over 2 s", contender.Asks{}),
		application(),
	}
}

// lying is a scene with a backend that lies; what counts is the work that it does.
func lying(name, lie, title string, asks contender.Asks) play {
	return play{
		name: name, title: title, backend: model("-curve", blog), asks: asks,
		contenders: []contender.Contender{contender.Fixed(blogBest), contender.Learning},
		turn:       settled("lie="+lie, 1),
		judge: func(_ *Rig, s *outcome.Scene) {
			s.Check("work done ÷ "+contender.Fixed(blogBest).Name, nearBest, 0, s.Ratio(contender.Adaptive, contender.Fixed(blogBest).Name, worked))
		},
		notes: []string{"requests/s counts lies that look good; what is compared is the requests that the backend has worked for."},
	}
}

func aside(c contender.Contender) contender.Contender {
	c.Aside = true
	return c
}

// ---- figures and targets ----

// The targets.
const (
	nearBest      = 0.95 // of the throughput with the best fixed limit
	harmless      = 0.98 // of direct, where there is nothing to win
	blogRate      = 1.30 // of direct
	blogMean      = 0.75
	blogP99       = 1.0
	halfTheConns  = 0.5
	regained      = 0.9 // of the best throughput
	regainSeconds = 15
	hangSeconds   = 5 // "recovers within seconds"
	fair          = 0.2
	shareIn       = 3 // times the time to settle: proxies that know nothing of each other become equal slowly
)

var (
	rate        = outcome.Held(func(s outcome.Step) float64 { return s.Rate })
	worked      = outcome.Held(func(s outcome.Step) float64 { return s.Worked })
	meanTime    = outcome.Held(func(s outcome.Step) float64 { return s.Mean })
	p99         = outcome.Held(func(s outcome.Step) float64 { return s.P99 })
	connections = outcome.Held(func(s outcome.Step) float64 { return float64(s.MostConnections) })
	slowest     = outcome.Held(func(s outcome.Step) float64 { return s.SlowestError })
	refused     = outcome.Held(func(s outcome.Step) float64 { return s.Errors })
)

func judgeBlog(_ *Rig, s *outcome.Scene) {
	s.Check("throughput ÷ direct", blogRate, 0, s.Ratio(contender.Adaptive, contender.Direct, rate))
	s.Check("mean response time ÷ direct", 0, blogMean, s.Ratio(contender.Adaptive, contender.Direct, meanTime))
	s.Check("p99 ÷ direct", 0, blogP99, s.Ratio(contender.Adaptive, contender.Direct, p99))
	s.Check("backend connections ÷ direct", 0, halfTheConns, s.Ratio(contender.Adaptive, contender.Direct, connections))
	judgeAgainst(contender.Fixed(blogBest).Name)(nil, s)
	s.Check("throughput ÷ direct over the whole ramp (no target)", 0, 0, s.Ratio(contender.Adaptive, contender.Direct, outcome.Whole))
	s.Check("mean response time ÷ direct over the whole ramp (no target)", 0, 0, s.Ratio(contender.Adaptive, contender.Direct, outcome.WholeMean))
}

func judgeHarmless(_ *Rig, s *outcome.Scene) {
	s.Check("throughput ÷ direct", harmless, 0, s.Ratio(contender.Adaptive, contender.Direct, rate))
	s.Check("throughput ÷ direct over the whole ramp", harmless, 0, s.Ratio(contender.Adaptive, contender.Direct, outcome.Whole))
}

func judgeAgainst(best string) func(*Rig, *outcome.Scene) {
	return func(_ *Rig, s *outcome.Scene) {
		s.Check("throughput ÷ "+best, nearBest, 0, s.Ratio(contender.Adaptive, best, rate))
	}
}

func judgeThree(_ *Rig, s *outcome.Scene) {
	three := contender.Three().Name
	s.Check("sum of the throughputs ÷ "+contender.Fixed(blogBest).Name, nearBest, 0, s.Ratio(three, contender.Fixed(blogBest).Name, rate))
	s.Check("farthest from a fair share of the throughput, worst round", 0, fair, s.Worst(three, outcome.Unfairness))
}

// ---- backends that change ----

// What is timed in a course.
const (
	afterHalving = "until 0.9 of the best after the capacity had halved"
	afterReturn  = "until 0.9 of the best after it had returned"
	afterHang    = "until 0.9 of the throughput before, after the hanging had ended"
)

func judgeShift(_ *Rig, s *outcome.Scene) {
	for _, what := range []string{afterHalving, afterReturn} {
		s.Check("seconds "+what+", worst round", 0, regainSeconds, s.Worst(contender.Adaptive, outcome.Timed(what)))
	}
}

// shift halves the capacity once the contender has settled, and gives it back.
func shift(ctx context.Context, r *Rig, s *stage) (outcome.Round, error) {
	down, up := r.Load.Settle, r.Load.Settle+r.Load.Phase
	end := up + r.Load.Phase
	round, err := r.course(ctx, s, r.Load.To, r.Load.Think, end, []change{{down, curve(halved)}, {up, curve(blog)}})
	if err != nil {
		return round, err
	}
	low, err := best(halved)
	if err != nil {
		return round, err
	}
	high, err := best(blog)
	round.Times = []outcome.Time{
		{What: afterHalving, Seconds: outcome.Settle(round.Course, down.Seconds(), up.Seconds(), regained*low)},
		{What: afterReturn, Seconds: outcome.Settle(round.Course, up.Seconds(), end.Seconds(), regained*high)},
	}
	return round, err
}

// best is the most work that a curve does in a second.
func best(text string) (float64, error) {
	c, err := sharing.Parse(text)
	if err != nil {
		return 0, err
	}
	const enough = 1000
	_, work := c.Best(enough)
	return work, nil
}

// In the scene "hang" so many requests may wait, so long; the backend hangs for hangFor.
// While it works, about 180 of the users' requests wait; once it hangs, 300 more come
// than may.
const (
	hangUsers   = 600
	hangThink   = "exp:1s"
	hangQueue   = 250
	hangTimeout = 2 * time.Second
	hangFor     = 15 * time.Second
	hangMargin  = 0.5 // seconds that a refusal may come late on a busy machine
)

// hang stops the backend for a while once the contender has settled.
func hang(ctx context.Context, r *Rig, s *stage) (outcome.Round, error) {
	stop, resume := r.Load.Settle, r.Load.Settle+hangFor
	end := resume + r.Load.Phase
	round, err := r.course(ctx, s, hangUsers, hangThink, end, []change{{stop, curve("hang")}, {resume, curve(blog)}})
	if err != nil {
		return round, err
	}
	before := outcome.MeanRate(round.Course, (stop - r.Load.Settle/3).Seconds(), stop.Seconds())
	round.Times = []outcome.Time{{What: afterHang, Seconds: outcome.Settle(round.Course, resume.Seconds(), end.Seconds(), regained*before)}}
	return round, nil
}

func judgeHang(_ *Rig, s *outcome.Scene) {
	s.Check("refusals/s in the mean: the queue is bounded", 0.1, 0, s.Worst(contender.Adaptive, refused))
	s.Check("slowest refusal, seconds", 0, hangTimeout.Seconds()+hangMargin, s.Worst(contender.Adaptive, slowest))
	s.Check("seconds "+afterHang+", worst round", 0, hangSeconds, s.Worst(contender.Adaptive, outcome.Timed(afterHang)))
}
