// Package tunnel moves bytes both ways between two connections, as they are.
//
// A direction in which nothing is to be read has no task and no buffer. One end's
// end of stream is passed on to the other, which may still send (a half-close, RFC
// 9293 3.6); the tunnel is over when both have ended, one has failed, or nothing has
// moved for too long.
package tunnel

import (
	"errors"
	"io"
	"os"
	"time"

	"sluice/internal/reactor"
)

// pieceBytes is the most that one read takes, bytes.
const pieceBytes = 32 << 10

// ErrIdle: nothing has moved either way for as long as the tunnel allows.
var ErrIdle = errors.New("nothing has moved in the tunnel for too long")

// Pieces lends buffers of pieceBytes or more to the directions of a loop's tunnels.
// Loop only; its zero value lends.
type Pieces struct{ spare [][]byte }

const keptPieces = 16 // per loop

func (p *Pieces) get() []byte {
	if n := len(p.spare); n > 0 {
		b := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return b
	}
	return make([]byte, pieceBytes)
}

func (p *Pieces) put(b []byte) {
	if len(p.spare) < keptPieces {
		p.spare = append(p.spare, b)
	}
}

// Tunnel is two connections, of which each gets what the other sends. Loop only.
type Tunnel struct {
	exec   reactor.Executor
	pieces *Pieces
	idle   time.Duration
	ways   [2]way
	open   int // ways that have not ended
	last   int64
	err    error
	done   reactor.Signal
}

// way is one direction.
type way struct {
	t        *Tunnel
	from, to reactor.Stream
	moved    func(n int)
	over     bool
	running  bool
}

// New prepares a tunnel in which nothing may be silent on both sides for longer than
// idle; 0 is no limit. up is told how many bytes went from client to server, down of
// the others, piece by piece.
func New(exec reactor.Executor, pieces *Pieces, client, server reactor.Stream, idle time.Duration, up, down func(n int)) *Tunnel {
	t := &Tunnel{exec: exec, pieces: pieces, idle: idle, open: 2, done: exec.NewSignal()}
	t.ways[0] = way{t: t, from: client, to: server, moved: up}
	t.ways[1] = way{t: t, from: server, to: client, moved: down}
	return t
}

// Run moves bytes until the tunnel is over. Both connections are left to the caller
// to close. The error is nil if both ends have ended, ErrIdle, or what a connection
// failed with.
func (t *Tunnel) Run() error {
	t.last = t.exec.Now()
	for i := range t.ways {
		w := &t.ways[i]
		w.from.SetWriteTimeout(0)
		w.from.SetReadTimeout(t.idle)
		w.running = true
		t.exec.Go(w)
	}
	for !t.over() {
		t.done.Wait(0)
	}
	if t.err == errOver {
		return nil
	}
	return t.err
}

// over reports whether nothing moves any more, and no task is left.
func (t *Tunnel) over() bool {
	return (t.open == 0 || t.err != nil) && !t.ways[0].running && !t.ways[1].running
}

// Run is the task of a way that has something to read.
func (w *way) Run() {
	w.running = true
	w.work()
	w.running = false
	w.t.done.Set()
}

// work moves what is there. It returns when there is nothing, and the way has let go
// of its task, or when the way has ended.
func (w *way) work() {
	t := w.t
	for t.err == nil && !w.over {
		if !w.from.Ready() && !t.late() {
			w.from.SetReadTimeout(t.left())
			if w.from.Idle(w) {
				return
			}
		}
		w.move()
	}
}

// late reports whether nothing has moved for too long.
func (t *Tunnel) late() bool { return t.idle > 0 && t.exec.Now()-t.last >= int64(t.idle) }

// left is how long that may still be so.
func (t *Tunnel) left() time.Duration {
	if t.idle <= 0 {
		return 0
	}
	return max(1, t.idle-time.Duration(t.exec.Now()-t.last))
}

// move passes on one piece, or the end.
func (w *way) move() {
	t := w.t
	if t.late() {
		t.fail(ErrIdle)
		return
	}
	b := t.pieces.get()
	defer t.pieces.put(b)
	n, err := w.from.Read(b)
	switch {
	case err == io.EOF:
		w.end()
		return
	case errors.Is(err, os.ErrDeadlineExceeded) && !t.late(): // the other way has moved
		w.from.SetReadTimeout(t.left())
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = ErrIdle
	}
	if err != nil {
		t.fail(err)
		return
	}
	t.last = t.exec.Now()
	if n, err = w.to.Write(b[:n]); err != nil {
		t.fail(err)
		return
	}
	t.last = t.exec.Now()
	w.moved(n)
}

// end passes the end of the stream on. Where that cannot be said alone, the tunnel
// is over.
func (w *way) end() {
	t := w.t
	w.over = true
	t.open--
	if half, ok := w.to.(interface{ CloseWrite() error }); ok && t.open > 0 {
		if half.CloseWrite() == nil {
			return
		}
	}
	t.fail(errOver)
}

// errOver ends the ways of a tunnel that is over. Nobody is told of it.
var errOver = errors.New("the tunnel is over")

// fail ends both ways.
func (t *Tunnel) fail(err error) {
	if t.err != nil {
		return
	}
	t.err = err
	for i := range t.ways {
		w := &t.ways[i]
		w.from.Idle(nil)
		w.from.Abort(err)
	}
}
