package queue

import "time"

const (
	// standing is how long a queue must not have been empty to have stood.
	standing = int64(100 * time.Millisecond)
	// The tide is judged by its last parts, together 1.25 s or, with few requests,
	// the last 200 who came or went, but no longer than 10 s. A burst, and a limit
	// that is lowered, fill one part or two: it must rise in each of them.
	tideParts     = 5
	partTime      = int64(250 * time.Millisecond)
	partRequests  = 40
	longestPart   = int64(2 * time.Second)
	clearly       = 1.10 // as many come as go, at least, if it rises
	clearlyInPart = 1.05
	// noise is the square of the standard deviations by which they exceed, if both
	// are Poisson processes: 2.5, one in 160.
	noise = 2.5 * 2.5
)

// tide compares those who come, held or not, with those who go to be served.
type tide struct {
	part  part            // under way
	begun int64           // when the part under way began, ns
	last  int64           // the last time that was told, ns
	parts [tideParts]part // those before it, in a ring
	next  int             // the oldest of them
	whole int             // how many of them there are
}

// part is a piece of time.
type part struct{ in, out int }

func (t *tide) in()  { t.part.in++ }
func (t *tide) out() { t.part.out++ }

// pass lets time go by. It reports whether that ended a part. After a time
// without any request all begins anew.
func (t *tide) pass(now int64) bool {
	idle := now - t.last
	t.last = now
	if idle >= longestPart {
		*t = tide{begun: now, last: now}
		return true
	}
	lasted := now - t.begun
	if lasted < partTime || lasted < longestPart && t.part.in+t.part.out < partRequests {
		return false
	}
	t.parts[t.next] = t.part
	t.next = (t.next + 1) % tideParts
	t.whole = min(t.whole+1, tideParts)
	t.part, t.begun = part{}, now
	return true
}

// sum is all that came and went in the whole parts.
func (t *tide) sum() (s part) {
	for _, p := range t.parts {
		s.in += p.in
		s.out += p.out
	}
	return s
}

// rises reports whether clearly more come than go, for all of the time.
func (t *tide) rises() bool {
	if t.whole < tideParts {
		return false
	}
	for _, p := range t.parts {
		if float64(p.in) <= clearlyInPart*float64(p.out) {
			return false
		}
	}
	s := t.sum()
	more := float64(s.in - s.out)
	return float64(s.in) >= clearly*float64(s.out) && more*more >= noise*float64(s.in+s.out)
}

// ebbs reports whether no more come than go.
func (t *tide) ebbs() bool {
	s := t.sum()
	return s.in <= s.out
}
