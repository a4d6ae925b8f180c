package plan

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limits on what one machine can be asked for.
const (
	maxUsers  = 100_000 // each has a connection, and 16 KiB to read into
	maxStages = 10_000
	steps     = 10 // of a ramp that does not say
)

// Range is a number, or a way from one to another.
type Range struct{ From, To float64 }

// Ramp reports whether there is a way.
func (r Range) Ramp() bool { return r.From != r.To }

// ParseRange reads "100" or "10..250", upwards or downwards.
func ParseRange(text string) (Range, error) {
	from, to, ramp := strings.Cut(text, "..")
	if !ramp {
		to = from
	}
	a, errA := strconv.ParseFloat(from, 64)
	b, errB := strconv.ParseFloat(to, 64)
	if errA != nil || errB != nil || !(a > 0 && b > 0) || math.IsInf(a+b, 0) {
		return Range{}, fmt.Errorf("%q: write a number above 0 like 100, or a ramp like 10..250", text)
	}
	return Range{a, b}, nil
}

// Load is what the stages are made from.
type Load struct {
	Users    Range
	Rate     Range // the zero value: a closed loop
	Step     float64
	Every    time.Duration // of a ramp's step
	Duration time.Duration // of a load without a ramp; 0: until all requests are done
}

// Stages makes the stages: one, or one for each step of the ramp. The last is the
// ramp's end, even if the step does not fall on it.
func (l Load) Stages() ([]Stage, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	users, rate := int(l.Users.From), l.Rate.From
	switch {
	case l.Users.Ramp():
		var all []Stage
		for _, u := range l.Users.walk(math.Max(1, math.Round(l.Users.step(l.Step)))) {
			all = append(all, Stage{int(u), rate, l.Every})
		}
		return all, nil
	case l.Rate.Ramp():
		var all []Stage
		for _, r := range l.Rate.walk(l.Rate.step(l.Step)) {
			all = append(all, Stage{users, r, l.Every})
		}
		return all, nil
	}
	return []Stage{{users, rate, l.Duration}}, nil
}

func (l Load) check() error {
	ramp := l.Users
	if l.Rate.Ramp() {
		ramp = l.Rate
	}
	switch {
	case l.Users.From != math.Trunc(l.Users.From) || l.Users.To != math.Trunc(l.Users.To):
		return errors.New("users are whole")
	case max(l.Users.From, l.Users.To) > maxUsers:
		return fmt.Errorf("at most %d users", maxUsers)
	case l.Users.Ramp() && l.Rate.Ramp():
		return errors.New("either users or the rate may be a ramp, not both")
	case l.Step < 0 || l.Every < 0 || l.Duration < 0:
		return errors.New("a step, its time and a duration cannot be negative")
	case !ramp.Ramp() && (l.Step != 0 || l.Every != 0):
		return errors.New("--step and --every need a ramp, like --users 10..250")
	case ramp.Ramp() && l.Every == 0:
		return errors.New("a ramp needs --every, the time of each step, like --every 10s")
	case ramp.Ramp() && l.Duration != 0:
		return errors.New("a ramp lasts as long as its steps; leave --duration out")
	case ramp.Ramp() && (ramp.width()/ramp.step(l.Step)) > maxStages:
		return fmt.Errorf("a ramp of more than %d steps; make --step larger", maxStages)
	}
	return nil
}

func (r Range) width() float64 { return math.Abs(r.To - r.From) }

// step is the given step, or a tenth of the way.
func (r Range) step(given float64) float64 {
	if given > 0 {
		return given
	}
	return r.width() / steps
}

// walk lists the numbers from one end to the other.
func (r Range) walk(step float64) []float64 {
	direction := math.Copysign(step, r.To-r.From)
	var all []float64
	for i := 0; float64(i)*step < r.width(); i++ {
		all = append(all, r.From+float64(i)*direction)
	}
	return append(all, r.To)
}
