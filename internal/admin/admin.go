// Package admin is the operator's window on a running Sluice: metrics, status,
// health, the configuration in force, and the button that reloads it.
//
// It runs in the supervisor, over net/http, on an address of its own. It reads
// the shared segment and a View of the supervisor, and it changes nothing but by
// View.Reload. It never meets a client's request: traffic goes on when this
// package is slow, and the workers do not know of it.
//
// The way of a request: listen.go opens the address and bounds the connections,
// guard.go refuses what a web page of somebody else could send, pages.go answers.
// status.go, nodes.go, limits.go and metrics.go hold the large answers; sampler.go and
// process.go give them what the segment does not know.
package admin

import (
	"time"

	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/spec"
)

// View is what the supervisor shows of itself. Its methods may be called from
// any goroutine, and return values that nobody changes afterwards.
type View interface {
	Config() *config.Config     // in force now
	Build() string              // version of the binary
	Started() time.Time         // of the supervisor
	Ready() bool                // every worker serves the configuration in force
	Reload() error              // config.Faults, or what else kept the old configuration in force
	Workers() []WorkerView      // by index
	Servers() []spec.ServerSlot // servers of the configuration in force
	Segment() *segment.Segment
	Generation() uint64 // of the configuration in force, from 1
	Admission() AdmissionView
	Certificates() CertificatesView
}

// CertificatesView is what TLS of the configuration in force shows clients.
type CertificatesView struct {
	All []CertificateView
	// Times that files which had changed were taken, and were not since they are at fault.
	Taken, Refused uint64

	Asked          []NameView // by tls.acme
	Issued, Failed uint64     // times that certificates were asked for, and were got or not
}

// NameView is a name that certificates are asked for by ACME.
type NameView struct {
	Name   string
	Held   bool      // there is one
	Failed int       // times in a row that none was got
	Error  string    // of the last; empty: none
	Next   time.Time // when it is asked for again, if Failed is not 0
}

// CertificateView is one certificate.
type CertificateView struct {
	File    string // in the configuration; no two are alike
	Names   []string
	Issuer  string // who signed it
	Expires time.Time
	Asked   bool // for by ACME; else its file is the operator's
	Soon    bool // it expires soon, or has
}

// WorkerView is one listener process as its supervisor sees it.
type WorkerView struct {
	Index, PID int
	Node       int    // NUMA node; -1 if the machine tells none
	Nodes      []int  // all that it has CPUs of
	State      string // a segment.WorkerState's name
	CPUs       []int  // that its loops run on
	Loops      int
	Restarts   int       // times that it died and was started again
	Started    time.Time // of the process that lives now
}

// AdmissionView is how the limits of all servers stand, as the supervisor sees it.
type AdmissionView struct {
	Servers []LimitView // of the configuration in force
	// What the supervisor had to mend. Both stay 0 unless something is wrong.
	Leaks    uint64 // permits that were claimed and belonged to nobody
	Stranded uint64 // times that requests waited although permits were free
}

// LimitView is the gate of one server, and its controller's last word.
type LimitView struct {
	Farm, URL  string
	Slot       int               // in the segment
	Kind       string            // adaptive, gradient2, fixed or off
	Min, Max   int               // the operator's bounds
	Target     time.Duration     // 90 % of good responses should be faster; 0: no objective
	Limit      int               // requests at once, in force now; means nothing if Kind is off
	InFlight   int               // permits claimed
	Waiting    int               // requests that may go to this server; one that may go to several counts for each
	Half       string            // up or down while the controller probes, else level
	Centre     float64           // the limit without its dither
	Throughput float64           // good completions per second, smoothed
	Elasticity float64           // dlnX/dlnn as far as it is known; 0 without evidence
	Evidence   float64           // 1/variance of the elasticity; 0: nothing is known
	Reason     string            // of the last move; empty before the first
	Moved      time.Time         // when it was; zero before the first
	Decisions  []DecisionView    // moves, oldest first, the last 128
	Moves      map[string]uint64 // all moves since the supervisor began, by reason
}

// DecisionView is one move of a limit, and what it was made of.
type DecisionView struct {
	At           time.Time
	From, To     int // the limit before and after
	Half, Reason string
	Centre       float64
	Elasticity   float64
	Evidence     float64
	Throughput   float64
	InFlight     int // permits claimed at that moment
	Queue        int // requests that waited
}
