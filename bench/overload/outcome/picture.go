package outcome

import (
	"errors"
	"image/color"
	"io"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"sluice/bench/overload/contender"
)

const (
	pictureWidth = 24 * vg.Centimeter
	legendWidth  = 6 * vg.Centimeter // of it, on the right
	panelHeight  = 7 * vg.Centimeter
	picturePPI   = 120
)

// Sluice as it comes has a colour of its own, the others have those of the list. All
// are told apart by people who see red and green alike (Okabe and Ito, 2008).
var (
	ours    = color.NRGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}
	colours = []color.Color{
		color.NRGBA{R: 0x00, G: 0x00, B: 0x00, A: 0xff},
		color.NRGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff},
		color.NRGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
		color.NRGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
		color.NRGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
		color.NRGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
		color.NRGBA{R: 0xb8, G: 0xa9, B: 0x1a, A: 0xff},
		color.NRGBA{R: 0x99, G: 0x99, B: 0x99, A: 0xff},
	}
)

// panel is one picture of several curves.
type panel struct {
	title, over string
	curves      []curve
}

// curve is one entry's figure.
type curve struct {
	name   string
	number int // of the entry, which chooses the colour
	points plotter.XYs
}

// writePictures draws what a scene has into path.svg and path.png.
func (s *Scene) writePictures(path string) error {
	panels := s.panels()
	if len(panels) == 0 {
		return nil
	}
	height := panelHeight * vg.Length(len(panels))
	svg := vgsvg.New(pictureWidth, height)
	png := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(pictureWidth, height), vgimg.UseDPI(picturePPI))}
	if err := errors.Join(drawPanels(panels, draw.New(svg)), drawPanels(panels, draw.New(png))); err != nil {
		return err
	}
	return errors.Join(writeFile(path+".svg", to(svg)), writeFile(path+".png", to(png)))
}

func to(c io.WriterTo) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := c.WriteTo(w)
		return err
	}
}

// panels are those of the ramp and those of the course, as far as there is one.
func (s *Scene) panels() []panel {
	var all []panel
	steps := func(title string, of func(Step) float64) {
		p := panel{title: title, over: "users"}
		for i, e := range s.Entries {
			c := curve{name: e.Name, number: i}
			for _, step := range e.ramp() {
				c.points = append(c.points, plotter.XY{X: float64(step.Users), Y: of(step)})
			}
			p.add(c)
		}
		all = p.appendTo(all)
	}
	steps("Throughput (good answers/s)", func(s Step) float64 { return s.Rate })
	steps("Mean response time (s)", func(s Step) float64 { return s.Mean })
	if s.refused() {
		steps("Refusals and failures (1/s)", func(s Step) float64 { return s.Errors })
	}
	steps("Connections that the backend has open, at most", func(s Step) float64 { return float64(s.MostConnections) })
	points := func(title string, of func(Point) float64) {
		p := panel{title: title, over: "seconds"}
		for i, e := range s.Entries {
			for _, r := range e.Rounds[:min(1, len(e.Rounds))] {
				c := curve{name: e.Name, number: i}
				for _, point := range r.Course {
					c.points = append(c.points, plotter.XY{X: point.At, Y: of(point)})
				}
				p.add(c)
			}
		}
		all = p.appendTo(all)
	}
	points("Throughput (good answers/s), first round", func(p Point) float64 { return p.Rate })
	points("Requests that the backend holds, in the mean, first round", func(p Point) float64 { return p.Held })
	return all
}

// refused says whether any ramp had an answer that was not good.
func (s *Scene) refused() bool {
	return slices.ContainsFunc(s.Entries, func(e Entry) bool {
		return slices.ContainsFunc(e.ramp(), func(s Step) bool { return s.Errors > 0 })
	})
}

// add adds a curve that has points.
func (p *panel) add(c curve) {
	if len(c.points) > 0 {
		p.curves = append(p.curves, c)
	}
}

// appendTo adds a panel that has curves.
func (p panel) appendTo(all []panel) []panel {
	if len(p.curves) > 0 {
		all = append(all, p)
	}
	return all
}

// drawPanels draws the panels below each other, and the names of the curves beside them.
func drawPanels(panels []panel, c draw.Canvas) error {
	tiles := draw.Tiles{
		Rows: len(panels), Cols: 1, PadY: 4 * vg.Millimeter,
		PadLeft: 3 * vg.Millimeter, PadRight: 5 * vg.Millimeter, PadTop: 3 * vg.Millimeter, PadBottom: 3 * vg.Millimeter,
	}
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.Padding = true, true, 2*vg.Millimeter
	left := draw.Crop(c, 0, -legendWidth, 0, 0)
	for row, panel := range panels {
		p, err := panel.plot(&legend, row == 0)
		if err != nil {
			return err
		}
		p.Draw(tiles.At(left, 0, row))
	}
	legend.Draw(draw.Crop(c, pictureWidth-legendWidth, 0, 0, -panelHeight/8))
	return nil
}

// plot draws the curves, and names them in the legend if asked.
func (p panel) plot(legend *plot.Legend, name bool) (*plot.Plot, error) {
	out := plot.New()
	out.BackgroundColor = color.White
	out.Title.Text, out.X.Label.Text = p.title, p.over
	out.Y.Tick.Marker = plainTicks{}
	out.Add(plotter.NewGrid())
	for _, c := range p.curves {
		line, dots, err := plotter.NewLinePoints(c.points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colours[c.number%len(colours)], vg.Points(1.2)
		if c.name == contender.Adaptive {
			line.Color, line.Width = ours, vg.Points(2.5)
		}
		dots.Color, dots.Shape, dots.Radius = line.Color, draw.CircleGlyph{}, vg.Points(1.5)
		out.Add(line, dots)
		if name {
			legend.Add(c.name, line, dots)
		}
	}
	out.X.Min, out.Y.Min = 0, 0
	return out, nil
}

// plainTicks are the usual ones, with no more digits than a figure has.
type plainTicks struct{}

// Ticks gives the ticks between two values (plot.Ticker).
func (plainTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'g', 4, 64)
		}
	}
	return ticks
}
