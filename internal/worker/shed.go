package worker

import (
	"cmp"
	"log/slog"
	"math"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/reactor"
	"sluice/internal/segment"
)

// When Sluice itself has too much to do, new connections are turned away before
// what is in progress is lost. A loop decides about each connection that it has
// accepted, by bounds that one goroutine of the worker keeps up to date; that
// goroutine also writes the log, since a loop writes to no file.

const (
	lookEvery    = 100 * time.Millisecond // how soon too little memory is noticed
	tellEvery    = 10 * time.Second       // at most one line of log for each cause
	collectEvery = 2 * time.Second        // while memory is short
	refusalWait  = time.Second            // for the request of who is turned away
)

const refusalText = "Too much is going on here at the moment. Please try again in a second.\n"

// refusal is what a client gets that is turned away. It has no Date, which is for
// servers that have the time (RFC 9110 6.6.1).
var refusal = []byte("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\nContent-Length: " + strconv.Itoa(len(refusalText)) + "\r\n\r\n" + refusalText)

// refuse turns c away if there is too much to do, and reports whether it has.
// Loop only.
func (l *lane) refuse(c *reactor.Conn, as *entrance) bool {
	b := l.shedder.bounds.Load()
	lag, number := time.Duration(l.loop.Lag()), c.Descriptor()
	cause, over := b.exceeded(lag, number)
	if !over {
		return false
	}
	l.stats.Accepted.Inc()
	l.stats.Shed[cause].Inc()
	l.shedder.lag.Store(int64(lag))
	if as.tls != nil || as.tcp != nil { // its client would not understand
		c.Close()
		return true
	}
	wait := refusalWait
	if number >= b.hurry {
		wait = 0
	}
	c.Dismiss(refusal, wait)
	return true
}

// bounds say when a connection is turned away. Immutable.
type bounds struct {
	lag     time.Duration // of a loop, beyond which; 0: none
	crowded bool          // memory is short
	// The kernel gives the lowest number that is free, so a high one means that
	// few descriptors are left. From reserve on they are kept for connections to
	// servers; from hurry on, in the upper half of these, no client that is turned
	// away may keep one for even a moment.
	reserve, hurry int
}

// exceeded tells whether a connection with this descriptor must be turned away by
// a loop that lags so much, and the gravest cause.
func (b *bounds) exceeded(lag time.Duration, descriptor int) (cause segment.Shed, over bool) {
	switch {
	case descriptor >= b.reserve:
		return segment.ShedDescriptors, true
	case b.crowded:
		return segment.ShedMemory, true
	case b.lag > 0 && lag > b.lag:
		return segment.ShedLatency, true
	}
	return 0, false
}

// reading is what a worker has of what it may have.
type reading struct {
	needed      uint64 // bytes of memory that a collection would leave
	limit       uint64 // bytes that the Go runtime keeps to (GOMEMLIMIT), which the supervisor sets; MaxInt64: none
	collections uint64 // of garbage, so far
	descriptors uint64 // that may be open (RLIMIT_NOFILE)
}

// boundsFor decides. crowded is whether memory was short until now: it has to
// fall by a twentieth before it is enough, so that the answer does not waver.
func boundsFor(o config.Overload, r reading, crowded bool) bounds {
	b := bounds{lag: time.Duration(o.Latency), reserve: math.MaxInt, hurry: math.MaxInt}
	if o.Memory > 0 && r.limit < math.MaxInt64 {
		most := r.limit / 100 * uint64(o.Memory)
		if crowded {
			most -= most / 20
		}
		b.crowded = r.needed >= most
	}
	if o.Descriptors > 0 && r.descriptors < math.MaxInt {
		all := int(r.descriptors)
		b.reserve = all/100*o.Descriptors + all%100*o.Descriptors/100 // without overflow
		b.hurry = b.reserve + (all-b.reserve)/2
	}
	return b
}

// shedder keeps the bounds of a worker's loops up to date.
type shedder struct {
	bounds atomic.Pointer[bounds]
	lag    atomic.Int64         // ns, of the loop that turned a connection away last
	worker int                  // for the log; immutable
	loops  []*segment.LoopStats // immutable once watch runs

	mu   sync.Mutex
	read func() reading  // guarded by mu
	wish config.Overload // guarded by mu
	now  reading         // the last; guarded by mu

	doorkeeper doorkeeper

	known [segment.ShedCount]told // watch only
	fresh collector               // watch only

	closing chan struct{}
	running sync.WaitGroup // watch
}

func newShedder(worker int, read func() reading) *shedder {
	s := &shedder{worker: worker, read: read, doorkeeper: doorkeeper{worker: worker}, closing: make(chan struct{})}
	b := boundsFor(config.Overload{}, reading{}, false)
	s.bounds.Store(&b)
	return s
}

