package worker

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/segment"
	"sluice/internal/spec"
)

// Traffic is the half of a worker that serves clients. Its methods are called by
// one goroutine, in this order: Apply once or more, then Drain or not, then Close.
type Traffic interface {
	// Apply takes a configuration. The first call starts the loops, a later one
	// swaps the snapshot that new requests see.
	//
	// With success the sockets in s belong to Traffic. A listener that stays keeps its
	// descriptor numbers; sockets that are no longer in s are closed by Traffic after
	// it has accepted what is queued on them. An error leaves everything as it was,
	// and none of the sockets that are new in s in Traffic's hands.
	Apply(s *spec.Spec) error

	// Renew gives the listeners in effect other certificates, after Apply. Connections
	// that are open keep theirs. An error leaves everything as it was.
	Renew(keys *spec.Keys) error

	// Drain stops accepting, after what is queued has been accepted, ends idle
	// connections, and returns when the last connection is gone or the limit is over.
	Drain(limit time.Duration)

	// ReopenLogs opens the log files anew, after a rotation.
	ReopenLogs() error

	// Close ends every connection and every loop. It may come during Drain, from
	// another goroutine, and then Drain returns.
	Close()
}

// Prober is a Traffic that can say whether its loops turn. Without it a pong only
// says that the process lives.
type Prober interface {
	// Probe returns when every loop has made a turn since the call. It may be
	// called from any goroutine.
	Probe()
}

// control follows the supervisor's messages. One goroutine owns it; two more,
// for Probe and Drain, tell it of their end.
type control struct {
	conn   *spec.Conn
	shared *segment.Segment
	build  func(shared *segment.Segment, index int) Traffic
	level  *slog.LevelVar // of the worker's own log

	traffic Traffic        // nil before the first spec
	current *spec.Spec     // in effect; nil before one was accepted
	held    map[uint64]int // the listening sockets in effect: descriptor by cookie
	bells   []int          // of all workers, from the first spec on; nil before it

	probed  chan struct{} // a Probe has returned
	probing bool          // one is under way: a loop that hangs must not gather goroutines
	drained chan struct{} // Drain has returned; nil: not draining
}

// run serves the conversation until the worker shall exit, and has closed Traffic
// and the connection then.
func (c *control) run() {
	messages := make(chan *spec.Message)
	over := make(chan struct{})
	var receiver sync.WaitGroup
	receiver.Go(func() { c.receive(messages, over) })
	defer receiver.Wait()
	defer c.conn.Close()
	defer close(over)
	defer c.close()

	for {
		select {
		case m, ok := <-messages:
			if !ok {
				messages = nil
				if c.orphaned() {
					return
				}
			} else if m.Kind == spec.KindStop {
				return
			} else {
				c.follow(m)
			}
		case <-c.probed:
			c.probing = false
			c.send(&spec.Message{Kind: spec.KindPong})
		case <-c.drained:
			c.send(&spec.Message{Kind: spec.KindDrained})
			return
		}
	}
}

// receive feeds messages to run until the supervisor is gone, or run is over.
func (c *control) receive(messages chan<- *spec.Message, over <-chan struct{}) {
	defer close(messages)
	for {
		m, err := c.conn.Receive()
		if err == io.EOF {
			return
		}
		select {
		case <-over:
			return
		default:
		}
		if err != nil {
			slog.Error("the supervisor cannot be understood", "error", err)
			return
		}
		select {
		case messages <- m:
		case <-over:
			return
		}
	}
}

// follow does what m says.
func (c *control) follow(m *spec.Message) {
	switch m.Kind {
	case spec.KindSpec:
		c.take(m.Spec)
	case spec.KindKeys:
		c.renew(m)
	case spec.KindDrain:
		c.drain(m.Limit)
	case spec.KindReopen:
		if c.traffic == nil {
			return
		}
		if err := c.traffic.ReopenLogs(); err != nil {
			slog.Error("log files could not be reopened; the old ones are used on", "error", err)
		}
	case spec.KindPing:
		c.probe()
	default:
		slog.Warn("a message that is not for a worker", "kind", string(m.Kind))
	}
}

// take applies s and answers ready or refused.
func (c *control) take(s *spec.Spec) {
	c.adoptBells(s)
	sockets, fresh, err := c.adopt(s)
	if err == nil {
		err = c.apply(s)
	}
	if err != nil {
		for _, fd := range fresh {
			unix.Close(fd)
		}
		c.send(&spec.Message{Kind: spec.KindRefused, Generation: s.Generation, Text: err.Error()})
		return
	}
	c.held, c.current = sockets, s
	stats := c.shared.Worker(s.Worker)
	stats.State.Store(int64(segment.Serving))
	stats.Generation.Store(int64(s.Generation))
	c.send(&spec.Message{Kind: spec.KindReady, Generation: s.Generation})
}

