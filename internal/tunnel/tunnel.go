// Package tunnel moves bytes both ways between a client and a server, whatever they
// mean: for raw TCP, and for protocols that HTTP was upgraded to.
//
// A tunnel has two pumps, one for each direction (pump.go). While nothing comes from
// its side a pump holds neither task nor buffer.
//
// How a tunnel ends:
//
//   - one side says that it will send no more: the other is told, and the way back goes
//     on (half-close, RFC 9293 3.6). When both have said so, all is over;
//   - one side fails, nothing has moved either way for Limits.Idle, one side takes
//     nothing for Limits.Stall, or End is called: then both are aborted.
//
// The connections stay their owner's, who closes them in the end.
package tunnel

import (
	"errors"
	"sync/atomic"
	"time"

	"sluice/internal/reactor"
	"sluice/internal/segment"
)

// Limits bound a tunnel.
type Limits struct {
	Idle  time.Duration // without a byte either way; 0: for ever
	Stall time.Duration // in which a side takes nothing of what is written to it, or at most twice that; 0: for ever
}

// Owner is told what happens to its tunnel, on the loop.
type Owner interface {
	// Moved tells of n bytes that have arrived: up is from the client to the server.
	Moved(up bool, n int)
	// Ended is called once, when the tunnel touches its connections no more.
	Ended(t *Tunnel, e Ending)
}

// Ending is how a tunnel ended.
type Ending struct {
	Up, Down int64 // bytes that arrived at the server, and at the client
	Why      segment.TunnelEnd
	Err      error // of the side that failed; else nil
}

// Tunnels are those of one loop. Loop only.
type Tunnels struct {
	exec  reactor.Executor
	stats *segment.LoopStats
	spare chan []byte // buffers that no pump uses
}

// bufferBytes is one read: as much as a TLS record holds (RFC 8446 5.1).
const bufferBytes = 16 << 10

// keptBuffers of a loop wait for their next use.
const keptBuffers = 64

// New makes the tunnels of a loop.
func New(exec reactor.Executor, stats *segment.LoopStats) *Tunnels {
	return &Tunnels{exec: exec, stats: stats, spare: make(chan []byte, keptBuffers)}
}

// Tunnel is one of them. Its two pumps may be goroutines in tests, so what both
// touch is atomic.
type Tunnel struct {
	all            *Tunnels
	owner          Owner
	client, server reactor.Stream
	limits         Limits
	up, down       pump
	last           atomic.Int64 // when a byte moved last, executor time
	running        atomic.Int32 // pumps that have not ended
	ending         atomic.Pointer[Ending]
}

// Join lets bytes flow between two connections, on which nobody else may wait. It
// returns at once.
func (all *Tunnels) Join(client, server reactor.Stream, limits Limits, owner Owner) *Tunnel {
	t := &Tunnel{all: all, owner: owner, client: client, server: server, limits: limits}
	t.up.set(t, client, server)
	t.down.set(t, server, client)
	t.last.Store(all.exec.Now())
	t.running.Store(2)
	all.stats.Tunnels.Inc()
	all.stats.Tunneled.Inc()
	for _, p := range []*pump{&t.up, &t.down} {
		p.from.OnHangup(nil)
		p.from.OnSlow(0, nil)
		p.from.SetWriteTimeout(0)
		p.from.SetStall(limits.Stall)
		p.from.SetReadTimeout(limits.Idle)
	}
	for _, p := range []*pump{&t.up, &t.down} {
		if !p.from.Idle(p) {
			all.exec.Go(p)
		}
	}
	return t
}

// Run is Join that returns when the tunnel has ended, or the loop does. It is called in
// a task.
func (all *Tunnels) Run(client, server reactor.Stream, limits Limits, moved func(up bool, n int)) Ending {
	w := &waiting{moved: moved, signal: all.exec.NewSignal(), ending: Ending{Why: segment.TunnelStopped}}
	all.Join(client, server, limits, w)
	w.signal.Wait(0)
	return w.ending
}

// waiting is the owner of a tunnel that a task waits for.
type waiting struct {
	moved  func(up bool, n int)
	signal reactor.Signal
	ending Ending
}

func (w *waiting) Moved(up bool, n int) { w.moved(up, n) }

func (w *waiting) Ended(_ *Tunnel, e Ending) {
	w.ending = e
	w.signal.Set()
}

// End ends the tunnel.
func (t *Tunnel) End() { t.stop(segment.TunnelStopped, nil) }

// errOver is what the pumps of a tunnel meet that was stopped. Nobody is told of it.
var errOver = errors.New("the tunnel is over")

// stop ends the tunnel before its sides have said that they send no more. The first
// cause counts.
func (t *Tunnel) stop(why segment.TunnelEnd, err error) {
	if t.ending.CompareAndSwap(nil, &Ending{Why: why, Err: err}) {
		t.client.Abort(errOver)
		t.server.Abort(errOver)
	}
}

// leave is the end of a pump; that of the second is the tunnel's.
func (t *Tunnel) leave() {
	if t.running.Add(-1) > 0 {
		return
	}
	e := Ending{Why: segment.TunnelClosed}
	if stopped := t.ending.Load(); stopped != nil {
		e = *stopped
	}
	e.Up, e.Down = t.up.moved.Load(), t.down.moved.Load()
	t.all.stats.Tunnels.Dec()
	t.all.stats.TunnelEnds[e.Why].Inc()
	t.owner.Ended(t, e)
}

// Close closes both connections of a tunnel that ended so. Where one side has failed
// the other is reset, so that nobody takes what came for all there was.
func (t *Tunnel) Close(e Ending) {
	switch e.Why {
	case segment.TunnelClientFailed:
		reset(t.server)
	case segment.TunnelServerFailed:
		reset(t.client)
	}
	t.client.Close()
	t.server.Close()
}

// reset closes a connection so that its peer sees that it did not end well.
func reset(c reactor.Stream) {
	if r, ok := c.(interface{ Reset() }); ok {
		r.Reset()
	}
}
