package reactor

// How the figure of a turn's duration follows the loop.
const (
	paceShare = 4    // the part that a turn has in the figure: 1 in 4, so that it is mostly of the last ten turns
	idleTurn  = 20e6 // a sleep counts as a turn of no duration for each so many ns
	idleTurns = 64   // and for so many at most: nothing is left of the figure then
)

// pace is how long a loop's turns take, smoothed: about as long as who arrives
// now has to wait. It follows the median of the last three turns, so that a turn
// that was long for once leaves no trace. Nanoseconds.
type pace struct {
	smooth int64
	last   [2]int64 // the turns before
}

// turn takes a turn of which d was spent awake.
func (p *pace) turn(d int64) {
	a, b := p.last[0], p.last[1]
	median := max(min(a, b), min(max(a, b), d))
	p.smooth += (median - p.smooth) / paceShare
	p.last = [2]int64{b, d}
}

// rest takes a sleep of d: a loop that sleeps has done all its work.
func (p *pace) rest(d int64) {
	for range min(d/idleTurn, idleTurns) {
		p.turn(0)
	}
}

// backlog is how long an event waits in epoll's queue, in nanoseconds, when the
// last poll took n: 0 if that was all. If more are there than a turn takes, then
// turns may be short and the wait long, so a mark is sent through the queue, which
// is first in, first out: the loop's own eventfd.
func (l *Loop) backlog(n int) int64 {
	if n < len(l.batch) {
		l.waited = 0
		return 0
	}
	if l.marked == 0 {
		l.marked = l.now
		Ring(l.event)
	}
	return max(l.waited, l.now-l.marked)
}

// Lag is how long a turn takes, or how long who is ready waits for his if that is
// longer, in nanoseconds, smoothed over some turns. An idle loop's falls to
// nothing within a second. Loop only.
func (l *Loop) Lag() int64 { return l.pace.smooth }
