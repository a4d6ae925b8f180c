package scene

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sluice/bench/overload/app"
	"sluice/bench/overload/contender"
	"sluice/bench/overload/drive"
	"sluice/bench/overload/outcome"
)

// application is the scene with a real application (package app).
func application() play {
	return play{
		name:    "app",
		title:   "a real application: Tomcat with a thread and a PostgreSQL connection for each request, and a small heap",
		backend: shop, contenders: []contender.Contender{contender.Straight, contender.Learning},
		prepare: findBest, turn: ramp, judge: judgeApp,
	}
}

// bestFixed is the entry with the best fixed limit.
const bestFixed = "sluice, best fixed"

func judgeApp(_ *Rig, s *outcome.Scene) {
	s.Check("throughput ÷ best fixed limit", nearBest, 0, s.Ratio(contender.Adaptive, bestFixed, rate))
	s.Check("throughput ÷ direct (no target)", 0, 0, s.Ratio(contender.Adaptive, contender.Direct, rate))
	s.Check("mean response time ÷ direct (no target)", 0, 0, s.Ratio(contender.Adaptive, contender.Direct, meanTime))
}

// findBest holds all users at each of the fixed limits, and lets the best take part.
func findBest(ctx context.Context, r *Rig, p *play, s *outcome.Scene) error {
	best, most := 0, 0.0
	for _, n := range r.Limits {
		trial := *p
		trial.turn = settled("", 1)
		round, err := r.give(ctx, trial, contender.Fixed(n))
		if err != nil {
			return err
		}
		held := round.Held
		fmt.Fprintf(r.Progress, "%s %s fixed limit %d: %.1f requests/s\n", time.Now().UTC().Format(time.TimeOnly), p.name, n, held.Rate)
		s.Notes = append(s.Notes, fmt.Sprintf("fixed limit %d: %.1f requests/s, mean %.3f s, p99 %.3f s", n, held.Rate, held.Mean, held.P99))
		if held.Rate > most {
			best, most = n, held.Rate
		}
	}
	c := contender.Fixed(best)
	c.Name = bestFixed
	p.contenders = append(slices.Clone(p.contenders), c)
	s.Notes = append(s.Notes, fmt.Sprintf("%s is %d", bestFixed, best))
	return nil
}

// shop starts the application with its database.
func shop(ctx context.Context, r *Rig, dir string) (*server, error) {
	tools, err := app.Find()
	if err != nil {
		return nil, err
	}
	var ports app.Ports
	for _, port := range []*int{&ports.Shop, &ports.Control, &ports.Database} {
		if *port, err = r.ports.Next(); err != nil {
			return nil, err
		}
	}
	running, err := app.Start(ctx, tools, dir, ports, contender.Ready)
	if err != nil {
		return nil, err
	}
	return &server{ports.Shop, drive.Control("http://" + address(ports.Control)), running.Stop}, nil
}
