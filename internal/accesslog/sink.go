package accesslog

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// pipeBuf is the longest write to a pipe that no other process's write can split,
// in bytes: PIPE_BUF of pipe(7).
const pipeBuf = 4096

// pollMillis is how long the goroutine waits at a stretch for a reader to take
// something, before it looks whether Close has lost patience.
const pollMillis = 100

// sink is an open file. Only the goroutine of a Log uses it.
type sink struct {
	path    string
	fd      int
	own     bool // else it is stdout or stderr, which others use too
	pipe    bool
	torn    bool // the last write ended within a line
	failing bool // the last write failed, and that was reported

	abandoned *atomic.Bool // immutable, the Log's: give up instead of waiting for a reader
}

// openSink opens stdout, stderr, or a file for appending; it makes the file,
// readable by owner and group, if there is none.
//
// O_NONBLOCK keeps the open of a FIFO that nobody reads from hanging. It is set on
// our own open file only, never on stdout and stderr, whose flags are shared with
// other processes.
func openSink(path string) (*sink, error) {
	s := &sink{path: path}
	switch path {
	case "stdout":
		s.fd = unix.Stdout
	case "stderr":
		s.fd = unix.Stderr
	default:
		const flags = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_CLOEXEC | unix.O_NONBLOCK
		fd, err := unix.Open(path, flags, 0o640)
		if err != nil {
			return nil, fmt.Errorf("accesslog: open %s: %w", path, err)
		}
		s.fd, s.own = fd, true
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		s.close()
		return nil, fmt.Errorf("accesslog: stat %s: %w", path, err)
	}
	s.pipe = st.Mode&unix.S_IFMT == unix.S_IFIFO
	return s, nil
}

// write appends whole lines and returns how many of them were lost. An error loses
// the rest of these lines, not of those that follow: the disk may have room again,
// the pipe a reader.
func (s *sink) write(lines []byte) (lost int) {
	for len(lines) > 0 {
		batch := s.cut(lines)
		n := 0
		err := s.mend()
		if err == nil {
			n, err = s.writeAll(batch)
		}
		s.report(err)
		if err != nil {
			return bytes.Count(lines[n:], newline)
		}
		lines = lines[len(batch):]
	}
	return 0
}

var newline = []byte{'\n'}

// cut is how much of lines one write(2) should take. Appends to a file are not split
// whatever their length. In a pipe only up to pipeBuf bytes are safe from the lines
// of other processes; a line that is longer goes alone.
func (s *sink) cut(lines []byte) []byte {
	if !s.pipe || len(lines) <= pipeBuf {
		return lines
	}
	if end := bytes.LastIndexByte(lines[:pipeBuf], '\n'); end >= 0 {
		return lines[:end+1]
	}
	return lines[:bytes.IndexByte(lines, '\n')+1]
}

// mend ends a line that an earlier error has cut short, so that it spoils no other.
func (s *sink) mend() error {
	if !s.torn {
		return nil
	}
	_, err := s.writeAll(newline)
	return err
}

// writeAll writes until everything is written or an error remains. It returns how
// many bytes went out.
func (s *sink) writeAll(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Write(s.fd, p[done:])
		if n > 0 {
			done += n
			s.torn = p[done-1] != '\n'
		}
		switch err {
		case nil:
			if n == 0 {
				return done, io.ErrShortWrite
			}
		case unix.EINTR:
		case unix.EAGAIN:
			if s.abandoned.Load() {
				return done, err
			}
			s.await()
		default:
			return done, err
		}
	}
	return done, nil
}

// await waits until the descriptor takes bytes again, or a moment. An error shows
// in the next write.
func (s *sink) await() {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}
	_, _ = unix.Poll(fds, pollMillis)
}

// report tells the operator when writing begins to fail and when it works again.
// The lines between are only counted. Of stderr it says nothing: that is where it
// would say it.
func (s *sink) report(err error) {
	switch {
	case s.path == "stderr":
	case err != nil && !s.failing:
		slog.Error("access log: lines are lost", "path", s.path, "error", err)
	case err == nil && s.failing:
		slog.Info("access log: lines are written again", "path", s.path)
	}
	s.failing = err != nil
}

// close closes the file, but not stdout and stderr. Nothing is left to be done
// about an error.
func (s *sink) close() {
	if s.own {
		_ = unix.Close(s.fd)
	}
}
