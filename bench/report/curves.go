package report

import (
	"errors"
	"image/color"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	curvesWidth  = 24 * vg.Centimeter
	legendWidth  = 6 * vg.Centimeter // of it, on the right
	curvesHeight = 7 * vg.Centimeter // of a panel
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

// Panel is one picture of several curves.
type Panel struct {
	Title, Over string // the figure with its unit; what it goes over
	Curves      []Curve
}

// Curve is one entry's figure.
type Curve struct {
	Name   string
	Number int  // of the entry, which chooses the colour
	Ours   bool // drawn as Sluice as it comes
	Points plotter.XYs
	Errors plotter.YErrors // how far the interval goes below and above each point; nil: none
}

// Add adds a curve, if it has points.
func (p *Panel) Add(c Curve) {
	if len(c.Points) > 0 {
		p.Curves = append(p.Curves, c)
	}
}

// WriteCurves draws the panels that have curves below each other, into path.svg and
// path.png, with the names of the first one's curves beside them.
func WriteCurves(path string, panels []Panel) error {
	var drawn []Panel
	for _, p := range panels {
		if len(p.Curves) > 0 {
			drawn = append(drawn, p)
		}
	}
	if len(drawn) == 0 {
		return nil
	}
	height := curvesHeight * vg.Length(len(drawn))
	svg := vgsvg.New(curvesWidth, height)
	png := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(curvesWidth, height), vgimg.UseDPI(picturePPI))}
	if err := errors.Join(drawCurves(drawn, draw.New(svg)), drawCurves(drawn, draw.New(png))); err != nil {
		return err
	}
	return errors.Join(writeFile(path+".svg", to(svg)), writeFile(path+".png", to(png)))
}

func drawCurves(panels []Panel, c draw.Canvas) error {
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
	legend.Draw(draw.Crop(c, curvesWidth-legendWidth, 0, 0, -curvesHeight/8))
	return nil
}

// plot draws the curves, and names them in the legend if asked.
func (p Panel) plot(legend *plot.Legend, name bool) (*plot.Plot, error) {
	out := plot.New()
	out.BackgroundColor = color.White
	out.Title.Text, out.X.Label.Text = p.Title, p.Over
	out.Y.Tick.Marker = plainTicks{}
	out.Add(plotter.NewGrid())
	for _, c := range p.Curves {
		line, dots, err := plotter.NewLinePoints(c.Points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colours[c.Number%len(colours)], vg.Points(1.2)
		if c.Ours {
			line.Color, line.Width = ours, vg.Points(2.5)
		}
		dots.Color, dots.Shape, dots.Radius = line.Color, draw.CircleGlyph{}, vg.Points(1.5)
		out.Add(line, dots)
		if name {
			legend.Add(c.Name, line, dots)
		}
		if c.Errors == nil {
			continue
		}
		bars, err := plotter.NewYErrorBars(struct {
			plotter.XYs
			plotter.YErrors
		}{c.Points, c.Errors})
		if err != nil {
			return nil, err
		}
		bars.Color = line.Color
		out.Add(bars)
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
