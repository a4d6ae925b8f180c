package reactor

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Options of a Loop. Every field may be left out.
type Options struct {
	// Pin is called on the loop's locked thread before anything else, to bind it
	// to its CPU.
	Pin func()
	// Observe gets the loop's figures now and then: before it sleeps, and at
	// least every few turns. It runs on the loop and must not block.
	Observe func(Stats)
	// Panicked is told of a panic that ended a job.
	Panicked func(job Job, value any, stack []byte)
}

// Stats are figures of a loop since its start.
type Stats struct {
	Turns        uint64
	BusyNanos    uint64 // time not asleep
	AcceptPauses uint64 // accept stopped because descriptors ran out
}

// Loop is one thread, one epoll instance and all connections registered with
// it. Fields are touched by the loop's thread only, save those below mu.
type Loop struct {
	opts  Options
	epoll int
	event int // eventfd that ends a sleep

	now     int64 // monotonic ns, read once a turn
	ready   queue
	current *task // the task that runs now; nil outside tasks
	spare   []*task
	sources []registration
	wheel   wheel
	pipes   []pipe // empty ones
	lent    int    // pipes in use
	denied  int    // connections that wait in Dismiss
	scratch []byte // for bytes that are read only to be thrown away
	batch   []unix.EpollEvent
	stats   Stats
	awake   int64 // since when BusyNanos has not been brought up to date
	pace    pace
	marked  int64 // since when a mark is in epoll's queue; 0: none is
	waited  int64 // ns that the last mark was there; 0: the queue is shorter than a turn
	tasks   map[*task]struct{}
	closing bool
	done    chan struct{} // closed when Run has ended

	mu        sync.Mutex // held for an append or a swap, never longer
	submitted []func()
	ran       []func() // room for the next; the loop only

	pending  atomic.Bool  // submitted is not empty
	sleeping atomic.Bool  // the loop is in, or about to enter, a sleeping poll
	waking   atomic.Int32 // goroutines that may be writing to event
}

// source is what a descriptor's events are for.
type source interface {
	events(mask uint32)
	shut() // the loop ends
}

// registration ties a descriptor to its source. Descriptors are reused by the
// kernel, so events carry the generation they were meant for.
type registration struct {
	source     source
	generation uint32
}

var began = time.Now()

func nanotime() int64 { return int64(time.Since(began)) + 1 }

// New makes a loop. Its thread starts with Run.
func New(opts Options) (*Loop, error) {
	if opts.Panicked == nil {
		opts.Panicked = func(_ Job, value any, stack []byte) { panic(fmt.Sprintf("%v\n%s", value, stack)) }
	}
	l := &Loop{
		opts: opts, now: nanotime(), done: make(chan struct{}),
		batch: make([]unix.EpollEvent, eventsAtOnce), tasks: map[*task]struct{}{},
	}
	l.wheel.tick = l.now / tickNanos
	l.awake = l.now
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	if l.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		unix.Close(l.epoll)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	if err := l.register(l.event, unix.EPOLLIN, (*alarm)(l)); err != nil {
		unix.Close(l.epoll)
		unix.Close(l.event)
		return nil, err
	}
	return l, nil
}

// Now is the monotonic time in nanoseconds, as of the start of this turn.
func (l *Loop) Now() int64 { return l.now }

// Clock reads the monotonic clock: exact, for some 25 ns.
func (l *Loop) Clock() int64 { return nanotime() }

// Run serves until Close. It locks the calling goroutine to its thread.
func (l *Loop) Run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(l.done)
	if l.opts.Pin != nil {
		l.opts.Pin()
	}
	l.now = nanotime()
	l.awake = l.now
	for !l.closing {
		l.turn()
	}
	l.end()
}

// turn is one round of the five steps in the package comment.
func (l *Loop) turn() {
	l.runReady()
	l.runSubmitted()
	n, slept := poll(l.epoll, l.batch), int64(0)
	if n == 0 && l.ready.len() == 0 {
		n, slept = l.sleep()
	} else if l.stats.Turns%64 == 0 {
		l.observe(l.now)
	}
	before := l.now
	l.now = nanotime()
	l.pace.turn(max(l.now-before-slept, l.backlog(n)))
	l.pace.rest(slept)
	l.stats.Turns++
	l.dispatch(l.batch[:n])
	l.wheel.advance(l.now)
}

