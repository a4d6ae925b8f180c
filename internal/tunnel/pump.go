package tunnel

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"sluice/internal/reactor"
	"sluice/internal/segment"
)

// pieceBytes is the most that is spliced at once: as much as a task may move in a
// turn of the loop.
const pieceBytes = 256 << 10

// pump moves the bytes of one direction. It is the job of the task that does.
type pump struct {
	t        *Tunnel
	from, to reactor.Stream
	source   *reactor.Conn // from and to, where both are plain sockets of a loop; else nil
	target   *reactor.Conn
	much     bool // a read has filled the buffer, so that splice(2) is worth its calls
	moved    atomic.Int64
}

func (p *pump) set(t *Tunnel, from, to reactor.Stream) {
	p.t, p.from, p.to = t, from, to
	source, plain := from.(*reactor.Conn)
	target, too := to.(*reactor.Conn)
	if plain && too {
		p.source, p.target = source, target
	}
}

// Run moves what has come, until there is no more for now.
func (p *pump) Run() {
	for p.t.ending.Load() == nil {
		switch err := p.from.Await(); {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.idle()
			continue
		default:
			p.fail(p.from, err)
			continue
		}
		if !p.move() {
			break
		}
		if !p.from.Ready() && p.from.Idle(p) {
			return
		}
	}
	p.t.leave()
}

// Abandon ends the tunnel of a task that has panicked.
func (p *pump) Abandon() {
	p.t.stop(segment.TunnelStopped, nil)
	p.t.leave()
}

// idle is met when this direction was silent for as long as both together may be.
func (p *pump) idle() {
	silent := time.Duration(p.t.all.exec.Now() - p.t.last.Load())
	if silent < p.t.limits.Idle {
		p.from.SetReadTimeout(p.t.limits.Idle - silent)
		return
	}
	p.t.stop(segment.TunnelIdle, nil)
}

// move moves a piece. It returns false when this direction has come to its end.
func (p *pump) move() bool {
	n, err := 0, errNoPipe
	if p.much && p.source != nil {
		n, err = p.splice()
	}
	if err == errNoPipe {
		n, err = p.copy()
	}
	if n > 0 {
		p.count(n)
	}
	if err == io.EOF {
		return p.end()
	}
	return true
}

func (p *pump) count(n int) {
	t := p.t
	t.last.Store(t.all.exec.Now())
	p.from.SetReadTimeout(t.limits.Idle)
	p.moved.Add(int64(n))
	up, stats := p == &t.up, t.all.stats
	if up {
		stats.TunnelBytesIn.Add(uint64(n))
	} else {
		stats.TunnelBytesOut.Add(uint64(n))
	}
	t.owner.Moved(up, n)
}

// errNoPipe: bytes have to be copied.
var errNoPipe = errors.New("no pipe for splice")

// splice moves a piece inside the kernel.
func (p *pump) splice() (int, error) {
	n, fault, err := p.target.SplicePiece(p.source, pieceBytes)
	p.much = n >= bufferBytes
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case fault == nil:
		return 0, errNoPipe
	case fault == p.source:
		p.fail(p.from, err)
	default:
		p.fail(p.to, err)
	}
	return 0, err
}

// copy moves a piece through a buffer.
func (p *pump) copy() (int, error) {
	b := p.t.all.buffer()
	defer p.t.all.giveBack(b)
	n, err := p.from.Read(b)
	p.much = n == len(b)
	switch {
	case err == io.EOF:
		return 0, err
	case errors.Is(err, os.ErrDeadlineExceeded): // there was no whole record of TLS: Run sees to it
		return 0, nil
	case err != nil:
		p.fail(p.from, err)
		return 0, err
	}
	if _, err := p.to.Write(b[:n]); err != nil {
		p.fail(p.to, err)
		return 0, err
	}
	return n, nil
}

// end tells the other side that no more will come this way. Where that cannot be said
// both ways are over.
func (p *pump) end() bool {
	half, ok := p.to.(interface{ CloseWrite() error })
	if !ok {
		p.t.stop(segment.TunnelClosed, nil)
		return false
	}
	if err := half.CloseWrite(); err != nil {
		p.fail(p.to, err)
	}
	return false
}

// fail ends the tunnel because of one side.
func (p *pump) fail(side reactor.Stream, err error) {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		p.t.stop(segment.TunnelStalled, err)
	case side == p.t.client:
		p.t.stop(segment.TunnelClientFailed, err)
	default:
		p.t.stop(segment.TunnelServerFailed, err)
	}
}

// buffer gets a spare buffer.
func (all *Tunnels) buffer() []byte {
	select {
	case b := <-all.spare:
		return b
	default:
		return make([]byte, bufferBytes)
	}
}

func (all *Tunnels) giveBack(b []byte) {
	select {
	case all.spare <- b:
	default:
	}
}
