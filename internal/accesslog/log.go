// Package accesslog writes one line for each request.
//
// The loop that served a request formats its line (json.go, combined.go) and puts it
// into its own queue of chunks (queue.go). One goroutine for all loops takes whole
// lines from there and writes them to the file (sink.go). A full chunk wakes the
// goroutine; a chunk in the making waits for its next tick. So the loop meets no
// lock, no system call and no timer, and allocates nothing.
//
// When the disk is slower than the requests, the queue fills up to its limit; then
// lines are dropped and counted. No request ever waits for its line.
package accesslog

import (
	"fmt"
	"sync/atomic"
	"time"

	"sluice/internal/config"
	"sluice/internal/segment"
)

const (
	// minFlush keeps a careless configuration from making the goroutine spin.
	minFlush = 10 * time.Millisecond
	// closeLimit is how long Close waits for a reader or disk that does not take
	// the last lines.
	closeLimit = 5 * time.Second
)

// Log is the access log of one worker process.
type Log struct {
	path    string        // immutable
	flush   time.Duration // immutable
	writers []*Writer     // immutable
	limit   time.Duration // immutable: closeLimit, but in tests
	wake    chan struct{} // a chunk is full, or a sink is waiting in next
	quit    chan struct{} // closed by Close
	done    chan struct{} // closed by run

	sink      *sink                // goroutine of run only
	next      atomic.Pointer[sink] // opened by Reopen, taken by run
	abandoned atomic.Bool          // Close has lost patience: a sink waits for its reader no longer
}

// Writer is the end of the log that belongs to one loop.
type Writer struct {
	log   *Log // immutable
	json  bool // immutable; else combined
	queue *queue

	line    []byte           // loop only: the line in the making, kept for its memory
	clock   clock            // loop only
	full    segment.Counter  // lines that found the queue full; written by the loop
	dropped *segment.Counter // all lines given up; written by the loop
	told    uint64           // loop only: how many of lost are in dropped

	lost atomic.Uint64 // lines that the goroutine could not write
}

// Open starts the log of a worker with the given number of loops. If cfg.Path is
// off, the Log is nil, on which every method works and does nothing. It fails if
// the file cannot be opened for appending or the format is unknown.
//
// Several processes may open the same file: each write appends whole lines.
func Open(cfg config.AccessLog, loops int) (*Log, error) {
	if cfg.Path == "off" {
		return nil, nil
	}
	if cfg.Format != "json" && cfg.Format != "combined" {
		return nil, fmt.Errorf("accesslog: unknown format %q: json and combined are known", cfg.Format)
	}
	out, err := openSink(cfg.Path)
	if err != nil {
		return nil, err
	}
	return start(cfg, loops, out), nil
}

// start begins to write to an open sink, which the Log then owns.
func start(cfg config.AccessLog, loops int, out *sink) *Log {
	l := &Log{
		path:    cfg.Path,
		flush:   max(time.Duration(cfg.Flush), minFlush),
		writers: make([]*Writer, loops),
		limit:   closeLimit,
		wake:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
		sink:    out,
	}
	out.abandoned = &l.abandoned
	for i := range l.writers {
		l.writers[i] = &Writer{
			log: l, json: cfg.Format == "json", queue: newQueue(int64(cfg.Buffer)), dropped: new(segment.Counter),
		}
	}
	go l.run()
	return l
}

// Writer gives loop its end of the log. Every line given up is counted in dropped,
// which the loop owns. It is called once per loop, before the first Write.
func (l *Log) Writer(loop int, dropped *segment.Counter) *Writer {
	if l == nil {
		return nil
	}
	w := l.writers[loop]
	w.dropped = dropped
	return w
}

// Write logs one request. Only the loop of this Writer calls it. It never blocks
// and keeps nothing of the entry.
func (w *Writer) Write(e *Entry) {
	if w == nil {
		return
	}
	if w.json {
		w.line = appendJSON(w.line[:0], e, &w.clock)
	} else {
		w.line = appendCombined(w.line[:0], e, &w.clock)
	}
	ok, sealed := w.queue.put(w.line)
	if !ok {
		w.full.Inc()
		w.dropped.Inc()
	}
	if sealed {
		w.log.poke()
	}
	if lost := w.lost.Load(); lost != w.told {
		w.dropped.Add(lost - w.told)
		w.told = lost
	}
}

// Dropped is how many lines of this loop were given up, because the queue was full
// or because the file refused them. Any goroutine may ask.
func (w *Writer) Dropped() uint64 {
	if w == nil {
		return 0
	}
	return w.full.Load() + w.lost.Load()
}

// poke wakes the goroutine, or leaves word if it is at work.
func (l *Log) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run is the goroutine that writes. Each wake-up is one pass over the queues: what
// comes in meanwhile is left to grow to a full chunk or to the next tick, so that
// writes stay few.
func (l *Log) run() {
	defer close(l.done)
	tick := time.NewTicker(l.flush)
	defer tick.Stop()
	for {
		select {
		case <-l.wake:
		case <-tick.C:
		case <-l.quit:
			l.takeNext()
			l.pass()
			l.sink.close()
			return
		}
		l.takeNext()
		l.pass()
	}
}

// pass writes what the queues hold now.
func (l *Log) pass() {
	for _, w := range l.writers {
		for {
			lines, more := w.queue.peek()
			if lost := l.sink.write(lines); lost > 0 {
				w.lost.Add(uint64(lost))
			}
			w.queue.consume(len(lines))
			if !more {
				break
			}
		}
	}
}

// takeNext goes over to the file that Reopen has opened.
func (l *Log) takeNext() {
	if next := l.next.Swap(nil); next != nil {
		l.sink.close()
		l.sink = next
	}
}

// Reopen opens the file's path again, after something has moved the file away. The
// lines that follow go there. On an error the log goes on with the old file.
// It may be called from any goroutine until Close.
func (l *Log) Reopen() error {
	if l == nil {
		return nil
	}
	out, err := openSink(l.path)
	if err != nil {
		return err
	}
	out.abandoned = &l.abandoned
	if untaken := l.next.Swap(out); untaken != nil {
		untaken.close()
	}
	l.poke()
	return nil
}

// Close writes what is queued and closes the file. It comes after the last Write.
// If the file takes nothing for closeLimit, the rest is given up with an error.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	close(l.quit)
	limit := time.NewTimer(l.limit)
	defer limit.Stop()
	select {
	case <-l.done:
		return nil
	case <-limit.C:
		l.abandoned.Store(true)
		return fmt.Errorf("accesslog: %s takes no more lines; the last are lost", l.path)
	}
}
