// Package limit decides how many requests one server may hold at once.
//
//	limit.go     what goes in (Sample), what comes out (Decision), the kinds
//	adaptive.go  paired elasticity seeking: the life of one step
//	slot.go      time cut into slots by the wall clock; what is measured in one
//	evidence.go  what pairs of slots say about the elasticity
//	surge.go     a demand much higher than the one that the limit was learned at
//	guard.go     collapse, outage and failures: faster than evidence
//	target.go    an objective on response time, which may only lower a limit
//	gradient2.go, fixed.go   other limits to choose from
//	state.go     what is kept over a restart
//
// A Controller is pure: it has no clock, no goroutine, no queue, no lock and does
// no I/O. The supervisor owns one per server and calls Step about every 50 ms with
// the sum of what all workers counted. The same calls give the same answers.
//
// The server is opaque. All that is seen is how many requests it holds (n), how
// fast it answers (X) and how (good or failed). Its best point is where more
// requests at once stop paying: where the elasticity dlnX/dlnn falls to nearly 0.
// By Little's law X = n/R, the same point is where R grows as fast as n.
package limit

import (
	"fmt"
	"math"
	"time"
)

// Controller finds the limit of one server. It belongs to one goroutine.
type Controller interface {
	// Step takes what happened since the call before, and answers with the limit
	// to put in force now. Wall is the machine's wall clock: proxies whose clocks
	// agree probe in step. It may jump; lengths of time come from the sample.
	Step(wall time.Time, s Sample) Decision
	// State is what was learned, to be kept over a restart.
	State() State
}

// Sample is what all workers together saw of one server since the call before.
// Times are seconds of a monotonic clock.
type Sample struct {
	Span    float64 // since the call before, s
	Good    int64   // completions that count as work done
	Slow    int64   // of these, the ones that took longer than Settings.Target
	Ignored int64   // completions that say nothing: client gone, stream, route without admission
	// Failed are 429, 503, time-outs and connect errors: the server did not do the work.
	Failed   int64
	Held     float64 // integral of requests in flight over Span, request-seconds
	Bound    float64 // part of Span in which the limit bound: a request waited, or one more would have, s
	Sum      float64 // of response times of the good ones, s
	Squares  float64 // of the squares of the same, s²
	InFlight int     // at the end of Span
	Queue    int     // requests that wait for this server, at the end of Span
}

// Decision is the limit in force from now on, and why. It is worth a line in the
// log when Reason is not Hold.
type Decision struct {
	Limit      int     // requests that the server may hold at once from now on
	Was        int     // the limit before
	Half       Half    // which half of a pair begins or goes on
	Reason     Reason  // why the centre moved
	Centre     float64 // the limit without its dither
	Elasticity float64 // dlnX/dlnn as far as it is known; 0 without evidence
	Evidence   float64 // 1/variance of the elasticity; 0: nothing is known
	Throughput float64 // good completions per second, smoothed
}

// Half says whether the limit is now above or below its centre.
type Half int8

// The halves of a pair, and neither.
const (
	Down  Half = -1
	Level Half = 0
	Up    Half = 1
)

var halfNames = [...]string{"down", "level", "up"}

// String gives the word that operators see.
func (h Half) String() string { return halfNames[h+1] }

// Reason is why a limit moved, as a fixed word for logs and metrics.
type Reason uint8

const (
	Hold      Reason = iota // nothing moved; the dither may have turned
	Climb                   // more at once did more work
	Descend                 // less at once did no less work
	Demand                  // the limit does not bind; it follows the demand down
	Surge                   // a queue as long as the limit: one step up, on trial
	SurgeOver               // the last step of a surge brought nothing, or is no longer needed
	Collapse                // throughput broke down while the limit bound
	Failures                // too many 429, 503, time-outs or connect errors
	Unrelated               // failures did not fall with the limit: back to where it was
	Outage                  // no good completion for long; nothing is learned until one comes
	Recovered               // good completions again after an outage
	ClockJump               // the wall clock jumped; the slot was thrown away
	Target                  // the objective on response time moved its ceiling
	reasonCount
)

var reasonNames = [reasonCount]string{
	"hold", "climb", "descend", "demand", "surge", "surge_over", "collapse", "failures", "unrelated", "outage", "recovered", "clock_jump", "target",
}

// String gives the word that operators see.
func (r Reason) String() string {
	if r >= reasonCount {
		return "unknown"
	}
	return reasonNames[r]
}

// Kind names a controller, as configuration does.
type Kind string

// The kinds of limit.
const (
	Adaptive  Kind = "adaptive"  // paired elasticity seeking
	Gradient2 Kind = "gradient2" // ratio of long-term to short-term response time
	Fixed     Kind = "fixed"     // Settings.Limit
	Off       Kind = "off"       // Unlimited; Min and Max do not apply
)

// Unlimited is the limit of Off: more than any machine holds.
const Unlimited = math.MaxInt32

// Settings are the operator's wishes for one server. Min and Max hold always.
type Settings struct {
	Kind   Kind
	Limit  int           // of Fixed
	Min    int           // at least 1
	Max    int           // at least Min
	Target time.Duration // 90 % of good responses should be faster; 0: no objective
}

// New makes a controller. State is what an earlier one learned; the zero State is
// a fresh start, and figures in it that make no sense are replaced by fresh ones.
func New(set Settings, learned State) (Controller, error) {
	switch {
	case set.Kind == Off && set.Target != 0:
		return nil, fmt.Errorf("limit: target %v needs a limit that it can lower, not %q", set.Target, set.Kind)
	case set.Kind == Off:
		return &fixed{limit: Unlimited}, nil
	case set.Min < 1 || set.Max < set.Min || set.Max > Unlimited:
		return nil, fmt.Errorf("limit: min %d and max %d: want 1 <= min <= max <= %d", set.Min, set.Max, Unlimited)
	case set.Target < 0:
		return nil, fmt.Errorf("limit: target %v is negative", set.Target)
	}
	bounds := bounds{float64(set.Min), float64(set.Max)}
	var inner Controller
	switch set.Kind {
	case Adaptive:
		inner = newAdaptive(bounds, learned)
	case Gradient2:
		inner = newGradient2(bounds, learned)
	case Fixed:
		inner = &fixed{limit: int(bounds.clamp(float64(set.Limit)))}
	default:
		return nil, fmt.Errorf("limit: no kind %q: want adaptive, gradient2, fixed or off", set.Kind)
	}
	if set.Target > 0 {
		return newTarget(inner, bounds, learned), nil
	}
	return inner, nil
}

// bounds are the operator's min and max.
type bounds struct{ min, max float64 }

func (b bounds) clamp(x float64) float64 { return clamp(x, b.min, b.max) }

func clamp(x, low, high float64) float64 { return max(low, min(high, x)) }
