// Package homes finds out on which NUMA node each server runs, and writes it into
// the segment, where the workers read it.
//
//	homes.go   which servers there are, and what is known of them
//	look.go    who listens for a server, and where that process may run
//
// Where the configuration names no node, the server's is the one that has all CPUs
// of the processes that listen at its address. That is looked for again when other
// sockets listen there: the server has been started anew, and workers that had found
// it dead are told so too. What cannot be read is not known, and a server of no known
// node serves all nodes alike.
package homes

import (
	"context"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/config"
	"sluice/internal/process"
	"sluice/internal/segment"
	"sluice/internal/topology"
)

// lookEvery is how long it takes at most until a server that was started again is
// tried again by those who had found it dead.
const lookEvery = time.Second

// Server is one server of a configuration.
type Server struct {
	config.Server
	Farm string
	Slot int // in the segment
}

// Homes looks after the servers of a machine. Use may be called from any goroutine;
// Run is its life.
type Homes struct {
	tree   fs.FS           // where proc is; immutable
	nodes  []topology.Node // immutable
	shared *segment.Segment
	again  chan struct{} // there are other servers

	mu      sync.Mutex
	servers []*resident // guarded by mu

	// Run only, and all of one look.
	looks int
	tcp   []process.Listener // nil: not read yet
	unix  []process.Listener
}

// resident is a server, and what is known of it.
type resident struct {
	Server         // immutable, as all of this group
	network string // of its address, if it is on this machine; else empty
	address string
	home    *segment.Home

	looked  bool     // Run only, as all of this group
	sockets []uint64 // inodes of those that listen for it, ascending
	owners  []int    // processes that have these open
}

// New makes the Homes of a machine with these nodes. Tree is where its proc is.
func New(tree fs.FS, nodes []topology.Node, shared *segment.Segment) *Homes {
	return &Homes{tree: tree, nodes: nodes, shared: shared, again: make(chan struct{}, 1)}
}

// Use makes these the servers to look after; of two in one slot it takes the first.
// What is known of a server stays if it is configured as before.
func (h *Homes) Use(servers []Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.servers
	h.servers = nil
	for _, s := range servers {
		if !slices.ContainsFunc(h.servers, func(o *resident) bool { return o.Slot == s.Slot }) {
			h.servers = append(h.servers, h.settled(s, last))
		}
	}
	select {
	case h.again <- struct{}{}:
	default:
	}
}

// settled is a server with what was known of it or, if it is new, with what its
// configuration says.
func (h *Homes) settled(s Server, known []*resident) *resident {
	for _, r := range known {
		if r.Slot == s.Slot && r.Farm == s.Farm && r.URL == s.URL && r.Server.Node == s.Node {
			return r
		}
	}
	r := &resident{Server: s, home: h.shared.Home(s.Slot)}
	if network, address := s.Endpoint(); onThisMachine(network, address) {
		r.network, r.address = network, address
	}
	node, fixed := s.Node.Fixed()
	if fixed && !slices.ContainsFunc(h.nodes, func(n topology.Node) bool { return n.ID == node }) {
		slog.Warn("this machine has no such node; the server serves all nodes alike", "farm", s.Farm, "server", s.URL, "node", node)
		fixed = false
	}
	if !fixed {
		node = -1
	}
	r.home.Settle(node)
	return r
}

// onThisMachine tells a Unix socket or a loopback address.
func onThisMachine(network, address string) bool {
	host := address[:max(strings.LastIndexByte(address, ':'), 0)]
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return network == "unix" || host == localhost || err == nil && ip.IsLoopback()
}

// localhost is the name of both loopback addresses, RFC 6761 6.3.
const localhost = "localhost"

// Run looks again and again, until ctx ends.
func (h *Homes) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.again:
		case <-tick.C:
		}
		h.look()
	}
}
