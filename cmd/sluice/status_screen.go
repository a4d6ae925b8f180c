package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// The size of a terminal that does not tell its own.
const (
	usualWidth  = 80
	usualHeight = 24
)

// Control sequences (ECMA-48, and those of xterm for modes).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K" // from the cursor to the line's end
	clearBelow  = "\x1b[J"
)

// screen is a terminal that pictures are shown on.
type screen struct {
	out     io.Writer
	size    func() (width, height int)
	palette *palette
}

// screenOf is the terminal behind out; nil if it is none, or one that cannot move
// its cursor.
func screenOf(out io.Writer) *screen {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return nil
	}
	fd := int(f.Fd())
	if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
		return nil
	}
	return &screen{out: out, size: func() (int, int) { return sizeOf(fd) }, palette: paletteFor(os.Getenv)}
}

// sizeOf is a terminal's size in characters.
func sizeOf(fd int) (width, height int) {
	size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return usualWidth, usualHeight
	}
	return int(size.Col), int(size.Row)
}

// paletteFor chooses by the environment. NO_COLOR, not empty, is the way to have
// none (no-color.org).
func paletteFor(env func(string) string) *palette {
	switch {
	case env("NO_COLOR") != "":
		return &noColours
	case strings.Contains(env("TERM"), "256color") || env("COLORTERM") != "":
		return &manyColours
	}
	return &fewColours
}

func (s *screen) open() error {
	_, err := io.WriteString(s.out, enterScreen)
	return err
}

func (s *screen) close() { io.WriteString(s.out, leaveScreen) }

// show writes a picture over the one before, in one piece and without clearing
// the screen first, so that nothing flickers.
func (s *screen) show(c *canvas) error {
	_, err := io.WriteString(s.out, home+strings.Join(c.lines(s.palette), clearLine+"\r\n")+clearLine+clearBelow)
	return err
}
