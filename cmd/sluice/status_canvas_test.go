package main

import (
	"slices"
	"strings"
	"testing"
)

func TestBarsAndLine(t *testing.T) {
	for _, c := range []struct {
		name        string
		bars, limit []float64
		want        string
	}{
		{"bars by eighths", []float64{-1, 0, 0.01, 4, 8, 8.5, 12, 16, 99}, nil, `
     ▁▄██
  ▁▄█████`},
		{"a line alone", nil, []float64{-1, 0, 4, 8, 12, 16, 99}, `
     ▁━━━
   ▁━`},
		{"a line through bars", []float64{16, 16, 16}, []float64{4, 8, 12}, `
      █▁━
      ━██`},
		{"a line that bars reach", []float64{2, 4, 8, 10, 15}, []float64{2, 4, 8, 10, 15}, `
     ▁▁▁▔
    ▁████`},
		{"a line above bars", []float64{3, 3, 9}, []float64{8, 12, 15}, `
      ▁━▁
      ▃▃█`},
	} {
		canvas := newCanvas(9, 2)
		place := box{0, 0, 9, 2}
		canvas.bars(place, c.bars, 16, flightInk)
		canvas.line(place, c.limit, 16)
		if got := "\n" + strings.Join(canvas.lines(&noColours), "\n"); got != c.want {
			t.Errorf("%s: got%s\nwant%s", c.name, got, c.want)
		}
	}
}

func TestCanvasLosesWhatIsBeyondItsEdges(t *testing.T) {
	c := newCanvas(4, 1)
	c.text(-2, 0, "abcdefgh", plain)
	c.text(0, 1, "below", plain)
	c.text(0, -1, "above", plain)
	c.textBefore(2, 0, "xyz", plain)
	if got := c.lines(&noColours); !slices.Equal(got, []string{"yzef"}) {
		t.Errorf("%q", got)
	}
}

// Colours change where the ink does, and end with the line.
func TestCanvasColours(t *testing.T) {
	c := newCanvas(8, 2)
	c.text(0, 0, "ab", plain)
	c.text(2, 0, "cd", queueInk)
	c.text(6, 0, "e", crossInk)
	c.text(0, 1, "f", dim)
	want := []string{"ab\x1b[0;35mcd\x1b[0m  \x1b[0;93;44me\x1b[0m", "\x1b[0;90mf\x1b[0m"}
	if got := c.lines(&fewColours); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
