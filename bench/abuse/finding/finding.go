// Package finding turns what was seen in the rounds of an attack into figures and a
// verdict, and writes them.
package finding

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/bench/abuse/attack"
	"sluice/bench/abuse/ground"
	"sluice/bench/proc"
	"sluice/bench/stats"
)

// MostP99 is how many times the p99 of the control the p99 of others may be while Sluice
// is attacked.
const MostP99 = 2

// Results are all findings, and what they were found with.
type Results struct {
	When     time.Time    `json:"when"`
	Machine  proc.Machine `json:"machine"`
	Version  string       `json:"version"` // of Sluice
	Method   []string     `json:"method"`
	Findings []Finding    `json:"findings"`
}

// Finding is what came of one class.
type Finding struct {
	Class  string   `json:"class"`
	Does   string   `json:"does"`
	Rounds []Round  `json:"rounds"`
	Faults []string `json:"faults,omitempty"` // of rounds that failed
}

// Round is what was seen in each phase.
type Round map[ground.Phase]ground.Seen

// Sufferers are a sort of users, and what became of their p99.
type Sufferers struct {
	Users     string
	Calm      float64        // seconds: the geometric mean of the rounds
	ToCalm    stats.Interval // attacked ÷ calm
	ToControl stats.Interval // attacked ÷ control
}

// Sufferers are those whose p99 is most above the control.
func (f *Finding) Sufferers() Sufferers {
	var worst Sufferers
	for i, name := range ground.Users() {
		calm, attacked, control := f.p99s(ground.Calm, i), f.p99s(ground.Attacked, i), f.p99s(ground.Control, i)
		s := Sufferers{
			Users: name, Calm: stats.GeoMean(calm).Mean,
			ToCalm:    stats.GeoMean(stats.Ratios(attacked, calm)),
			ToControl: stats.GeoMean(stats.Ratios(attacked, control)),
		}
		if i == 0 || s.ToControl.Mean > worst.ToControl.Mean {
			worst = s
		}
	}
	return worst
}

// p99s are those of a sort of users, round by round.
func (f *Finding) p99s(p ground.Phase, users int) []float64 {
	var all []float64
	for _, r := range f.Rounds {
		p99 := 0.0
		if met := r[p].Users; users < len(met) {
			p99 = met[users].P99
		}
		all = append(all, p99)
	}
	return all
}

// Verdict says whether the p99 of those who suffer most stays within its bound.
func (s Sufferers) Verdict() string {
	switch {
	case s.ToControl.N < 2:
		return "open"
	case s.ToControl.Hi <= MostP99:
		return "held"
	case s.ToControl.Lo > MostP99:
		return "broken"
	}
	return "open"
}

// Failed is how many requests of others failed in a phase, of how many.
func (f *Finding) Failed(p ground.Phase) (failed, all int64) {
	for _, r := range f.Rounds {
		for _, met := range r[p].Users {
			failed += met.Failed
			all += met.Failed + met.Good
		}
	}
	return failed, all
}

// CPU is what the attack costs the proxy beyond its calm, in CPU seconds per second: the
// mean of the rounds.
func (f *Finding) CPU() float64 {
	sum := 0.0
	for _, r := range f.Rounds {
		sum += r[ground.Attacked].CPU - r[ground.Calm].CPU
	}
	return sum / float64(max(1, len(f.Rounds)))
}

// Memory is how many bytes the proxy's peak is above that of its calm: the most of the
// rounds, and 0 at least.
func (f *Finding) Memory() int64 {
	most := int64(0)
	for _, r := range f.Rounds {
		most = max(most, r[ground.Attacked].Peak-r[ground.Calm].Peak)
	}
	return most
}

// Turn is the mean of a loop's turns in a phase, in seconds, of all rounds.
func (f *Finding) Turn(p ground.Phase) float64 {
	sum := 0.0
	for _, r := range f.Rounds {
		sum += r[p].Turn
	}
	return sum / float64(max(1, len(f.Rounds)))
}

// Left is how many connections stayed after the attacker had gone: the most of the rounds.
func (f *Finding) Left() float64 {
	most := 0.0
	for _, r := range f.Rounds {
		most = max(most, r[ground.Attacked].Left)
	}
	return most
}

// Attack is all attacks on the proxy whose users are asked.
func (f *Finding) Attack() attack.Tally {
	sum := attack.Tally{Ends: map[string]int64{}}
	for _, r := range f.Rounds {
		if a := r[ground.Attacked].Attack; a != nil {
			sum.Add(*a)
		}
	}
	return sum
}

// Counters are those that moved, most first, with how often.
func (f *Finding) Counters() []string {
	sum := map[string]float64{}
	for _, r := range f.Rounds {
		for name, n := range r[ground.Attacked].Counters {
			sum[name] += n
		}
	}
	names := slices.Sorted(maps.Keys(sum))
	slices.SortStableFunc(names, func(a, b string) int { return int(sum[b] - sum[a]) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.0f", name, sum[name])
	}
	return names
}

// ends are the codes with which connections ended, most first, at most three.
func ends(t attack.Tally) string {
	var all []string
	for _, code := range t.Codes() {
		all = append(all, fmt.Sprintf("%s %d", code, t.Ends[code]))
	}
	if t.Refused > 0 {
		all = append(all, fmt.Sprintf("refused %d", t.Refused))
	}
	return strings.Join(all[:min(3, len(all))], ", ")
}