// apply makes o what is wished for, at once.
func (s *shedder) apply(o config.Overload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wish = o
	s.look()
}

// look reads anew and decides. The caller holds mu.
func (s *shedder) look() {
	s.now = s.read()
	old := s.bounds.Load()
	if b := boundsFor(s.wish, s.now, old.crowded); b != *old {
		s.bounds.Store(&b)
	}
}

// start begins to watch, on behalf of these loops, until close.
func (s *shedder) start(loops []*segment.LoopStats) {
	s.loops = loops
	for cause := range s.known {
		s.known[cause].shed = s.shed(segment.Shed(cause)) // in the life of a worker before this
	}
	s.running.Go(s.watch)
}

func (s *shedder) close() {
	close(s.closing)
	s.running.Wait()
}

// watch is a goroutine.
func (s *shedder) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	began := time.Now()
	for {
		select {
		case <-tick.C:
		case <-s.closing:
			return
		}
		s.mu.Lock()
		s.look()
		wish, has := s.wish, s.now
		s.mu.Unlock()
		now := time.Since(began)
		if s.fresh.due(now, s.bounds.Load().crowded, has.collections) {
			runtime.GC()
		}
		for cause := range segment.ShedCount {
			if news, n := s.known[cause].hear(now, s.shed(cause)); news != nothing {
				s.tell(cause, news, n, wish, has)
			}
		}
		s.doorkeeper.look(now, s.loops, &s.doorkeeper)
	}
}

// shed is how many connections were turned away for a cause.
func (s *shedder) shed(cause segment.Shed) (n uint64) {
	for _, l := range s.loops {
		n += l.Shed[cause].Load()
	}
	return n
}

// tell writes news of a cause, which n connections met, with its figures.
func (s *shedder) tell(cause segment.Shed, news news, n uint64, wish config.Overload, has reading) {
	about := []any{"worker", s.worker, "cause", segment.ShedNames[cause], "connections", n}
	if news == ended {
		slog.Warn("new connections are served again", about...)
		return
	}
	switch cause {
	case segment.ShedLatency:
		about = append(about, "turn", time.Duration(s.lag.Load()), "bound", time.Duration(wish.Latency))
	case segment.ShedMemory:
		about = append(about, "needed", has.needed, "limit", has.limit, "percent", wish.Memory)
	case segment.ShedDescriptors:
		about = append(about, "descriptors", has.descriptors, "percent", wish.Descriptors)
	}
	slog.Warn("there is too much to do: new connections are refused", about...)
}

// told is what the log says of one cause.
type told struct {
	shed uint64        // connections at the last line
	all  uint64        // connections since it began
	on   bool          // it has begun, and its end was not told
	next time.Duration // when there may be another line

	every time.Duration // between two lines; 0: tellEvery
}

// news is what there is to tell.
type news int

const (
	nothing  news = iota
	shedding      // with the connections since the last line
	ended         // none for a while; with all of them
)

// hear takes the number of connections that were turned away until now.
func (t *told) hear(now time.Duration, shed uint64) (news, uint64) {
	if now < t.next || shed == t.shed && !t.on {
		return nothing, 0
	}
	n := shed - t.shed
	t.shed, t.next = shed, now+cmp.Or(t.every, tellEvery)
	if n > 0 {
		t.on, t.all = true, t.all+n
		return shedding, n
	}
	n = t.all
	t.on, t.all = false, 0
	return ended, n
}

// collector has garbage collected while memory is short. The runtime does so
// when the heap has grown, but with no new connections it may not grow, and
// nobody would learn that those who filled it have gone.
type collector struct {
	seen uint64        // collections
	at   time.Duration // when the last was seen
}

// due tells whether there should be a collection now.
func (c *collector) due(now time.Duration, crowded bool, collections uint64) bool {
	if collections != c.seen || !crowded {
		c.seen, c.at = collections, now
		return false
	}
	return now-c.at >= collectEvery
}

// readProcess reads what this process has.
//
// What the runtime has mapped says little of memory: under a limit it lets
// garbage lie until that is reached, and so has 94 to 96 % of it mapped as soon as
// half of it is in use (seen with 60 MiB alive of 128). So what could be given
// back is left out: free pages, free room in others, and objects beyond those
// that the last collection found alive.
func readProcess() reading {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/gomemlimit:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(samples)
	v := func(i int) uint64 { return samples[i].Value.Uint64() }
	r := reading{
		needed: v(0) + v(1) - v(2) - v(3) - v(4) - v(5),
		limit:  v(6), collections: v(7), descriptors: math.MaxInt64,
	}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		r.descriptors = min(files.Cur, math.MaxInt64) // RLIM_INFINITY is more
	}
	return r
}
