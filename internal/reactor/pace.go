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

// turn takes a turn that was awake for d.
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

// Lag is how long a turn takes, in nanoseconds, smoothed over some turns. An idle
// loop's falls to nothing within a second. Loop only.
func (l *Loop) Lag() int64 { return l.pace.smooth }
