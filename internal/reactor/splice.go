package reactor

import (
	"errors"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pipeBytes is asked for, the most that /proc/sys/fs/pipe-max-size allows a
	// user by default: 10 MiB bodies cost a third less CPU than with 256 KiB.
	pipeBytes = 1 << 20
	// leastPipe is the kernel's own default. A user who has many pipes is given
	// smaller ones (pipe-user-pages-soft, pipe(7)): a buffer serves better then.
	leastPipe = 64 << 10
	keptPipes = 16 // per loop: each is two descriptors
	// lentPipes are in use at once, per loop: 64 MiB of the kernel's memory, however
	// many slow clients there are.
	lentPipes = 64
)

var (
	// errSmallPipe: the user has as many pipes as the kernel likes.
	errSmallPipe = errors.New("the kernel gives only a small pipe")
	// errManyPipes: lentPipes are in use.
	errManyPipes = errors.New("the loop has as many pipes in use as it may")
)

// pipe is the kernel buffer that splice(2) moves through.
type pipe struct{ out, in, size int }

func (l *Loop) getPipe() (p pipe, err error) {
	n := len(l.pipes)
	switch {
	case l.lent >= lentPipes:
		return pipe{}, errManyPipes
	case n > 0:
		p, l.pipes = l.pipes[n-1], l.pipes[:n-1]
	default:
		p, err = newPipe()
	}
	if err == nil {
		l.lent++
	}
	return p, err
}

func newPipe() (pipe, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return pipe{}, err
	}
	p := pipe{out: fds[0], in: fds[1]}
	var err error
	if p.size, err = unix.FcntlInt(uintptr(p.in), unix.F_SETPIPE_SZ, pipeBytes); err != nil {
		p.size, err = unix.FcntlInt(uintptr(p.in), unix.F_GETPIPE_SZ, 0)
	}
	if err == nil && p.size < leastPipe {
		err = errSmallPipe
	}
	if err != nil {
		p.close()
		return pipe{}, err
	}
	return p, nil
}

// putPipe takes back a pipe, to keep it if it is empty.
func (l *Loop) putPipe(p pipe, empty bool) {
	l.lent--
	if !empty || len(l.pipes) >= keptPipes {
		p.close()
		return
	}
	l.pipes = append(l.pipes, p)
}

func (p pipe) close() {
	closeFD(p.out)
	closeFD(p.in)
}

// SpliceFrom moves n bytes from src to c inside the kernel, without copying them
// through this process (splice(2)), and returns how many arrived at c. src may be
// silent for up to idle before each piece (0: for ever); each is called with a
// piece's size before c has to take it. fault says whose side failed: src's if
// reading, c's if writing, nobody's if there was no pipe to be had.
func (c *Conn) SpliceFrom(src *Conn, n int64, idle time.Duration, each func(piece int)) (done int64, fault *Conn, err error) {
	p, err := c.loop.getPipe()
	if err != nil {
		return 0, nil, err
	}
	defer func() { c.loop.putPipe(p, fault == nil) }()
	for done < n {
		src.SetReadTimeout(idle)
		in, err := src.spliceOut(p, min(n-done, int64(p.size)))
		if err != nil {
			return done, src, err
		}
		each(in)
		if err := c.spliceIn(p, in); err != nil {
			return done, c, err
		}
		done += int64(in)
		c.loop.spent(in)
	}
	src.look()
	return done, nil, nil
}

// SplicePiece moves what src has now, at most n bytes, to c inside the kernel. It
// waits for c, so that no pipe is held for a c that takes nothing, but not for src: 0
// bytes without an error say that src has none. done, fault and err are as of
// SpliceFrom; io.EOF is the end of src.
func (c *Conn) SplicePiece(src *Conn, n int) (done int, fault *Conn, err error) {
	if err := c.awaitWritable(); err != nil {
		return 0, c, err
	}
	if src.closed {
		return 0, src, net.ErrClosed
	}
	p, err := c.loop.getPipe()
	if err != nil {
		return 0, nil, err
	}
	defer func() { c.loop.putPipe(p, fault != c) }()
	m, e := splice(src.fd, p.in, min(n, p.size))
	switch {
	case e == unix.EAGAIN && src.ended:
		return 0, src, io.ErrUnexpectedEOF
	case e == unix.EAGAIN: // the pipe is empty, so it is the socket that has nothing
		src.readable = false
		return 0, nil, nil
	case e == unix.EINTR:
		return 0, nil, nil
	case e != 0:
		return 0, src, opError("splice", e)
	case m == 0:
		return 0, src, io.EOF
	}
	if err := c.spliceIn(p, m); err != nil {
		return 0, c, err
	}
	c.loop.spent(m)
	return m, nil, nil
}

// look finds out whether the socket is empty. splice does not tell, and a kept
// connection that seems to have something to say would be of no use.
func (c *Conn) look() {
	var p [1]byte
	if _, e := peek(c.fd, p[:]); e == unix.EAGAIN {
		c.readable = c.ended
	}
}

// spliceOut fills the empty pipe with what the socket has, up to n bytes.
func (c *Conn) spliceOut(p pipe, n int64) (int, error) {
	for {
		if err := c.Await(); err != nil {
			return 0, err
		}
		m, e := splice(c.fd, p.in, int(n))
		switch {
		case e == unix.EAGAIN: // the pipe is empty, so it is the socket that has nothing
			c.readable = c.ended
			if c.ended {
				return 0, io.ErrUnexpectedEOF
			}
		case e == unix.EINTR:
		case e != 0:
			return 0, opError("splice", e)
		case m == 0:
			return 0, io.ErrUnexpectedEOF
		default:
			return m, nil
		}
	}
}

// spliceIn empties the pipe, which holds n bytes, into the socket.
func (c *Conn) spliceIn(p pipe, n int) error {
	for n > 0 {
		if err := c.awaitWritable(); err != nil {
			return err
		}
		m, e := splice(p.out, c.fd, n)
		switch {
		case e == unix.EAGAIN:
			c.writable = false
		case e == unix.EINTR:
		case e != 0:
			return opError("splice", e)
		default:
			n -= m
		}
	}
	return nil
}
