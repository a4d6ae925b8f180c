package main

import (
	"strings"
	"unicode/utf8"
)

// ink is what a character of a picture means; a palette gives it a colour.
type ink uint8

const (
	plain     ink = iota
	dim           // axes and labels
	bold          // names
	alarm         // what should not be
	limitInk      // the line of a limit
	flightInk     // bars of requests in flight
	crossInk      // the line where it crosses the bars
	queueInk      // bars of requests held
	workInk       // bars of throughput
	inks
)

// palette is what to write before characters of each ink: parameters of SGR
// (ECMA-48 section 8.3.117). Nothing is written for an empty one.
type palette [inks]string

// The palettes of terminals of 256, 16 and no colours.
var (
	manyColours = palette{
		dim: "38;5;244", bold: "1", alarm: "1;38;5;203", limitInk: "38;5;221", flightInk: "38;5;67",
		crossInk: "38;5;221;48;5;67", queueInk: "38;5;174", workInk: "38;5;108",
	}
	fewColours = palette{
		dim: "90", bold: "1", alarm: "1;31", limitInk: "93", flightInk: "34",
		crossInk: "93;44", queueInk: "35", workInk: "32",
	}
	noColours = palette{}
)

// canvas is a picture of characters. What is put beyond its edges is lost, so
// that no terminal is ever overrun.
type canvas struct {
	width, height int
	cells         []cell // by line
}

// cell is one character; the zero one is empty.
type cell struct {
	char rune
	ink  ink
}

func newCanvas(width, height int) *canvas {
	return &canvas{width, height, make([]cell, width*height)}
}

// at is the cell of a place, nil beyond the edges.
func (c *canvas) at(x, y int) *cell {
	if x < 0 || y < 0 || x >= c.width || y >= c.height {
		return nil
	}
	return &c.cells[y*c.width+x]
}

// text puts a text and says where it ended.
func (c *canvas) text(x, y int, s string, in ink) int {
	for _, char := range s {
		if cell := c.at(x, y); cell != nil {
			cell.char, cell.ink = char, in
		}
		x++
	}
	return x
}

// textBefore puts a text that ends before x.
func (c *canvas) textBefore(x, y int, s string, in ink) {
	c.text(x-utf8.RuneCountInString(s), y, s, in)
}

// eighths are bars by height, from an eighth of a character to a whole one.
var eighths = [...]rune{'▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'}

// bars draws a bar for each value, the last one at the right edge of the box. A
// value of top is as high as the box; a negative one is unknown and left out.
// What is more than nothing can be seen.
func (c *canvas) bars(b box, values []float64, top float64, in ink) {
	for i, v := range values {
		if v <= 0 || b.height < 1 {
			continue
		}
		height := max(1, min(int(v/top*float64(8*b.height)+0.5), 8*b.height))
		x := b.x + b.width - len(values) + i
		for line := range (height + 7) / 8 {
			c.text(x, b.y+b.height-1-line, string(eighths[min(height-8*line, 8)-1]), in)
		}
	}
}

// strokes are lines at the bottom of a character and in its middle: half a
// character apart. Every font of terminals has them.
var strokes = [...]rune{'▁', '━'}

// line draws a line through the values, on the scale of bars that were drawn
// before. A character cannot hold both the top of a bar and the line, so where
// they meet both go to the nearest edge between two characters.
func (c *canvas) line(b box, values []float64, top float64) {
	for i, v := range values {
		if v < 0 || b.height < 1 {
			continue
		}
		steps := len(strokes) * b.height
		height := max(0, min(int(v/top*float64(steps)+0.5), steps-1))
		x, y := b.x+b.width-len(values)+i, b.y+b.height-1-height/len(strokes)
		stroke, in := strokes[height%len(strokes)], limitInk
		if under := c.at(x, y); under != nil && under.ink == flightInk {
			switch whole := eighths[len(eighths)-1]; {
			case under.char == whole:
				in = crossInk
			case under.char < eighths[len(eighths)/2-1]:
				stroke = strokes[0]
			case y > b.y:
				under.char, stroke, y = whole, strokes[0], y-1
			default:
				stroke, in = '▔', crossInk
			}
		}
		c.text(x, y, string(stroke), in)
	}
}

// box is a place on a canvas.
type box struct{ x, y, width, height int }

// lines are the canvas as text, without the blanks at the ends of lines.
func (c *canvas) lines(p *palette) []string {
	all := make([]string, c.height)
	for y := range all {
		row := c.cells[y*c.width : (y+1)*c.width]
		for len(row) > 0 && row[len(row)-1].char == 0 {
			row = row[:len(row)-1]
		}
		all[y] = encode(row, p)
	}
	return all
}

// encode writes one line. It leaves the terminal as it was.
func encode(row []cell, p *palette) string {
	var b strings.Builder
	now := ""
	for _, one := range row {
		if want := p[one.ink]; want != now {
			b.WriteString("\x1b[0")
			if want != "" {
				b.WriteString(";" + want)
			}
			b.WriteString("m")
			now = want
		}
		b.WriteRune(max(one.char, ' '))
	}
	if now != "" {
		b.WriteString("\x1b[0m")
	}
	return b.String()
}