func (c *control) apply(s *spec.Spec) error {
	if c.drained != nil {
		return fmt.Errorf("worker %d drains, and takes no configuration", s.Worker)
	}
	if c.traffic == nil {
		c.traffic = c.build(c.shared, s.Worker)
	}
	if err := c.traffic.Apply(s); err != nil {
		return err
	}
	if err := c.level.UnmarshalText([]byte(s.Config.Log.Level)); err != nil {
		slog.Warn("log.level is unknown; the last one stays", "error", err)
	}
	return nil
}

// renew takes other certificates for the configuration in effect. Those of one that was
// refused, or is long gone, are of no use.
func (c *control) renew(m *spec.Message) {
	if c.current == nil || c.current.Generation != m.Generation {
		return
	}
	answer := &spec.Message{Kind: spec.KindRenewed, Serial: m.Keys.Serial}
	if err := c.traffic.Renew(m.Keys); err != nil {
		answer.Text = err.Error()
	}
	c.send(answer)
}

// adopt makes s speak of the descriptors that the worker already has. Each spec
// brings a descriptor of every socket; those of a listener that stays are
// duplicates of ours, and are closed. The kernel's cookie tells (SO_COOKIE,
// socket(7)): it is never given twice. fresh are the descriptors new to us.
func (c *control) adopt(s *spec.Spec) (sockets map[uint64]int, fresh []int, err error) {
	sockets = make(map[uint64]int)
	for _, l := range s.Listeners {
		for at := range len(l.Sockets) + len(l.Packets) {
			own, i := l.Sockets, at
			if i >= len(own) {
				own, i = l.Packets, i-len(own)
			}
			fd := own[i]
			cookie, cookieErr := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
			if cookieErr != nil {
				err = fmt.Errorf("listener %s: socket %d: %w", l.Name, i, cookieErr)
			}
			if ours, known := c.held[cookie]; known && cookieErr == nil {
				unix.Close(fd)
				own[i] = ours
			} else {
				fresh = append(fresh, fd)
			}
			sockets[cookie] = own[i]
		}
	}
	return sockets, fresh, err
}

// adoptBells keeps the bells of the first spec, whatever becomes of it: they are the
// same as long as the supervisor lives, and those of a later spec are duplicates.
func (c *control) adoptBells(s *spec.Spec) {
	if c.bells == nil {
		c.bells = s.Bells
		return
	}
	for _, fd := range s.Bells {
		unix.Close(fd)
	}
	s.Bells = c.bells
}

// probe answers a ping as soon as the loops have turned. Pings that come while
// they have not are left without an answer, and the supervisor draws its own
// conclusion.
func (c *control) probe() {
	prober, ok := c.traffic.(Prober)
	if !ok {
		c.send(&spec.Message{Kind: spec.KindPong})
		return
	}
	if c.probing {
		return
	}
	c.probing = true
	go func() { // ends with the process at the latest: a loop that hangs cannot be waited for
		prober.Probe()
		c.probed <- struct{}{}
	}()
}

// drain begins to drain. Run ends when it is done. A second order changes
// nothing.
func (c *control) drain(limit time.Duration) {
	if c.drained != nil {
		return
	}
	c.drained = make(chan struct{})
	if c.traffic == nil {
		close(c.drained)
		return
	}
	if c.current != nil {
		c.shared.Worker(c.current.Worker).State.Store(int64(segment.Draining))
	}
	go func() { // ends by itself, or by Close
		defer close(c.drained)
		c.traffic.Drain(limit)
	}()
}

// orphaned begins to drain, as the supervisor is gone: whoever starts the next
// one finds the ports free, and requests in progress end well. It reports whether
// there is nothing to wait for.
func (c *control) orphaned() bool {
	if c.current == nil {
		return true
	}
	if c.drained == nil {
		slog.Warn("the supervisor is gone; this worker drains and ends", "worker", c.current.Worker)
		c.drain(time.Duration(c.current.Config.Timeouts.Drain))
	}
	return false
}

// send tells the supervisor. If that is gone, receive sees it too and run acts.
func (c *control) send(m *spec.Message) {
	if err := c.conn.Send(m); err != nil {
		slog.Debug("the supervisor was not told", "kind", string(m.Kind), "error", err)
	}
}

// close ends Traffic, and Drain if that runs.
func (c *control) close() {
	if c.traffic == nil {
		return
	}
	c.traffic.Close()
	if c.drained != nil {
		<-c.drained
	}
	for _, fd := range c.bells {
		unix.Close(fd)
	}
}
