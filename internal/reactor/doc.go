// Package reactor runs straight, blocking-style code on pinned, epoll-driven
// threads.
//
// A Loop is one OS thread with one epoll instance. The code that serves a
// connection runs on it as a task: a coroutine that parks when its socket has
// nothing for it and is resumed when it has. Inside a loop nothing runs in
// parallel, so what belongs to a loop needs no lock.
//
// The life of a turn (Loop.turn):
//
//	1 run      the tasks that were ready when the turn began
//	2 submit   functions that came from other goroutines
//	3 poll     epoll: without sleeping if anything is ready, else until an event, a timer or a Submit
//	4 events   mark connections readable or writable, make their tasks ready
//	5 timers   expire deadlines
//
// What never happens here: a blocking call on the loop's thread (only the
// sleeping epoll_wait may block), a task resumed from within another task (a
// wake-up goes to the run queue), a timer armed for each request (deadlines are
// fields, checked by a coarse wheel), a buffer or a task held by an idle
// connection.
//
// Protocol code sees a Stream and an Executor. On a Loop these are *Conn and
// *Loop; Goroutines and Blocking give the same over any net.Conn, which is how
// protocol code is tested over net.Pipe.
package reactor
