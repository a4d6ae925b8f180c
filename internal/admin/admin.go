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
// status.go and metrics.go hold the two large answers; sampler.go and process.go
// give them what the segment does not know.
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
}

// WorkerView is one listener process as its supervisor sees it.
type WorkerView struct {
	Index, PID int
	Node       int    // NUMA node; -1 if the machine tells none
	State      string // a segment.WorkerState's name
	CPUs       []int  // that its loops run on
	Loops      int
	Restarts   int       // times that it died and was started again
	Started    time.Time // of the process that lives now
}
