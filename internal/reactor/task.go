package reactor

import (
	"iter"
	"runtime/debug"
	"time"
)

// Limits of a turn.
const (
	turnBytes    = 256 << 10 // bytes that a task may move before others get their turn
	keptTasks    = 256       // ended tasks kept for the next job; each has a stack of some KiB
	acceptBatch  = 64        // connections taken from one listener in a turn
	eventsAtOnce = 512       // events taken from epoll in a turn
)

// task is a coroutine that runs jobs, one after another. Loop only.
type task struct {
	loop   *Loop
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	job    Job
	queued bool // in the run queue
	moved  int  // bytes moved since it was resumed
}

// Go makes a task run job later in this turn or in the next one. Loop only.
func (l *Loop) Go(job Job) {
	var t *task
	if n := len(l.spare); n > 0 {
		t = l.spare[n-1]
		l.spare = l.spare[:n-1]
	} else {
		t = &task{loop: l}
		t.resume, t.stop = iter.Pull(t.serve)
		l.tasks[t] = struct{}{}
	}
	t.job = job
	l.wake(t)
}

// serve is the coroutine's body: it runs the jobs given to it until the loop
// has tasks enough.
func (t *task) serve(yield func(struct{}) bool) {
	t.yield = yield
	for {
		t.runJob()
		t.job = nil
		l := t.loop
		if len(l.spare) >= keptTasks || l.closing {
			delete(l.tasks, t)
			return
		}
		l.spare = append(l.spare, t)
		if !yield(struct{}{}) {
			return
		}
	}
}

// runJob keeps a panic from leaving the task: it ends this job only.
func (t *task) runJob() {
	defer func() {
		if v := recover(); v != nil {
			t.loop.opts.Panicked(t.job, v, debug.Stack())
		}
	}()
	t.job.Run()
}

// wake puts t into the run queue, once. It never runs t: the caller may itself
// be a task, and a task must not be resumed from within another.
func (l *Loop) wake(t *task) {
	if t == nil || t.queued {
		return
	}
	t.queued = true
	l.ready.push(t)
}

// park gives the thread back to the loop until someone wakes this task. It may
// return without reason: callers check their condition again.
func (l *Loop) park() {
	t := l.current
	if t == nil {
		panic("reactor: a call that must wait was made outside a task")
	}
	t.yield(struct{}{})
}

// spent counts n bytes moved by the running task, and lets others run when it
// has moved its share of a turn.
func (l *Loop) spent(n int) {
	t := l.current
	if t == nil {
		return
	}
	if t.moved += n; t.moved >= turnBytes {
		l.wake(t)
		l.park()
	}
}

// runReady resumes every task that was ready when it began.
func (l *Loop) runReady() {
	for n := l.ready.len(); n > 0; n-- {
		t := l.ready.pop()
		t.queued, t.moved = false, 0
		l.current = t
		t.resume()
		l.current = nil
	}
}

// signal is a Signal between tasks of one loop. Loop only.
type signal struct {
	loop   *Loop
	waiter *task
	timer  timer
	until  int64
	set    bool
}

// NewSignal makes a Signal for tasks of this loop.
func (l *Loop) NewSignal() Signal {
	s := &signal{loop: l}
	s.timer.owner = s
	return s
}

func (s *signal) Set() {
	s.set = true
	s.loop.wake(s.waiter)
}

func (s *signal) Wait(d time.Duration) bool {
	l := s.loop
	s.until = 0
	if d > 0 {
		s.until = l.now + int64(d)
		l.wheel.arm(&s.timer, s.until)
	}
	s.waiter = l.current
	for !s.set && !l.closing && (s.until == 0 || l.now < s.until) {
		l.park()
	}
	s.waiter = nil
	l.wheel.disarm(&s.timer)
	was := s.set
	s.set = false
	return was
}

func (s *signal) expire(now int64) {
	if now < s.until {
		s.loop.wheel.arm(&s.timer, s.until)
		return
	}
	s.loop.wake(s.waiter)
}

// queue is a ring of tasks.
type queue struct {
	ring       []*task // length is a power of two
	head, tail uint
}

func (q *queue) len() int { return int(q.tail - q.head) }

func (q *queue) push(t *task) {
	if q.len() == len(q.ring) {
		grown := make([]*task, max(64, 2*len(q.ring)))
		for i := range q.len() {
			grown[i] = q.ring[(q.head+uint(i))&uint(len(q.ring)-1)]
		}
		q.head, q.tail, q.ring = 0, uint(q.len()), grown
	}
	q.ring[q.tail&uint(len(q.ring)-1)] = t
	q.tail++
}

func (q *queue) pop() *task {
	i := q.head & uint(len(q.ring)-1)
	t := q.ring[i]
	q.ring[i] = nil
	q.head++
	return t
}
