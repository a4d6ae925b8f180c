package regulator

import "sluice/internal/segment"

// account is what all workers ever counted of one server, at one moment more or
// less: the writers do not stop for readers.
type account struct {
	good, slow, ignored, failed uint64
	sum                         uint64 // ns
	squares                     uint64 // µs²
	area                        uint64 // integral of permits, permit-ns, modulo 2^64
	permits                     int64
	inFlight                    int64 // the gate's
	steady                      bool  // the gate's was the same before and after: it may be held against permits
	waiting                     int64
	waiters                     uint64   // bit i: requests wait in worker i
	bound                       []uint64 // by worker: time in which requests waited, ns
}

// read takes the account at time now, ns.
func (a *account) read(shared *segment.Segment, slot int, now int64) {
	gate := shared.Gate(slot)
	before := gate.InFlight.Load()
	*a = account{bound: a.bound}
	for w := range a.bound {
		loops := shared.LoopsOf(w)
		for l := range loops {
			a.add(shared.Server(w, l, slot), now)
		}
		if loops > 0 {
			var waiting int64
			a.bound[w], waiting = boundUntil(shared.Line(w, slot), now)
			a.waiting += waiting
			if waiting > 0 {
				a.waiters |= 1 << w
			}
		}
	}
	a.inFlight = gate.InFlight.Load()
	a.steady = a.inFlight == before
}

// add counts one loop's figures.
func (a *account) add(s *segment.ServerStats, now int64) {
	a.good += s.Good.Load()
	a.slow += s.Slow.Load()
	a.ignored += s.Ignored.Load()
	a.failed += s.Failed.Load()
	a.sum += s.Sum.Load()
	a.squares += s.Squares.Load()
	area, permits := areaUntil(s, now)
	a.area += area
	a.permits += permits
}

// ended is how many permits were given back, however that ended.
func (a *account) ended() uint64 { return a.good + a.ignored + a.failed }

// readTries bounds how often a figure is read again that its writer has just
// changed. A figure that is torn all the same is a moment's error: the next step
// reads the sum again, and not the difference.
const readTries = 4

// areaUntil is the integral of a loop's permits until now. Its writer brings it up
// to date at each change only.
func areaUntil(s *segment.ServerStats, now int64) (area uint64, permits int64) {
	var since int64
	for range readTries {
		since, area = int64(s.Since.Load()), s.Area.Load()
		permits = s.Permits.Load()
		if int64(s.Since.Load()) == since && s.Area.Load() == area {
			break
		}
	}
	return area + uint64(permits*(now-since)), permits
}

// boundUntil is the time in which requests waited in a worker, until now, and how
// many wait.
func boundUntil(l *segment.LineStats, now int64) (bound uint64, waiting int64) {
	var since int64
	for range readTries {
		since, bound = int64(l.Since.Load()), l.Bound.Load()
		waiting = l.Waiting.Load()
		if int64(l.Since.Load()) == since && l.Bound.Load() == bound {
			break
		}
	}
	if waiting > 0 {
		bound += uint64(max(0, now-since))
	}
	return bound, waiting
}

// permitsOf is how many permits of a server all workers hold.
func permitsOf(shared *segment.Segment, slot int) int64 {
	var permits int64
	for w := range shared.Shape().Workers {
		for l := range shared.LoopsOf(w) {
			permits += shared.Server(w, l, slot).Permits.Load()
		}
	}
	return permits
}

// bury ends the account of a dead worker with one server: what it held until now
// counts, and it holds nothing from here on. It returns how many permits these
// were.
func bury(shared *segment.Segment, worker, slot int, now int64) (permits int64) {
	for l := range shared.LoopsOf(worker) {
		s := shared.Server(worker, l, slot)
		held := s.Permits.Load()
		if held == 0 {
			continue
		}
		since := int64(s.Since.Load())
		s.Area.Add(uint64(held * (now - since)))
		s.Since.Add(uint64(now - since))
		s.Permits.Set(0)
		permits += held
	}
	line := shared.Line(worker, slot)
	if line.Waiting.Load() != 0 {
		since := int64(line.Since.Load())
		line.Bound.Add(uint64(max(0, now-since)))
		line.Since.Add(uint64(now - since))
		line.Waiting.Set(0)
	}
	return permits
}
