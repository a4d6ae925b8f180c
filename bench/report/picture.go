package report

import (
	"errors"
	"image/color"
	"io"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	panelColumns = 2
	panelWidth   = 15 * vg.Centimeter
	barHeight    = 0.35 * vg.Centimeter
	barPitch     = 0.6 * vg.Centimeter
	panelFrame   = 2.4 * vg.Centimeter // title and axis
	picturePPI   = 120
	labelRoom    = 1.15 // of the longest bar, so that its figure fits beside it
)

var (
	sluiceColour = color.NRGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	peerColour   = color.NRGBA{R: 0xb0, G: 0xb7, B: 0xbf, A: 0xff}
)

// WritePictures draws a panel of bars for each table, with 95 % intervals, into
// path.svg and path.png.
func WritePictures(path string, r Results) error {
	rows := (len(r.Tables) + panelColumns - 1) / panelColumns
	if rows == 0 {
		return nil
	}
	most := 0
	for _, t := range r.Tables {
		most = max(most, len(t.measured()))
	}
	width := panelColumns * panelWidth
	height := vg.Length(rows) * (panelFrame + vg.Length(most)*barPitch)
	svg := vgsvg.New(width, height)
	png := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(picturePPI))}
	if err := errors.Join(drawPanels(r.Tables, rows, draw.New(svg)), drawPanels(r.Tables, rows, draw.New(png))); err != nil {
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

// drawPanels draws the tables row by row.
func drawPanels(tables []Table, rows int, c draw.Canvas) error {
	tiles := draw.Tiles{
		Rows: rows, Cols: panelColumns,
		PadX: 6 * vg.Millimeter, PadY: 6 * vg.Millimeter,
		PadLeft: 3 * vg.Millimeter, PadRight: 5 * vg.Millimeter, PadTop: 3 * vg.Millimeter, PadBottom: 3 * vg.Millimeter,
	}
	for i, t := range tables {
		p, err := t.panel()
		if err != nil {
			return err
		}
		p.Draw(tiles.At(c, i%panelColumns, i/panelColumns))
	}
	return nil
}

// measured are the rows that have a figure.
func (t Table) measured() []Row {
	var all []Row
	for _, r := range t.Rows {
		if r.Value.N > 0 {
			all = append(all, r)
		}
	}
	return all
}

// panel is the picture of one table, the first row on top.
func (t Table) panel() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = t.ID + ": " + t.Title
	p.Title.Padding = 2 * vg.Millimeter
	p.X.Label.Text = t.Metric
	p.X.Min = 0
	p.BackgroundColor = color.White
	rows := t.measured()
	names := make([]string, len(rows))
	var bars intervals
	for i, r := range rows {
		y := len(rows) - 1 - i
		names[y] = r.Name
		if err := addBar(p, r, float64(y)); err != nil {
			return nil, err
		}
		bars.add(r, float64(y))
	}
	if len(rows) == 0 {
		return p, nil
	}
	p.NominalY(names...)
	err := bars.addTo(p)
	p.X.Max = bars.longest * labelRoom // adding widens it for the intervals; wide ones are cut
	return p, err
}

// addBar draws one row's bar: Sluice's own in colour.
func addBar(p *plot.Plot, r Row, y float64) error {
	bar, err := plotter.NewBarChart(plotter.Values{r.Value.Mean}, barHeight)
	if err != nil {
		return err
	}
	bar.Horizontal, bar.XMin, bar.LineStyle.Width = true, y, 0
	bar.Color = peerColour
	if strings.HasPrefix(r.Name, sluiceRow) {
		bar.Color = sluiceColour
	}
	p.Add(bar)
	return nil
}

// intervals are the error bars of a panel, and the figures beside the bars.
type intervals struct {
	plotter.XYs
	plotter.XErrors
	figures []string
	longest float64
}

func (b *intervals) add(r Row, y float64) {
	low, high := r.Value.Mean, r.Value.Mean
	if r.Value.N > 1 {
		low, high = r.Value.Lo, r.Value.Hi
	}
	b.XYs = append(b.XYs, plotter.XY{X: r.Value.Mean, Y: y})
	b.XErrors = append(b.XErrors, struct{ Low, High float64 }{r.Value.Mean - low, high - r.Value.Mean})
	b.figures = append(b.figures, "  "+number(r.Value.Mean))
	b.longest = max(b.longest, r.Value.Mean)
}

func (b *intervals) addTo(p *plot.Plot) error {
	bars, err := plotter.NewXErrorBars(b)
	if err != nil {
		return err
	}
	// The figures stand right of the intervals.
	at := make(plotter.XYs, len(b.XYs))
	for i, xy := range b.XYs {
		at[i] = plotter.XY{X: min(xy.X+b.XErrors[i].High, b.longest*labelRoom), Y: xy.Y}
	}
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: at, Labels: b.figures})
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		labels.TextStyle[i].YAlign = draw.YCenter
	}
	p.Add(bars, labels)
	return nil
}
