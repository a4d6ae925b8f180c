package sharing

import (
	"container/heap"
	"math"
)

// Station holds requests and shares its work among them. It is for one goroutine.
//
// Since all that are held progress alike, one number says how far each is: the
// progress of a request that would be there for ever. A request is finished when
// that number has grown by its work since it came.
type Station struct {
	curve    Curve
	now      float64 // seconds; the time that progress is from
	progress float64 // units of work
	jobs     jobs
}

// job is a request in a station.
type job struct {
	finish float64          // progress at which it is finished
	done   func(at float64) // called by Advance
}

// New makes an empty station.
func New(c Curve) *Station { return &Station{curve: c} }

// Held is the number of requests in it.
func (s *Station) Held() int { return len(s.jobs) }

// Enter adds a request of so much work. Advance will call done with the time, in
// seconds, at which it was finished. What is due by now must have been taken by Advance.
func (s *Station) Enter(now, work float64, done func(at float64)) {
	s.move(now)
	heap.Push(&s.jobs, job{finish: s.progress + work, done: done})
}

// SetCurve changes the curve from now on. What is due by now must have been taken by
// Advance.
func (s *Station) SetCurve(now float64, c Curve) {
	s.move(now)
	s.curve = c
}

// Next is when the next request will be finished if nothing changes; +Inf if none.
func (s *Station) Next() float64 {
	rate := s.rate()
	if rate == 0 {
		return math.Inf(1)
	}
	return max(s.now, s.now+(s.jobs[0].finish-s.progress)/rate)
}

// Advance goes on to a time and tells each request that was finished until then, in
// the order of their ends. A late call changes no end: each is computed, with those
// who were left, from the one before.
func (s *Station) Advance(now float64) {
	for at := s.Next(); at <= now; at = s.Next() {
		s.move(at)
		next := heap.Pop(&s.jobs).(job)
		s.progress = max(s.progress, next.finish) // what rounding left
		next.done(at)
	}
	s.move(now)
}

// move lets time pass in which nobody is finished.
func (s *Station) move(now float64) {
	if now > s.now {
		s.progress += (now - s.now) * s.rate()
		s.now = now
	}
}

// rate is the progress of each in a second.
func (s *Station) rate() float64 {
	if len(s.jobs) == 0 {
		return 0
	}
	return s.curve(len(s.jobs)) / float64(len(s.jobs))
}

// jobs is a heap, the next to finish on top.
type jobs []job

func (j jobs) Len() int           { return len(j) }
func (j jobs) Less(a, b int) bool { return j[a].finish < j[b].finish }
func (j jobs) Swap(a, b int)      { j[a], j[b] = j[b], j[a] }

// Push and Pop are for container/heap.
func (j *jobs) Push(x any) { *j = append(*j, x.(job)) }

func (j *jobs) Pop() any {
	old := *j
	last := old[len(old)-1]
	old[len(old)-1] = job{}
	*j = old[:len(old)-1]
	return last
}