// dispatch tells each event to whom it was meant for, if that one still stands.
func (l *Loop) dispatch(batch []unix.EpollEvent) {
	for _, ev := range batch {
		if r := &l.sources[ev.Fd]; r.source != nil && r.generation == uint32(ev.Pad) {
			r.source.events(ev.Events)
		}
	}
}

// sleep waits for an event, a timer or a Submit, and tells for how long it has,
// in nanoseconds.
func (l *Loop) sleep() (n int, slept int64) {
	l.sleeping.Store(true)
	defer l.sleeping.Store(false)
	if l.closing || l.pending.Load() { // a Submit may have come between runSubmitted and the store above
		return 0, 0
	}
	asleep := nanotime()
	l.observe(asleep)
	n = sleepPoll(l.epoll, l.batch, l.wheel.sleep(asleep))
	l.awake = nanotime()
	return n, l.awake - asleep
}

func (l *Loop) observe(now int64) {
	l.stats.BusyNanos += uint64(now - l.awake)
	l.awake = now
	if l.opts.Observe != nil {
		l.opts.Observe(l.stats)
	}
}

// Submit runs f on the loop, outside any task, soon and in order. Any goroutine
// may call it. After the loop has ended f is not run.
func (l *Loop) Submit(f func()) {
	l.mu.Lock()
	l.submitted = append(l.submitted, f)
	l.mu.Unlock()
	l.pending.Store(true)
	if l.sleeping.Load() {
		l.endSleep()
	}
}

// endSleep writes to the eventfd if nobody else has done so for this sleep. The
// loop waits for waking to be 0 before it closes the eventfd, whose number may
// then be someone else's.
func (l *Loop) endSleep() {
	l.waking.Add(1)
	if l.sleeping.CompareAndSwap(true, false) {
		Ring(l.event)
	}
	l.waking.Add(-1)
}

func (l *Loop) runSubmitted() {
	if !l.pending.Load() {
		return
	}
	l.mu.Lock()
	fs := l.submitted
	l.submitted = l.ran[:0]
	l.pending.Store(false)
	l.mu.Unlock()
	for _, f := range fs {
		f()
	}
	clear(fs)
	l.ran = fs
}

// alarm is the loop as the source of its own eventfd.
type alarm Loop

func (a *alarm) events(uint32) {
	var count [8]byte
	unix.Read(a.event, count[:])
	if a.marked != 0 {
		a.waited, a.marked = a.now-a.marked, 0
	}
}

func (a *alarm) shut() {}

// register has the events of fd go to s. A loop that ends takes nothing more:
// its tasks could wait for ever on what nobody shuts.
func (l *Loop) register(fd int, events uint32, s source) error {
	if l.closing {
		return net.ErrClosed
	}
	if fd >= len(l.sources) {
		l.sources = append(l.sources, make([]registration, max(fd+1-len(l.sources), len(l.sources)/2, 64))...)
	}
	r := &l.sources[fd]
	r.generation++
	r.source = s
	if e := epollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, events, r.generation); e != 0 {
		r.source = nil
		return fmt.Errorf("epoll_ctl: %w", e)
	}
	return nil
}

// forget ends the events of fd. The kernel forgets it by itself when it is closed.
func (l *Loop) forget(fd int) { l.sources[fd].source = nil }

// Close ends the loop: tasks that wait see net.ErrClosed, connections are
// closed, and Run returns. Any goroutine but the loop's own may call it; it
// returns when Run has.
func (l *Loop) Close() {
	l.Submit(func() { l.closing = true })
	<-l.done
}

// endingRounds is how often a task is resumed at the loop's end so that it sees
// its connections closed and returns; each resumption meets at most one of the
// few things that a task waits for.
const endingRounds = 16

// end lets every task come to its end, then frees what the loop holds.
func (l *Loop) end() {
	for _, r := range l.sources {
		if r.source != nil {
			r.source.shut()
		}
	}
	for range endingRounds {
		for t := range l.tasks {
			if t.job != nil {
				l.wake(t)
			}
		}
		l.runReady()
	}
	for t := range l.tasks {
		t.stop()
	}
	for _, p := range l.pipes {
		p.close()
	}
	for l.waking.Load() != 0 {
		runtime.Gosched()
	}
	unix.Close(l.event)
	unix.Close(l.epoll)
}
