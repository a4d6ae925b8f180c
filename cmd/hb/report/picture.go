package report

import (
	"fmt"
	"image/color"
	"io"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"sluice/cmd/hb/measure"
)

const (
	pictureWidth = 18 * vg.Centimeter
	panelHeight  = 7 * vg.Centimeter
	picturePPI   = 120
	panels       = 3
	legendRoom   = 1.25 // of the highest curve, so that the legend stands above it
)

var (
	strong = color.NRGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	middle = color.NRGBA{R: 0xff, G: 0x7f, B: 0x0e, A: 0xff}
	weak   = color.NRGBA{R: 0xb0, G: 0xb7, B: 0xbf, A: 0xff}
)

// curve is one figure over the ramp.
type curve struct {
	name   string
	colour color.Color
	of     func(*measure.Stage) float64
}

// CheckPicture refuses a file name that says no form of picture.
func CheckPicture(name string) error {
	switch filepath.Ext(name) {
	case ".svg", ".png":
		return nil
	}
	return fmt.Errorf("picture %q: the name must end in .svg or .png", name)
}

// WritePicture draws throughput, response time and connections, one below the
// other, over the users, or over the wanted rate if that is what changes. The
// name's end says which form it has.
func WritePicture(w io.Writer, name string, r *measure.Result) error {
	if err := CheckPicture(name); err != nil {
		return err
	}
	height := panels * panelHeight
	if filepath.Ext(name) == ".svg" {
		canvas := vgsvg.New(pictureWidth, height)
		if err := drawPanels(r.Stages, draw.New(canvas)); err != nil {
			return err
		}
		_, err := canvas.WriteTo(w)
		return err
	}
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(pictureWidth, height), vgimg.UseDPI(picturePPI))}
	if err := drawPanels(r.Stages, draw.New(canvas)); err != nil {
		return err
	}
	_, err := canvas.WriteTo(w)
	return err
}

func drawPanels(stages []*measure.Stage, c draw.Canvas) error {
	seconds := func(percent float64) func(*measure.Stage) float64 {
		return func(s *measure.Stage) float64 { return measure.Quantile(s.Response, percent).Seconds() }
	}
	all := []struct {
		title  string
		curves []curve
	}{
		{"Throughput (requests/s)", []curve{
			{"good", strong, (*measure.Stage).Rate},
			{"errors", middle, func(s *measure.Stage) float64 { return float64(s.Errors()) / max(s.Elapsed.Seconds(), 1e-9) }},
		}},
		{"Response time (s)", []curve{
			{"mean", strong, func(s *measure.Stage) float64 { return measure.Mean(s.Response).Seconds() }},
			{"p50", weak, seconds(50)},
			{"p99", middle, seconds(99)},
		}},
		{"Connections", []curve{
			{"open at most", strong, func(s *measure.Stage) float64 { return float64(s.Open) }},
		}},
	}
	tiles := draw.Tiles{
		Rows: panels, Cols: 1, PadY: 4 * vg.Millimeter,
		PadLeft: 3 * vg.Millimeter, PadRight: 5 * vg.Millimeter, PadTop: 3 * vg.Millimeter, PadBottom: 3 * vg.Millimeter,
	}
	label, at := over(stages)
	for row, panel := range all {
		p := plot.New()
		p.BackgroundColor = color.White
		p.Title.Text = panel.title
		p.X.Label.Text = label
		p.Legend.Top, p.Legend.Left = true, true
		p.Add(plotter.NewGrid())
		for _, curve := range panel.curves {
			if err := curve.addTo(p, stages, at); err != nil {
				return err
			}
		}
		p.X.Min, p.Y.Min = 0, 0
		p.Y.Max *= legendRoom
		p.Draw(tiles.At(c, 0, row))
	}
	return nil
}

// over chooses what the horizontal axis is.
func over(stages []*measure.Stage) (label string, at func(*measure.Stage) float64) {
	if n := len(stages); n > 1 && stages[0].Stage.Rate != stages[n-1].Stage.Rate {
		return "wanted requests/s", func(s *measure.Stage) float64 { return s.Stage.Rate }
	}
	return "users", func(s *measure.Stage) float64 { return float64(s.Users) }
}

func (c curve) addTo(p *plot.Plot, stages []*measure.Stage, at func(*measure.Stage) float64) error {
	points := make(plotter.XYs, len(stages))
	for i, s := range stages {
		points[i] = plotter.XY{X: at(s), Y: c.of(s)}
	}
	if len(points) == 0 {
		return nil
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = c.colour, vg.Points(1.5)
	dots.Color, dots.Shape, dots.Radius = c.colour, draw.CircleGlyph{}, vg.Points(2)
	p.Add(line, dots)
	p.Legend.Add(c.name, line, dots)
	return nil
}
