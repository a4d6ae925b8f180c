package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal of this size and gives the side of programs.
func terminal(t *testing.T, width, height uint16) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		t.Fatal(err)
	}
	side, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { side.Close() })
	return side
}

func TestScreenOf(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	t.Setenv("TERM", "xterm")
	if screenOf(new(strings.Builder)) != nil || screenOf(file) != nil {
		t.Error("a file is taken for a terminal")
	}
	for _, c := range []struct{ width, height, wantWidth, wantHeight uint16 }{{132, 50, 132, 50}, {0, 0, 80, 24}} {
		s := screenOf(terminal(t, c.width, c.height))
		if s == nil {
			t.Fatal("a terminal is taken for a file")
		}
		if w, h := s.size(); w != int(c.wantWidth) || h != int(c.wantHeight) {
			t.Errorf("%d × %d, want %d × %d", w, h, c.wantWidth, c.wantHeight)
		}
	}
	for _, term := range []string{"dumb", ""} {
		t.Setenv("TERM", term)
		if screenOf(terminal(t, 80, 24)) != nil {
			t.Errorf("a terminal %q is taken for one that can move its cursor", term)
		}
	}
}

func TestPaletteFor(t *testing.T) {
	for _, c := range []struct {
		env  string // NAME=value
		want *palette
	}{
		{"TERM=xterm-256color", &manyColours},
		{"COLORTERM=truecolor", &manyColours},
		{"TERM=linux", &fewColours},
		{"NO_COLOR=1", &noColours},
		{"NO_COLOR=", &fewColours},
	} {
		name, value, _ := strings.Cut(c.env, "=")
		got := paletteFor(func(asked string) string {
			if asked == name {
				return value
			}
			return ""
		})
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.env, *got, *c.want)
		}
	}
}

// A picture is written in one piece over the one before, line by line, and what
// was longer before is cleared.
func TestShow(t *testing.T) {
	c := newCanvas(3, 2)
	c.text(0, 0, "ab", plain)
	var out strings.Builder
	s := &screen{out: &out, palette: &noColours}
	if err := s.show(c); err != nil {
		t.Fatal(err)
	}
	if want := home + "ab" + clearLine + "\r\n" + clearLine + clearBelow; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
