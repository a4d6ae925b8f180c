package outcome

import (
	"slices"

	"gonum.org/v1/plot/plotter"

	"sluice/bench/overload/contender"
	"sluice/bench/report"
)

// writePictures draws what a scene has into path.svg and path.png.
func (s *Scene) writePictures(path string) error { return report.WriteCurves(path, s.panels()) }

// panels are those of the ramp and those of the course; one without curves is not drawn.
func (s *Scene) panels() []report.Panel {
	var all []report.Panel
	steps := func(title string, of func(Step) float64) {
		p := report.Panel{Title: title, Over: "users"}
		for i, e := range s.Entries {
			c := e.curve(i)
			for _, step := range e.ramp() {
				c.Points = append(c.Points, plotter.XY{X: float64(step.Users), Y: of(step)})
			}
			p.Add(c)
		}
		all = append(all, p)
	}
	steps("Throughput (good answers/s)", func(s Step) float64 { return s.Rate })
	steps("Mean response time (s)", func(s Step) float64 { return s.Mean })
	if s.refused() {
		steps("Refusals and failures (1/s)", func(s Step) float64 { return s.Errors })
	}
	steps("Connections that the backend has open, at most", func(s Step) float64 { return float64(s.MostConnections) })
	points := func(title string, of func(Point) float64) {
		p := report.Panel{Title: title, Over: "seconds"}
		for i, e := range s.Entries {
			for _, r := range e.Rounds[:min(1, len(e.Rounds))] {
				c := e.curve(i)
				for _, point := range r.Course {
					c.Points = append(c.Points, plotter.XY{X: point.At, Y: of(point)})
				}
				p.Add(c)
			}
		}
		all = append(all, p)
	}
	points("Throughput (good answers/s), first round", func(p Point) float64 { return p.Rate })
	points("Requests that the backend holds, in the mean, first round", func(p Point) float64 { return p.Held })
	return all
}

// curve is one of an entry's, still without points.
func (e Entry) curve(number int) report.Curve {
	return report.Curve{Name: e.Name, Number: number, Ours: e.Name == contender.Adaptive}
}

// refused says whether any ramp had an answer that was not good.
func (s *Scene) refused() bool {
	return slices.ContainsFunc(s.Entries, func(e Entry) bool {
		return slices.ContainsFunc(e.ramp(), func(s Step) bool { return s.Errors > 0 })
	})
}
