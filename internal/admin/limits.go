package admin

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/segment"
)

// decisionsInStatus is how many of a server's last moves stand in /status, which
// is about everything. /limits has all that the supervisor kept.
const decisionsInStatus = 32

// Kinds that learn nothing of their server: a gate that lets everything through,
// and a limit that the operator knows.
const (
	kindOff   = "off"
	kindFixed = "fixed"
)

// Limits is what GET /limits answers, and `sluice status --limits` prints. Units
// are as in Status.
type Limits struct {
	Time     time.Time     `json:"time"` // of this answer
	Held     int64         `json:"held"` // requests that wait for a permit now, of all farms
	Leaks    uint64        `json:"leaks"`
	Stranded uint64        `json:"stranded"`
	Servers  []LimitStatus `json:"servers"`
}

// LimitStatus is the limit of one server.
type LimitStatus struct {
	Farm string `json:"farm"`
	URL  string `json:"url"`
	AdmissionStatus
}

// AdmissionStatus is the gate of a server: how many requests it may have at once,
// and why so many.
type AdmissionStatus struct {
	Kind       string            `json:"kind"`   // adaptive, gradient2, fixed or off
	Limit      int               `json:"limit"`  // in force now; 0 if kind is off
	Min        int               `json:"min"`    // the operator's bounds
	Max        int               `json:"max"`    //
	Target     float64           `json:"target"` // 90 % of good responses should be faster, s; 0: no objective
	InFlight   int               `json:"in_flight"`
	Waiting    int               `json:"waiting"`    // may go to this server; one that may go to several counts for each
	Half       string            `json:"half"`       // up or down while the controller probes, else level
	Centre     float64           `json:"centre"`     // the limit without its dither
	Throughput float64           `json:"throughput"` // good responses per second, smoothed; 0 if kind is off
	Elasticity float64           `json:"elasticity"` // dlnX/dlnn: what one per cent more at once brings, in per cent
	Evidence   float64           `json:"evidence"`   // 1/variance of the elasticity; 0: nothing is known
	Reason     string            `json:"reason"`     // of the last move; empty before the first
	Moved      time.Time         `json:"moved,omitzero"`
	Moves      map[string]uint64 `json:"moves"` // since the start, by reason
	Permits    Permits           `json:"permits"`
	Wait       Distribution      `json:"wait"` // of requests that were held and then sent to this server
	Decisions  []DecisionStatus  `json:"decisions"`
}

// Permits counts those that were given back.
type Permits struct {
	Good    uint64 `json:"good"`    // for work done
	Slow    uint64 `json:"slow"`    // of these, the ones held longer than the target
	Ignored uint64 `json:"ignored"` // with nothing to be learned
	Failed  uint64 `json:"failed"`  // because the server could not, or would not
}

// DecisionStatus is one move of a limit, and what it was made of.
type DecisionStatus struct {
	At         time.Time `json:"at"`
	From       int       `json:"from"`
	To         int       `json:"to"`
	Reason     string    `json:"reason"`
	Half       string    `json:"half"`
	Centre     float64   `json:"centre"`
	Elasticity float64   `json:"elasticity"`
	Evidence   float64   `json:"evidence"`
	Throughput float64   `json:"throughput"`
	InFlight   int       `json:"in_flight"`
	Waiting    int       `json:"waiting"`
}

// limits answers GET /limits. ?farm=NAME asks for one farm, ?decisions=N for no
// more than the last N moves of each server: who looks often need not see all.
func (p pages) limits(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	farm, decisions := query.Get("farm"), math.MaxInt
	if asked := query.Get("decisions"); asked != "" {
		n, err := strconv.ParseUint(asked, 10, 31)
		if err != nil {
			text(w, http.StatusBadRequest, fmt.Sprintf("decisions is %q; want a number.\n", asked))
			return
		}
		decisions = int(n)
	}
	if farm != "" && !hasFarm(p.view, farm) {
		text(w, http.StatusNotFound, fmt.Sprintf("There is no farm %q.\n", farm))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.Encode(newLimits(p.view, farm, decisions)) // fails only if the client has gone
}

func hasFarm(view View, name string) bool {
	for _, f := range view.Config().Farms {
		if f.Name == name {
			return true
		}
	}
	return false
}

// newLimits reads the view and the segment once, for one farm or, if it is empty,
// for all, with at most so many decisions of each server. It follows the order of
// the configuration.
func newLimits(view View, only string, decisions int) *Limits {
	all := view.Admission()
	l := &Limits{Time: time.Now(), Leaks: all.Leaks, Stranded: all.Stranded, Servers: []LimitStatus{}}
	for _, w := range view.Workers() {
		totals := view.Segment().Totals(w.Index)
		l.Held += totals.Held.Load()
	}
	gates, totals := limitsByServer(all), serverTotals(view)
	for _, f := range view.Config().Farms {
		if only != "" && f.Name != only {
			continue
		}
		for _, s := range f.Servers {
			key := serverKey{f.Name, s.URL}
			if gate := gates[key]; gate != nil {
				l.Servers = append(l.Servers, LimitStatus{f.Name, s.URL, *newAdmission(gate, totals[key], decisions)})
			}
		}
	}
	return l
}

// limitsByServer finds a limit by its server. One that has none yet, in the moment
// of a reload, is missing.
func limitsByServer(all AdmissionView) map[serverKey]*LimitView {
	by := make(map[serverKey]*LimitView, len(all.Servers))
	for i := range all.Servers {
		one := &all.Servers[i]
		by[serverKey{one.Farm, one.URL}] = one
	}
	return by
}

// newAdmission joins what the supervisor decided, the last so many decisions of it,
// with what the workers counted, which is nil for a server without a slot.
func newAdmission(v *LimitView, t *segment.ServerStats, decisions int) *AdmissionStatus {
	last := v.Decisions[max(0, len(v.Decisions)-decisions):]
	a := &AdmissionStatus{
		Kind: v.Kind, Limit: v.Limit, Min: v.Min, Max: v.Max, Target: v.Target.Seconds(),
		InFlight: v.InFlight, Waiting: v.Waiting, Half: v.Half,
		Centre: finite(v.Centre), Throughput: finite(v.Throughput), Elasticity: finite(v.Elasticity), Evidence: finite(v.Evidence),
		Reason: v.Reason, Moved: v.Moved, Moves: v.Moves,
		Decisions: make([]DecisionStatus, len(last)),
	}
	if v.Kind == kindOff {
		a.Limit, a.Centre = 0, 0
	}
	if a.Moves == nil {
		a.Moves = map[string]uint64{}
	}
	for i, d := range last {
		a.Decisions[i] = DecisionStatus{
			At: d.At, From: d.From, To: d.To, Reason: d.Reason, Half: d.Half,
			Centre: finite(d.Centre), Elasticity: finite(d.Elasticity), Evidence: finite(d.Evidence), Throughput: finite(d.Throughput),
			InFlight: d.InFlight, Waiting: d.Queue,
		}
	}
	if t != nil {
		a.Permits = Permits{Good: t.Good.Load(), Slow: t.Slow.Load(), Ignored: t.Ignored.Load(), Failed: t.Failed.Load()}
		a.Wait = newDistribution(&t.Wait)
	}
	return a
}

// finite is x, or 0 for what JSON cannot say (RFC 8259 section 6).
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}
