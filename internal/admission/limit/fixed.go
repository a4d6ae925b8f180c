package limit

import "time"

// fixed is a limit that an operator knows better than we do, or none.
type fixed struct {
	limit int // immutable
}

// Step answers with the same limit always.
func (f *fixed) Step(time.Time, Sample) Decision {
	return Decision{Limit: f.limit, Was: f.limit, Centre: float64(f.limit)}
}

// State is empty: nothing is learned.
func (f *fixed) State() State { return State{} }
