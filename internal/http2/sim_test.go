package http2

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"sluice/internal/reactor"
)

// sim is a loop in virtual time, for use within synctest: tasks are goroutines
// that take turns, as tasks of a reactor.Loop do.
type sim struct {
	baton   sync.Mutex // held by the task that runs
	changed *sync.Cond
	began   time.Time
	tasks   sync.WaitGroup
}

func newSim() *sim {
	m := &sim{began: time.Now()}
	m.changed = sync.NewCond(&m.baton)
	return m
}

func (m *sim) Go(job reactor.Job)        { m.Submit(job.Run) }
func (m *sim) Now() int64                { return int64(time.Since(m.began)) + 1 }
func (m *sim) NewSignal() reactor.Signal { return &simSignal{m: m} }
func (m *sim) Submit(f func())           { m.tasks.Go(func() { m.do(f) }) }

// do runs f as a task.
func (m *sim) do(f func()) {
	m.baton.Lock()
	defer m.baton.Unlock()
	f()
	m.changed.Broadcast()
}

// wait lets others run until something has changed or it is time at; 0 is never.
func (m *sim) wait(at int64) {
	if at != 0 {
		defer time.AfterFunc(time.Duration(max(0, at-m.Now())), func() { m.do(func() {}) }).Stop()
	}
	m.changed.Wait()
}

type simSignal struct {
	m   *sim
	set bool
}

func (s *simSignal) Set() {
	s.set = true
	s.m.changed.Broadcast()
}

func (s *simSignal) Wait(d time.Duration) bool {
	at := int64(0)
	if d > 0 {
		at = s.m.Now() + int64(d)
	}
	for !s.set && (at == 0 || s.m.Now() < at) {
		s.m.wait(at)
	}
	was := s.set
	s.set = false
	return was
}

// cable is one direction of a simulated wire: what was sent and not yet taken.
type cable struct {
	sent  []byte
	holds int // bytes
	ended bool
}

// simWire is the end of a wire that a connection under test has. The test has the
// other ends of its cables.
type simWire struct {
	m              *sim
	in, out        cable
	closed         bool
	lingers        bool
	failure        error
	readBy         int64
	writeBy        int64
	stall          time.Duration
	idle           reactor.Job
	writes         int // calls of Write
	local, distant net.Addr
}

func (m *sim) newWire() *simWire {
	return &simWire{m: m, in: cable{holds: 1 << 20}, out: cable{holds: 1 << 20}, local: &net.TCPAddr{}, distant: &net.TCPAddr{}}
}

var errQuiet = syscall.EAGAIN

func (w *simWire) state() error {
	switch {
	case w.closed:
		return net.ErrClosed
	case w.failure != nil:
		return w.failure
	case len(w.in.sent) > 0:
		return nil
	case w.in.ended:
		return io.EOF
	case w.readBy != 0 && w.m.Now() >= w.readBy:
		return os.ErrDeadlineExceeded
	}
	return errQuiet
}

func (w *simWire) Ready() bool {
	err := w.state()
	return err != errQuiet && !errors.Is(err, os.ErrDeadlineExceeded)
}

func (w *simWire) Await() error {
	for w.state() == errQuiet {
		w.m.wait(w.readBy)
	}
	if err := w.state(); err != io.EOF {
		return err
	}
	return nil
}

func (w *simWire) Read(p []byte) (int, error) {
	w.Await()
	if err := w.state(); err != nil {
		return 0, err
	}
	n := copy(p, w.in.sent)
	w.in.sent = w.in.sent[n:]
	return n, nil
}

func (w *simWire) Write(p []byte) (n int, err error) {
	w.writes++
	took := w.m.Now()
	for n < len(p) {
		switch room := min(len(p)-n, w.out.holds-len(w.out.sent)); {
		case w.closed:
			return n, net.ErrClosed
		case w.failure != nil:
			return n, w.failure
		case room > 0:
			w.out.sent = append(w.out.sent, p[n:n+room]...)
			n += room
			took = w.m.Now()
			w.m.changed.Broadcast()
		default:
			by := w.writeBy
			if w.stall > 0 {
				by = earlier(by, took+int64(w.stall))
			}
			if passed(by, w.m.Now()) {
				return n, os.ErrDeadlineExceeded
			}
			w.m.wait(by)
		}
	}
	return n, nil
}

func (w *simWire) Idle(job reactor.Job) bool {
	if w.idle = job; job == nil {
		return true
	}
	w.m.Submit(func() {
		for w.idle == job && w.state() == errQuiet {
			w.m.wait(w.readBy)
		}
		if w.idle == job {
			w.idle = nil
			w.m.Go(job)
		}
	})
	return true
}

func (w *simWire) Close() error {
	w.closed = true
	w.m.changed.Broadcast()
	return nil
}

func (w *simWire) Linger(time.Duration) {
	w.lingers = true
	w.Close()
}

func (w *simWire) Abort(err error) {
	w.failure = err
	w.m.changed.Broadcast()
}

func (w *simWire) SetReadTimeout(d time.Duration) {
	if w.readBy = 0; d > 0 {
		w.readBy = w.m.Now() + int64(d)
	}
	w.m.changed.Broadcast()
}

func (w *simWire) SetWriteTimeout(d time.Duration) {
	if w.writeBy = 0; d > 0 {
		w.writeBy = w.m.Now() + int64(d)
	}
	w.m.changed.Broadcast()
}

func (w *simWire) Watch(reactor.Job) bool            { panic("not for a connection of many streams") }
func (w *simWire) OnHangup(reactor.Job)              {}
func (w *simWire) OnSlow(time.Duration, reactor.Job) {}
func (w *simWire) SetStall(d time.Duration)          { w.stall = d }
func (w *simWire) SetDeadline(time.Time) error       { return nil }
func (w *simWire) SetReadDeadline(time.Time) error   { return nil }
func (w *simWire) SetWriteDeadline(time.Time) error  { return nil }
func (w *simWire) LocalAddr() net.Addr               { return w.local }
func (w *simWire) RemoteAddr() net.Addr              { return w.distant }
